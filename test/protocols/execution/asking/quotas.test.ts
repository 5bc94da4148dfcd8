// Quotas of one agent's questions: an agent that asks without end fills its own quota and takes nothing from other agents.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Refusal } from '#kernel/declare/errors.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { Request } from '#protocols/execution/schema.ts'
import { createCaller, enroll } from '../../../support/as-processes/server.ts'
import { dataFolder, start } from '../../../support/as-processes/server-process.ts'
import { createWorld, storeMakers, type World } from '../../../support/in-process/world.ts'

const question = { action: 'DECIDE', payload: { question: 'Which plan?', options: ['Basic', 'Pro'] } }
const ask = (world: World, as = 'devin', more: object = {}): Promise<any> =>
  world.call(as, 'execution/request.create', { ...question, ...more })
const codeOf = (asking: Promise<unknown>): Promise<string> =>
  asking.then(
    () => 'asked',
    (error: Refusal) => error.code,
  )
const openOf = async (world: World, agent: string): Promise<number> => {
  const entries = await world.store.scan(
    `${Request.kind}.asker\0${agent}\0open\0`,
    `${Request.kind}.asker\0${agent}\0open\0\u{10FFFF}`,
    10_000,
  )
  return entries.length
}

for (const maker of storeMakers()) {
  test(`thousands of requests by one agent leave at most as many as are allowed, and another one asks as before (${maker.name})`, async (t) => {
    t.after(maker.dispose)
    const world = await createWorld({ store: maker.open(), terms: { asksOpenMax: 100 } })
    const came: string[] = []
    for (let i = 0; i < 30; i++) came.push(...(await Promise.all(Array.from({ length: 100 }, () => codeOf(ask(world))))))
    assert.equal(came.filter((code) => code === 'asked').length, 100)
    assert.deepEqual([...new Set(came)].toSorted(), ['QUOTA_EXCEEDED', 'asked'])
    assert.equal(await openOf(world, 'agent_devin'), 100)
    const { request } = await ask(world, 'robin')
    assert.equal(request.requester, 'agent_robin')
    await world.close()
  })
}

test('an answer makes room for one more question, and the refusal says when to retry', async () => {
  const world = await createWorld({ terms: { asksOpenMax: 2 } })
  const { request } = await ask(world)
  await ask(world)
  await assert.rejects(ask(world), (error: Refusal) => {
    assert.deepEqual([error.code, error.details], ['QUOTA_EXCEEDED', { max: 2, retry_after: 60 }])
    return true
  })
  await world.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'Pro' })
  assert.equal(await codeOf(ask(world)), 'asked')
  assert.equal(await codeOf(ask(world)), 'QUOTA_EXCEEDED')
  assert.equal(await codeOf(ask(world, 'project', { agent_id: 'agent_devin' })), 'QUOTA_EXCEEDED', 'nor for it with another key')
})

test('the operator’s bound also applies to the questions of a task', async (t) => {
  const world = await createWorld({ terms: { asksOpenMax: 0 } })
  t.after(world.close)
  const { task } = await world.play(collaboration.scenes['in_progress']!)
  const [checkpoint_id, request_id] = ['ckpt_01M7GMWX16CYD5TMA0423FKEE4', 'hxp_01M7GMWX16CYD5TMA0423FKEE4']
  const asking = { task_id: task.id, checkpoint_id, request_id, raised_by: 'agent_devin', kind: 'approval', prompt: 'Deploy?' }
  await assert.rejects(world.call('system', 'collaboration/checkpoint.ask', asking), { code: 'QUOTA_EXCEEDED' })
})

test('the number of questions in a minute is bounded, for every asker', async () => {
  const world = await createWorld({ asksPerMinute: 6 })
  const flood = (as: string, more: object = {}): Promise<string[]> =>
    Promise.all(Array.from({ length: 20 }, () => codeOf(ask(world, as, more))))
  for (const [as, more] of [
    ['devin', {}],
    ['robin', {}],
    ['project', { agent_id: 'agent_robin' }],
  ] as const) {
    const came = await flood(as, more)
    assert.equal(came.filter((code) => code === 'asked').length, 6, as)
  }
  await assert.rejects(ask(world), (error: Refusal) => {
    assert.deepEqual([error.code, error.details], ['QUOTA_EXCEEDED', { retry_after: 10 }])
    return true
  })
  world.advance(10_000)
  assert.equal(await codeOf(ask(world)), 'asked')
})

test('critical questions are rationed by the hour (X24), and all others go on', async () => {
  const world = await createWorld({ terms: { criticalPerHourMax: 3 } })
  const critical = (as = 'devin'): Promise<string> => codeOf(ask(world, as, { priority: 'critical' }))
  const came = await Promise.all(Array.from({ length: 50 }, () => critical()))
  assert.equal(came.filter((code) => code === 'asked').length, 3)
  assert.equal(await critical('robin'), 'asked')
  assert.equal(await codeOf(ask(world, 'devin', { priority: 'high' })), 'asked')
  const refusal = await ask(world, 'devin', { priority: 'critical' }).catch((error: Refusal) => error)
  const { max, retry_after } = refusal.details as { max: number; retry_after: number }
  assert.equal(max, 3)
  assert.ok(retry_after > 3_590 && retry_after <= 3_600, `the world begins with the hour: ${retry_after}`)
  world.advance(retry_after * 1_000)
  assert.equal(await critical(), 'asked')
})

test('the operator sets them, and over HTTP they are 429 with Retry-After', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, [
    '--data',
    data,
    '--log',
    'error',
    '--requests-open',
    '3',
    '--critical-per-hour',
    '1',
    '--requests-per-minute',
    '50',
  ])
  const keys = await enroll(server.port, readFileSync(join(data, 'admin.key'), 'utf8').trim())
  const http = createCaller(server.port)
  t.after(http.close)
  const asking = (more: object = {}) => http.call(keys.devin, 'execution/request.create', { ...question, ...more })
  const first = await asking({ priority: 'critical' })
  assert.equal(first.status, 200)
  assert.equal((await asking({ priority: 'critical' })).status, 429)
  for (const status of [200, 200, 429, 429]) assert.equal((await asking()).status, status)
  const answer = await fetch(`http://127.0.0.1:${server.port}/v1/execution/request.create`, {
    method: 'POST',
    headers: { authorization: `Bearer ${keys.devin}`, 'content-type': 'application/json' },
    body: JSON.stringify(question),
  })
  assert.deepEqual([answer.status, answer.headers.get('retry-after')], [429, '60'])
  for (let i = 0; i < 60; i++) await asking()
  await http.call(keys.alice, 'execution/request.resolve', { request_id: first.body.request.id, result: 'Pro' })
  const { status, body } = await asking()
  assert.equal(status, 429, 'the minute is used up')
  assert.match(JSON.stringify(body), /ask people at most 50 times a minute/)
  await server.end()
})
