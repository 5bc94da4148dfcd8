// Every operation of the wire: its params, the operation behind it, and its answer.
import { Refusal } from '#kernel/declare/errors.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import { judgesOf } from '#kernel/ports/tasks.ts'
import type { Task } from '#protocols/collaboration/schema.ts'
import type { Ask, Params, TaskOperation } from './calls.ts'
import { STAMPS } from './answers.ts'
import { artifactObject, checkpointObject, entryObject, eventObject, remarkObject, reviewObject, taskObject, whole } from './objects.ts'

export type Operation = {
  readonly required: readonly string[]
  readonly optional: readonly string[]
  /** It changes something. */
  readonly changes: boolean
  /** It changes a task, and takes an idempotency key and an expected revision. */
  readonly isOnTask: boolean
  run(ask: Ask): Promise<unknown>
}

async function shownTask(ask: Ask, task: Task) {
  const steering = task.amendments === 0 ? [] : await ask.list('task.steering', { task_id: task.id })
  return taskObject(task, steering, await ask.list('grant.list', { task_id: task.id }))
}

/** The named params; the wire sends null for an absent one. */
const pickIn = (params: Params, ...names: readonly string[]): Params =>
  Object.fromEntries(names.flatMap((name) => (params[name] === undefined || params[name] === null ? [] : [[name, params[name]]])))

type Names = Pick<Operation, 'required' | 'optional'>
const names = (text: string): Names => {
  const [required = '', optional = ''] = text.split('|')
  const words = (part: string): string[] => part.split(' ').filter((word) => word !== '')
  return { required: words(required), optional: words(optional) }
}
const reads = (text: string, run: Operation['run']): Operation => ({ ...names(text), changes: false, isOnTask: false, run })
const writes = (text: string, run: Operation['run']): Operation => ({ ...names(text), changes: true, isOnTask: false, run })
const changes = (text: string, run: Operation['run']): Operation => ({ ...names(text), changes: true, isOnTask: true, run })
const onTask = (text: string, operation: TaskOperation, input: (params: Params) => Params): Operation =>
  changes(text, async (ask) => whole(await shownTask(ask, (await ask.command(operation, input(ask.params))).task)))

const listIn = (value: unknown, field: string): readonly Params[] => {
  if (value === undefined || value === null) return []
  if (Array.isArray(value) && value.every(isObject)) return value
  throw new Refusal('INVALID_SPEC', `${field} must be a list of objects`, { field })
}
/** Only HLP requires this grammar: other interfaces accept bare words as scopes. */
const SCOPE = /^(?:[*]|[a-z][a-z0-9_-]*:(?:[*]|[^\s*]+[*]?))$/
function scopeIn(value: unknown, field: string): string {
  const scope = typeof value === 'string' ? value.trim() : ''
  if (SCOPE.test(scope)) return scope
  throw new Refusal('INVALID_SPEC', 'a scope is *, or a namespace and a target such as fs:/repo:*', { field })
}
const contextIn = (params: Params) =>
  params['kind'] === 'artifact'
    ? { kind: 'artifact', artifact_id: params['id'], version: params['version'] ?? params['content'] }
    : { kind: 'text', text: params['content'] }
const actionIn = ({ detail, permission_scope, risk = 'medium', id, kind, summary }: Params) => ({
  id,
  kind,
  summary,
  risk,
  ...(detail === undefined || detail === null ? {} : { detail: typeof detail === 'string' ? detail : JSON.stringify(detail) }),
  ...(permission_scope === undefined || permission_scope === null
    ? {}
    : { permission_scope: scopeIn(permission_scope, 'permission_scope') }),
})

function specIn({ goal, acceptance_criteria, inputs, constraints, review_policy }: Params): object {
  const { grants: _, ...others } = (isObject(constraints) ? constraints : {}) as Params
  return {
    goal,
    ...pickIn({ acceptance_criteria, inputs, review_policy }, 'acceptance_criteria', 'inputs', 'review_policy'),
    constraints: pickIn(others, ...Object.keys(others)),
  }
}

/** The grants of a spec are grants of the task, in the same batch. Their giver and time are the current ones. */
function grantsIn({ constraints }: Params, actor: string): readonly object[] {
  const { grants } = (isObject(constraints) ? constraints : {}) as Params
  return listIn(grants, 'constraints.grants').map(({ scope, decision, until, granted_by = actor }) => {
    if (granted_by !== null && granted_by !== actor)
      throw new Refusal('UNAUTHORIZED', 'granted_by must be the owner of the credential, or absent', { field: 'constraints.grants' })
    return { scope: scopeIn(scope, 'constraints.grants'), decision, until: until ?? 'session' }
  })
}

const verdictIn = ({ task_id, artifact_id, verdict, ...params }: Params): Params => ({
  task_id,
  artifact_id,
  verdict,
  ...pickIn(params, 'kind', 'comments', 'requested_changes'),
})
const ledgerScope = ({ scope }: Params): Params => ({ scope })

const taskOperations: Readonly<Record<string, Operation>> = {
  'task.create': writes('goal|type acceptance_criteria inputs constraints review_policy principal', async (ask) => {
    const { type, ...params } = ask.params
    const grants = grantsIn(params, ask.actor)
    const given = grants.length === 0 ? {} : { grants }
    const input = { spec: specIn(params), delegable: true, ...given, ...(type === '' ? {} : pickIn({ type }, 'type')) }
    return whole(await shownTask(ask, (await ask.command('task.create', input)).task))
  }),
  'task.assign': onTask('task_id agent_id|capability input', 'task.assign', ({ task_id, agent_id, ...given }) => {
    const field = Object.keys(given).find((name) => given[name] !== null)
    if (field !== undefined)
      throw new Refusal('INVALID_SPEC', `${field} is null here: an agent gets the spec of its task, so put it there`, { field })
    return { task_id, assignee: agent_id }
  }),
  'task.start': onTask('task_id|', 'task.start', ({ task_id }) => ({ task_id })),
  'task.cancel': onTask('task_id|by', 'task.cancel', ({ task_id }) => ({ task_id })),
  'task.interrupt': changes('task_id prompt|by', async (ask) => {
    const { task_id, prompt } = ask.params
    return whole(checkpointObject((await ask.command('task.interrupt', { task_id, reason: prompt })).checkpoint))
  }),
  'task.amend': onTask('task_id text|intent by', 'task.amend', ({ task_id, text, intent }) => ({
    task_id,
    text,
    intent: intent ?? 'clarify',
  })),
  'task.get': reads('task_id|', async (ask) =>
    whole(await shownTask(ask, (await ask.query('task.get', { task_id: ask.params['task_id'] })).task)),
  ),
  'task.list': reads('|', async (ask) => Promise.all((await ask.list('task.list', {})).map((task) => shownTask(ask, task)))),
  'ownership.transfer': onTask('task_id to via|actor', 'ownership.transfer', ({ task_id, to, via }) => ({ task_id, to, via })),
  'ownership.delegate': onTask('task_id to_agent|actor', 'ownership.delegate', ({ task_id, to_agent }) => ({ task_id, to: to_agent })),
}

const checkpointOperations: Readonly<Record<string, Operation>> = {
  'checkpoint.raise': changes('task_id kind prompt|raised_by options proposed_actions context', async (ask) => {
    const { task_id, kind, prompt, options, proposed_actions, context } = ask.params
    const input = {
      task_id,
      kind,
      prompt,
      options: listIn(options, 'options').map(({ id, label, risk = 'low' }) => ({ id, label, risk })),
      proposed_actions: listIn(proposed_actions, 'proposed_actions').map(actionIn),
      context: listIn(context, 'context').map(contextIn),
    }
    return whole(checkpointObject((await ask.command('checkpoint.raise', input)).checkpoint))
  }),
  'checkpoint.resolve': changes(
    'ckpt_id action|by choice input reassign_to approved_actions denied_actions state_patch edited_artifact_ref comment',
    async (ask) => {
      const { ckpt_id: checkpoint_id, action, edited_artifact_ref: edited, ...params } = ask.params
      const answer = pickIn(params, 'choice', 'input', 'reassign_to', 'approved_actions', 'denied_actions', 'state_patch', 'comment')
      const ref = isObject(edited) ? { edited_artifact_ref: { artifact_id: edited['id'], version: edited['version'] } } : {}
      return whole(checkpointObject((await ask.command('checkpoint.resolve', { checkpoint_id, action, ...answer, ...ref })).checkpoint))
    },
  ),
  'checkpoint.expire': changes('ckpt_id|', async (ask) =>
    whole(checkpointObject((await ask.command('checkpoint.expire', { checkpoint_id: ask.params['ckpt_id'] })).checkpoint)),
  ),
}

const workOperations: Readonly<Record<string, Operation>> = {
  'review.submit': changes('task_id artifact_id verdict|kind comments requested_changes reviewer', async (ask) =>
    whole(reviewObject((await ask.command('review.submit', verdictIn(ask.params))).review)),
  ),
  'review.comment': writes('review_id comment|', async (ask) => {
    const { review_id, comment } = ask.params
    if (!isObject(comment)) throw new Refusal('INVALID_SPEC', 'comment must be an object', { field: 'comment' })
    const { review } = await ask.query('review.read', { review_id })
    const { task_id, artifact_id } = review
    const input = { task_id, artifact_id, review_id, ...pickIn(comment, 'anchor', 'severity', 'body') }
    return whole(remarkObject(review, (await ask.command('review.comment', input)).comment))
  }),
  'artifact.commit': changes('task_id type payload|produced_by parent_version', async (ask) => {
    const { task_id, type, payload, parent_version } = ask.params
    const isPlan = type === 'plan' ? { kind: 'plan' } : {}
    const next = typeof parent_version === 'string' ? { parent_version, artifact_id: await lastArtifact(ask, task_id) } : {}
    const fields = isObject(payload) ? pickIn(payload, 'kind', 'uri', 'checksum', 'size') : payload
    return whole(artifactObject((await ask.command('artifact.commit', { task_id, type, payload: fields, ...isPlan, ...next })).artifact))
  }),
  'artifact.get': reads('art_id|version', async (ask) => {
    const { artifact } = await ask.query('artifact.get', { artifact_id: ask.params['art_id'], ...pickIn(ask.params, 'version') })
    return whole(artifactObject(artifact))
  }),
  'artifact.reference': writes('art_id by_task|as_ as', async (ask) => {
    const { art_id: artifact_id, by_task: task_id, as_, as = as_ } = ask.params
    const { artifact } = await ask.query('artifact.get', { artifact_id })
    const edge = { task_id, artifact_id, version: artifact.version, ...pickIn({ as }, 'as') }
    return whole(artifactObject((await ask.command('artifact.reference', edge)).artifact))
  }),
  'ledger.read': reads('scope key|', async (ask) => {
    try {
      return (await ask.query('ledger.read', { ...ledgerScope(ask.params), key: ask.params['key'] })).entry.value
    } catch (error) {
      if (error instanceof Refusal && error.code === 'NOT_FOUND') return null
      throw error
    }
  }),
  'ledger.write': writes('scope key value by|', async (ask) => {
    const { key, value, by: task_id } = ask.params
    return whole(entryObject((await ask.command('ledger.write', { task_id, ...ledgerScope(ask.params), key, value })).entry))
  }),
  'ledger.history': reads('scope key|', async (ask) =>
    (await ask.list('ledger.history', { ...ledgerScope(ask.params), key: ask.params['key'] })).map(entryObject),
  ),
}
/** Each commit of the wire is an artifact of its task; a version with a parent follows the version delivered before. */
async function lastArtifact(ask: Ask, task_id: unknown): Promise<string | undefined> {
  const { task } = await ask.query('task.get', { task_id })
  return task.delivered?.artifact_id ?? task.artifacts.at(-1)
}

const recordOperations: Readonly<Record<string, Operation>> = {
  'audit.query': reads('|task_id actor action', async (ask) =>
    (await ask.list('audit.query', pickIn(ask.params, 'task_id', 'actor', 'action'))).map(eventObject),
  ),
  'audit.replay': reads('task_id|', async (ask) => (await ask.list('audit.query', { task_id: ask.params['task_id'] })).map(eventObject)),
  'human.inbox': reads('|principal', inbox),
  // Timers expire checkpoints, and the outbox is not part of the API: both lists are empty.
  'checkpoints.expire_due': reads('|now', () => Promise.resolve([])),
  'pending.outbox': reads('|', () => Promise.resolve([])),
}

/** The waiting items of a person: checkpoints to answer, and deliveries to review. */
async function inbox(ask: Ask): Promise<readonly object[]> {
  const checkpoints = await ask.list('checkpoint.list', {})
  const delivered = await ask.list('task.list', { state: ['review_ready', 'under_review'] })
  const item = (kind: 'checkpoint' | 'review', task_id: string, subject_id: string, title: string, created_at: string) => ({
    kind,
    action: kind === 'review' ? 'submit_review' : 'resolve_checkpoint',
    task_id,
    subject_id,
    title,
    principal: ask.actor,
    created_at,
    ...STAMPS,
  })
  return [
    ...checkpoints.map(({ id, task_id, prompt, raised_at }) => item('checkpoint', task_id, id, prompt, raised_at)),
    ...delivered
      .filter((task) => judgesOf(task).includes(ask.actor))
      .map((task) => item('review', task.id, task.delivered?.artifact_id ?? '', task.spec.goal, task.created_at)),
  ].toSorted((a, b) => (a.created_at < b.created_at ? -1 : 1))
}

export const operations: ReadonlyMap<string, Operation> = new Map(
  Object.entries({ ...taskOperations, ...checkpointOperations, ...workOperations, ...recordOperations }),
)
