// Rights and links at a real broker: locked harnesses, users that may speak for others, client certificates, quorum queues.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { after, before, describe, test, type TestContext } from 'node:test'
import { connect, type Arrived, type Link, type LinkOptions } from '#bridges/hcp/link.ts'
import { statementsFor } from '#bridges/hcp/permissions.ts'
import { Connection } from 'rabbitmq-client'
import { root } from '../../support/as-processes/cli.ts'
import { brokerFor, SLOW_START, type TestBroker } from '../../support/harness/broker.ts'

const quiet = { info() {}, warn() {} }
const certificates = join(import.meta.dirname, '../../support/hardware/tls')

describe('rights at a broker', { timeout: 400_000 }, () => {
  let broker: TestBroker
  let folder: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-hcp-rights-'))
    const tls = join(folder, 'tls')
    mkdirSync(tls)
    for (const [from, to] of [
      ['ca.crt', 'ca.pem'],
      ['server.crt', 'server.pem'],
      ['server.key', 'server.key'],
    ] as const)
      copyFileSync(join(certificates, from), join(tls, to))
    broker = await brokerFor(folder, ['lab-a', 'lab-b', 'lab-q'], tls)
  }, SLOW_START)
  after(async () => {
    await broker?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const usual = (id: string): LinkOptions => ({
    id,
    url: broker.urlOf(id),
    tls: null,
    topology: 'declare',
    queues: 'classic',
    prefetch: 10,
    sendsUser: true,
    checkMs: 200,
    log: quiet,
  })
  async function until(look: () => boolean | Promise<boolean>): Promise<void> {
    for (let tries = 0; !(await look()); tries++) {
      assert.ok(tries < 1_200, `${String(look)} did not come`)
      await sleep(25)
    }
  }
  async function linked(t: TestContext, options: LinkOptions, got: Arrived[] = []): Promise<Link> {
    const link = connect(options)
    t.after(() => link.stop())
    link.consume((arrived) => {
      got.push(arrived)
      return Promise.resolve('ack')
    })
    for (let tries = 0; link.state() !== 'connected' && tries < 400; tries++) await sleep(25)
    return link
  }
  const parcel = (key: string) => ({
    exchange: 'hcp.commands',
    key,
    properties: { message_id: crypto.randomUUID(), content_type: 'application/json', content_encoding: 'utf-8' },
    body: Buffer.from('{}'),
  })
  const arrival = async (got: readonly Arrived[]): Promise<Arrived> => {
    for (let tries = 0; got.length === 0 && tries < 400; tries++) await sleep(25)
    assert.equal(got.length, 1)
    return got[0]!
  }

  test('locked harnesses are served by what the operator made, and bind nothing of others', async (t) => {
    // As an operator does it.
    const applied = ['harness', 'permissions', 'lab-x', 'lab-y', '--apply', '--ctl', broker.ctlProgram]
    const said = execFileSync(process.execPath, [join(root, 'bin/countersign.js'), ...applied], { encoding: 'utf8' })
    const urlOf = (id: string): string =>
      broker.urlOf(id).replace(`:${id}@`, `:${new RegExp(`^${id}: the password is (\\S+)$`, 'm').exec(said)![1]!}@`)
    const got: Arrived[] = []
    const y = await linked(t, { ...usual('lab-y'), url: urlOf('lab-y'), topology: 'check' }, got)
    // A harness that would declare, and may not, checks instead.
    const x = await linked(t, { ...usual('lab-x'), url: urlOf('lab-x') })
    await x.publish(parcel('lab-y'))
    assert.equal((await arrival(got)).user_id, 'lab-x')
    // Its own probes reach no handler.
    const operator = new Connection({ url: broker.urlOf('lab-a') })
    operator.on('error', () => undefined)
    t.after(() => operator.close())
    const binding = { exchange: 'hcp.commands', queue: 'hcp.cmd.lab-y', routingKey: 'lab-y' }
    await operator.queueUnbind(binding)
    await until(() => y.state() === 'unbound')
    assert.match(y.problem()!, /hcp\.cmd\.lab-y is not bound to hcp\.commands: .*countersign harness permissions lab-y --apply/)
    await operator.queueBind(binding)
    await until(() => y.state() === 'connected')
    assert.equal(y.problem(), null)
    assert.equal(got.length, 1)
    await assert.rejects(x.publish(parcel('lab-z')), { name: 'Unroutable' })
    const own = new Connection({ url: urlOf('lab-x') })
    own.on('error', () => undefined)
    t.after(() => own.close())
    const refused = { code: 'ACCESS_REFUSED' }
    await assert.rejects(own.queueBind({ exchange: 'hcp.commands', queue: 'hcp.cmd.lab-x', routingKey: 'lab-y' }), refused)
    await assert.rejects(own.queueDeclare({ queue: 'hcp.cmd.lab-new', durable: true }), refused)
    await assert.rejects(own.basicGet({ queue: 'hcp.cmd.lab-y' }), refused)
    const policies = await broker.ctl('-q', 'list_policies', '-p', 'hcp')
    assert.match(policies, /hcp-events.*reject-publish/)
    assert.doesNotMatch(policies, /ttl|drop-head/)
  })

  test('exchanges that another harness deletes are made again, and so are the bindings', async (t) => {
    const got: Arrived[] = []
    const a = await linked(t, usual('lab-a'), got)
    const evil = new Connection({ url: broker.urlOf('lab-b') })
    evil.on('error', () => undefined)
    t.after(() => evil.close())
    for (const isMadeAgain of [true, false]) {
      for (const exchange of ['hcp.commands', 'hcp.events', 'hcp.dead']) await evil.exchangeDelete({ exchange })
      // An exchange without its bindings: nothing fails, and nothing arrives.
      if (isMadeAgain) await evil.exchangeDeclare({ exchange: 'hcp.commands', type: 'direct', durable: true })
      got.length = 0
      await until(() =>
        a.publish(parcel('lab-a')).then(
          () => true,
          () => false,
        ),
      )
      await arrival(got)
    }
    // One that is made as another kind cannot be mended by a harness: it says so.
    await evil.exchangeDelete({ exchange: 'hcp.commands' })
    await evil.exchangeDeclare({ exchange: 'hcp.commands', type: 'fanout', durable: true })
    await until(() => a.state() === 'unbound')
    assert.match(a.problem()!, /hcp\.commands/)
    await evil.exchangeDelete({ exchange: 'hcp.commands' })
    await until(() => a.state() === 'connected')
  })

  test('harnesses that declare for themselves read no topic of others', async (t) => {
    for (const { words: message } of statementsFor({
      vhost: 'hcp',
      ids: ['lab-a'],
      locked: false,
      queues: 'classic',
      eventBytesMax: 1_000_000,
    }))
      if (message[0]!.startsWith('set_')) await broker.ctl('-q', ...message)
    await linked(t, usual('lab-b'))
    const a = await linked(t, usual('lab-a'))
    assert.equal(a.state(), 'connected')
    const own = new Connection({ url: broker.urlOf('lab-a') })
    own.on('error', () => undefined)
    t.after(() => own.close())
    for (const routingKey of ['#', 'lab-b.#', '*.#'])
      await assert.rejects(own.queueBind({ exchange: 'hcp.events', queue: 'hcp.evt.lab-a', routingKey }), { code: 'ACCESS_REFUSED' })
  })

  test('a message that names another user is refused by the broker', async (t) => {
    const own = new Connection({ url: broker.urlOf('lab-b') })
    own.on('error', () => undefined)
    t.after(() => own.close())
    const publisher = own.createPublisher({ confirm: true, maxAttempts: 1 })
    await assert.rejects(publisher.send({ exchange: 'hcp.commands', routingKey: 'lab-a', userId: 'lab-a' }, Buffer.from('{}')), {
      code: 'PRECONDITION_FAILED',
    })
  })

  test('amqps requires a client certificate', async (t) => {
    const url = `amqps://lab-b:lab-b@127.0.0.1:${broker.port + 1}/hcp`
    const read = (name: string): string => readFileSync(join(certificates, name), 'utf8')
    const ca = read('ca.crt')
    const stranger = connect({ ...usual('lab-b'), url, tls: { ca } })
    t.after(() => stranger.stop())
    const own = await linked(t, { ...usual('lab-b'), url, tls: { ca, cert: read('robin.crt'), key: read('robin.key') } })
    assert.equal(own.state(), 'connected')
    assert.equal(stranger.state(), 'connecting')
    const untrusting = connect({ ...usual('lab-b'), url, tls: { cert: read('robin.crt'), key: read('robin.key') } })
    t.after(() => untrusting.stop())
    await sleep(500)
    assert.equal(untrusting.state(), 'connecting')
  })

  test('quorum queues are declared as such, and serve', async (t) => {
    const got: Arrived[] = []
    const q = await linked(t, { ...usual('lab-q'), queues: 'quorum' }, got)
    await q.publish(parcel('lab-q'))
    await arrival(got)
    assert.match(await broker.ctl('-q', 'list_queues', '-p', 'hcp', 'name', 'type'), /hcp\.cmd\.lab-q\s+quorum/)
  })
})
