// The port of tasks: the part of a task, of its questions and of its steering that other protocols can read.
import type { TimeLimits } from '../codec/timestamps.ts'
import type { Actor } from '../declare/access.ts'
import type { Read } from '../declare/operation.ts'
import { kindOf, type AnyDoc } from '../declare/schema.ts'

export type KnownTask = TimeLimits & {
  readonly id: string
  readonly project_id: string
  readonly root_task_id: string
  readonly origin?: { readonly protocol: string }
  readonly spec: {
    readonly goal: string
    readonly constraints: { readonly autonomy?: string }
    readonly review_policy?: { readonly required_reviewers: readonly string[] }
  }
  readonly state: string
  readonly outcome: string | null
  readonly ownership: { readonly principal: string }
  readonly executor: string | null
  readonly executors: readonly string[]
  readonly delegators: readonly string[]
  readonly reviewers: readonly string[]
  /** While required reviewers vote on a delivery. */
  readonly votes?: readonly { readonly reviewer: string }[]
  readonly children: readonly string[]
  readonly checkpoints: readonly string[]
  readonly pending_checkpoint: string | null
}

/** The kind of a task, for documents of other protocols that are `within` one. */
export const taskKind = (): AnyDoc => kindOf('collaboration.task/')

type Judged = Pick<KnownTask, 'ownership' | 'reviewers' | 'executor' | 'state' | 'spec' | 'votes'>
/**
 * The deciders of a task: its principal and its reviewers, none of them on their own work; on a delivery under a review policy, the
 * required reviewers whose votes are missing.
 */
export function judgesOf({ ownership, reviewers, executor, state, spec, votes }: Judged): string[] {
  const isVotedOn = votes !== undefined && (state === 'review_ready' || state === 'under_review')
  if (isVotedOn) return (spec.review_policy?.required_reviewers ?? []).filter((who) => votes.every(({ reviewer }) => reviewer !== who))
  return [...new Set([ownership.principal, ...reviewers.filter((who) => who !== executor)])]
}

export type KnownCheckpoint = {
  readonly raised_by: string
  readonly escalates?: string
  readonly succeeds: string | null
  readonly proposed_actions: readonly { readonly id: string; readonly kind: string; readonly detail?: string }[]
  readonly resolution: { readonly approved_actions?: readonly string[] } | null
}

export type KnownAmendment = {
  readonly id: string
  readonly text: string
  readonly intent: string
  readonly by: string
  readonly at: string
}

export type Tasks = {
  /** The task without an access check; null: it is absent. */
  task(read: Read, id: string): Promise<KnownTask | null>
  /** The task, or NOT_FOUND for an actor that cannot see it. */
  seenTask(read: Read, id: string): Promise<KnownTask>
  /** Whether the version of an artifact exists and the actor can read it. */
  hasVersion(read: Read, artifact_id: string, version: string, actor: Actor): Promise<boolean>
  checkpoint(read: Read, id: string): Promise<KnownCheckpoint | null>
  /** The steering log, oldest first. The task is read too, because a concurrent amendment changes it. */
  amendments(read: Read, task_id: string): Promise<readonly KnownAmendment[]>
}
