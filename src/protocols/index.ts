// The protocols that this installation speaks: one folder and one line each.
import type { Protocol } from '#kernel/declare/operation.ts'
import { collaboration, type CollaborationOperation } from './collaboration/index.ts'
import { delegation, type DelegationOperation } from './delegation/index.ts'
import { execution, type ExecutionOperation } from './execution/index.ts'
import { hardware, type HardwareOperation } from './hardware/index.ts'
import { harness, type HarnessOperation } from './harness/index.ts'
import { identity, type IdentityOperation } from './identity/index.ts'

export const protocols: readonly Protocol[] = [identity, collaboration, delegation, execution, hardware, harness]

/** The operations of each, for clients that take their types from them. */
export type Operations = {
  readonly identity: IdentityOperation
  readonly collaboration: CollaborationOperation
  readonly delegation: DelegationOperation
  readonly execution: ExecutionOperation
  readonly hardware: HardwareOperation
  readonly harness: HarnessOperation
}
