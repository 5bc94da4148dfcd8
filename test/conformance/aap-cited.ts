// The rows of the draft as one book that all files of tests write into.
import { requirements } from '../support/laws/requirements.ts'
import { aapRows } from './aap.ts'

export const aap = requirements('AAP 0.1.0', aapRows)
