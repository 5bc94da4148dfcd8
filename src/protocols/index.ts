// The protocols that this installation speaks: one folder and one line each.
import type { Protocol } from '#kernel/declare/operation.ts'
import type { Static } from '#kernel/declare/schema.ts'
import type { events as collaborationEvents } from './collaboration/events.ts'
import { collaboration, type CollaborationOperation } from './collaboration/index.ts'
import type { events as delegationEvents } from './delegation/events.ts'
import { delegation, type DelegationOperation } from './delegation/index.ts'
import type { events as executionEvents } from './execution/events.ts'
import { execution, type ExecutionOperation } from './execution/index.ts'
import type { events as gateEvents } from './gate/events.ts'
import { gate, type GateOperation } from './gate/index.ts'
import type { events as hardwareEvents } from './hardware/events.ts'
import { hardware, type HardwareOperation } from './hardware/index.ts'
import type { events as harnessEvents } from './harness/events.ts'
import { harness, type HarnessOperation } from './harness/index.ts'
import type { events as identityEvents } from './identity/events.ts'
import { identity, type IdentityOperation } from './identity/index.ts'

export const protocols: readonly Protocol[] = [identity, collaboration, delegation, execution, gate, hardware, harness]

/** The operations of each, for clients that take their types from them. */
export type Operations = {
  readonly identity: IdentityOperation
  readonly collaboration: CollaborationOperation
  readonly delegation: DelegationOperation
  readonly execution: ExecutionOperation
  readonly gate: GateOperation
  readonly hardware: HardwareOperation
  readonly harness: HarnessOperation
}

/** The events of each, for contracts that follow them. */
export type EventTables = {
  readonly identity: typeof identityEvents
  readonly collaboration: typeof collaborationEvents
  readonly delegation: typeof delegationEvents
  readonly execution: typeof executionEvents
  readonly gate: typeof gateEvents
  readonly hardware: typeof hardwareEvents
  readonly harness: typeof harnessEvents
}

type Named<N> = N extends `${infer P extends keyof Operations}/${infer M}` ? Extract<Operations[P], { readonly name: M }> : never
export type InputOf<N> = [Named<N>] extends [never] ? object : Static<Named<N>['input']>
type OutputOf<N> = [Named<N>] extends [never] ? Readonly<Record<string, unknown>> : Static<Named<N>['output']>
/** Calls an operation by its full name, with the types of that operation if the name is known to the compiler. */
export type Call<Options> = <N extends string>(operation: N, input: InputOf<N>, options?: Options) => Promise<OutputOf<N>>
