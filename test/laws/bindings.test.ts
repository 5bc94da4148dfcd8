// Every operation over every binding: its example answers the same over real sockets as in the kernel, and so does each refusal that is
// derived from it.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { createHttp, type HttpServer } from '#bindings/http/index.ts'
import { statuses } from '#kernel/declare/errors.ts'
import { createJsonRpc, type JsonRpcServer } from '#bindings/jsonrpc/index.ts'
import type { Blobs } from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { MakeBridge } from '#bindings/http/mount.ts'
import type { Example, Refs } from '#kernel/declare/operation.ts'
import { a2a } from '#bridges/a2a/index.ts'
import { requests } from '#bridges/a2a/wire.ts'
import { hlp } from '#bridges/hlp/index.ts'
import { operations as hlpOperations } from '#bridges/hlp/operations.ts'
import { mcp } from '#bridges/mcp/index.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { mcpOverHttp } from '../../src/mcp/http.ts'
import { toolNameOf, toolsOf } from '../../src/mcp/tools.ts'
import { send } from '../support/over-sockets/http-client.ts'
import { authenticateCast, rpcClient } from '../support/over-sockets/rpc.ts'
import { createWorld, operationsOf, protocols, stateHash, type World } from '../support/in-process/world.ts'

type Called = ReturnType<typeof operationsOf>[number]
/** `code: null` where it went well. */
type Answer = { readonly code: string | null; readonly body: unknown }
type Binding = {
  readonly name: string
  /** One call of an actor, with its bytes if it takes some. */
  call(as: string | null, called: Called, input: object, key?: string): Promise<Answer>
  stop(): Promise<void>
}

const log = { level: 'info', debug: () => undefined, error: (fields: object) => assert.fail(String((fields as { err?: unknown }).err)) }
const nobody = (): Promise<never> => Promise.reject(new Refusal('UNAUTHENTICATED', 'no'))

async function overHttp(kernel: Kernel, blobs: Blobs): Promise<Binding> {
  const http: HttpServer = createHttp({
    kernel,
    authenticate: authenticateCast,
    logins: { open: nobody, close: nobody },
    log,
    version: '1',
    hosts: [],
    proxied: false,
    health: () => ({}),
    bytes: { blobs, bytesMax: 1_000 },
  })
  const port = await http.listen(0, '127.0.0.1')
  return {
    name: 'HTTP',
    async call(as, { name, op }, input, key) {
      const credential = {
        ...(as === null ? {} : { authorization: `Bearer ${as}` }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
      }
      const takesBytes = op.kind === 'command' && op.upload === true
      const query = takesBytes
        ? `?${new URLSearchParams(Object.entries(input).map(([field, value]) => [field, String(value)])).toString()}`
        : ''
      const { status, json } = await send(port, `/v1/${name}${query}`, {
        method: takesBytes ? 'PUT' : 'POST',
        headers: { ...credential, 'content-type': takesBytes ? 'application/octet-stream' : 'application/json' },
        body: takesBytes ? op.example.bytes! : JSON.stringify(input),
      })
      if (status === 200) return { code: null, body: json }
      assert.equal(status, statuses[kernel.codes[json.error.code]!], JSON.stringify(json))
      return { code: json.error.code, body: json.error }
    },
    stop: http.stop,
  }
}

async function overJsonRpc(kernel: Kernel): Promise<Binding> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-rpc-'))
  const rpc: JsonRpcServer = createJsonRpc({ kernel, authenticate: authenticateCast, log })
  await rpc.listen(join(folder, 's'))
  const client = await rpcClient(join(folder, 's'))
  return {
    name: 'JSON-RPC',
    async call(as, { name }, input, key) {
      const _meta = { ...(as === null ? {} : { token: as }), ...(key === undefined ? {} : { idempotency_key: key }) }
      const { result, error } = await client.call(name, { ...input, _meta })
      if (error === undefined) return { code: null, body: result }
      assert.equal(error.data.fault, kernel.codes[error.data.code], JSON.stringify(error))
      return { code: error.data.code, body: error }
    },
    async stop() {
      client.socket.destroy()
      await rpc.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function overMcp(kernel: Kernel): Promise<Binding> {
  const http = createHttp({
    kernel,
    authenticate: authenticateCast,
    logins: { open: nobody, close: nobody },
    log,
    version: '1',
    hosts: [],
    proxied: false,
    health: () => ({}),
    bridges: [mcp({ origin: null, open: () => Promise.resolve(mcpOverHttp({ protocols, version: '1', log })) })],
  })
  const port = await http.listen(0, '127.0.0.1')
  const name = (word: string): string => `io.modelcontextprotocol/${word}`
  const _meta = {
    [name('protocolVersion')]: '2026-07-28',
    [name('clientInfo')]: { name: 'law', version: '1' },
    [name('clientCapabilities')]: {},
  }
  return {
    name: 'MCP',
    async call(as, { op }, input, key) {
      const tool = toolNameOf(op.name)
      const params = { name: tool, arguments: { ...input, ...(key === undefined ? {} : { idempotency_key: key }) }, _meta }
      const { status, json } = await send(port, '/mcp', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tools/call',
          'mcp-name': tool,
          ...(as === null ? {} : { authorization: `Bearer ${as}` }),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
      })
      if (status !== 200) return { code: json.error.code, body: json.error }
      const { isError, content, _meta: told } = json.result
      const [{ text }] = content
      if (isError !== true) return { code: null, body: JSON.parse(text) }
      return { code: told['countersign/code'], body: { message: text } }
    },
    stop: http.stop,
  }
}

/** Over MCP, operations of an agent that are tools, and reading. */
const tools = toolsOf(protocols)
const AGENTS = new Set(['devin', 'robin', 'spy'])
function isCarried(binder: string, { op }: Called): boolean {
  if (binder !== 'MCP') return true
  const tool = tools.get(toolNameOf(op.name))
  return tool !== undefined && (AGENTS.has(op.example.as) ? tool.isForAgents : tool.isReading)
}

const inputOf = ({ input }: Example, refs: Refs): Record<string, unknown> =>
  (typeof input === 'function' ? input(refs) : input) as Record<string, unknown>

/** Without what differs from run to run: ids, times, secrets and hashes over them. */
const comparable = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value)
      .replaceAll(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, 'signature')
      .replaceAll(/cs_[0-9A-Z]{26}_[\w-]{43}/g, 'secret')
      .replaceAll(/[0-9A-Z]{26}/g, 'id')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'time')
      .replaceAll(/[0-9a-f]{64}|\\*"[\w-]{43}\\*"/g, (found) => found.replace(/[\w-]+/, 'hash'))
      // Hashes of the tree and signatures over it.
      .replaceAll(/[\w+/]{43}=/g, 'hash=')
      .replaceAll(/(\u2014 [\w./-]+ )[\w+/=]+/g, '$1signature')
      .replaceAll(/salt(\\*":\\*")[\w-]{22}/g, 'salt$1salt')
      .replaceAll(/PT[\d.]+S/g, 'duration')
      .replaceAll(/active_ms(\\*"):\d+/g, 'active_ms$1:0'),
  )

let blobs: Blobs
let folder: string
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'countersign-bindings-'))
  blobs = await openBlobs(folder, { fatal: (error) => assert.fail(String(error)) })
})
after(() => rmSync(folder, { recursive: true, force: true }))

const bindings: readonly { name: string; open(kernel: Kernel): Promise<Binding> }[] = [
  { name: 'HTTP', open: (kernel) => overHttp(kernel, blobs) },
  { name: 'JSON-RPC', open: (kernel) => overJsonRpc(kernel) },
  { name: 'MCP', open: (kernel) => overMcp(kernel) },
]

async function staged(
  t: TestContext,
  { protocol, op }: Called,
  open: (kernel: Kernel) => Promise<Binding>,
): Promise<{ world: World; refs: Refs; binding: Binding }> {
  const world = await createWorld()
  const refs = await world.play(protocol.scenes[op.example.given]!)
  const binding = await open(world.kernel)
  t.after(binding.stop)
  return { world, refs, binding }
}

for (const { name: binder, open } of bindings) {
  describe(`operations over ${binder}`, () => {
    for (const called of operationsOf(protocols).filter((one) => isCarried(binder, one))) {
      const { op, name } = called
      const { example } = op
      const takesBytes = op.kind === 'command' && op.upload === true

      if (takesBytes && binder !== 'HTTP') {
        test(`${name}: it takes bytes, which go over HTTP`, async (t) => {
          const { refs, binding } = await staged(t, called, open)
          assert.equal((await binding.call(example.as, called, inputOf(example, refs))).code, 'INVALID_REQUEST')
        })
        continue
      }

      test(`${name}: its example answers as in the kernel, nobody is refused, and each required field is required`, async (t) => {
        const { world, refs, binding } = await staged(t, called, open)
        const input = inputOf(example, refs)
        const before = await stateHash(world.store)
        assert.equal((await binding.call(null, called, input)).code, 'UNAUTHENTICATED')
        assert.equal((await binding.call('nobody', called, input)).code, 'UNAUTHENTICATED')
        for (const field of (op.input as { required?: string[] }).required ?? []) {
          const { [field]: _, ...rest } = input
          const { code, body } = await binding.call(example.as, called, rest)
          assert.match(code ?? 'none', /^INVALID_(REQUEST|SPEC)$/)
          assert.match((body as { message: string }).message, new RegExp(`${field} is required`))
        }
        assert.equal(await stateHash(world.store), before, 'refusals change nothing')

        const { code, body } = await binding.call(example.as, called, input)
        assert.equal(code, example.refused ?? null, JSON.stringify(body))
        if (!example.refused) {
          const twin = await createWorld()
          const twinRefs = await twin.play(called.protocol.scenes[example.given]!)
          assert.deepEqual(comparable(body), comparable(await twin.call(example.as, name, inputOf(example, twinRefs))))
        }
      })

      if (op.kind === 'command' && !example.refused) {
        test(`${name}: with an idempotency key it is done once, however often it is called`, async (t) => {
          const { world, refs, binding } = await staged(t, called, open)
          const input = inputOf(example, refs)
          const first = await binding.call(example.as, called, input, 'the-key')
          assert.equal(first.code, null, JSON.stringify(first.body))
          const after = await stateHash(world.store)
          const again = await binding.call(example.as, called, input, 'the-key')
          const shownOnce = Object.fromEntries((op.once ?? []).map((field) => [field, null]))
          assert.deepEqual(again, { code: null, body: { ...(first.body as object), ...shownOnce } })
          assert.equal(await stateHash(world.store), after)
        })
      }
    }
  })
}

/** A door with methods of its own: the fields that each needs, and a call. */
type Door = {
  readonly name: string
  readonly bridge: MakeBridge
  readonly methods: ReadonlyMap<string, readonly string[]>
  call(port: number, as: string | null, method: string, params: object): Promise<Answer>
  /** The code of a call without a credential, and of one with a missing field. */
  readonly codes: { readonly nobody: string; readonly missing: string }
}
const doors: readonly Door[] = [
  {
    name: '/hlp',
    bridge: hlp,
    methods: new Map([...hlpOperations].map(([method, { required }]) => [method, required])),
    async call(port, as, method, params) {
      const { json } = await send(port, `/hlp/v1/ops/${method}`, {
        headers: as === null ? {} : { authorization: `Bearer ${as}` },
        body: JSON.stringify({ params }),
      })
      return { code: json.error?.code ?? null, body: json.error ?? json }
    },
    codes: { nobody: 'UNAUTHORIZED', missing: 'INVALID_SPEC' },
  },
  {
    name: '/a2a',
    bridge: a2a(() => ({ protected: '', signature: '' }), { isPublicOnly: true }),
    methods: new Map(Object.entries(requests).map(([method, schema]) => [method, (schema as { required?: string[] }).required ?? []])),
    async call(port, as, method, params) {
      const { json } = await send(port, '/a2a/agent_robin', {
        headers: { 'a2a-version': '1.0', 'content-type': 'application/json', ...(as === null ? {} : { authorization: `Bearer ${as}` }) },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      })
      return { code: json.error?.data[0].reason ?? null, body: json.error ?? json.result }
    },
    codes: { nobody: 'UNAUTHENTICATED', missing: 'INVALID_PARAMS' },
  },
]
/** Words that fit a field, so that the missing one alone is wrong. */
const fitting: Readonly<Record<string, unknown>> = {
  url: 'https://example.com/',
  message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] },
  payload: {},
}

for (const { name, bridge, methods, call, codes } of doors) {
  test(`methods of ${name}: nobody is refused, each required field is required, and refusals change nothing`, async (t) => {
    const world = await createWorld()
    await world.call('robin', 'delegation/agent.publish', { name: 'Robin', a2a: true })
    const http = createHttp({
      kernel: world.kernel,
      authenticate: authenticateCast,
      logins: { open: nobody, close: nobody },
      log,
      version: '1',
      hosts: [],
      proxied: false,
      health: () => ({}),
      bridges: [bridge],
    })
    const port = await http.listen(0, '127.0.0.1')
    t.after(http.stop)
    const before = await stateHash(world.store)
    for (const [method, required] of methods) {
      const params = Object.fromEntries(required.map((field) => [field, fitting[field] ?? 'x']))
      for (const as of [null, 'nobody']) assert.equal((await call(port, as, method, params)).code, codes.nobody, method)
      for (const field of required) {
        const { [field]: _, ...rest } = params
        const { code, body } = await call(port, 'alice', method, rest)
        assert.equal(code, codes.missing, `${method} without ${field}: ${JSON.stringify(body)}`)
        assert.ok((body as { message: string }).message.includes(field), `${method} names ${field}`)
      }
    }
    assert.equal(await stateHash(world.store), before)
  })
}
