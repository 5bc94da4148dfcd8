// The rows of the draft as one book that all files of tests write into.
import { requirements } from '../support/laws/requirements.ts'
import { hacpRows } from './hacp.ts'

export const hacp = requirements('HACP 0.1.0', hacpRows)
