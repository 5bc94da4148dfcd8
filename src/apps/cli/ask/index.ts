// The commands that ask a person, one for each action of HXP, and the one that waits for an answer.
import type { Spec } from '../derive/command.ts'
import { approve } from './approve.ts'
import { wait } from './ask.ts'
import { decide } from './decide.ts'
import { provide } from './provide.ts'
import { verify } from './verify.ts'

export const askSpecs: readonly Spec[] = [decide, approve, provide, verify, wait]
