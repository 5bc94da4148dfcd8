// A decision: one of the options.
import { useChoice } from '../answer.tsx'
import { formKind } from './send-bar.tsx'

export const DecideKind = formKind(useChoice)
