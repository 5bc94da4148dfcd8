// AAP 0.1.0: cards, discovery, and who can be given work.
import assert from 'node:assert/strict'
import { isCompatible } from '#protocols/delegation/capabilities/compatibility.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { runsOf } from '../support/in-process/runs.ts'
import { linesOf, stage, type Stage } from '../support/in-process/stage.ts'
import { aap } from './aap-cited.ts'

const { must } = aap
const review = (version: string) => ({ capability_id: 'cap:code-review', version })
const register = (on: Stage, as: string, more: object = {}): Promise<any> => on.call(as, 'delegation/agent.publish', { name: as, ...more })
const found = async (on: Stage, as: string, query: object): Promise<string[]> =>
  (await on.call(as, 'delegation/agent.discover', query)).items.map(({ agent_id }: any) => agent_id as string)

must(['A-CARD-01', 'A-DISC-01', 'A10'], 'cards are found by capability, by tags, by both, and by none', async () => {
  const on = await stage()
  await register(on, 'devin', { capabilities: [review('2.1.0')], tags: ['typescript', 'fast'] })
  await register(on, 'robin', { capabilities: [review('1.0.0'), { capability_id: 'cap:deploy', version: '1.0.0' }], tags: ['typescript'] })
  await register(on, 'spy', { capabilities: [review('2.1.0')] })
  for (const [query, agents] of [
    [{}, ['agent_devin', 'agent_robin']],
    [{ capability: null, tags: null }, ['agent_devin', 'agent_robin']],
    [{ capability: review('2.0.0') }, ['agent_devin']],
    [{ capability: review('3.0.0') }, []],
    [{ tags: ['typescript'] }, ['agent_devin', 'agent_robin']],
    [{ tags: ['typescript', 'fast'] }, ['agent_devin']],
    [{ capability: review('1.0.0'), tags: ['typescript'] }, ['agent_robin']],
    [{ capability: review('1.0.0'), tags: ['fast'] }, []],
  ] as const)
    assert.deepEqual(await found(on, 'alice', query), agents, JSON.stringify(query))
  assert.deepEqual(await found(on, 'mallory', { project_id: 'project_other' }), ['agent_spy'])
  await on.refused('NOT_FOUND', 'alice', 'delegation/agent.discover', { project_id: 'project_other' })
  const first = await on.call('alice', 'delegation/agent.discover', { limit: 1 })
  const second = await on.call('alice', 'delegation/agent.discover', { limit: 1, cursor: first.next_cursor })
  assert.deepEqual(
    [...first.items, ...second.items].map(({ agent_id }) => agent_id),
    ['agent_devin', 'agent_robin'],
  )
})
must(
  ['A-CARD-02', 'A-DISC-02', 'A-DISC-03', 'A5'],
  'an endpoint is for agents and the runtime; nothing that people can read holds it',
  async () => {
    const on = await stage()
    const endpoint = 'https://devin.example/secret-place'
    await register(on, 'devin', { endpoint })
    for (const as of ['devin', 'robin', 'system']) {
      assert.equal((await on.call(as, 'delegation/agent.card', { agent_id: 'agent_devin' })).card.endpoint, endpoint, as)
      assert.equal((await on.call(as, 'delegation/agent.discover', {})).items[0].endpoint, endpoint, as)
    }
    for (const as of ['alice', 'owner', 'admin', 'project']) {
      assert.ok(!('endpoint' in (await on.call(as, 'delegation/agent.card', { agent_id: 'agent_devin' })).card), as)
      assert.ok(!('endpoint' in (await on.call(as, 'delegation/agent.discover', {})).items[0]), as)
    }
    const record = await on.call('owner', 'audit.query', { project_id: 'system', limit: 200 })
    assert.ok(record.items.some(({ action }: any) => action === 'agent.registered'))
    assert.ok(!JSON.stringify([record, await linesOf(on.world)]).includes('secret-place'), 'not even the record does')
    await register(on, 'devin')
    assert.ok(
      !('endpoint' in (await on.call('robin', 'delegation/agent.card', { agent_id: 'agent_devin' })).card),
      'the next card has none',
    )
  },
)
must(['A-CARD-03', 'A11'], 'a card has its fields; capabilities are references and nothing else', async () => {
  const on = await stage()
  await assert.rejects(register(on, 'devin', { capabilities: [{ ...review('2.1.0'), transport: 'stdio' }] }), {
    code: 'INVALID_REQUEST',
    details: { field: 'capabilities.0.transport' },
  })
  const { card } = await register(on, 'devin', {
    description: 'Reads code.',
    capabilities: [review('2.1.0')],
    tags: ['a', 'a'],
    protocol: 'a2a',
    manifest: { model: 'x' },
    concurrency: 3,
    reach: 'webhook',
    endpoint: 'https://devin.example/hook',
  })
  const { updated_at, ...fields } = card
  assert.ok(updated_at)
  assert.deepEqual(fields, {
    id: 'agent_devin',
    agent_id: 'agent_devin',
    name: 'devin',
    description: 'Reads code.',
    capabilities: [review('2.1.0')],
    protocol: 'a2a',
    tags: ['a'],
    manifest: { model: 'x' },
    concurrency: 3,
    reach: 'webhook',
    available: true,
    owner: 'user_alice',
    projects: ['project_default'],
    disabled: false,
  })
  const registering = { agent_id: 'agent_devin', name: 'x' }
  for (const wrong of [
    { capabilities: [{ capability_id: 'x' }] },
    { tags: ['No'] },
    { concurrency: 0 },
    { manifest: { x: 'x'.repeat(9_000) } },
  ])
    await on.refused('INVALID_REQUEST', 'alice', 'delegation/agent.publish', { ...registering, ...wrong })
})
must('A11', 'a card follows the registration of its agent, in the same batch', async () => {
  const on = await stage()
  await register(on, 'devin')
  const { batches } = on.world.store.stats()
  await on.call('alice', 'identity/agent.update', { agent_id: 'agent_devin', disabled: true })
  assert.equal(on.world.store.stats().batches, batches + 1)
  assert.deepEqual(await found(on, 'alice', {}), [])
  await on.call('alice', 'identity/agent.update', { agent_id: 'agent_devin', disabled: false })
  await on.call('admin', 'identity/project.join', { project_id: 'project_other', subject: 'agent_devin' })
  assert.deepEqual(await found(on, 'mallory', { project_id: 'project_other' }), ['agent_devin'])
  await on.call('admin', 'identity/project.leave', { project_id: 'project_default', subject: 'agent_devin' })
  assert.deepEqual(await found(on, 'alice', {}), [])
  await on.refused('AGENT_NOT_FOUND', 'bob', 'delegation/agent.card', { agent_id: 'agent_devin' })
})
must('A4', 'a version serves what asks for an older one of the same major version', () => {
  for (const [offered, wanted, fits] of [
    ['2.1.0', '2.1.0', true],
    ['2.1.0', '2.0.9', true],
    ['2.1.3', '2.1.2', true],
    ['2.1.0', '2.1.1', false],
    ['2.1.0', '2.2.0', false],
    ['3.0.0', '2.1.0', false],
    ['2.10.0', '2.9.0', true],
    ['0.2.5', '0.2.1', true],
    ['0.3.0', '0.2.1', false],
    ['0.0.2', '0.0.1', false],
    ['0.0.1', '0.0.1', true],
    ['1.0.0-beta', '1.0.0', false],
    ['1.0.0-beta', '1.0.0-beta', true],
    ['1.1.0', '1.0.0-beta', false],
    ['1.2.0+build', '1.1.0', true],
    ['latest', 'latest', true],
    ['latest', '1.0.0', false],
  ] as const)
    assert.equal(isCompatible(offered, wanted), fits, `${offered} for ${wanted}`)
})

const assigning = async (on: Stage, constraints: object = {}) => {
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'Review it', constraints } })
  return { task_id: task.id, assignee: 'agent_devin' }
}
must(['A-DEL-04', 'A-ERR-02', 'A4', 'A9'], 'an agent that does not declare the first capability is not given the task', async () => {
  const on = await stage()
  await register(on, 'devin', { capabilities: [review('2.1.0')] })
  const wanted = (version: string) => ({ must_use_capabilities: [review(version), { capability_id: 'cap:other', version: '1.0.0' }] })
  const refusal = await on.refused('PRECONDITION_FAILED', 'alice', 'task.assign', await assigning(on, wanted('3.0.0')))
  assert.equal(refusal.details?.['aap_code'], 'CAPABILITY_NOT_SUPPORTED')
  const fits = await assigning(on, wanted('2.0.0'))
  await on.call('alice', 'task.assign', fits)
  assert.deepEqual((await runsOf(on, fits.task_id))[0].capability, review('2.0.0'))
  const delegating = { to_agent: 'agent_devin', capability: review('3.0.0') }
  await on.refused('CAPABILITY_NOT_SUPPORTED', 'robin', 'delegation/agent.delegate', delegating)
  await on.refused('CAPABILITY_NOT_SUPPORTED', 'devin', 'delegation/agent.delegate', { ...delegating, to_agent: 'agent_robin' })
})
must('A10', 'a task without a capability goes to anybody, and so does any task to an agent without a card', async () => {
  const on = await stage()
  await register(on, 'robin', { capabilities: [] })
  await on.call('alice', 'task.assign', { ...(await assigning(on)), assignee: 'agent_robin' })
  await on.call('alice', 'task.assign', await assigning(on, { must_use_capabilities: [review('9.0.0')] }))
})
must(['A-ERR-01', 'A9'], 'who does not exist, is switched off or not available is not found, and the task stays as it was', async () => {
  const on = await stage()
  const input = await assigning(on)
  const notFound = async (assignee: string): Promise<void> => {
    const refusal = await on.refused('NOT_FOUND', 'alice', 'task.assign', { ...input, assignee })
    assert.equal(refusal.details?.['aap_code'], 'AGENT_NOT_FOUND')
    await on.refused('AGENT_NOT_FOUND', 'robin', 'delegation/agent.delegate', { to_agent: assignee })
  }
  await notFound('agent_nobody')
  await notFound('agent_spy')
  await register(on, 'devin', { available: false })
  await notFound('agent_devin')
  await register(on, 'devin')
  await on.call('alice', 'identity/agent.update', { agent_id: 'agent_devin', disabled: true })
  await notFound('agent_devin')
  await on.refused('AGENT_NOT_FOUND', 'robin', 'delegation/agent.delegate', { to_agent: 'user_bob' })
  assert.equal((await on.task(input.task_id)).state, 'created')
})
must(
  ['A-ERR-03', 'A9'],
  'an agent takes as many runs at a time as its card says; what it had before comes back to it all the same',
  async () => {
    const on = await stage('in_progress')
    await register(on, 'devin', { concurrency: 1 })
    const input = await assigning(on)
    const refusal = await on.refused('PRECONDITION_FAILED', 'alice', 'task.assign', input)
    assert.deepEqual(refusal.details, { concurrency: 1, aap_code: 'DELEGATION_REFUSED' })
    await on.refused('DELEGATION_REFUSED', 'robin', 'delegation/agent.delegate', { to_agent: 'agent_devin' })
    // A run that waits for a person takes no slot.
    const task_id = on.refs['task'].id
    const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
    await on.call('alice', 'task.assign', input)
    await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
    const { artifact } = await on.call('devin', 'artifact.commit', { task_id, payload: { kind: 'inline', uri: 'data:,x' } })
    const back = { verdict: 'changes_requested', requested_changes: ['more'] }
    assert.equal((await on.call('alice', 'review.submit', { task_id, artifact_id: artifact.id, ...back })).task.state, 'in_progress')
  },
)
must(
  ['A-LAY-06', 'A-CONF-01', 'A-CONF-06'],
  'the operations and codes of the draft are there; a capability is a name and a version',
  () => {
    const names: string[] = delegation.operations.map(({ name }) => name)
    for (const name of ['discover', 'delegate', 'block', 'resume', 'handoff']) assert.ok(names.includes(`agent.${name}`), name)
    assert.deepEqual(Object.keys(delegation.codes).toSorted(), [
      'AGENT_NOT_FOUND',
      'CAPABILITY_NOT_SUPPORTED',
      'DELEGATION_REFUSED',
      'INVALID_TRANSITION',
      'RUN_NOT_FOUND',
    ])
  },
)
