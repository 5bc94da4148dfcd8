// The contracts that join the protocols of this installation.
import type { Contract } from '#kernel/operation.ts'
import { collaborationContracts } from './collaboration.ts'

export const contracts: readonly Contract[] = [...collaborationContracts]
