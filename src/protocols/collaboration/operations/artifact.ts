// Artifacts: many versions under one id, each immutable; references lock id and version.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import type { NewId } from '#kernel/codec/ids.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageIn, pageInput, pageOf, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { nullable, refusedAs, t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { answeredAlong, broughtBy, type Resolving } from '../task/answering.ts'
import { moveTask } from '../task/ownership.ts'
import { payloadOf, PayloadInput } from '../artifact/payload.ts'
import {
  allows,
  executor,
  hasPlanFirst,
  isFreeToChange,
  kindAfter,
  isActive,
  isInTime,
  isNotReadOnly,
  principal,
  reviewer,
  isAtRevision,
} from '../access.ts'
import { ByRun, byRun } from '#kernel/declare/run-fence.ts'
import { commitUpload, uploadFor, type Upload } from '../artifact/uploads.ts'
import { readableVersion, versionFor } from '../artifact/versions.ts'
import {
  Artifact,
  ArtifactHead,
  artifactOf,
  ArtifactVersion,
  Checkpoint,
  Id,
  Reference,
  ReferenceAs,
  ReviewKind,
  Task,
  versionId,
  ExpectedRevision,
} from '../schema.ts'

const Version = t.String({ minLength: 1, maxLength: 40 })

const isNewVersion = rule<Committing, { readonly version?: string }>(
  'IMMUTABLE_VIOLATION',
  'the version does not exist yet',
  ({ same }) => same === null,
  'this version exists and never changes: commit a new one',
)

const commit = command({
  name: 'artifact.commit',
  summary: 'Deliver an artifact or its next version; the task goes to review unless final is false.',
  draft: 'HACP 0.1.0, Artifact; Operation Preconditions',
  input: t.Object({
    task_id: Id,
    ...ExpectedRevision,
    artifact_id: t.Optional(Id),
    type: t.Optional(t.String({ minLength: 1, maxLength: limits.labelCharsMax })),
    version: t.Optional(Version),
    parent_version: t.Optional(t.Union([Version, t.Null()])),
    payload: PayloadInput,
    kind: t.Optional(ReviewKind),
    final: t.Optional(t.Boolean({ description: 'false: commit without moving the task to review' })),
    ...ByRun,
  }),
  output: t.Object({ artifact: Artifact, task: Task.schema }),
  // The system delivers for an executor that is another harness.
  callers: [executor, system],
  requires: [isAtRevision, isNewVersion, isInTime, allows('artifact.commit'), isNotReadOnly, hasPlanFirst],
  audit: 'artifact.committed',
  besides: ['attempt', 'expected_task_revision'],
  load: (read, input) => loadCommit(read, input),
  decide({ task, ...known }, input, { actor, now, newId }) {
    const by = actor.kind === 'system' ? (task.executor ?? actor.id) : actor.id
    const { newVersion, head, listed } = nextVersion({ task, ...known }, input, by, newId, now)
    const kept = commitUpload(known.upload)
    const next = input.final === false ? listed : withDelivery(listed, newVersion, 'artifact.commit', now)
    const images = [image(ArtifactVersion, newVersion), image(ArtifactHead, head), image(Task, next), ...kept] as const
    return {
      facts: [fact('artifact.committed', images, byRun(input))],
      output: { artifact: artifactOf(newVersion, []), task: next },
    }
  },
  example: {
    given: 'in_progress',
    as: 'devin',
    input: ({ task }) => ({ task_id: task.id, type: 'patch', payload: { kind: 'inline', uri: 'data:text/plain,hello' } }),
  },
})

/** The task with a version that its people are to review. */
function withDelivery({ votes: _, ...task }: Task, { artifact_id, version, kind }: ArtifactVersion, event: string, now: string): Task {
  const isVotedOn = kind === 'deliverable' && task.spec.review_policy !== undefined
  const moved = moveTask(task, event, { via: 'handoff', reason: event, now })
  return { ...moved, delivered: { artifact_id, version }, ...(isVotedOn ? { votes: [] } : {}) }
}

type CommitInput = {
  readonly task_id: string
  readonly artifact_id?: string
  readonly type?: string
  readonly version?: string
  readonly parent_version?: string | null
  readonly payload: Static<typeof PayloadInput>
  readonly kind?: 'plan' | 'deliverable'
}
type Committing = {
  readonly task: Task
  readonly head: ArtifactHead | null
  readonly parent: ArtifactVersion | null
  readonly same: ArtifactVersion | null
  /** The bytes that the payload names by a cas: URI. */
  readonly upload: Upload | null
}

async function loadCommit(read: Read, { task_id, artifact_id, version, parent_version = null, payload }: CommitInput): Promise<Committing> {
  const task = await read(Task, task_id)
  const head = artifact_id === undefined ? null : await read(ArtifactHead, artifact_id)
  if (head && head.task_id !== task_id) throw new Refusal('NOT_FOUND', `there is no artifact ${artifact_id} of this task`)
  const find = (version: string | null | undefined) =>
    artifact_id && version ? read.maybe(ArtifactVersion, versionId(artifact_id, version)) : null
  return { task, head, parent: await find(parent_version), same: await find(version), upload: await uploadFor(read, task_id, payload.uri) }
}

/** The version that comes next, the head that points to it, and the task that lists it. */
function nextVersion({ task, head, parent, upload }: Committing, input: CommitInput, actor: string, newId: NewId, now: string) {
  refuseWrongParent(head, parent, input)
  const versions = (head?.versions ?? 0) + 1
  const version = `v${versions}`
  if (input.version !== undefined && input.version !== version)
    throw new Refusal('INVALID_SPEC', `version must be the next one, ${version}, or absent`, { field: 'version' })
  if (versions > limits.versionsPerArtifactMax)
    throw new Refusal('QUOTA_EXCEEDED', `an artifact has at most ${limits.versionsPerArtifactMax} versions`)
  if (!head && task.artifacts.length >= limits.artifactsPerTaskMax)
    throw new Refusal('QUOTA_EXCEEDED', `a task has at most ${limits.artifactsPerTaskMax} artifacts`)
  const artifact_id = head?.id ?? newId('art')
  const { id: task_id, project_id, root_task_id } = task
  const newVersion: ArtifactVersion = {
    id: versionId(artifact_id, version),
    artifact_id,
    project_id,
    root_task_id,
    type: input.type ?? parent?.type ?? 'file',
    provenance: { produced_by: task_id, produced_at: now, actor },
    version,
    parent_version: head?.version ?? null,
    payload: payloadOf(input.payload, upload),
    kind: input.kind ?? kindAfter(task, parent),
  }
  const listed: Task = { ...task, artifacts: head ? task.artifacts : [...task.artifacts, artifact_id] }
  return { newVersion, head: { id: artifact_id, task_id, project_id, root_task_id, version, versions }, listed }
}

type Editing = Committing & { readonly pending: Checkpoint | null; readonly brought: readonly Resolving[] }
type EditInput = { readonly final?: boolean }

/** The takeover interrupt after the person has delivered. It asked nothing, so its resolution approves nothing. */
function endedBy(interrupt: Checkpoint, { artifact_id, version }: ArtifactVersion, by: string, now: string): Checkpoint {
  return {
    ...interrupt,
    state: 'resolved',
    resolution: { by, action: 'approve', edited_artifact_ref: { artifact_id, version }, at: now },
  }
}

const edit = command({
  name: 'artifact.edit',
  summary: 'A person’s own version of an artifact while the task waits for them. With final it delivers a task that they took over.',
  draft: 'continuous control: edited_artifact_ref; ours, because artifact.commit needs in_progress',
  input: t.Object({
    task_id: Id,
    ...ExpectedRevision,
    artifact_id: t.Optional(Id),
    type: t.Optional(t.String({ minLength: 1, maxLength: limits.labelCharsMax })),
    parent_version: t.Optional(t.Union([Version, t.Null()])),
    payload: PayloadInput,
    final: t.Optional(t.Boolean({ description: 'true: deliver what you took over; the task goes to review and the agent stops' })),
  }),
  output: t.Object({ artifact: Artifact, task: Task.schema }),
  callers: [principal, reviewer],
  requires: [
    isAtRevision,
    rule<Editing, EditInput>(
      'UNAUTHORIZED',
      'with final, the principal calls it',
      (state, { final }, { actor }) => final !== true || principal.is(actor, state),
      "only the task's principal takes work over and delivers it: leave out final",
    ),
    rule<Editing>(
      'PRECONDITION_FAILED',
      'the task waits for a person',
      ({ task }) => task.state === 'blocked',
      'the task does not wait for a person: edit while it is blocked, or take it over with task.takeover',
    ),
    rule<Editing, EditInput>(
      'PRECONDITION_FAILED',
      'with final, the task was taken over',
      ({ pending }, { final }) => final !== true || (pending?.state === 'pending' && pending.takeover),
      'the task was not taken over, so a question of it still waits for its answer: answer that, then take the task over with task.takeover to deliver it',
    ),
  ],
  audit: 'artifact.edited',
  besides: ['expected_task_revision'],
  async load(read, input) {
    const state = await loadCommit(read, input)
    const { pending_checkpoint } = state.task
    const pending = pending_checkpoint === null ? null : await read(Checkpoint, pending_checkpoint)
    return { ...state, pending, brought: input.final === true ? await broughtBy(read, pending) : [] }
  },
  decide({ pending, brought, ...state }, input, { actor, now, newId }) {
    const { newVersion, head, listed } = nextVersion(state, input, actor.id, newId, now)
    const kept = commitUpload(state.upload)
    const version = [image(ArtifactVersion, newVersion), image(ArtifactHead, head)] as const
    const artifact = artifactOf(newVersion, [])
    if (input.final !== true) {
      const listing = state.head === null ? [image(Task, listed)] : []
      return {
        facts: [fact('artifact.edited', [...version, ...listing, ...kept])],
        output: { artifact, task: listed },
      }
    }
    const task: Task = { ...withDelivery(listed, newVersion, 'artifact.edit/final', now), pending_checkpoint: null }
    const done = endedBy(pending!, newVersion, actor.id, now)
    const facts = [
      fact('artifact.edited', [...version, image(Task, task), ...kept]),
      fact('task.checkpoint.resolved', [image(Checkpoint, done)], { cause: 0 }),
    ]
    return { facts: answeredAlong(brought, facts, actor.id, now), output: { artifact, task } }
  },
  example: {
    given: 'blocked_with_artifact',
    as: 'alice',
    input: ({ task, artifact }) => ({
      task_id: task.id,
      artifact_id: artifact.id,
      parent_version: 'v1',
      payload: { kind: 'inline', uri: 'data:text/plain,hello%20world' },
    }),
  },
})

type Parenting = { readonly artifact_id?: string; readonly parent_version?: string | null }
/** "Updating an artifact MUST create a new version with parent_version": it must be the newest one. */
function refuseWrongParent(
  head: ArtifactHead | null,
  parent: ArtifactVersion | null,
  { artifact_id, parent_version = null }: Parenting,
): void {
  if (!head) {
    if (parent_version !== null)
      throw new Refusal('INVALID_SPEC', 'parent_version needs the artifact_id that it belongs to', { field: 'artifact_id' })
    return
  }
  if (parent_version === null)
    throw new Refusal('INVALID_SPEC', `parent_version is required to update ${artifact_id}`, { field: 'parent_version' })
  if (!parent) throw new Refusal('NOT_FOUND', `there is no version ${parent_version} of ${artifact_id}`)
  if (parent_version !== head.version)
    throw new Refusal('CONFLICT', `${parent_version} is not the newest version of ${artifact_id}: that is ${head.version}`, {
      head: head.version,
    })
}

const get = query({
  name: 'artifact.get',
  summary: 'Fetch an artifact by id and version; without a version, the newest.',
  draft: 'HACP 0.1.0, Operations',
  input: t.Object({
    artifact_id: Id,
    version: t.Optional(Version),
    cursor: pageInput.cursor,
    limit: t.Optional(t.Integer({ minimum: 1, maximum: limits.pageMax, description: `references a page, ${limits.pageMax} by default` })),
  }),
  output: t.Object({ artifact: Artifact, next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, { artifact_id, version, limit = limits.pageMax, cursor }, { actor }) {
    const found = await versionFor(read, { artifact_id, version }, actor)
    // The cursor pins the version, so the next page is of the same one even if a newer version exists.
    const question = { artifact_id, version: found.version, limit, cursor }
    const listed = await read.list(Reference, 'artifact', [[found.id]], pageIn('artifact.get', question))
    // Omit references from tasks that the actor cannot read.
    const references = (await Promise.all(listed.map(({ id }) => read.maybe(Reference, id)))).filter((reference) => reference !== null)
    const page = references.map(({ task_id, as }) => ({ task_id, as }))
    return { found, ...pageOf('artifact.get', question, listed, page) }
  },
  view: ({ found, items, next_cursor }) => ({ artifact: artifactOf(found, items), next_cursor }),
  example: { given: 'review_ready', as: 'alice', input: ({ artifact }) => ({ artifact_id: artifact.id, version: 'v1' }) },
})

const reference = command({
  name: 'artifact.reference',
  summary: 'Record that a task uses one version of an artifact.',
  draft: 'HACP 0.1.0, Operations; Artifact ("references MUST lock both id and version")',
  input: t.Object({
    task_id: Id,
    artifact_id: Id,
    version: refusedAs('INVALID_SPEC', t.String({ minLength: 1, maxLength: 40 })),
    as: t.Optional(ReferenceAs),
  }),
  output: t.Object({ artifact: Artifact, task: Task.schema }),
  callers: [executor, principal],
  requires: [
    isActive,
    isInTime,
    isFreeToChange,
    rule<{ known: unknown }>(
      'CONFLICT',
      'the task does not refer to it yet',
      ({ known }) => known === null,
      'the task refers to this artifact version already',
    ),
  ],
  audit: 'artifact.referenced',
  async load(read, { task_id, artifact_id, version, as = 'input' }, { actor }) {
    const task = await read(Task, task_id)
    const found = await readableVersion(read, artifact_id, version, actor)
    if (!found) throw new Refusal('NOT_FOUND', `there is no version ${version} of ${artifact_id}`)
    if (found.project_id !== task.project_id) throw new Refusal('UNAUTHORIZED', 'a reference into another project needs a grant')
    const id = `${task_id}/${versionId(artifact_id, version)}/${as}`
    return { task, found, id, known: await read.maybe(Reference, id) }
  },
  decide({ task, found, id }, { artifact_id, version, as = 'input' }, { now }) {
    const { id: task_id, project_id, root_task_id } = task
    const edge = { id, task_id, project_id, root_task_id, artifact_id, version, as, at: now }
    return {
      facts: [fact('artifact.referenced', [image(Reference, edge)])],
      output: { artifact: artifactOf(found, [{ task_id, as }]), task },
    }
  },
  example: {
    given: 'review_ready',
    as: 'alice',
    input: ({ task, artifact }) => ({ task_id: task.id, artifact_id: artifact.id, version: 'v1', as: 'output' }),
  },
})

const { uri: _, ...payloadFields } = ArtifactVersion.schema.properties.payload.properties
const ListedVersion = t.Object({
  version: ArtifactVersion.schema.properties.version,
  parent_version: ArtifactVersion.schema.properties.parent_version,
  kind: ArtifactVersion.schema.properties.kind,
  produced_at: t.String(),
  actor: Id,
  actor_name: nullable(t.String()),
  payload: t.Object(payloadFields),
})
const ListedArtifact = t.Object({
  id: Id,
  type: ArtifactVersion.schema.properties.type,
  version: t.String({ description: 'the newest' }),
  delivered: nullable(t.String({ description: 'the version that was delivered for review last' })),
  versions: t.Array(ListedVersion, { description: 'the newest first' }),
})

async function listedAs(read: Read, head: ArtifactHead, task: Task): Promise<Static<typeof ListedArtifact>> {
  const versions: Static<typeof ListedVersion>[] = []
  let type = ''
  for (let next: string | null = head.version; next !== null && versions.length < limits.versionsPerArtifactMax;) {
    const found: ArtifactVersion | null = await read.raw(ArtifactVersion, versionId(head.id, next))
    if (found === null) break
    const { version, kind, provenance, payload } = found
    const { uri: __, ...delivered } = payload
    const { produced_at, actor } = provenance
    const actor_name = (await read.ports.names.named(read, actor))?.name ?? null
    next = found.parent_version
    versions.push({ version, parent_version: next, kind, produced_at, actor, actor_name, payload: delivered })
    type ||= found.type
  }
  const delivered = task.delivered?.artifact_id === head.id ? task.delivered.version : null
  return { id: head.id, type, version: head.version, delivered, versions }
}

const list = query({
  name: 'artifact.list',
  summary: 'List the artifacts of a task with their versions, without the bytes.',
  draft: 'ours: reading',
  input: t.Object({ task_id: Id, ...pageInput }),
  output: t.Object({ items: t.Array(ListedArtifact), next_cursor: nextCursor }),
  callers: [anyone],
  load: async (read, { task_id }) => ({ task: await read(Task, task_id) }),
  async view({ task }, input, _, read) {
    // In their order on the task, which only grows.
    const from = Number(placeOf('artifact.list', input) ?? 0)
    const items: Static<typeof ListedArtifact>[] = []
    for (let at = from; at < task.artifacts.length; at++) {
      const head = await read.raw(ArtifactHead, task.artifacts[at]!)
      if (head !== null) items.push(await listedAs(read, head, task))
      const isFull = items.length === pageSize(input) || read.isFull()
      if (isFull && at + 1 < task.artifacts.length) return { items, next_cursor: cursorOf('artifact.list', input, String(at + 1)) }
    }
    return { items, next_cursor: null }
  },
  example: { given: 'review_ready', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

export const artifactOperations = [commit, edit, get, list, reference]
