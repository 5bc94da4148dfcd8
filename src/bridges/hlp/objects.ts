// The objects of the wire (HLP 3), built from the answers of operations. Foreign data, such as a ledger's value, has no stamps.
import type { Amendment, Artifact, Checkpoint, Comment, Grant, LedgerEntry, Review, Task } from '#protocols/collaboration/schema.ts'
import type { AuditEvent } from '#protocols/collaboration/record/audit-view.ts'
import type { Static } from '#kernel/declare/schema.ts'
import { SPEC_VERSION, STAMPS } from './answers.ts'

/** The outermost object of an answer: only it has `spec_version`. */
export const whole = (object: object): object => ({ spec_version: SPEC_VERSION, ...object })

/** The type of a task that was created without one. */
const NO_TYPE = 'task'
export function taskObject(task: Task, steering: readonly Static<typeof Amendment.schema>[], grants: readonly Grant[]) {
  const { goal, acceptance_criteria, inputs, constraints, review_policy } = task.spec
  const { max_duration = null, external_refs = [], autonomy = null } = constraints
  const { principal, assignee, delegable, chain } = task.ownership
  return {
    id: task.id,
    // HLP leaves the type of such a task empty.
    type: task.type === NO_TYPE ? '' : task.type,
    state: task.state,
    revision: task.revision ?? 0,
    parent_task: task.parent_task,
    deadline: task.deadline,
    created_at: task.created_at,
    spec: {
      goal,
      acceptance_criteria,
      inputs,
      constraints: { max_duration, external_refs, autonomy, grants: grants.map(grantObject), ...STAMPS },
      review_policy: review_policy === undefined ? null : { ...review_policy, ...STAMPS },
      ...STAMPS,
    },
    ownership: {
      principal,
      assignee,
      delegable,
      chain: chain.map(({ from, to, at, via }) => ({ from, to, at, via, ...STAMPS })),
      ...STAMPS,
    },
    checkpoints: task.checkpoints,
    artifacts: task.artifacts,
    // A repeated call returns the log as it was then, although the log has grown since.
    steering_log: steering.slice(0, task.amendments).map(({ text, intent, by, at }) => ({ text, intent, by, at, ...STAMPS })),
    ...STAMPS,
  }
}

/** A grant in the log, which also keeps revoked grants. */
const grantObject = ({ scope, decision, until, granted_by, granted_at }: Grant) => ({
  scope,
  decision,
  until,
  granted_by,
  granted_at,
  ...STAMPS,
})

const raiserOf = (id: string): 'agent' | 'human' | 'system' =>
  id === 'agent_system' ? 'system' : id.startsWith('agent_') ? 'agent' : 'human'

export function checkpointObject(checkpoint: Checkpoint) {
  const { id, task_id, kind, prompt, options, proposed_actions, context, state, raised_at, raised_by, expires_at, resolution } = checkpoint
  const { edited_artifact_ref: edited = null, approved_actions = [], denied_actions = [] } = resolution ?? {}
  const { by, action, choice = null, input = null, reassign_to = null, comment = null, state_patch = null, at } = resolution ?? {}
  const edited_artifact_ref = edited && { id: edited.artifact_id, version: edited.version }
  return {
    id,
    task_id,
    kind,
    prompt,
    options: options.map((option) => ({ ...option, ...STAMPS })),
    proposed_actions: proposed_actions.map((action) => ({ permission_scope: null, ...action, detail: detailOf(action.detail), ...STAMPS })),
    context: context.map((evidence) => ({ ...evidenceObject(evidence), ...STAMPS })),
    state,
    raised_at,
    raised_by: raiserOf(raised_by),
    expires_at,
    resolution:
      resolution === null
        ? null
        : {
            by,
            action,
            choice,
            input,
            reassign_to,
            approved_actions,
            denied_actions,
            state_patch,
            edited_artifact_ref,
            comment,
            at,
            ...STAMPS,
          },
    ...STAMPS,
  }
}
/** A detail is an object in HLP and a text here. */
function detailOf(detail: string | undefined): object | null {
  if (detail === undefined) return null
  try {
    const parsed: unknown = JSON.parse(detail)
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? parsed : { text: detail }
  } catch {
    return { text: detail }
  }
}
function evidenceObject(evidence: Checkpoint['context'][number]): object {
  if (evidence.kind === 'text') return { kind: 'text', id: null, content: evidence.text }
  return evidence.kind === 'link'
    ? { kind: 'text', id: null, content: evidence.uri }
    : { kind: 'artifact', id: evidence.artifact_id, content: evidence.version }
}

export function artifactObject({ id, type, provenance, version, parent_version, payload, references }: Artifact) {
  const { kind, uri, checksum, size } = payload
  const { produced_by, produced_at } = provenance
  return {
    id,
    type,
    provenance: { produced_by, produced_at, ...STAMPS },
    version,
    parent_version,
    payload: { kind, uri, checksum, size, ...STAMPS },
    references: references.map(({ task_id, as }) => ({ task_id, as, ...STAMPS })),
    ...STAMPS,
  }
}

export function reviewObject({
  id,
  task_id,
  artifact_id,
  artifact_version,
  reviewer,
  kind,
  verdict,
  comments,
  requested_changes,
  at,
}: Review) {
  const remarks = comments.map((comment) => ({ ...comment, ...STAMPS }))
  return { id, task_id, artifact_id, artifact_version, reviewer, kind, verdict, comments: remarks, requested_changes, at, ...STAMPS }
}

export type Entry = Pick<LedgerEntry, 'key' | 'value' | 'written_at'> & { readonly by: string | null }
export const entryObject = ({ key, value, by, written_at }: Entry) => ({ key, value, by, written_at, ...STAMPS })

/** A remark in the format of a review, with the verdict of its review, which does not count again. */
export const remarkObject = (
  review: Review,
  { id, by, artifact_version, anchor, severity, body, at }: Static<typeof Comment.schema>,
): ReturnType<typeof reviewObject> =>
  reviewObject({
    ...review,
    id,
    artifact_version,
    reviewer: by,
    comments: [{ ...(anchor === undefined ? {} : { anchor }), severity, body }],
    requested_changes: [],
    at,
  })

type Shown = Readonly<Record<string, unknown>>
/** What a reader needs to rebuild the task: its state as the event leaves it. Null if the event changes no task. */
function reducerOf({ subject, changes, detail }: AuditEvent): object | null {
  const task = changes.find(({ kind, after }) => kind === 'task' && after !== null)?.after as Shown | undefined
  if (task === undefined) return null
  const { id, state, revision = 0, ownership, checkpoints, artifacts, amendments } = task
  const { principal, assignee, delegable } = ownership as Shown
  return {
    subject,
    change: detail ?? {},
    task: {
      id,
      state,
      revision,
      ownership: { principal, assignee, delegable },
      checkpoint_ids: checkpoints,
      artifact_ids: artifacts,
      steering_count: amendments,
    },
  }
}

export function eventObject(event: AuditEvent) {
  const { id, seq, at, actor, action, subject, task_id, before, after, prev_hash, hash } = event
  const reducer = reducerOf(event)
  return { id, seq, at, actor, action, subject: [subject.kind, subject.id], task_id, before, after, reducer, prev_hash, hash, ...STAMPS }
}
