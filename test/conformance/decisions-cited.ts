// The rows of our decisions as one book that all files of tests write into.
import { requirements } from '../support/laws/requirements.ts'
import { decisionRows } from './decisions.ts'

export const decisions = requirements('Decisions', decisionRows)
