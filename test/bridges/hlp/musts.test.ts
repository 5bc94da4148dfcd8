// HLP's MUSTs on the wire, and each defect of its reference that must not be one of ours.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hlpWorld, PAYLOAD, started, type As } from './hlp-world.ts'

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/
const STAMPS = ['schema_version', 'profile']
/** The fields of each object of the wire (HLP 3), without the two stamps. */
const shapes = {
  task: 'id type state revision parent_task deadline created_at spec ownership checkpoints artifacts steering_log',
  spec: 'goal acceptance_criteria inputs constraints review_policy',
  constraints: 'max_duration external_refs autonomy grants',
  ownership: 'principal assignee delegable chain',
  hop: 'from to at via',
  steering: 'text intent by at',
  checkpoint: 'id task_id kind prompt options proposed_actions context state raised_at raised_by expires_at resolution',
  action: 'id kind summary permission_scope detail risk',
  resolution: 'by action choice input reassign_to approved_actions denied_actions state_patch edited_artifact_ref comment at',
  artifact: 'id type provenance version parent_version payload references',
  review: 'id task_id artifact_id artifact_version reviewer kind verdict comments requested_changes at',
  entry: 'key value by written_at',
  event: 'id seq at actor action subject task_id before after reducer prev_hash hash',
} as const
function assertShape(object: any, kind: keyof typeof shapes, isOuter = false): void {
  const wanted = [...shapes[kind].split(' '), ...STAMPS, ...(isOuter ? ['spec_version'] : [])]
  assert.deepEqual(Object.keys(object).toSorted(), wanted.toSorted(), kind)
  assert.deepEqual([object.schema_version, object.profile], ['0.2', 'HLP-industrial'], kind)
  for (const [field, value] of Object.entries<unknown>(object)) {
    if (/^(at|.*_at)$/.test(field) && value !== null) assert.match(value as string, TIME, `${kind}.${field}`)
    const isList =
      /^(chain|options|inputs|grants|references|comments|context|checkpoints|artifacts|steering_log|requested_changes|.*_actions|.*_criteria|.*_refs)$/
    if (isList.test(field)) assert.ok(Array.isArray(value), `${kind}.${field} is a list`)
  }
}

test('each object has the fields of its shape, times of RFC 3339, lists where lists belong, and the stamps', async (t) => {
  const on = await hlpWorld(t)
  const task = await started(on)
  const { id: task_id } = task
  assertShape(task, 'task', true)
  assertShape(task.spec, 'spec')
  assertShape(task.spec.constraints, 'constraints')
  assertShape(task.ownership, 'ownership')
  assertShape(task.ownership.chain[0], 'hop')
  const { json: amended } = await on.op('alice', 'task.amend', { task_id, text: 'x' })
  assertShape(amended.steering_log[0], 'steering')
  const actions = [{ id: 'a', kind: 'deploy', summary: 's', permission_scope: ' fs:/repo:* ', detail: { to: 'eu' } }]
  const { json: raised } = await on.op('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?', proposed_actions: actions })
  assertShape(raised, 'checkpoint', true)
  assertShape(raised.proposed_actions[0], 'action')
  assert.deepEqual([raised.proposed_actions[0].permission_scope, raised.proposed_actions[0].detail], ['fs:/repo:*', { to: 'eu' }])
  const { json: resolved } = await on.op('alice', 'checkpoint.resolve', { ckpt_id: raised.id, action: 'approve', approved_actions: ['a'] })
  assertShape(resolved.resolution, 'resolution')
  const { json: artifact } = await on.op('devin', 'artifact.commit', { task_id, type: 'patch', payload: PAYLOAD })
  assertShape(artifact, 'artifact', true)
  const { json: review } = await on.op('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'approved' })
  assertShape(review, 'review', true)
  const { json: events } = await on.op('alice', 'audit.replay', { task_id })
  for (const event of events) assertShape(event, 'event')
  const seqs = events.map(({ seq }: { seq: number }) => seq)
  assert.deepEqual(
    seqs,
    seqs.toSorted((a: number, b: number) => a - b),
  )
})

test('the value of a ledger is data: it carries no stamps, and what is not there is null', async (t) => {
  const on = await hlpWorld(t)
  const { id } = await started(on)
  const scope = 'project:project_default'
  assert.equal((await on.op('devin', 'ledger.read', { scope, key: 'k' })).text, 'null')
  const { json: entry } = await on.op('devin', 'ledger.write', { scope, key: 'k', value: { a: 1 }, by: id })
  assertShape(entry, 'entry', true)
  assert.equal((await on.op('devin', 'ledger.read', { scope, key: 'k' })).text, '{"a":1}')
  await on.op('devin', 'ledger.write', { scope, key: 'k', value: 2, by: id })
  const { json: history } = await on.op('devin', 'ledger.history', { scope, key: 'k' })
  assert.deepEqual(
    history.map(({ value }: { value: unknown }) => value),
    [{ a: 1 }, 2],
  )
  await on.refused(404, 'NOT_FOUND', () => on.op('devin', 'ledger.write', { scope, key: 'k', value: 3, by: 'task_none' }))
})

test('each change raises the revision by one and leaves its event, and nothing else raises it', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  const revision = async (): Promise<number> => (await on.op('alice', 'task.get', { task_id })).json.revision
  const events = async (): Promise<string[]> => (await on.op('alice', 'audit.replay', { task_id })).json.map((one: any) => one.action)
  let ckpt_id = ''
  let artifact_id = ''
  const steps: readonly (readonly [As, string, () => object, event: string, raises: number])[] = [
    ['alice', 'task.amend', () => ({ task_id, text: 'x' }), 'task.amended', 1],
    ['devin', 'checkpoint.raise', () => ({ task_id, kind: 'input', prompt: '?' }), 'task.checkpoint.raised', 1],
    ['alice', 'checkpoint.resolve', () => ({ ckpt_id, action: 'provide', input: 'a' }), 'task.checkpoint.resolved', 1],
    ['alice', 'task.interrupt', () => ({ task_id, prompt: 'stop' }), 'task.interrupted', 1],
    ['alice', 'checkpoint.resolve', () => ({ ckpt_id, action: 'approve' }), 'task.checkpoint.resolved', 1],
    ['devin', 'ownership.delegate', () => ({ task_id, to_agent: 'agent_robin' }), 'ownership.delegated', 1],
    ['robin', 'ledger.write', () => ({ scope: 'project:project_default', key: 'k', value: 1, by: task_id }), 'ledger.written', 0],
    ['robin', 'artifact.commit', () => ({ task_id, type: 'patch', payload: PAYLOAD }), 'artifact.committed', 1],
    [
      'alice',
      'review.submit',
      () => ({ task_id, artifact_id, verdict: 'changes_requested', requested_changes: ['shorter'] }),
      'review.submitted',
      1,
    ],
    ['robin', 'artifact.commit', () => ({ task_id, type: 'patch', payload: PAYLOAD, parent_version: 'v1' }), 'artifact.committed', 1],
    ['alice', 'review.submit', () => ({ task_id, artifact_id, verdict: 'approved' }), 'task.completed', 1],
  ]
  for (const [as, name, params, event, raises] of steps) {
    const [before, known] = [await revision(), (await events()).length]
    const { status, json, text } = await on.op(as, name, params())
    assert.equal(status, 200, `${name}: ${text}`)
    if (json.id?.startsWith('ckpt_')) ckpt_id = json.id
    if (json.id?.startsWith('art_')) artifact_id = json.id
    assert.equal((await revision()) - before, raises, name)
    assert.ok((await events()).slice(known).includes(event), `${name} leaves ${event}`)
  }
  const before = await revision()
  for (const [name, params] of [
    ['task.get', { task_id }],
    ['task.list', {}],
    ['artifact.get', { art_id: artifact_id }],
    ['audit.query', { task_id }],
    ['human.inbox', {}],
  ] as const)
    assert.equal((await on.op('alice', name, params)).status, 200, name)
  assert.equal(await revision(), before)
})

test('a key with another operation is CONFLICT, and a refused call leaves none', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  const key = { idempotency_key: 'k' }
  await on.refused(400, 'INVALID_SPEC', () => on.op('alice', 'task.amend', { task_id, text: 'x', intent: 'order' }, key))
  const { json: amended } = await on.op('alice', 'task.amend', { task_id, text: 'x' }, key)
  assert.equal(amended.revision, 3)
  await on.refused(409, 'CONFLICT', () => on.op('alice', 'task.interrupt', { task_id, prompt: 'x' }, key))
  await on.refused(409, 'CONFLICT', () => on.op('alice', 'task.cancel', { task_id }, key))
})

test('a repetition is answered before authority and preconditions, with the answer of its time', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  const key = { idempotency_key: 'k' }
  const delegate = () => on.op('devin', 'ownership.delegate', { task_id, to_agent: 'agent_robin' }, key)
  const first = await delegate()
  assert.equal(first.json.ownership.assignee, 'agent_robin')
  assert.equal((await delegate()).text, first.text, 'it is no executor any more')
  const interrupt = () => on.op('alice', 'task.interrupt', { task_id, prompt: 'stop' }, key)
  const stopped = await interrupt()
  assert.equal(stopped.status, 200, stopped.text)
  const { json } = await on.op('alice', 'checkpoint.resolve', { ckpt_id: stopped.json.id, action: 'reject' })
  assert.equal(json.state, 'resolved')
  assert.equal((await interrupt()).text, stopped.text, 'the task has ended')
})

// The reference stores every word unread: an unknown verdict rejects its task for good.
test('words of closed lists are refused, and nothing changes', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  const grant = { scope: 'fs:/a*', decision: 'allow', until: 'task' }
  const create = (more: object): [As, string, object] => ['alice', 'task.create', { goal: 'g', ...more }]
  for (const [as, name, params] of [
    create({ constraints: { autonomy: 'free' } }),
    create({ constraints: { grants: [{ ...grant, until: 'ever' }] } }),
    ...['bash', 'bash:', ':x', 'Bash:ls', '1a:b', 'fs:/a b', 'fs:*:write', 'fs:/re*po', '**', ''].map((scope) =>
      create({ constraints: { grants: [{ ...grant, scope }] } }),
    ),
    create({ review_policy: { required_reviewers: ['user_rita'], quorum: 'most' } }),
    create({ review_policy: { required_reviewers: [], quorum: 'all' } }),
    create({ review_policy: { required_reviewers: ['user_rita', 'user_rita'], quorum: 'all' } }),
    create({ review_policy: { required_reviewers: ['agent_devin'], quorum: 'all' } }),
    create({ inputs: [{ kind: 'gift' }] }),
    create({ inputs: [{ kind: 'artifact' }] }),
    ['alice', 'task.amend', { task_id, text: 'x', intent: 'order' }],
    ['devin', 'checkpoint.raise', { task_id, kind: 'favour', prompt: '?' }],
    ['devin', 'checkpoint.raise', { task_id, kind: 'choice', prompt: '?', options: [{ id: 'a', label: 'A', risk: 'grave' }] }],
    [
      'devin',
      'checkpoint.raise',
      { task_id, kind: 'approval', prompt: '?', proposed_actions: [{ id: 'a', kind: 'k', summary: 's', risk: 'grave' }] },
    ],
    ['devin', 'artifact.commit', { task_id, type: 'patch', payload: { kind: 'parcel', uri: 'data:,x' } }],
  ] as readonly (readonly [As, string, object])[])
    await on.refused(400, 'INVALID_SPEC', () => on.op(as, name, params))
  const { json: raised } = await on.op('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  for (const action of ['perhaps', 'provide', ''])
    await on.refused(400, 'INVALID_SPEC', () => on.op('alice', 'checkpoint.resolve', { ckpt_id: raised.id, action }))
})

// In the reference anybody assigns, starts, cancels, raises, commits and transfers, and any human resolves.
test('an actor without the right is refused, whatever the header says', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  const { json: made } = await on.op('alice', 'task.create', { goal: 'g' })
  for (const [as, name, params] of [
    ['devin', 'task.assign', { task_id: made.id, agent_id: 'agent_devin' }],
    ['bob', 'task.cancel', { task_id }],
    ['devin', 'task.cancel', { task_id }],
    ['devin', 'task.interrupt', { task_id, prompt: 'x' }],
    ['devin', 'task.amend', { task_id, text: 'x' }],
    ['alice', 'checkpoint.raise', { task_id, kind: 'approval', prompt: '?' }],
    ['alice', 'artifact.commit', { task_id, type: 'patch', payload: PAYLOAD }],
    ['alice', 'ownership.transfer', { task_id, to: 'agent_robin', via: 'handoff' }],
    ['alice', 'ownership.delegate', { task_id, to_agent: 'agent_robin' }],
  ] as const) {
    const { status, json } = await on.op(as, name, params)
    assert.ok([401, 404].includes(status), `${as} ${name}: ${status} ${JSON.stringify(json)}`)
  }
  const { json: raised } = await on.op('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  for (const as of ['devin', 'mallory'] as const) {
    const { status } = await on.op(as, 'checkpoint.resolve', { ckpt_id: raised.id, action: 'approve' })
    assert.ok([401, 404].includes(status), as)
  }
  await on.refused(401, 'UNAUTHORIZED', () => on.op('alice', 'checkpoint.expire', { ckpt_id: raised.id }))
})

test('a cancelled task leaves no question behind, and a replaced delivery cannot be reviewed', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  const { json: raised } = await on.op('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  assert.equal((await on.op('alice', 'task.cancel', { task_id })).json.state, 'completed')
  assert.deepEqual((await on.op('alice', 'human.inbox', {})).json, [])
  const late = await on.op('alice', 'checkpoint.resolve', { ckpt_id: raised.id, action: 'approve' })
  assert.ok([410, 412].includes(late.status), late.text)

  const other = await started(on)
  const commit = async (payload: object): Promise<any> =>
    (await on.op('devin', 'artifact.commit', { task_id: other.id, type: 'patch', payload })).json
  const first = await commit(PAYLOAD)
  await on.op('alice', 'review.submit', {
    task_id: other.id,
    artifact_id: first.id,
    verdict: 'changes_requested',
    requested_changes: ['shorter'],
  })
  const second = await commit({ kind: 'inline', uri: 'data:text/plain,again' })
  assert.notEqual(second.id, first.id)
  await on.refused(409, 'CONFLICT', () =>
    on.op('alice', 'review.submit', { task_id: other.id, artifact_id: first.id, verdict: 'approved' }),
  )
  const done = await on.op('alice', 'review.submit', { task_id: other.id, artifact_id: second.id, verdict: 'approved' })
  assert.equal(done.json.artifact_version, second.version)
})

test('a rejection ends the run, and a reassigned question goes to another one', async (t) => {
  const on = await hlpWorld(t)
  for (const [action, more, ended] of [
    ['reject', {}, 'completed'],
    ['reassign', { reassign_to: 'agent_robin' }, 'in_progress'],
  ] as const) {
    const { id: task_id } = await started(on)
    const { json: raised } = await on.op('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
    await on.op('alice', 'checkpoint.resolve', { ckpt_id: raised.id, action, ...more })
    assert.equal((await on.op('alice', 'task.get', { task_id })).json.state, ended)
    const { items } = await on.call('alice', 'delegation/run.list', { task_id })
    assert.equal(items.find(({ agent_id }: any) => agent_id === 'agent_devin').state, 'failed', action)
  }
})

test('the steering log and the log of grants only grow', async (t) => {
  const on = await hlpWorld(t)
  const grants = [{ scope: 'bash:*', decision: 'allow', until: 'task' }]
  const { json: task } = await on.op('alice', 'task.create', { goal: 'g', constraints: { grants } })
  const task_id = task.id
  await on.op('alice', 'task.assign', { task_id, agent_id: 'agent_devin' })
  await on.op('devin', 'task.start', { task_id })
  for (const text of ['one', 'two']) await on.op('alice', 'task.amend', { task_id, text })
  const { items } = await on.call('alice', 'collaboration/grant.list', { task_id })
  await on.call('alice', 'collaboration/grant.revoke', { grant_id: items[0].id })
  const { json: now } = await on.op('alice', 'task.get', { task_id })
  assert.deepEqual(
    now.steering_log.map(({ text }: { text: string }) => text),
    ['one', 'two'],
  )
  assert.deepEqual(now.spec.constraints.grants, task.spec.constraints.grants, 'a revoked grant stays in its log')
  assert.equal(now.spec.goal, 'g')
})
