// HLP over real sockets: the flow of the reference client as literal bytes, and everything that it may not do.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Answer } from '../../support/over-sockets/http-client.ts'
import { hlpWorld, PAYLOAD, started, type As } from './hlp-world.ts'

const still = (text: string): string =>
  text.replaceAll(/\b(task|ckpt|art|rev|amd)_[0-9A-Z]{26}/g, '$1_ID').replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')

test('the flow of the reference client has these bytes', async (t) => {
  const { raw } = await hlpWorld(t)
  const post = async (as: As, principal: string, name: string, body: string): Promise<Answer> => {
    const answer = await raw(as, `/hlp/v1/ops/${name}`, body, { 'Content-Type': 'application/json', 'X-HLP-Principal': principal })
    assert.equal(answer.status, 200, answer.text)
    return answer
  }
  const created = await post(
    'alice',
    'user_alice',
    'task.create',
    '{"params": {"goal": "Fix it", "type": "code", "acceptance_criteria": ["tests pass"]}}',
  )
  assert.equal(
    still(created.text),
    '{"spec_version":"0.2.0-draft","id":"task_ID","type":"code","state":"created","revision":0,"parent_task":null,"deadline":null,"created_at":"TIME","spec":{"goal":"Fix it","acceptance_criteria":["tests pass"],"inputs":[],"constraints":{"max_duration":null,"external_refs":[],"autonomy":null,"grants":[],"schema_version":"0.2","profile":"HLP-industrial"},"review_policy":null,"schema_version":"0.2","profile":"HLP-industrial"},"ownership":{"principal":"user_alice","assignee":"user_alice","delegable":true,"chain":[],"schema_version":"0.2","profile":"HLP-industrial"},"checkpoints":[],"artifacts":[],"steering_log":[],"schema_version":"0.2","profile":"HLP-industrial"}',
  )
  const { id } = created.json
  await post('alice', 'user_alice', 'task.assign', `{"params": {"task_id": "${id}", "agent_id": "agent_devin"}}`)
  await post('devin', 'agent_devin', 'task.start', `{"params": {"task_id": "${id}"}}`)
  const amended = await post(
    'alice',
    'user_alice',
    'task.amend',
    `{"params": {"task_id": "${id}", "text": "focus on auth", "intent": "constrain"}, "expected_task_revision": 2, "idempotency_key": "k-1"}`,
  )
  assert.equal(amended.json.revision, 3)
  assert.equal(
    still(JSON.stringify(amended.json.steering_log)),
    '[{"text":"focus on auth","intent":"constrain","by":"user_alice","at":"TIME","schema_version":"0.2","profile":"HLP-industrial"}]',
  )
  const raised = await post(
    'devin',
    'agent_devin',
    'checkpoint.raise',
    `{"params": {"task_id": "${id}", "kind": "approval", "prompt": "Deploy?", "raised_by": "agent_devin"}}`,
  )
  assert.equal(
    still(raised.text),
    '{"spec_version":"0.2.0-draft","id":"ckpt_ID","task_id":"task_ID","kind":"approval","prompt":"Deploy?","options":[],"proposed_actions":[],"context":[],"state":"pending","raised_at":"TIME","raised_by":"agent","expires_at":null,"resolution":null,"schema_version":"0.2","profile":"HLP-industrial"}',
  )
  const { json: waiting } = await post('alice', 'user_alice', 'human.inbox', '{"params": {}}')
  assert.deepEqual(
    waiting.map(({ kind, subject_id }: any) => [kind, subject_id]),
    [['checkpoint', raised.json.id]],
  )
  const resolved = await post(
    'alice',
    'user_alice',
    'checkpoint.resolve',
    `{"params": {"ckpt_id": "${raised.json.id}", "action": "approve"}}`,
  )
  assert.deepEqual([resolved.json.state, resolved.json.resolution.by], ['resolved', 'user_alice'])
  const committed = await post(
    'devin',
    'agent_devin',
    'artifact.commit',
    `{"params": {"task_id": "${id}", "type": "patch", "payload": {"kind": "inline", "uri": "data:text/plain,hello"}, "produced_by": "agent_devin"}}`,
  )
  const reviewed = await post(
    'alice',
    'user_alice',
    'review.submit',
    `{"params": {"task_id": "${id}", "artifact_id": "${committed.json.id}", "verdict": "approved"}}`,
  )
  assert.equal(
    still(reviewed.text),
    '{"spec_version":"0.2.0-draft","id":"rev_ID","task_id":"task_ID","artifact_id":"art_ID","artifact_version":"v1","reviewer":"user_alice","kind":"deliverable","verdict":"approved","comments":[],"requested_changes":[],"at":"TIME","schema_version":"0.2","profile":"HLP-industrial"}',
  )
  const { json: done } = await post('alice', 'user_alice', 'task.get', `{"params": {"task_id": "${id}"}}`)
  assert.deepEqual([done.state, done.revision], ['completed', 7])
  const { json: events } = await post('alice', 'user_alice', 'audit.replay', `{"params": {"task_id": "${id}"}}`)
  assert.deepEqual(events[0].subject, ['task', id])
})

test('the version needs no credential, and every answer names the versions in its headers', async (t) => {
  const { raw } = await hlpWorld(t)
  const { text, headers } = await raw(null, '/hlp/v1/version')
  assert.equal(text, '{"spec_version":"0.2.0-draft","schema_version":"0.2","profile":"HLP-industrial"}')
  assert.deepEqual([headers['x-hlp-spec-version'], headers['x-hlp-profile']], ['0.2.0-draft', 'HLP-industrial'])
})

test('a principal in the header is compared with the credential, and never believed', async (t) => {
  const on = await hlpWorld(t)
  const task = await started(on)
  const cancel = JSON.stringify({ params: { task_id: task.id } })
  for (const [as, said] of [
    ['devin', 'user_alice'],
    ['alice', 'agent_devin'],
    ['mallory', 'user_alice'],
  ] as const)
    await on.refused(401, 'UNAUTHORIZED', () => on.raw(as, '/hlp/v1/ops/task.cancel', cancel, { 'x-hlp-principal': said }))
  await on.refused(401, 'UNAUTHORIZED', () => on.raw(null, '/hlp/v1/ops/task.cancel', cancel, { 'x-hlp-principal': 'user_alice' }))
  await on.refused(401, 'UNAUTHORIZED', () =>
    on.op('devin', 'checkpoint.raise', { task_id: task.id, kind: 'approval', prompt: 'x', raised_by: 'agent_robin' }),
  )
  await on.refused(401, 'UNAUTHORIZED', () =>
    on.op('devin', 'artifact.commit', { task_id: task.id, type: 'patch', payload: PAYLOAD, produced_by: 'agent_robin' }),
  )
  await on.refused(404, 'NOT_FOUND', () => on.op('mallory', 'task.get', { task_id: task.id }))
})

test('a request for other versions is refused before anything else is looked at', async (t) => {
  const on = await hlpWorld(t)
  for (const more of [
    { spec_version: '0.3.0-draft' },
    { schema_version: ['0.1', '0.3'] },
    { profile: 'HLP-realtime' },
    { spec_version: 7 },
  ])
    await on.refused(409, 'VERSION_UNSUPPORTED', () => on.op('alice', 'task.create', { no: 'such param' }, more))
  const other = JSON.stringify({ spec_version: '9', params: { goal: 'g' } })
  await on.refused(409, 'VERSION_UNSUPPORTED', () => on.raw('alice', '/hlp/v1/ops/task.create', other, { 'x-hlp-principal': 'user_rita' }))
  const { status } = await on.op(
    'alice',
    'task.create',
    { goal: 'g' },
    { spec_version: ['0.1.0', '0.2.0-draft'], profile: 'HLP-industrial', other: 1 },
  )
  assert.equal(status, 200, 'other fields beside params are ignored')
})

test('unknown, missing and misplaced params are INVALID_SPEC', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  for (const [name, params, more] of [
    ['task.create', { goal: 'g', deadline: null }, {}],
    ['task.create', {}, {}],
    ['task.create', { goal: 'g' }, { idempotency_key: 'k' }],
    ['task.create', { goal: 'g', constraints: { grants: [{ scope: 'deploy', decision: 'deny', until: 'task' }] } }, {}],
    ['task.create', { goal: 'g', constraints: { grants: [{ scope: 'fs:/a*', decision: 'perhaps', until: 'task' }] } }, {}],
    ['task.create', { goal: 'g', constraints: { grants: 'all' } }, {}],
    ['task.get', { task_id }, { expected_task_revision: 2 }],
    ['task.assign', { task_id, agent_id: 'agent_robin', input: { goal: 'another' } }, {}],
    ['task.amend', { task_id, text: 'x', intent: 'order' }, {}],
    ['task.amend', { task_id, text: 'x' }, { expected_task_revision: '2' }],
    ['task.amend', { task_id, text: 'x' }, { idempotency_key: 7 }],
  ] as const)
    await on.refused(400, 'INVALID_SPEC', () => on.op('alice', name, params, more))
  for (const body of ['[]', '{', '"x"', '{"params": []}'])
    await on.refused(400, 'INVALID_SPEC', () => on.raw('alice', '/hlp/v1/ops/task.create', body))
  const bare = [{ id: 'a', kind: 'deploy', summary: 's', permission_scope: 'deploy' }]
  await on.refused(400, 'INVALID_SPEC', () =>
    on.op('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?', proposed_actions: bare }),
  )
  assert.equal((await on.op('alice', 'task.create', { goal: 'g', type: '' })).json.type, '')
  await on.refused(404, 'NOT_FOUND', () => on.raw('alice', '/hlp/v1/ops/task.destroy', '{}'))
  await on.refused(404, 'NOT_FOUND', () => on.raw('alice', '/hlp/v1/version?x=1x/..', '{}'))
  await on.refused(400, 'INVALID_SPEC', () => on.raw('owner', '/hlp/v1/events?after=abc'))
  const large = JSON.stringify({ params: { goal: 'x'.repeat(2_000_000) } })
  await on.refused(413, 'TOO_LARGE', () => on.raw('alice', '/hlp/v1/ops/task.create', large))
})

test('a stale revision is CONFLICT, and a repeated key is answered as it was then', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id, revision } = await started(on)
  const error = await on.refused(409, 'CONFLICT', () =>
    on.op('alice', 'task.amend', { task_id, text: 'x' }, { expected_task_revision: revision - 1 }),
  )
  assert.deepEqual([error.retryable, error.correlation_id], [true, task_id])
  assert.deepEqual(error.details, { task_id, expected_task_revision: revision - 1, actual_task_revision: revision })
  const amend = (text: string, key: string) =>
    on.op('alice', 'task.amend', { task_id, text }, { expected_task_revision: revision, idempotency_key: key })
  const first = await amend('one', 'k')
  await on.op('alice', 'task.amend', { task_id, text: 'two' })
  assert.equal((await amend('one', 'k')).text, first.text)
  await on.refused(409, 'CONFLICT', () => amend('other', 'k'))
  const other = await started(on)
  const elsewhere = await on.op('alice', 'task.amend', { task_id: other.id, text: 'one' }, { idempotency_key: 'k' })
  assert.equal(elsewhere.json.id, other.id, 'the key of another task is another key')
})

// Defects of the reference, which stores the words of closed lists unread, believes who says they act, and compares no checksum.
test('the bridge refuses what the reference lets pass', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  const payload = { ...PAYLOAD, checksum: `sha256:${'0'.repeat(64)}` }
  await on.refused(400, 'INVALID_SPEC', () => on.op('devin', 'artifact.commit', { task_id, type: 'patch', payload }))
  const demo = { kind: 'ref', uri: 'mem://x', checksum: 'sha256:v1', size: 1 }
  await on.refused(400, 'INVALID_SPEC', () => on.op('devin', 'artifact.commit', { task_id, type: 'patch', payload: demo }))
  const { json: artifact } = await on.op('devin', 'artifact.commit', { task_id, type: 'patch', payload: PAYLOAD })
  await on.refused(412, 'PRECONDITION_FAILED', () => on.op('alice', 'task.cancel', { task_id }))
  await on.refused(400, 'INVALID_SPEC', () => on.op('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'perhaps' }))
  await on.refused(401, 'UNAUTHORIZED', () => on.op('devin', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'approved' }))
  await on.refused(412, 'PRECONDITION_FAILED', () => on.op('alice', 'task.assign', { task_id, agent_id: 'agent_robin' }))
})

test('a task begins with the grants of its spec, and shows them', async (t) => {
  const on = await hlpWorld(t)
  const grants = [
    { scope: 'fs:/repo:*', decision: 'allow', until: 'task' },
    { scope: ' fs:/repo/secrets:* ', decision: 'deny', until: 'task', granted_by: 'user_alice' },
    { scope: 'bash:*', decision: 'allow', until: 'session' },
  ]
  const { json: task } = await on.op('alice', 'task.create', { goal: 'g', constraints: { autonomy: 'autonomous', grants } })
  const shown = task.spec.constraints.grants
  assert.equal(
    still(JSON.stringify(shown)),
    '[{"scope":"fs:/repo:*","decision":"allow","until":"task","granted_by":"user_alice","granted_at":"TIME","schema_version":"0.2","profile":"HLP-industrial"},{"scope":"fs:/repo/secrets:*","decision":"deny","until":"task","granted_by":"user_alice","granted_at":"TIME","schema_version":"0.2","profile":"HLP-industrial"},{"scope":"bash:*","decision":"allow","until":"session","granted_by":"user_alice","granted_at":"TIME","schema_version":"0.2","profile":"HLP-industrial"}]',
  )
  assert.equal(task.revision, 0)
  assert.deepEqual((await on.op('alice', 'task.get', { task_id: task.id })).json.spec.constraints.grants, shown)
  const claimed = { grants: [{ ...grants[0]!, granted_by: 'user_rita' }] }
  await on.refused(401, 'UNAUTHORIZED', () => on.op('alice', 'task.create', { goal: 'g', constraints: claimed }))
})

test('a remark has the shape of a review, with its own id, and counts for nothing', async (t) => {
  const on = await hlpWorld(t)
  const { id: task_id } = await started(on)
  const { json: artifact } = await on.op('devin', 'artifact.commit', { task_id, type: 'patch', payload: PAYLOAD })
  const verdict = { task_id, artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['shorter'] }
  const { json: review } = await on.op('alice', 'review.submit', verdict)
  const said = { review_id: review.id, comment: { anchor: 'line 1', severity: 'nit', body: 'Greet by name?' } }
  const { json: remark } = await on.op('alice', 'review.comment', said)
  assert.match(remark.id, /^rcm_/)
  assert.deepEqual(
    [remark.verdict, remark.reviewer, remark.requested_changes, remark.comments.map(({ body }: any) => body)],
    ['changes_requested', 'user_alice', [], ['Greet by name?']],
  )
  const { json: task } = await on.op('alice', 'task.get', { task_id })
  assert.deepEqual([task.state, task.revision], ['in_progress', 4])
  await on.refused(400, 'INVALID_SPEC', () => on.op('alice', 'review.comment', { ...said, comment: 'nice' }))
  await on.refused(404, 'NOT_FOUND', () => on.op('mallory', 'review.comment', said))
})

test('an event carries what a reader needs to rebuild its task', async (t) => {
  const on = await hlpWorld(t)
  const { id } = await started(on)
  const { json: events } = await on.op('alice', 'audit.replay', { task_id: id })
  const { reducer } = events.find(({ action }: any) => action === 'task.started')
  assert.deepEqual(reducer, {
    subject: { kind: 'task', id },
    change: {},
    task: {
      id,
      state: 'in_progress',
      revision: 2,
      ownership: { principal: 'user_alice', assignee: 'agent_devin', delegable: true },
      checkpoint_ids: [],
      artifact_ids: [],
      steering_count: 0,
    },
  })
})

test('required reviewers see a delivery until each has voted', async (t) => {
  const on = await hlpWorld(t)
  const policy = { required_reviewers: ['user_rita', 'user_bob'], quorum: 'all' }
  const { json: task } = await on.op('alice', 'task.create', { goal: 'g', review_policy: policy })
  await on.op('alice', 'task.assign', { task_id: task.id, agent_id: 'agent_devin' })
  await on.op('devin', 'task.start', { task_id: task.id })
  const { json: artifact } = await on.op('devin', 'artifact.commit', { task_id: task.id, type: 'patch', payload: PAYLOAD })
  const vote = { task_id: task.id, artifact_id: artifact.id, verdict: 'approved' }
  const inbox = async (as: As) => (await on.op(as, 'human.inbox', {})).json.map(({ kind }: any) => kind)
  assert.deepEqual([await inbox('rita'), await inbox('bob'), await inbox('alice')], [['review'], ['review'], []])
  await on.refused(401, 'UNAUTHORIZED', () => on.op('alice', 'review.submit', vote))
  await on.op('rita', 'review.submit', vote)
  assert.equal((await on.op('alice', 'task.get', { task_id: task.id })).json.state, 'under_review')
  assert.deepEqual([await inbox('rita'), await inbox('bob')], [[], ['review']])
  await on.op('bob', 'review.submit', vote)
  assert.equal((await on.op('alice', 'task.get', { task_id: task.id })).json.state, 'completed')
})

test('the feed resumes after a number, for a client that keeps the record', async (t) => {
  const on = await hlpWorld(t)
  await started(on)
  const { text, headers } = await on.raw('owner', '/hlp/v1/events?after=0&max_seconds=0.3')
  assert.match(String(headers['content-type']), /^text\/event-stream/)
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)))
  assert.ok(
    lines.some(({ action, subject }: any) => action === 'task.started' && Array.isArray(subject)),
    text,
  )
  for (const [i, { prev_hash }] of lines.entries()) assert.equal(prev_hash, lines[i - 1]?.hash ?? '')
  const last = lines.at(-1).seq
  assert.equal((await on.raw('owner', `/hlp/v1/events?after=${last}`)).text, '')
  await on.refused(401, 'UNAUTHORIZED', () => on.raw('devin', '/hlp/v1/events?after=0'))
})
