// The core of the gate over stdio lines, with the official client of both families of revisions and a real upstream program. The port is
// played here, with the rules of the operations: an approval is used once, and equal calls share one open call.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { after, test } from 'node:test'
import { Client, type JSONRPCMessage, type Transport } from '@modelcontextprotocol/client'
import { canonical } from '#kernel/log/canonical-json.ts'
import { serveGate } from '../../src/gate/index.ts'
import { patienceOf } from '../../src/mcp/wire/patience.ts'
import type { CallState, CallView, GatePort } from '../../src/gate/port.ts'
import type { Held } from '../../src/gate/held.ts'
import { stateSeal } from '../../src/mcp/wire/request-state.ts'

type Call = { view: CallView & { state: CallState }; wake: (() => void)[] }
type Played = GatePort & {
  readonly calls: Map<string, Call>
  readonly concluded: string[]
  readonly left: string[]
  decide(state: CallState, more?: Partial<CallView>): void
  verdict: CallState
  isDown: boolean
}

function played(verdict: CallState): Played {
  const calls = new Map<string, Call>()
  const find = (id: string): Call => calls.get(id) ?? assert.fail(`no call ${id}`)
  const isOpen = ({ view: { state } }: Call): boolean => ['waiting', 'approved', 'begun'].includes(state)
  const port: Played = {
    calls,
    concluded: [],
    left: [],
    verdict,
    isDown: false,
    async propose({ server, tool, arguments: args, definition }) {
      if (port.isDown) throw new Error('connect ECONNREFUSED')
      const digest = canonical([server, tool, definition, args])
      const same = [...calls.values()].find((call) => call.view.digest === digest && isOpen(call))
      if (same) return same.view
      const call_id = `call_${calls.size + 1}`
      calls.set(call_id, {
        view: {
          call_id,
          digest,
          state: port.verdict,
          decision: port.verdict === 'denied' ? 'deny' : 'ask',
          rule: 'one',
          reason: 'use a migration',
          request_id: port.verdict === 'waiting' ? 'hxp_1' : null,
          url: 'http://here/r/hxp_1',
        },
        wake: [],
      })
      return find(call_id).view
    },
    async awaitAny(ids, seconds, signal) {
      const those = ids.map(find)
      const decided = (): CallView[] => those.map(({ view }) => view).filter(({ state }) => state !== 'waiting')
      if (decided().length === 0)
        await new Promise<void>((done, fail) => {
          const timer = setTimeout(done, seconds * 1_000)
          for (const { wake } of those) wake.push(() => (clearTimeout(timer), done()))
          signal?.addEventListener('abort', () => (clearTimeout(timer), fail(new Error('aborted'))))
        })
      return decided()
    },
    async begin(id, digest) {
      const call = find(id)
      if (call.view.state !== 'approved' || call.view.digest !== digest)
        throw Object.assign(new Error('the approval is used up'), { code: 'CONFLICT', status: 409 })
      call.view = { ...call.view, state: 'begun' }
      return call.view
    },
    async conclude(id, outcome) {
      find(id).view = { ...find(id).view, state: 'ended' }
      port.concluded.push(outcome)
    },
    get: async (id) => find(id).view,
    async cancel(id) {
      find(id).view = { ...find(id).view, state: 'cancelled' }
    },
    async leave(id) {
      port.left.push(id)
    },
    report: async (_, tools) => tools.map(({ name }) => ({ name, listed: name !== 'fail' })),
    decide(state, more = {}) {
      for (const call of calls.values())
        if (call.view.state === 'waiting') {
          call.view = { ...call.view, ...more, state }
          for (const wake of call.wake.splice(0)) wake()
        }
    },
  }
  return port
}

/** The client's end of two pipes. */
class Lines implements Transport {
  onclose?: () => void
  onmessage?: Transport['onmessage']
  readonly toGate = new PassThrough()
  readonly fromGate = new PassThrough()
  readonly raw: string[] = []
  start(): Promise<void> {
    let rest = ''
    this.fromGate.on('data', (part: Buffer) => {
      const lines = (rest + part.toString()).split('\n')
      rest = lines.pop()!
      for (const line of lines) {
        this.raw.push(line)
        this.onmessage?.(JSON.parse(line) as JSONRPCMessage)
      }
    })
    return Promise.resolve()
  }
  send(message: JSONRPCMessage): Promise<void> {
    this.toGate.write(`${JSON.stringify(message)}\n`)
    return Promise.resolve()
  }
  close(): Promise<void> {
    this.toGate.end()
    this.onclose?.()
    return Promise.resolve()
  }
}

const folder = mkdtempSync(join(tmpdir(), 'gate-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const eras = ['modern', 'legacy'] as const
let files = 0

async function open(port: GatePort, era: (typeof eras)[number], { name = 'test', holdMs = null as number | null, variant = '' } = {}) {
  const file = join(folder, String(++files))
  const lines = new Lines()
  const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }
  const serving = serveGate(
    {
      settings: { name: 'files', holdMs, task_id: null, redact: [], trusted: false, passes: [], resultBytesMax: 1024 * 1024 },
      server: { command: process.execPath, args: [join(import.meta.dirname, 'tool-server.ts'), file, variant], env: {} },
      port,
      log,
      version: '1',
      key: Buffer.alloc(32, 1),
      agent: 'agent_a',
    },
    lines.toGate,
    lines.fromGate,
  )
  const client = new Client(
    { name, version: '1' },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: era === 'modern' ? 'auto' : 'legacy' } },
  )
  client.setRequestHandler('elicitation/create', ({ params }) => ({ action: 'accept', content: { one: params.message } }))
  await client.connect(lines)
  assert.equal(client.getProtocolEra(), era)
  const runs = (): { name: string; args: unknown; meta: string[]; env: string[] }[] =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as never)
      : []
  return { client, lines, runs, close: async () => (await client.close(), await serving) }
}
type Answer = { content: { text: string }[]; isError?: boolean; structuredContent?: unknown; _meta?: Record<string, unknown> }
const call = (client: Client, name: string, args: Record<string, unknown> = {}, options = {}): Promise<Answer> =>
  client.callTool({ name, arguments: args }, options) as Promise<unknown> as Promise<Answer>

for (const era of eras) {
  test(`The gate passes lists, resources, prompts, images and allowed calls of a ${era} client unchanged`, async () => {
    const port = played('approved')
    const { client, runs, close } = await open(port, era)
    try {
      const { tools } = await client.listTools()
      assert.deepEqual(
        tools.map(({ name }) => name),
        ['echo', 'image', 'big', 'crash', 'broken', 'ask', 'slow', 'flood', 'nonsense', 'countersign_await'],
      )
      assert.equal((await client.listResources()).resources[0]!.uri, 'test://one')
      assert.equal((await client.listPrompts()).prompts[0]!.name, 'hello')
      assert.deepEqual((await client.readResource({ uri: 'test://one' })).contents, [{ uri: 'test://one', text: 'a resource' }])
      const image = await call(client, 'image')
      assert.deepEqual(image.content, [{ type: 'image', data: 'aGk=', mimeType: 'image/png' }])
      assert.equal(image._meta?.['secret'], undefined)
      assert.equal((await call(client, 'echo', { a: 1 })).content[0]!.text, 'echo {"a":1}')
      assert.match((await call(client, 'big')).content[0]!.text, /at most 1048576 .* SHA-256/)
      await assert.rejects(call(client, 'broken'), /broken/)
      assert.deepEqual(port.concluded, ['succeeded', 'succeeded', 'succeeded', 'succeeded', 'failed'])
      assert.equal(runs().length, 4)
      for (const { env } of runs()) assert.ok(!env.some((name) => /^COUNTERSIGN_(?:KEY|URL|TASK)/.test(name)))
    } finally {
      await close()
    }
  })

  test(`The gate runs neither denied, doubled, reserved nor misleading tools for a ${era} client`, async () => {
    const port = played('denied')
    const { client, runs, close } = await open(port, era)
    try {
      const denied = await call(client, 'echo')
      assert.equal(denied.isError, true)
      assert.equal(denied.structuredContent, undefined)
      assert.deepEqual(
        [denied._meta?.['countersign/decision'], denied._meta?.['countersign/rule'], denied._meta?.['countersign/call_id']],
        ['denied', 'one', 'call_1'],
      )
      assert.match(denied.content[0]!.text, /use a migration/)
      port.verdict = 'approved'
      for (const name of ['twice', 'есho', 'absent']) assert.match((await call(client, name)).content[0]!.text, /^NOT RUN/)
      port.isDown = true
      assert.equal((await call(client, 'echo'))._meta?.['countersign/decision'], 'unreachable')
      port.isDown = false
      assert.equal(runs().length, 0)
      // A denial does not disturb the next call.
      assert.equal((await call(client, 'echo', { b: 2 })).isError, undefined)
      assert.equal(runs().length, 1)
    } finally {
      await close()
    }
  })

  test(`The gate holds a call of a ${era} client until a person has answered, and runs it once`, async () => {
    const port = played('waiting')
    const { client, runs, close } = await open(port, era)
    try {
      const heard: string[] = []
      const pending = call(client, 'echo', { a: 1 }, { onprogress: ({ message }: { message?: string }) => heard.push(message ?? '') })
      while (heard.length === 0) await new Promise((done) => setTimeout(done, 5))
      assert.equal(heard[0], 'waiting for approval hxp_1')
      assert.equal(runs().length, 0)
      port.decide('approved')
      assert.equal((await pending).content[0]!.text, 'echo {"a":1}')
      const texts = new Set<string>()
      for (const [state, decision] of [
        ['denied', 'rejected'],
        ['expired', 'expired'],
        ['cancelled', 'cancelled'],
      ] as const) {
        const asked = call(client, 'echo', { state })
        await new Promise((done) => setTimeout(done, 50))
        port.decide(state)
        const answer = await asked
        assert.deepEqual([answer.isError, answer._meta?.['countersign/decision']], [true, decision])
        texts.add(answer.content[0]!.text)
      }
      assert.equal(texts.size, 3)
      assert.equal(runs().length, 1)
    } finally {
      await close()
    }
  })

  test(`A call that was not answered in time is collected by the same call or by countersign_await of a ${era} client, once`, async () => {
    const port = played('waiting')
    const { client, runs, close } = await open(port, era, { holdMs: 1_000 })
    try {
      const late = await call(client, 'echo', { a: 1 })
      assert.deepEqual([late.isError, late._meta?.['countersign/state'], late.structuredContent], [true, 'waiting', undefined])
      assert.match(
        late.content[0]!.text,
        /NOT RUN YET.*hxp_1.*http:\/\/here\/r\/hxp_1[^]*exactly the same arguments[^]*countersign_await with call_id call_1/,
      )
      assert.deepEqual(port.left, ['call_1'])
      port.decide('approved')
      assert.equal(runs().length, 0)
      assert.equal((await call(client, 'countersign_await', { call_id: 'call_1' })).content[0]!.text, 'echo {"a":1}')
      const again = await call(client, 'echo', { a: 1 })
      assert.equal(again._meta?.['countersign/call_id'], 'call_2')
      assert.equal(runs().length, 1)
    } finally {
      await close()
    }
  })

  test(`A question of the tool reaches a ${era} client with the name of the server`, async () => {
    const { client, runs, close } = await open(played('approved'), era)
    try {
      assert.match((await call(client, 'ask')).content[0]!.text, /\[files\] Which one\?/)
      assert.equal(runs().length, 1)
    } finally {
      await close()
    }
  })

  test(`An upstream that crashes leaves an unknown outcome to a ${era} client and is started again`, async () => {
    const port = played('approved')
    const { client, runs, close } = await open(port, era)
    try {
      assert.match((await call(client, 'crash')).content[0]!.text, /^OUTCOME UNKNOWN/)
      assert.deepEqual(port.concluded, ['unknown'])
      assert.equal((await call(client, 'echo')).content[0]!.text, 'echo {}')
      assert.deepEqual(
        runs().map(({ name }) => name),
        ['crash', 'echo'],
      )
    } finally {
      await close()
    }
  })
}

test('A repeated key, deep nesting and a line that is no JSON reach no tool', async () => {
  const { client, lines, runs, close } = await open(played('approved'), 'legacy')
  try {
    const say = (line: string): void => void lines.toGate.write(`${line}\n`)
    say('{"jsonrpc":"2.0","id":901,"method":"tools/call","params":{"name":"echo","name":"slow","arguments":{}}}')
    say('{"jsonrpc":"2.0","id":902,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}')
    say(`{"jsonrpc":"2.0","id":903,"method":"tools/call","params":{"name":"echo","arguments":{"a":${'['.repeat(100)}${']'.repeat(100)}}}}`)
    say('no JSON')
    say('{"jsonrpc":"2.0","id":99999,"result":{}}')
    await call(client, 'echo', { last: true })
    const refusals = lines.raw.map((line) => JSON.parse(line) as { id: unknown; error?: { code: number } }).filter(({ error }) => error)
    assert.deepEqual(
      refusals.map(({ id, error }) => [id, error!.code]),
      [
        [901, -32_600],
        [902, -32_600],
        [903, -32_600],
        [null, -32_700],
      ],
    )
    assert.equal(runs().length, 1)
  } finally {
    await close()
  }
})

test('A client that cancels its call leaves the question open', async () => {
  const port = played('waiting')
  const { client, runs, close } = await open(port, 'legacy')
  try {
    const stop = new AbortController()
    const pending = call(client, 'echo', {}, { signal: stop.signal })
    while (port.calls.size === 0) await new Promise((done) => setTimeout(done, 5))
    stop.abort()
    await assert.rejects(pending)
    while (port.left.length === 0) await new Promise((done) => setTimeout(done, 5))
    assert.equal(port.calls.get('call_1')!.view.state, 'waiting')
    assert.equal(runs().length, 0)
  } finally {
    await close()
  }
})

test('The state of a request is refused when it is forged or of another agent', () => {
  const own = stateSeal<Held>(Buffer.alloc(32, 1), 'agent_a')
  const state = own.seal({ kind: 'wait', call_id: 'call_1', of: '', round: 1, since: 0 })
  assert.equal(own.open(state)?.call_id, 'call_1')
  assert.equal(stateSeal(Buffer.alloc(32, 1), 'agent_b').open(state), null)
  assert.equal(own.open(`x${state}`), null)
  assert.equal(own.open('e30.AAAA'), null)
})

test('The patience of the gate follows the client', () => {
  const asker = { isModern: false, name: 'other', hasProgressToken: true, takesTasks: false }
  assert.deepEqual(patienceOf({ ...asker, takesTasks: true }, null), { way: 'task' })
  for (const name of ['claude-code', 'opencode']) assert.deepEqual(patienceOf({ ...asker, name }, null), { way: 'hold', ms: null })
  assert.deepEqual(patienceOf({ ...asker, name: 'claude-code', hasProgressToken: false }, null), { way: 'hold', ms: 45_000 })
  assert.deepEqual(patienceOf({ ...asker, isModern: true }, null), { way: 'rounds', ms: 45_000, rounds: 8 })
  assert.deepEqual(patienceOf({ ...asker, name: 'codex-mcp-client' }, null), { way: 'hold', ms: 240_000 })
  assert.deepEqual(patienceOf({ ...asker, name: 'mcp' }, null), { way: 'hold', ms: 4_000 })
  assert.deepEqual(patienceOf(asker, 1_000), { way: 'hold', ms: 1_000 })
})
