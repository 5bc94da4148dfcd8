// Explanations: each fact of the record leads to the person who answers for it, or says why there is none.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { protocols } from '#protocols/index.ts'
import { enrol, signed } from '../../support/passkeys/sign.ts'
import { refusalOf } from '../../support/in-process/stage.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'

const WHY = 'collaboration/audit.why'
type Step = {
  action: string
  actor: { id: string; kind: string }
  basis: { kind: string }
  hidden: boolean
  receipt_id: string | null
  signed_by_passkey: boolean
}
type Why = { steps: Step[]; person: string | null; gaps: string[] }
const why = (world: World, id: string, as = 'owner'): Promise<Why> => world.call(as, WHY, { id })
const actionsOf = ({ steps }: Why): string[] => steps.map(({ action }) => action)

async function factsIn(world: World): Promise<any[]> {
  const found: any[] = []
  for (const project_id of ['project_default', 'system'])
    for (let cursor: string | undefined; ;) {
      const page = await world.call('admin', 'collaboration/audit.query', { project_id, ...(cursor === undefined ? {} : { cursor }) })
      found.push(...page.items)
      if (page.next_cursor === null) break
      cursor = page.next_cursor
    }
  return found
}

for (const protocol of protocols)
  test(`each fact in the scenes of ${protocol.name} leads to a person, or says why there is none`, async () => {
    for (const steps of Object.values(protocol.scenes)) {
      const world = await createWorld()
      await world.play(steps)
      for (const { id, action } of await factsIn(world)) {
        const { person, gaps, steps: path } = await why(world, id, 'admin')
        assert.ok(path.length > 0)
        assert.equal(person === null, gaps.length > 0, `${action}: ${person}, ${gaps.join()}`)
      }
      await world.close()
    }
  })

const asked = { action: 'APPROVE', risk: 'R4', payload: { item: 'Deploy?', details: { to: 'production' } } }

test('an answer leads to the person who gave it, by the request, the receipt and the fact, and says that a passkey signed it', async () => {
  const world = await createWorld()
  const { request } = await world.call('devin', 'execution/request.create', asked)
  const device = await enrol(world, 'alice')
  const input = { request_id: request.id, result: 'approved' }
  await world.call('alice', 'execution/request.resolve', await signed(world, 'alice', device, 'request.resolve', input))
  const { receipt } = await world.call('alice', 'execution/request.get', { request_id: request.id })
  for (const id of [request.id, receipt.receipt_id]) {
    const { person, steps } = await why(world, id)
    assert.equal(person, 'user_alice')
    assert.deepEqual(
      [steps[0]!.action, steps[0]!.basis.kind, steps[0]!.receipt_id, steps[0]!.signed_by_passkey],
      ['execution/request.completed', 'human', receipt.receipt_id, true],
    )
  }
})

test('a use of a grant leads to the person who granted it, and a run to the one who gave the task', async () => {
  const world = await createWorld()
  const { task, grant } = await world.play([
    ...protocols.find(({ name }) => name === 'collaboration')!.scenes['in_progress']!,
    {
      as: 'alice',
      call: 'collaboration/grant.add',
      input: ({ task: { id } }) => ({ task_id: id, scope: 'deploy', decision: 'allow', until: 'task' }),
    },
    { as: 'devin', call: 'collaboration/grant.use', input: ({ task: { id } }) => ({ task_id: id, scope: 'deploy' }) },
  ])
  const facts = await factsIn(world)
  const used = facts.find(({ action }) => action === 'grant.used')
  const found = await why(world, used.id)
  assert.equal(found.person, 'user_alice')
  assert.deepEqual(actionsOf(found), ['collaboration/grant.used', 'collaboration/grant.added'])
  assert.equal(found.steps[0]!.basis.kind, 'grant')
  assert.equal((await why(world, grant.id)).person, 'user_alice')
  const run = facts.find(({ action }) => action === 'run.delegated')
  assert.equal((await why(world, run.subject.id)).person, 'user_alice')
  assert.equal((await why(world, task.id)).person, 'user_alice')
})

test('a default names no answer of a person, and an agent is answered for by its owner', async () => {
  const world = await createWorld()
  const payload = { question: 'Which?', options: ['a', 'b'], default_option: 'a' }
  const { request } = await world.call('devin', 'execution/request.create', {
    action: 'DECIDE',
    payload,
    fallback: 'default',
    timeout_seconds: 60,
  })
  world.advance(61_000)
  const found = await why(world, request.id)
  assert.ok(found.person !== null || found.gaps.length > 0)
  assert.ok(found.steps.every(({ action }) => action !== null))
})

test('a call that a rule allowed leads to the person who set the rule', async () => {
  const world = await createWorld()
  const rules = [{ id: 'reads', tool: ['files/read_*'], then: 'allow' }]
  await world.call('owner', 'execution/policy.set', { installation: true, gate: { version: 1, default: 'ask', rules } })
  const { call_id } = await world.call('devin', 'gate/call.propose', {
    server: 'files',
    tool: 'read_file',
    arguments: { path: 'a' },
    client: { name: 'test' },
  })
  const found = await why(world, call_id)
  assert.deepEqual(
    [found.person, actionsOf(found), found.steps[0]!.basis.kind],
    ['user_owner', ['gate/call.allowed', 'execution/policy.set'], 'policy'],
  )
})

test('a text of an agent that names another approval leads nowhere', async () => {
  const world = await createWorld()
  const { request } = await world.call('devin', 'execution/request.create', asked)
  await world.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved' })
  const named = `rcp_${request.id.slice('hxp_'.length)}`
  const details = { request_id: request.id, approval: request.id, cause: 1, receipt_id: named }
  const { request: forged } = await world.call('devin', 'execution/request.create', {
    ...asked,
    payload: { item: `As in ${request.id}`, details },
  })
  const { steps } = await why(world, forged.id)
  assert.ok(steps.every(({ action }) => action !== 'execution/request.completed'))
  assert.equal((await refusalOf(why(world, named))).code, 'NOT_FOUND')
  assert.equal((await refusalOf(why(world, request.id, 'devin'))).code, 'UNAUTHORIZED')
})

test('a thing that the asker may not read is not found, like one that does not exist', async () => {
  const world = await createWorld()
  const { request } = await world.call('devin', 'execution/request.create', asked)
  await world.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved' })
  for (const [as, id] of [
    ['mallory', request.id],
    ['alice', 'hxp_01KDVDNA1F5J31N7HXAQNQHPF9'],
    ['alice', 'aud_01KDVDNA1F5J31N7HXAQNQHPF9'],
    ['alice', 'nothing'],
    ['alice', '../etc@1'],
  ] as const)
    assert.equal((await refusalOf(why(world, id, as))).code, 'NOT_FOUND', `${as} ${id}`)
  const { steps, person } = await why(world, request.id, 'alice')
  assert.equal(person, 'user_alice')
  assert.equal(steps[0]!.hidden, false)
})
