// The SDK against a real server: typed calls over both transports, retries through a proxy that loses answers, streams that go on
// after every cut, bytes both ways, and nothing in its imports that a browser does not have.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { createLineReader } from '#kernel/codec/line-reader.ts'
import { authenticate } from '#protocols/identity/authenticate.ts'
import { createClient, CountersignError, deliver, each, type Client, type Input, type Output } from '#sdk/index.ts'
import { socketTransport } from '#sdk/transport/jsonrpc.ts'
import { localTransport } from '#sdk/transport/local.ts'
import { importsOf, scan } from '../support/laws/source.ts'
import { testJwks, testNotary } from '../support/in-process/notary.ts'
import { claims, receiptOf } from '../support/over-sockets/receipts.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-sdk-'))
const socket = join(folder, 'countersign.sock')
let server: Server
let keys: { owner: string; devin: string }

function configOf(port: number): Config {
  const wish = readConfig(['--data', folder, '--port', String(port), '--log', 'silent', '--quota', 'off'], {})
  assert.equal(wish.kind, 'start')
  return (wish as { config: Config }).config
}
const start = (port = 0): Promise<Server> =>
  startServer(configOf(port), { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })

before(async () => {
  server = await start()
  const issue = async (subject: string): Promise<string> => (await server.kernel.call('identity/key.issue', { subject }, SYSTEM)).key
  await server.kernel.call('identity/agent.add', { id: 'agent_devin', name: 'Devin', owner: 'user_owner' }, SYSTEM)
  keys = { owner: await issue('user_owner'), devin: await issue('agent_devin') }
})
after(async () => {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

const fast = { backoffMs: 5, waitMsMax: 2_000 }
const overHttp = (key = keys.owner, url = server.url): Client => createClient({ url, key, ...fast })
const overSocket = (key = keys.owner): Client => createClient({ transport: socketTransport({ path: socket, key, ...fast }) })
const overKernel = (): Client => {
  const { store, now } = server.kernel
  return createClient({
    transport: localTransport(server.kernel, () => authenticate(store, { kind: 'bearer', token: keys.owner }, now())),
  })
}
const spec = { goal: 'Fix the login bug', acceptance_criteria: ['tests pass'] }

async function taskInProgress(): Promise<string> {
  const [owner, devin] = [overHttp(), overHttp(keys.devin)]
  const { task } = await owner.collaboration.task.create({ spec })
  await owner.collaboration.task.assign({ task_id: task.id, assignee: 'agent_devin' })
  await devin.collaboration.task.start({ task_id: task.id })
  return task.id
}

for (const [name, open] of [
  ['HTTP', overHttp],
  ['a Unix socket', overSocket],
] as const) {
  describe(`the client over ${name}`, () => {
    test('calls operations by protocol, noun and verb, with their types', async (t) => {
      const client = open()
      t.after(client.close)
      const { task } = await client.collaboration.task.create({ type: 'code', spec })
      assert.equal(task.state, 'created')
      const same: Output<'collaboration/task.get'> = await client.call('collaboration/task.get', { task_id: task.id })
      assert.deepEqual(same.task, task)
      assert.equal((await client.identity.me.get()).id, 'user_owner')
    })

    test('throws what the server refused, with its code, status, details and whether to come back', async (t) => {
      const client = open()
      t.after(client.close)
      await assert.rejects(client.collaboration.task.get({ task_id: 'task_none' }), (error) => {
        assert.ok(error instanceof CountersignError)
        const { code, status, retryable, details } = error
        assert.deepEqual({ code, status, retryable, details }, { code: 'NOT_FOUND', status: 404, retryable: false, details: {} })
        return true
      })
      const bad = client.call('collaboration/task.get', { task_id: 7 } as unknown as Input<'collaboration/task.get'>)
      await assert.rejects(bad, { code: 'INVALID_REQUEST', status: 400, details: { field: 'task_id' } })
      const nobody = open('cs_wrong')
      t.after(nobody.close)
      await assert.rejects(nobody.identity.me.get(), { code: 'UNAUTHENTICATED', status: 401, retryable: false })
    })

    test('an idempotency key of one’s own makes one effect of two calls', async (t) => {
      const client = open()
      t.after(client.close)
      const idempotencyKey = `mine-${name.length}`
      const first = await client.collaboration.task.create({ spec }, { idempotencyKey })
      const again = await client.collaboration.task.create({ spec }, { idempotencyKey })
      assert.equal(again.task.id, first.task.id)
    })

    test('a signal ends a call, also one that has not begun', async (t) => {
      const client = open()
      t.after(client.close)
      const why = new Error('enough')
      await assert.rejects(client.identity.me.get({}, { signal: AbortSignal.abort(why) }), why)
    })

    test('walks through a list page by page', async (t) => {
      const client = open()
      t.after(client.close)
      const made = await Promise.all(Array.from({ length: 7 }, () => client.collaboration.task.create({ type: name, spec })))
      const seen: string[] = []
      for await (const task of each(client.collaboration.task.list, { limit: 3 })) if (task.type === name) seen.push(task.id)
      assert.deepEqual(seen.toSorted(), made.map(({ task }) => task.id).toSorted())
    })

    test('follows a stream, leaves it, and resumes from its cursor over the other transport', async (t) => {
      const client = open()
      const other = name === 'HTTP' ? overSocket() : overHttp()
      t.after(() => Promise.all([client.close(), other.close()]))
      const task_id = await taskInProgress()
      const actions: string[] = []
      let cursor = ''
      for await (const followed of client.follow('collaboration/audit.follow', { task_id })) {
        actions.push(followed.item.event.action)
        cursor = followed.cursor
        if (actions.length === 2) break
      }
      assert.deepEqual(actions, ['task.created', 'task.assigned'])
      const stop = new AbortController()
      const rest: string[] = []
      for await (const { item } of other.follow('collaboration/audit.follow', { task_id }, { after: cursor, signal: stop.signal })) {
        rest.push(item.event.action)
        if (rest.length === 1) await client.collaboration.task.cancel({ task_id })
        else if (rest.length === 5) stop.abort()
      }
      assert.deepEqual(rest, ['run.delegated', 'task.started', 'run.started', 'task.cancelled', 'run.failed'])
    })

    test('a stream that may not be followed throws, and a cursor of another question too', async (t) => {
      const [client, devin] = [open(), open(keys.devin)]
      t.after(() => Promise.all([client.close(), devin.close()]))
      const take = async (from: Client, task_id: string, after: string | null): Promise<string> => {
        for await (const { cursor } of from.follow('collaboration/audit.follow', { task_id }, { after })) return cursor
        return assert.fail('no item came')
      }
      const [{ task: mine }, { task: other }] = await Promise.all([
        client.collaboration.task.create({ spec }),
        client.collaboration.task.create({ spec }),
      ])
      await assert.rejects(take(devin, mine.id, null), { code: 'NOT_FOUND' })
      const cursor = await take(client, mine.id, null)
      await assert.rejects(take(client, other.id, cursor), { code: 'INVALID_REQUEST' })
    })
  })
}

for (const [name, open] of [
  ['HTTP', overHttp],
  ['a Unix socket', overSocket],
  ['the kernel of this process', overKernel],
] as const)
  test(`over ${name} a stream says when it follows: what happens from then on is not missed`, async (t) => {
    const client = open()
    t.after(client.close)
    const task_id = await taskInProgress()
    const actions: string[] = []
    let opened = 0
    const onOpen = (): void => {
      opened++
      void client.collaboration.task.cancel({ task_id })
    }
    const options = { after: 'latest', onOpen, signal: AbortSignal.timeout(10_000) }
    for await (const { item } of client.follow('collaboration/audit.follow', { task_id }, options)) {
      actions.push(item.event.action)
      break
    }
    assert.deepEqual([opened, ...actions], [1, 'task.cancelled'])
  })

// --- Retries ---------------------------------------------------------------------------------------------------------------

type Fate = (number: number, incoming: IncomingMessage, outgoing: ServerResponse) => 'pass' | 'lose answer' | 'lose call' | 'answered'

/** A proxy in front of the server that does to each request what it is told. */
async function proxy(t: TestContext, fate: Fate): Promise<{ url: string; requests: IncomingMessage[] }> {
  const requests: IncomingMessage[] = []
  const made = createServer((incoming, outgoing) => {
    requests.push(incoming)
    const what = fate(requests.length, incoming, outgoing)
    if (what === 'answered') return
    if (what === 'lose call') return void incoming.socket.destroy()
    const { host: _, ...headers } = incoming.headers
    const onward = request(`${server.url}${incoming.url}`, { method: incoming.method!, headers }, (answer) => {
      // The call was executed, but its response is lost.
      if (what === 'lose answer') return void answer.on('end', () => incoming.socket.destroy()).resume()
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
      outgoing.on('close', () => answer.destroy())
    })
    onward.on('error', () => incoming.socket.destroy())
    incoming.pipe(onward)
  })
  await new Promise<void>((done) => made.listen(0, '127.0.0.1', done))
  t.after(() => {
    made.closeAllConnections()
    made.close()
  })
  return { url: `http://127.0.0.1:${(made.address() as AddressInfo).port}`, requests }
}

test('through a proxy that loses calls and answers every mutation happens exactly once', async (t) => {
  let state = 7
  const pick = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
  let [lostAnswers, lostCalls] = [0, 0]
  const { url } = await proxy(t, () => {
    const dice = pick(10)
    if (dice < 4) lostAnswers++
    else if (dice < 6) lostCalls++
    return dice < 4 ? 'lose answer' : dice < 6 ? 'lose call' : 'pass'
  })
  const client = createClient({ url, key: keys.owner, backoffMs: 1, waitMsMax: 20, attempts: 30 })
  t.after(client.close)
  const made = await Promise.all(Array.from({ length: 40 }, () => client.collaboration.task.create({ type: 'flaky', spec })))
  assert.ok(lostAnswers > 10 && lostCalls > 5, `${lostAnswers} answers and ${lostCalls} calls were lost`)
  const stored: string[] = []
  for await (const task of each(overHttp().collaboration.task.list, { limit: 100 })) if (task.type === 'flaky') stored.push(task.id)
  assert.deepEqual(stored.toSorted(), made.map(({ task }) => task.id).toSorted())
})

test('a retry carries the same key, and two calls carry different ones', async (t) => {
  const { url, requests } = await proxy(t, (number) => (number < 3 ? 'lose answer' : 'pass'))
  const client = overHttp(keys.owner, url)
  t.after(client.close)
  await client.collaboration.task.create({ spec })
  await client.collaboration.task.create({ spec })
  const sent = requests.map(({ headers }) => headers['idempotency-key'])
  assert.equal(sent.length, 4)
  assert.equal(new Set(sent.slice(0, 3)).size, 1)
  assert.notEqual(sent[3], sent[0])
})

test('a server that is busy is asked again when it says, and left alone when that is too long', async (t) => {
  const busy = (outgoing: ServerResponse, status: number, seconds: string): 'answered' => {
    outgoing.writeHead(status, { 'retry-after': seconds, 'content-type': 'application/json' })
    outgoing.end(JSON.stringify({ error: { code: status === 503 ? 'BUSY' : 'QUOTA_EXCEEDED', message: 'later', details: {} } }))
    return 'answered'
  }
  const later = await proxy(t, (number, _, outgoing) => (number === 1 ? busy(outgoing, 503, '1') : 'pass'))
  const began = performance.now()
  const client = overHttp(keys.owner, later.url)
  t.after(client.close)
  assert.ok(await client.identity.me.get())
  assert.ok(performance.now() - began >= 990, 'it waited as long as it was told')
  const long = await proxy(t, (_, __, outgoing) => busy(outgoing, 429, '60'))
  const other = overHttp(keys.owner, long.url)
  await assert.rejects(other.identity.me.get(), { code: 'QUOTA_EXCEEDED', status: 429, retryable: true, retryAfterMs: 60_000 })
  assert.equal(long.requests.length, 1)
})

test('a refusal is not retried, and an answer of a proxy is recognized as such', async (t) => {
  const refused = await proxy(t, () => 'pass')
  const client = overHttp(keys.owner, refused.url)
  t.after(client.close)
  await assert.rejects(client.collaboration.task.get({ task_id: 'task_none' }), { code: 'NOT_FOUND' })
  assert.equal(refused.requests.length, 1)
  const html = (status: number) => (_: number, __: IncomingMessage, outgoing: ServerResponse) => {
    outgoing.writeHead(status, { 'content-type': 'text/html' }).end('<h1>Hello</h1>')
    return 'answered' as const
  }
  for (const [status, code, times] of [
    [502, 'UNAVAILABLE', 6],
    [404, 'INVALID_ANSWER', 1],
    [200, 'INVALID_ANSWER', 1],
  ] as const) {
    const { url, requests } = await proxy(t, html(status))
    await assert.rejects(overHttp(keys.owner, url).identity.me.get(), { code, status })
    assert.equal(requests.length, times, `${status}`)
  }
})

test('a server that is not there, or does not answer, is an error after all attempts', async (t) => {
  const gone = createClient({ url: 'http://127.0.0.1:1', key: 'x', backoffMs: 1, attempts: 3 })
  await assert.rejects(gone.identity.me.get(), { code: 'NETWORK', status: null, retryable: true })
  const mute = await proxy(t, () => 'answered')
  const client = createClient({ url: mute.url, key: 'x', backoffMs: 1, attempts: 2, timeoutMs: 50 })
  await assert.rejects(client.identity.me.get(), { code: 'TIMEOUT', retryable: true })
  assert.equal(mute.requests.length, 2)
  const nowhere = createClient({ transport: socketTransport({ path: join(folder, 'none.sock'), backoffMs: 1, attempts: 3 }) })
  await assert.rejects(nowhere.identity.me.get(), { code: 'NETWORK', retryable: true })
})

// --- Streams ---------------------------------------------------------------------------------------------------------------

test('a stream over a proxy that cuts it again and again misses nothing and repeats nothing', async (t) => {
  // A little later each time: where everything takes long, one of them gets through.
  let ms = 20
  const { url, requests } = await proxy(t, (_, incoming) => {
    setTimeout(() => incoming.socket.destroy(), (ms *= 1.25))
    return 'pass'
  })
  const writer = overHttp()
  const client = createClient({ url, key: keys.owner, ...fast, attempts: 30, streams: 'events' })
  t.after(() => Promise.all([writer.close(), client.close()]))
  const { task } = await writer.collaboration.task.create({ spec })
  const adding = (async () => {
    for (let i = 0; i < 60; i++) {
      await writer.collaboration.task.extend({ task_id: task.id, deadline: new Date(Date.now() + 3_600_000 + i).toISOString() })
      await new Promise((done) => setTimeout(done, 4))
    }
  })()
  const seqs: number[] = []
  for await (const { item } of client.follow('collaboration/audit.follow', { task_id: task.id })) {
    seqs.push(item.event.seq)
    if (seqs.length === 61) break
  }
  await adding
  assert.equal(new Set(seqs).size, 61)
  assert.deepEqual(
    seqs,
    seqs.toSorted((a, b) => a - b),
  )
  assert.ok(requests.length > 3, `${requests.length} connections`)
})

test('streams outlive a restart of the server, and calls do too', async (t) => {
  const patient = { backoffMs: 20, waitMsMax: 100, attempts: 100 }
  const http = createClient({ url: server.url, key: keys.owner, ...patient })
  const rpc = createClient({ transport: socketTransport({ path: socket, key: keys.owner, ...patient }) })
  t.after(() => Promise.all([http.close(), rpc.close()]))
  const task_id = await taskInProgress()
  const follow = async (client: Client): Promise<string[]> => {
    const actions: string[] = []
    for await (const { item } of client.follow('collaboration/audit.follow', { task_id })) {
      actions.push(item.event.action)
      if (item.event.action === 'task.cancelled') break
    }
    return actions
  }
  const following = [follow(http), follow(rpc)]
  await new Promise((done) => setTimeout(done, 100))
  const { port } = server
  await server.stop()
  const restarting = new Promise((done) => setTimeout(done, 100)).then(async () => void (server = await start(port)))
  await rpc.collaboration.task.cancel({ task_id })
  await restarting
  const expected = ['task.created', 'task.assigned', 'run.delegated', 'task.started', 'run.started', 'task.cancelled']
  assert.deepEqual(await Promise.all(following), [expected, expected])
})

test('a client that is closed ends its streams and refuses calls', async () => {
  for (const client of [overHttp(), overSocket()]) {
    const { task } = await client.collaboration.task.create({ spec })
    const following = (async () => {
      for await (const _ of client.follow('collaboration/audit.follow', { task_id: task.id })) void client.close()
    })()
    await assert.rejects(following, { code: 'CLOSED', retryable: false })
    await assert.rejects(client.identity.me.get(), { code: 'CLOSED', retryable: false })
  }
})

test('a slow reader of a stream does not hold up its own calls, and gets everything', async (t) => {
  const client = overSocket()
  t.after(client.close)
  const { task } = await client.collaboration.task.create({ spec })
  for (let i = 0; i < 300; i++)
    await client.collaboration.task.extend({ task_id: task.id, deadline: new Date(Date.now() + 3_600_000 + i).toISOString() })
  let count = 0
  for await (const { item } of client.follow('collaboration/audit.follow', { task_id: task.id })) {
    count++
    if (count % 100 === 0) await new Promise((done) => setTimeout(done, 30))
    assert.ok(item.event.seq)
    if (count % 50 === 0) assert.ok(await client.identity.me.get())
    if (count === 301) break
  }
})

// --- Bytes -----------------------------------------------------------------------------------------------------------------

const large = (size: number): Uint8Array<ArrayBuffer> => Uint8Array.from({ length: size }, (_, i) => (i * 31) % 251)

test('bytes are delivered with progress and come back the same, also through cuts', async (t) => {
  let cut = 0
  const { url } = await proxy(t, (_, incoming, outgoing) => {
    if (incoming.method === 'GET' && cut < 3) {
      cut++
      // Somewhere in the middle of the answer.
      outgoing.on('pipe', (from: IncomingMessage) => {
        let seen = 0
        from.on('data', (chunk: Buffer) => (seen += chunk.length) > 500_000 && incoming.socket.destroy())
      })
    }
    return 'pass'
  })
  const client = overHttp(keys.devin, url)
  t.after(client.close)
  const bytes = large(3_000_000)
  const sent: number[] = []
  const delivered = await deliver(client, { task_id: await taskInProgress(), name: 'größe.bin', type: 'file' }, bytes, {
    onProgress: (done, total) => void (total === bytes.length && sent.push(done)),
  })
  assert.deepEqual([delivered.task.state, delivered.artifact.payload.size], ['review_ready', bytes.length])
  assert.ok(sent.length > 3 && sent.at(-1) === bytes.length, String(sent))
  const got: number[] = []
  const back = await client.download(
    'collaboration/artifact.download',
    { artifact_id: delivered.artifact.id },
    {
      onProgress: (done, total) => void (total === bytes.length && got.push(done)),
    },
  )
  assert.deepEqual(Buffer.compare(back.bytes, bytes), 0)
  assert.equal(back.name, 'größe.bin')
  assert.equal(back.checksum, delivered.artifact.payload.checksum)
  assert.equal(cut, 3)
  assert.ok(got.length > 3 && got.at(-1) === bytes.length)
  assert.deepEqual(
    got,
    got.toSorted((a, b) => a - b),
  )
})

test('bytes that were changed on the way are refused by the server and by the client', async (t) => {
  const { url } = await proxy(t, (_, incoming, outgoing) => {
    if (incoming.method === 'GET') {
      outgoing.writeHead(200, { etag: `"sha256:${'0'.repeat(64)}"`, 'content-length': '5' }).end('other')
      return 'answered'
    }
    return 'pass'
  })
  const client = overHttp(keys.devin, url)
  t.after(client.close)
  const task_id = await taskInProgress()
  const lying = { task_id, checksum: `sha256:${'1'.repeat(64)}` }
  await assert.rejects(
    fetch(`${server.url}/v1/collaboration/artifact.upload?${new URLSearchParams(lying).toString()}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${keys.devin}`, 'content-type': 'application/octet-stream' },
      body: 'hello',
    }).then(async (answer) => answer.ok || Promise.reject(new Error(await answer.text()))),
    /INVALID_SPEC|checksum/,
  )
  await assert.rejects(client.download('collaboration/artifact.download', { artifact_id: 'art_x' }), { code: 'INVALID_ANSWER' })
})

test('a refused upload fails immediately, and a cancelled one ends', async (t) => {
  const client = overHttp(keys.devin)
  t.after(client.close)
  await assert.rejects(client.upload('collaboration/artifact.upload', { task_id: 'task_none' }, large(10)), {
    code: 'NOT_FOUND',
    status: 404,
  })
  const stop = new AbortController()
  const cancelled = client.upload('collaboration/artifact.upload', { task_id: await taskInProgress() }, large(5_000_000), {
    signal: stop.signal,
    onProgress: (done) => done > 0 && stop.abort(new Error('changed my mind')),
  })
  await assert.rejects(cancelled, /changed my mind/)
  await assert.rejects(
    Promise.resolve().then(() => overSocket().upload('collaboration/artifact.upload', { task_id: 'x' }, large(1))),
    { code: 'UNSUPPORTED' },
  )
})

test('in a browser the progress of an upload comes from XMLHttpRequest', async (t) => {
  // The part of it that is used, on fetch.
  class FakeXhr {
    upload: { onprogress: ((event: { loaded: number }) => void) | null } = { onprogress: null }
    status = 0
    responseText = ''
    onload: (() => void) | null = null
    onerror: (() => void) | null = null
    onabort: (() => void) | null = null
    #headers: Record<string, string> = {}
    #url = ''
    open(_: string, url: string): void {
      this.#url = url
    }
    setRequestHeader(name: string, value: string): void {
      this.#headers[name] = value
    }
    getResponseHeader(): null {
      return null
    }
    send(body: Blob): void {
      void fetch(this.#url, { method: 'PUT', headers: this.#headers, body }).then(async (answer) => {
        this.upload.onprogress?.({ loaded: body.size })
        this.status = answer.status
        this.responseText = await answer.text()
        this.onload?.()
      })
    }
    abort(): void {
      this.onabort?.()
    }
  }
  const place = globalThis as { XMLHttpRequest?: unknown }
  place.XMLHttpRequest = FakeXhr
  t.after(() => delete place.XMLHttpRequest)
  const client = overHttp(keys.devin)
  const seen: number[] = []
  const options = { onProgress: (done: number) => void seen.push(done) }
  const { uri } = await client.upload('collaboration/artifact.upload', { task_id: await taskInProgress() }, large(1_000), options)
  assert.match(uri, /^cas:/)
  assert.deepEqual(seen, [0, 1_000])
  await assert.rejects(client.upload('collaboration/artifact.upload', { task_id: 'task_none' }, large(1), options), { code: 'NOT_FOUND' })
})

// --- Types and imports -----------------------------------------------------------------------------------------------------

/** Never run: tsc must refuse each line that says so. */
export async function types(client: Client): Promise<void> {
  const { task } = await client.collaboration.task.create({ spec })
  const state:
    | 'created'
    | 'assigned'
    | 'in_progress'
    | 'blocked'
    | 'review_ready'
    | 'under_review'
    | 'accepted'
    | 'rejected'
    | 'completed' = task.state
  void state
  // @ts-expect-error -- there is no such field
  void task.colour
  // @ts-expect-error -- spec is required
  await client.collaboration.task.create({})
  // @ts-expect-error -- a goal is a text
  await client.collaboration.task.create({ spec: { goal: 7, acceptance_criteria: [] } })
  // @ts-expect-error -- there is no such operation
  await client.collaboration.task.destroy({ task_id: task.id })
  // @ts-expect-error -- there is no such protocol
  await client.telepathy.task.get({ task_id: task.id })
  // @ts-expect-error -- a stream is followed, not called
  await client.call('collaboration/audit.follow', {})
  // @ts-expect-error -- a call is called, not followed
  client.follow('collaboration/task.get', { task_id: task.id })
  // @ts-expect-error -- an item holds an event
  for await (const { item } of client.follow('collaboration/audit.follow', {})) void item.task
  // @ts-expect-error -- tasks have no such filter
  for await (const _ of each(client.collaboration.task.list, { smell: 'good' })) void _
}

const root = join(import.meta.dirname, '../..')

/** Every module that is loaded with a file; types are not. */
function loadedWith(file: string, found = new Set<string>()): Set<string> {
  for (const { specifier, values } of importsOf(scan(readFileSync(file, 'utf8')))) {
    if (specifier === null || values.length === 0) continue
    const next = specifier.startsWith('.')
      ? join(dirname(file), specifier)
      : specifier.startsWith('#')
        ? join(root, 'src', specifier.slice(1))
        : specifier
    if (found.has(next)) continue
    found.add(next)
    if (next.startsWith(root)) loadedWith(next, found)
  }
  return found
}

test('browsers load the SDK and a few files of the kernel, and nothing of Node', () => {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { exports: Record<string, string> }
  const loaded = [...loadedWith(join(root, exports['.']!))].map((file) => relative(root, file)).toSorted()
  assert.deepEqual(loaded, [
    'src/kernel/codec/key-shapes.ts',
    'src/kernel/codec/line-reader.ts',
    'src/kernel/codec/strict-json.ts',
    'src/kernel/declare/errors.ts',
    'src/kernel/limits.ts',
    'src/kernel/log/bundle/bundle.ts',
    'src/kernel/log/bundle/sha256.ts',
    'src/kernel/log/canonical-json.ts',
    'src/kernel/log/tree/asking.ts',
    'src/kernel/log/tree/base64.ts',
    'src/kernel/log/tree/checkpoint.ts',
    'src/kernel/log/tree/note.ts',
    'src/kernel/log/tree/policy.ts',
    'src/kernel/log/tree/proofs.ts',
    'src/kernel/log/tree/tiles.ts',
    'src/kernel/log/tree/tree.ts',
    'src/kernel/signing/assertion.ts',
    'src/kernel/signing/base64url.ts',
    'src/kernel/signing/web-crypto.ts',
    'src/protocols/execution/answering/receipt-format.ts',
    'src/protocols/execution/answering/request-digest.ts',
    'src/sdk/await-answer.ts',
    'src/sdk/bundle/judging.ts',
    'src/sdk/bundle/lines.ts',
    'src/sdk/bundle/read-lines.ts',
    'src/sdk/bundle/verify.ts',
    'src/sdk/client.ts',
    'src/sdk/errors.ts',
    'src/sdk/hxp.ts',
    'src/sdk/phrase.ts',
    'src/sdk/questions.ts',
    'src/sdk/receipt-signature.ts',
    'src/sdk/receipt.ts',
    'src/sdk/retry-notice.ts',
    'src/sdk/seal.ts',
    'src/sdk/transport/arrivals.ts',
    'src/sdk/transport/http.ts',
    'src/sdk/transport/request.ts',
    'src/sdk/transport/retry.ts',
    'src/sdk/transport/socket.ts',
    'src/sdk/transport/stream.ts',
    'src/sdk/transport/transport.ts',
    'src/sdk/transport/upload.ts',
  ])
  // The page loads the checks of answers beside it, when a form is shown.
  const checks = [...loadedWith(join(root, 'src/sdk/answers.ts'))].map((file) => relative(root, file))
  assert.deepEqual(checks.filter((file) => !file.startsWith('src/')).toSorted(), ['re2js', 'typebox/schema'])
  assert.ok(loadedWith(join(root, exports['./node']!)).has('node:net'), 'the check sees what it looks for')
})

/** The globals that every browser has, and not more. */
const inBrowsers = [
  'AbortController',
  'AbortSignal',
  'Blob',
  'ReadableStream',
  'Response',
  'TextDecoder',
  'TextEncoder',
  'URL',
  'URLSearchParams',
  'atob',
  'btoa',
  'clearTimeout',
  'crypto',
  'fetch',
  'setTimeout',
]

test('the client works with only the globals of browsers', async () => {
  const request = {
    action: 'APPROVE',
    agent_id: 'agent_devin',
    created_at: '2026-01-15T10:00:00.000Z',
    expires_at: null,
    payload: { context: 'Deploy?' },
    request_id: 'hxp_1',
  }
  const receipt = await receiptOf(testNotary, claims({ request_digest: sha256(canonical(request)) }))
  // The SDK in a world of its own, loaded file by file; a name that is missing there is an error.
  const page = `
    import { readFileSync } from 'node:fs'
    import { stripTypeScriptTypes } from 'node:module'
    import { createContext, SourceTextModule } from 'node:vm'
    const said = []
    const names = ${JSON.stringify(inBrowsers)}
    const context = createContext({ ...Object.fromEntries(names.map((name) => [name, globalThis[name]])), say: (words) => said.push(words) })
    const modules = new Map()
    const load = (url) => {
      if (!modules.has(url)) modules.set(url, new SourceTextModule(stripTypeScriptTypes(readFileSync(new URL(url), 'utf8')), { context, identifier: url }))
      return modules.get(url)
    }
    const link = (name, from) => load(name.startsWith('#') ? new URL('src/' + name.slice(1), ${JSON.stringify(`file://${root}/`)}).href : new URL(name, from.identifier).href)
    const text = \`
      import { canonicalDigest, createClient, deliver, verifyReceipt } from './index.ts'
      const client = createClient({ url: ${JSON.stringify(server.url)}, key: ${JSON.stringify(keys.owner)} })
      const { task } = await client.collaboration.task.create({ spec: { goal: 'g', acceptance_criteria: ['c'] } })
      for await (const { item } of client.follow('collaboration/audit.follow', { task_id: task.id })) {
        say(item.event.action)
        break
      }
      const bytes = new Blob(['hello'])
      const { uri } = await client.upload('collaboration/artifact.upload', { task_id: task.id }, bytes, { onProgress: say })
      say(uri.slice(0, 4))
      const [receipt, jwks, request] = ${JSON.stringify([receipt, testJwks, request])}
      say((await verifyReceipt(receipt, { jwks, request })).ok)
      say((await verifyReceipt({ ...receipt, status: 'failed' }, { jwks })).reason)
      say((await canonicalDigest(request)) === ${JSON.stringify(sha256(canonical(request)))})
      await client.close()
    \`
    const main = new SourceTextModule(text, { context, identifier: ${JSON.stringify(`file://${root}/src/sdk/page.ts`)} })
    await main.link(link)
    await main.evaluate()
    console.log(said.join(' '))
  `
  const file = join(folder, 'page.mjs')
  writeFileSync(file, page)
  const child = spawn(process.execPath, ['--experimental-vm-modules', '--no-warnings', file], { stdio: ['ignore', 'pipe', 'pipe'] })
  const output: string[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk.toString()))
  const code = await new Promise((done) => child.on('close', done))
  assert.deepEqual([output.join(''), code], ['task.created 0 5 cas: true changed true\n', 0])
})

// --- Lines, and the socket’s file ------------------------------------------------------------------------------------------

test('lines come out the same however the bytes arrive', () => {
  const text = `one\n\ntwo ${'x'.repeat(5_000)}\nthree é\nunfinished`
  const bytes = new TextEncoder().encode(text)
  for (const size of [1, 2, 3, 7, 1_024, 4_096, bytes.length]) {
    const lines = createLineReader(10_000)
    const out: string[] = []
    for (let i = 0; i < bytes.length; i += size) {
      lines.push(bytes.subarray(i, i + size))
      // Not always read immediately.
      if (size !== 7 || i % 3 === 0)
        for (let line = lines.next(); line !== null; line = lines.next()) out.push(new TextDecoder().decode(line))
    }
    for (let line = lines.next(); line !== null; line = lines.next()) out.push(new TextDecoder().decode(line))
    assert.deepEqual(out, text.split('\n').slice(0, -1), `portions of ${size}`)
    assert.equal(lines.begun, 'unfinished'.length)
  }
  for (const [size, tooLong] of [
    [99, false],
    [100, false],
    [101, true],
  ] as const) {
    const lines = createLineReader(100)
    lines.push(new Uint8Array(60).fill(120))
    assert.equal(lines.next(), null)
    lines.push(new Uint8Array(size - 60).fill(120))
    assert.equal(lines.next(), null)
    assert.equal(lines.tooLong, tooLong, `${size}`)
  }
})

test('the socket is for its group alone; a dead one is replaced, a live one and what is not a socket are not', async () => {
  assert.equal(statSync(socket).mode & 0o777, 0o660)
  const again = (path: string): Promise<Server> => {
    const other = mkdtempSync(join(folder, 'other-'))
    return startServer(
      { ...configOf(0), data: other, socket: path },
      { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) },
    )
  }
  await assert.rejects(again(socket), /another server answers on .*countersign\.sock/)
  const file = join(folder, 'plain')
  writeFileSync(file, 'mine')
  await assert.rejects(again(file), /is not a socket/)
  assert.equal(readFileSync(file, 'utf8'), 'mine')
  // A server that was killed leaves its file behind.
  const stale = join(folder, 'stale.sock')
  const child = spawn(process.execPath, ['-e', `require('net').createServer().listen(${JSON.stringify(stale)}, () => console.log('up'))`])
  await new Promise((done) => child.stdout.once('data', done))
  child.kill('SIGKILL')
  await new Promise((done) => child.on('close', done))
  assert.ok(statSync(stale).isSocket())
  const taken = await again(stale)
  const probe = connect(stale)
  await new Promise((done) => probe.once('connect', done))
  probe.destroy()
  await taken.stop()
  assert.throws(() => statSync(stale), { code: 'ENOENT' })
})

test('a server on stdin and stdout answers lines, and ends with its input', async () => {
  const data = join(folder, 'stdio')
  const child = spawn(process.execPath, [join(root, 'src/apps/server/stdio.ts'), '--data', data, '--log', 'silent'])
  const output: string[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk.toString()))
  child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"identity/me.get"}\n')
  await new Promise((done) => child.stdout.once('data', done))
  const token = readFileSync(join(data, 'admin.key'), 'utf8').trim()
  child.stdin.end(`${JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'identity/me.get', params: { _meta: { token } } })}\n`)
  const code = await new Promise((done) => child.on('close', done))
  const [first, second] = output
    .join('')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.equal(first.error.data.code, 'UNAUTHENTICATED')
  assert.equal(second.result.id, 'service_admin')
  assert.equal(code, 0)
})
