// The ports between the gate and the protocol that keeps policies and asks people.
import type { Granted, Read } from '../declare/operation.ts'
import type { GatePolicy, Risk } from '../policy/gate-policy.ts'
import type { ScopedPolicy } from '../policy/evaluate.ts'

/** A grant for a call, and the call's agent and task. */
export type GrantUse = {
  readonly project_id: string
  readonly risk: Risk | null
  readonly agent: string
  readonly principal: string
  readonly grant: Granted
}

export type Policies = {
  /** The policies for calls of an agent in a project: the installation's, the project's, and that of the agent's owner. */
  gate(read: Read, project_id: string, owner: string | null): Promise<readonly ScopedPolicy[]>
  /** The policy of one scope: a project, a person, or the installation. */
  ofScope(read: Read, scope: string): Promise<ScopedPolicy | null>
  /** The least risk that needs a passkey, by the installation and the project; null: no risk does. */
  passkeyFrom(read: Read, project_id: string | null): Promise<Risk | null>
  /** The rule for approvals that leaves too few of these people to decide on a task of this principal; null: there is none. */
  unmet(
    read: Read,
    of: { readonly project_id: string; readonly principal: string; readonly judges: readonly string[]; readonly now: string },
  ): Promise<string | null>
  /** Whether an advance decision of a person spares a question of this risk. */
  mayGrant(read: Read, of: GrantUse): Promise<boolean>
  /** The people of a group of a project; null: it has none. */
  group(read: Read, project_id: string, name: string): Promise<readonly string[] | null>
}

/** A call at the gate, as its question shows it. */
export type KnownCall = {
  readonly agent_id: string
  readonly project_id: string
  readonly task_id: string | null
  readonly server: string
  readonly tool: string
  readonly rule: string | null
  /** The definition of the tool is not the trusted one. */
  readonly changed: boolean
  readonly isWaiting: boolean
  /** No client waits for the answer. */
  readonly unattended: boolean
}
/** Arguments that are too long for a card, sealed under the key of the server. */
export type SealedText = { readonly sealed: string; readonly sha256: string; readonly size: number }
/** A rule that asks instead of allowing, because a person rejected one of its calls. */
export type KnownSuspension = { readonly rule: string; readonly call_id: string; readonly by: string | null; readonly at: string }
export type Calls = {
  call(read: Read, id: string): Promise<KnownCall | null>
  /** Null: the question itself holds the arguments. */
  longArguments(read: Read, id: string): Promise<SealedText | null>
  /** The suspended rules of the policy of a scope. */
  suspended(read: Read, scope: string, policy: GatePolicy): Promise<readonly KnownSuspension[]>
}
