// Agents that are told by HTTP, with a real receiver that does not always behave.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createTcp, type AddressInfo } from 'node:net'
import { after, describe, test } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { isPublic } from '#workers/webhooks/address.ts'
import { post } from '#workers/webhooks/post.ts'
import { runWebhookAgents, type WebhookOptions } from '#workers/webhooks/agents.ts'
import { answering, isSigned, receiver as openReceiver, until, type Answer, type Got } from '../support/over-sockets/receiver.ts'
import { deliveries, silent } from '../support/in-process/worker-world.ts'
import { createWorld, type World } from '../support/in-process/world.ts'

const accept = answering(204)
const closing: (() => void)[] = []
after(() => closing.forEach((close) => close()))
const receiver = (answer?: Answer) => openReceiver({ after: (close) => void closing.push(close as () => void) }, answer)

const usual: WebhookOptions = { allowsPrivate: true, attemptsMax: 3, random: () => 0, timeoutMs: 300 }

/** Devin is told by webhook and has a task of Alice's. */
async function hooked(url: string, options: Partial<WebhookOptions> = {}) {
  const world = await createWorld({ now: Date.now })
  const { secret } = await world.call('devin', 'delegation/agent.publish', { name: 'Devin', reach: 'webhook', endpoint: url })
  const worker = runWebhookAgents(world.kernel, { ...usual, ...options }, realClock, silent)
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix the login bug' } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const { items } = await world.call('alice', 'delegation/run.list', { task_id: task.id })
  return { world, worker, secret: secret as string, task_id: task.id as string, run_id: items[0].id as string }
}

const log = async (world: World, run_id: string): Promise<any[]> =>
  (await world.call('alice', 'delegation/delivery.list', { run_id })).items.toReversed()
const settled = (world: World): Promise<boolean> =>
  until(async () => !(await deliveries(world.store)).some(({ channel }) => channel === 'webhook'))

describe('a webhook', () => {
  test('of an agent that was switched off gets nothing of what waits for it', async () => {
    const { url, got } = await receiver((_, response) => void response.writeHead(503).end())
    const { world, worker, run_id } = await hooked(url, { attemptsMax: 2 })
    await until(async () => (await log(world, run_id))[0]?.state === 'waiting')
    await world.call('admin', 'identity/agent.update', { agent_id: 'agent_devin', disabled: true })
    await settled(world)
    assert.equal(got.length, 1)
    const [{ state, recent }] = (await log(world, run_id)) as [any]
    assert.deepEqual(
      [state, recent[1].status, recent[1].error],
      ['given_up', null, 'the agent is switched off, or not in the project any more'],
    )
    await worker.stop()
  })

  test('gets the run signed, works with its key, asks, and gets the answer in a new attempt; what came before it is refused', async () => {
    const { url, got } = await receiver()
    const { world, worker, secret, task_id, run_id } = await hooked(url)
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
    await settled(world)
    const [first] = got as [Got]
    assert.ok(await isSigned(secret, first))
    assert.ok(!(await isSigned(secret, { ...first, text: `${first.text} ` })), 'a body that was changed is not')
    assert.ok(Math.abs(Number(first.headers['webhook-timestamp']) - Date.now() / 1_000) < 5)
    assert.equal(first.headers['webhook-id'], `msg_${run_id}_1_1`)
    assert.deepEqual([first.body.type, first.body.data.run.id, first.body.data.attempt], ['run', run_id, 1])
    assert.equal(first.body.data.request.input.goal, 'Fix the login bug')
    await world.call('devin', 'delegation/run.start', { run_id, attempt: 1 })
    await world.call('devin', 'delegation/run.report', { run_id, attempt: 1, type: 'needs_approval', payload: { prompt: 'Deploy?' } })
    const { items } = await world.call('alice', 'collaboration/checkpoint.list')
    await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: items[0].id, action: 'approve' })
    await until(() => got.length === 2)
    await settled(world)
    const { type, data } = got[1]!.body
    assert.deepEqual([type, data.attempt, data.messages[0].body.resolution.action], ['resume', 2, 'approve'])
    await assert.rejects(world.call('devin', 'delegation/run.progress', { run_id, attempt: 1 }), { code: 'CONFLICT' })
    await world.call('devin', 'delegation/run.progress', { run_id, attempt: 2, message: 'Going on.' })
    // Steering begins no attempt: who works continues with the one that it has.
    await world.call('alice', 'collaboration/task.amend', { task_id, text: 'Leave the API alone.', intent: 'constrain' })
    await until(() => got.length === 3)
    await settled(world)
    assert.deepEqual([got[2]!.body.type, got[2]!.body.data.attempt], ['steer', 2])
    assert.deepEqual(
      (await log(world, run_id)).map(({ kind, state, attempts, recent }) => [kind, state, attempts, recent[0].status, recent[0].error]),
      [
        ['run', 'accepted', 1, 204, null],
        ['resume', 'accepted', 1, 204, null],
        ['steer', 'accepted', 1, 204, null],
      ],
    )
    await worker.stop()
  })

  test('that fails twice gets the same message again, in order, each time as another attempt', async () => {
    const { url, got, answerWith } = await receiver((_, response, count) => void response.writeHead(count < 3 ? 500 : 200).end('{"ok":1}'))
    const { world, worker, task_id, run_id } = await hooked(url, { attemptsMax: 5 })
    await until(() => got.length === 1)
    await world.call('devin', 'collaboration/task.start', { task_id })
    await world.call('alice', 'collaboration/task.amend', { task_id, text: 'Also the tests.', intent: 'clarify' })
    await settled(world)
    answerWith(accept)
    assert.deepEqual(
      got.map(({ body: { type, data } }) => [type, data.attempt]),
      [
        ['run', 1],
        ['run', 2],
        ['run', 3],
        ['steer', 3],
      ],
    )
    assert.equal(new Set(got.map(({ headers }) => headers['webhook-id'])).size, 4)
    const [{ attempts, recent, state }] = await log(world, run_id)
    assert.deepEqual([attempts, state, recent.map((one: any) => one.status)], [3, 'accepted', [500, 500, 200]])
    assert.deepEqual(recent[0].error, 'it answered 500')
    await worker.stop()
  })

  test('that never comes to its senses fails the run, and the person is asked what to do', async () => {
    const { url, got } = await receiver((_, response) => void response.writeHead(503).end())
    const { world, worker, task_id, run_id } = await hooked(url, { attemptsMax: 2 })
    await settled(world)
    assert.equal(got.length, 2)
    const { run } = await world.call('alice', 'delegation/run.get', { run_id })
    assert.deepEqual([run.state, run.reason], ['failed', 'unreachable'])
    assert.equal(run.error, 'agent_devin was not reached in 2 attempts: it answered 503')
    const { items } = await world.call('alice', 'collaboration/checkpoint.list')
    assert.equal(items[0].kind, 'escalation')
    assert.equal(items[0].task_id, task_id)
    assert.match(items[0].prompt, /was not reached in 2 attempts: it answered 503/)
    assert.equal((await log(world, run_id))[0].state, 'given_up')
    // After the approval it is tried again, in a new run.
    await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: items[0].id, action: 'approve' })
    await until(() => got.length === 3)
    assert.notEqual(got[2]!.body.data.run.id, run_id)
    await worker.stop()
  })

  test('that is gone for good (410) is not tried again', async () => {
    const { url, got } = await receiver((_, response) => void response.writeHead(410).end())
    const { world, worker, run_id } = await hooked(url)
    await settled(world)
    assert.equal(got.length, 1)
    assert.equal((await world.call('alice', 'delegation/run.get', { run_id })).run.state, 'failed')
    await worker.stop()
  })

  test('of a cancelled run gets the cancel and none of the messages before it', async () => {
    const { url, got, answerWith } = await receiver((_, response) => void response.writeHead(500).end())
    const { world, worker, task_id } = await hooked(url, { attemptsMax: 9 })
    await until(() => got.length === 1)
    answerWith(accept)
    await world.call('alice', 'collaboration/task.cancel', { task_id, reason: 'not needed' })
    await settled(world)
    assert.deepEqual(
      got.map(({ body }) => body.type),
      ['run', 'cancel'],
    )
    await worker.stop()
  })

  test('is signed with both secrets for a day after a change, and with the new one alone from then on', async () => {
    const { url, got } = await receiver()
    const { world, worker, secret } = await hooked(url)
    await settled(world)
    const { secret: next } = await world.call('alice', 'delegation/webhook.rotate', { agent_id: 'agent_devin' })
    const again = await world.call('devin', 'delegation/agent.publish', { name: 'Devin', reach: 'webhook', endpoint: url })
    assert.equal(again.secret, undefined, 'it is shown once')
    const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Another' } })
    await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
    await until(() => got.length === 2)
    await settled(world)
    assert.deepEqual([await isSigned(secret, got[1]!), await isSigned(next, got[1]!), await isSigned(next, got[0]!)], [true, true, false])
    await worker.stop()
  })
})

describe('a post', () => {
  const say = (url: string, options: Partial<WebhookOptions> = {}) => post(url, {}, '{}', { ...usual, ...options })
  const rows: readonly [message: string, answer: Answer, status: number | null, error: string | null][] = [
    [
      'a redirect is not followed',
      (_, r) => void r.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
      302,
      'it answered 302: redirects are not followed',
    ],
    ['no answer', () => undefined, null, 'no complete answer within 0.3 s'],
    ['half an answer', (_, r) => void r.writeHead(200, { 'content-length': '10' }).write('half'), null, 'no complete answer within 0.3 s'],
    [
      'an answer that is cut',
      (_, r) => void r.writeHead(200, { 'content-length': '10' }).write('half', () => r.destroy()),
      null,
      'the answer was cut',
    ],
    ['garbage in a good answer is ignored', (_, r) => void r.writeHead(200).end('\0\0<<<not json'), 200, null],
  ]
  for (const [message, answer, status, error] of rows)
    test(message, async () => {
      const { url } = await receiver(answer)
      const posted = await say(url)
      assert.deepEqual([posted.status, posted.error], [status, error])
      assert.ok(posted.durationMs < 1_000)
    })

  test('of an endless answer at most 64 KiB are read', async () => {
    let sent = 0
    const { url } = await receiver((_, response) => {
      response.writeHead(200)
      const chunk = 'x'.repeat(65_536)
      const more = (): void => {
        for (;;) {
          sent += chunk.length
          if (response.destroyed || sent > 500 * 2 ** 20 || !response.write(chunk)) break
        }
      }
      response.on('drain', more)
      more()
    })
    assert.deepEqual((await say(url, { timeoutMs: 5_000 })).status, 200)
    assert.ok(sent < 50 * 2 ** 20, `${sent} bytes were taken`)
  })

  test('a receiver that does not speak HTTP, and a port where none listens', async () => {
    const server = createTcp((socket) => void socket.resume().end('\u0001\u0002\u0003 hello\r\n\r\n'))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    assert.equal((await say(`http://127.0.0.1:${port}/`)).error, 'it does not answer in HTTP')
    server.close()
    await once(server, 'close')
    assert.equal((await say(`http://127.0.0.1:${port}/`)).error, 'the connection was refused')
    assert.equal((await say('http://nowhere.invalid/')).error?.startsWith('the name does not resolve'), true)
  })

  test('goes to public addresses only, unless the operator says otherwise: by number, by name, and by a name that changes', async () => {
    const { url, got } = await receiver()
    const port = new URL(url).port
    const refused = /not a public one/
    const outside = { allowsPrivate: false }
    for (const host of ['127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '169.254.169.254', '0x7f.1', '2130706433', '[64:ff9b::7f00:1]'])
      assert.match((await say(`https://${host}:${port}/`, outside)).error!, refused, host)
    assert.match((await say(`https://localhost:${port}/`, outside)).error!, refused)
    assert.match((await say(`http://example.com:${port}/`, outside)).error!, /only https/)
    let asked = 0
    const rebinding = ((_: string, __: object, done: (error: null, found: object[]) => void) => {
      asked++
      done(
        null,
        asked === 1
          ? [
              { address: '93.184.216.34', family: 4 },
              { address: '127.0.0.1', family: 4 },
            ]
          : [{ address: '127.0.0.1', family: 4 }],
      )
    }) as unknown as NonNullable<WebhookOptions['resolve']>
    assert.match((await say(`https://rebind.example:${port}/`, { ...outside, resolve: rebinding })).error!, refused)
    assert.match((await say(`https://rebind.example:${port}/`, { ...outside, resolve: rebinding })).error!, refused)
    assert.equal(asked, 2, 'each post asks once')
    assert.equal(got.length, 0)
  })

  test('addresses by their kind', () => {
    const ours = [
      '10.1.2.3',
      '100.64.0.1',
      '172.31.0.1',
      '192.168.0.1',
      '0.0.0.0',
      '224.0.0.1',
      '255.255.255.255',
      '::',
      'fe80::1',
      'fd00::1',
      '2002:7f00:1::',
      '2001::1',
      'ff02::1',
      'x',
      '',
    ]
    for (const address of ours) assert.equal(isPublic(address), false, address)
    for (const address of ['1.1.1.1', '172.32.0.1', '93.184.216.34', '2606:4700:4700::1111']) assert.equal(isPublic(address), true, address)
  })
})

describe('a card with a webhook', () => {
  for (const endpoint of [undefined, 'ftp://x.example/', 'not a url', 'https://user:pw@x.example/', 'https://x.example/#y'])
    test(`needs an endpoint that can be one: ${endpoint ?? 'none'}`, async () => {
      const world = await createWorld()
      const input = { name: 'Devin', reach: 'webhook', ...(endpoint === undefined ? {} : { endpoint }) }
      await assert.rejects(world.call('devin', 'delegation/agent.publish', input), { code: 'INVALID_REQUEST' })
    })

  test('people read the log and never the endpoint; strangers read nothing', async () => {
    const { world, worker, run_id } = await hooked('http://127.0.0.1:9/secret-path', { attemptsMax: 1 })
    await settled(world)
    const read = await world.call('alice', 'delegation/delivery.list', { agent_id: 'agent_devin' })
    assert.equal(read.items.length, 1)
    assert.doesNotMatch(JSON.stringify(read), /secret-path|127\.0\.0\.1/)
    await assert.rejects(world.call('bob', 'delegation/delivery.list', { agent_id: 'agent_devin' }), { code: 'UNAUTHORIZED' })
    await assert.rejects(world.call('bob', 'delegation/delivery.list', { run_id }), { code: 'RUN_NOT_FOUND' })
    await assert.rejects(world.call('mallory', 'delegation/delivery.list', { agent_id: 'agent_devin' }), { code: 'AGENT_NOT_FOUND' })
    await worker.stop()
  })
})
