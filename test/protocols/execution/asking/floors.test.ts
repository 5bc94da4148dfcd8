// Floors under the risk (X34): people raise what an agent says, never lower it, and only for agents that they answer for.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { ask, castAs } from '../../../support/over-sockets/asking.ts'
import { createWorld, stateHash, type World } from '../../../support/in-process/world.ts'

const SET = 'execution/policy.set'
const risks = ['R1', 'R2', 'R3', 'R4', 'R5'] as const
const anyRisk = fc.constantFrom(...risks)
const anyFloor = fc.record(
  {
    agent_id: fc.constantFrom('agent_devin', 'agent_robin'),
    tag: fc.constantFrom('pay', 'mail'),
    scope: fc.constantFrom('deploy:*', 'deploy:staging', 'mail:send'),
    target: fc.constantFrom('prod', 'test'),
    risk: anyRisk,
  },
  { requiredKeys: ['risk'] },
)
const riskOf = async (world: World, id: string): Promise<any> => (await world.call('alice', 'execution/inbox.get', { request_id: id })).item

describe('floors', () => {
  test('the risk is the greater of floor and request, and a floor never lowers it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyFloor, { maxLength: 4 }),
        fc.option(anyRisk),
        fc.constantFrom('pay', 'none'),
        fc.constantFrom('deploy:staging', 'deploy', null),
        async (floors, said, tag, scope) => {
          const world = await createWorld()
          await world.call('alice', SET, { floors: floors.filter(({ agent_id }) => agent_id !== 'agent_robin') })
          const payload = { item: 'Go', details: { target: 'prod' }, ...(scope === null ? {} : { scope }) }
          const { id } = await ask(world, 'devin', { payload, tags: [tag], ...(said === null ? {} : { risk: said }) })
          const fits = (floor: any): boolean =>
            floor.agent_id !== 'agent_robin' &&
            (floor.tag === undefined || floor.tag === tag) &&
            (floor.target === undefined || floor.target === 'prod') &&
            (floor.scope === undefined || floor.scope === scope || (floor.scope === 'deploy:*' && scope === 'deploy:staging'))
          const floor =
            floors
              .filter(fits)
              .map(({ risk }) => risk)
              .toSorted()
              .at(-1) ?? null
          const expected =
            [said, floor]
              .filter((one) => one !== null)
              .toSorted()
              .at(-1) ?? null
          const item = await riskOf(world, id)
          assert.equal(item.risk, expected)
          assert.equal(item.facts.risk.floor, floor)
          assert.equal(item.facts.risk.said, said)
          assert.equal(item.facts.risk.rule === null, floor === null)
          await world.close()
        },
      ),
      { numRuns: 60, seed: 34 },
    )
  })

  test('fields that are left out stay as they are', async () => {
    const world = await createWorld()
    await world.call('alice', SET, { defaults: 'forbid', floors: [{ tag: 'pay', risk: 'R4' }] })
    const { policy } = await world.call('alice', SET, { forbid: [{ risk: 'R2' }] })
    assert.deepEqual([policy.defaults, policy.floors], ['forbid', [{ tag: 'pay', risk: 'R4' }]])
    await assert.rejects(world.call('alice', SET, {}), { code: 'INVALID_REQUEST' })
    await world.close()
  })

  test('a person sets floors for agents that they own, and owners set those of a project', async () => {
    const world = await createWorld()
    const robin = await world.call('admin', 'identity/agent.get', { agent_id: 'agent_robin' })
    const foreign = robin.agent.owner === 'user_alice' ? 'agent_spy' : 'agent_robin'
    for (const agent_id of [foreign, 'agent_nobody']) {
      await assert.rejects(world.call('alice', SET, { floors: [{ agent_id, risk: 'R5' }] }), {
        code: 'INVALID_REQUEST',
        message: `floors.0.agent_id: you answer for no agent ${agent_id}`,
      })
    }
    await assert.rejects(world.call('alice', SET, { project_id: 'project_default', floors: [{ risk: 'R5' }] }), { code: 'UNAUTHORIZED' })
    await assert.rejects(world.call('mallory', SET, { project_id: 'project_default', floors: [{ risk: 'R5' }] }), { code: 'NOT_FOUND' })
    await assert.rejects(world.call('owner', SET, { project_id: 'project_default', defaults: 'forbid' }), { code: 'INVALID_REQUEST' })
    await world.call('owner', SET, { project_id: 'project_default', floors: [{ target: 'prod', risk: 'R3' }] })
    const { id } = await ask(world, 'devin', { risk: 'R1', payload: { item: 'Go', details: { target: 'prod' } } })
    const item = await riskOf(world, id)
    assert.deepEqual([item.risk, item.facts.risk.rule], ['R3', 'at least R3 for target prod, set by project_default'])
    const narrow = castAs(world, 'narrow', 'owner', { narrowed: true, partial: true })
    await assert.rejects(world.call(narrow, SET, { project_id: 'project_default', floors: [] }), { code: 'UNAUTHORIZED' })
    await world.close()
  })

  test('floors raise an agent’s checkpoint, but no review and no question of a person or the system', async () => {
    const world = await createWorld()
    const floors = [
      { scope: 'deploy:*', risk: 'R5' },
      { agent_id: 'agent_devin', risk: 'R2' },
    ]
    await world.call('alice', SET, { floors })
    const { scenes } = await import('#protocols/collaboration/examples.ts')
    const { task } = await world.play(scenes.in_progress)
    const raise = async (proposed_actions?: object[]): Promise<any> => {
      const asked = { task_id: task.id, kind: 'approval', prompt: 'Go on?', ...(proposed_actions ? { proposed_actions } : {}) }
      const { checkpoint } = await world.call('devin', 'collaboration/checkpoint.raise', asked)
      const item = await riskOf(world, `hxp_${checkpoint.id.slice(5)}`)
      await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
      return [item.risk, item.facts.risk]
    }
    const rule = 'at least R2 for agent agent_devin, set by user_alice'
    assert.deepEqual(await raise(), ['R2', { said: null, floor: 'R2', rule }])
    const action = { id: 'a', kind: 'shell:run', summary: 'Look', risk: 'high' }
    assert.deepEqual(await raise([action]), ['R4', { said: 'R4', floor: 'R2', rule }])
    const deploys = await raise([{ ...action, kind: 'deploy:eu', risk: 'low' }])
    assert.deepEqual(deploys, ['R5', { said: 'R1', floor: 'R5', rule: 'at least R5 for scope deploy:*, set by user_alice' }])
    await world.call('alice', 'collaboration/task.interrupt', { task_id: task.id, reason: 'Wait.' })
    const { items } = await world.call('alice', 'execution/inbox.list', { task_id: task.id })
    assert.deepEqual([items[0].kind, items[0].risk, items[0].facts.risk.floor], ['interrupt', null, null])
    await world.close()
    const other = await createWorld()
    await other.call('alice', SET, { floors })
    const delivered = await other.play(scenes.review_ready)
    const [review] = (await other.call('alice', 'execution/inbox.list', { task_id: delivered.task.id })).items
    assert.deepEqual([review.kind, review.risk], ['review', null])
    await other.close()
  })

  test('a question raised to R3 by a floor has no timeout default, and the agent does not learn whose rule it was', async () => {
    const world = await createWorld()
    await world.call('alice', SET, { floors: [{ tag: 'pay', risk: 'R3' }] })
    const asked = {
      action: 'DECIDE',
      tags: ['pay'],
      fallback: 'default',
      timeout_seconds: 600,
      payload: { question: 'Which?', options: ['a', 'b'], default_option: 'a' },
    }
    await assert.rejects(world.call('devin', 'execution/request.create', asked), { code: 'INVALID_REQUEST', message: /at least R3/ })
    const { request } = await world.call('devin', 'execution/request.create', { ...asked, fallback: 'pause' })
    assert.equal(request.risk, 'R3')
    assert.equal('floor' in request, false)
    await world.close()
  })

  test('at a checkpoint, too, what a floor raises to R3 is decided by no timeout: it is refused, and nothing has changed', async () => {
    const world = await createWorld()
    const spec = { goal: 'Deploy', acceptance_criteria: ['it runs'], constraints: { on_expiry: ['default'] } }
    const { task } = await world.call('alice', 'collaboration/task.create', { spec })
    await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
    await world.call('devin', 'collaboration/task.start', { task_id: task.id }).catch(() => undefined)
    const raise = {
      task_id: task.id,
      kind: 'input',
      prompt: 'Which colour?',
      expires_in: 'PT10M',
      on_expiry: 'default',
      default: { action: 'provide', input: 'blue' },
    }
    await world.call('alice', SET, { floors: [{ agent_id: 'agent_devin', risk: 'R3' }] })
    const before = await stateHash(world.store)
    await assert.rejects(world.call('devin', 'collaboration/checkpoint.raise', raise), { code: 'INVALID_REQUEST', message: /at least R3/ })
    assert.equal(await stateHash(world.store), before)
    await world.call('alice', SET, { floors: [{ agent_id: 'agent_devin', risk: 'R2' }] })
    const { checkpoint } = await world.call('devin', 'collaboration/checkpoint.raise', raise)
    assert.equal(checkpoint.on_expiry, 'default')
    await world.close()
  })
})
