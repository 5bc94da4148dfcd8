// The protocols that this installation speaks: one folder and one line each.
import type { Protocol } from '#kernel/operation.ts'
import { collaboration } from './collaboration/index.ts'
import { identity } from './identity/index.ts'

export const protocols: readonly Protocol[] = [identity, collaboration]
