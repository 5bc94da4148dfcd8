// Capabilities under failure: MCP servers that die, hang and flood, crashes between intent and outcome, and bounds.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { readCapabilities } from '#apps/server/settings/capability-file.ts'
import { realClock } from '#apps/server/clock.ts'
import { mcpSource, type McpBounds, type McpSettings } from '#capabilities/mcp.ts'
import type { CapabilitySource } from '#capabilities/source.ts'
import { Pending } from '#kernel/call/effects.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { END, keyOf } from '#kernel/declare/schema.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { concludeUnknown } from '#workers/effect-runner.ts'
import { capability, capabilityWorld, local, until, type CapabilityWorld } from '../support/in-process/capability-world.ts'
import { serveOverHttp } from '../support/over-sockets/mcp-server.ts'
import { refusalOf } from '../support/in-process/stage.ts'
import { silent } from '../support/in-process/worker-world.ts'
import { createWorld, stateHash } from '../support/in-process/world.ts'
import { SOON_MS } from '../support/over-sockets/soon.ts'

const STDIO = join(import.meta.dirname, '../support/over-sockets/mcp-server.ts')
const child = (args: readonly string[] = [], env: Record<string, string> = {}): McpSettings['server'] => ({
  command: process.execPath,
  args: [STDIO, ...args],
  env,
})
const quick: Partial<McpBounds> = { backoffMs: 50, backoffMsMax: 200, connectMs: 10_000 }
const mcp = (server: McpSettings['server'], more: Partial<McpSettings> = {}, bounds = quick): CapabilitySource =>
  mcpSource({ name: 'test', projects: ['project_default'], permissions: {}, server, ...more }, realClock, silent, bounds)

const isAlive = (pid: string): boolean => {
  try {
    process.kill(Number(pid), 0)
  } catch {
    return false
  }
  const stat = `/proc/${pid}/stat`
  return !existsSync(stat) || !readFileSync(stat, 'utf8').includes(') Z ')
}
const V = { version: '1.4.2' }
const idsOf = async ({ world }: CapabilityWorld): Promise<string[]> =>
  (await world.call('devin', 'delegation/capability.list', { limit: 200 })).items.map(({ capability_id }: any) => capability_id)
async function ready(t: TestContext, source: CapabilitySource): Promise<CapabilityWorld> {
  const on = await capabilityWorld([source])
  t.after(on.close)
  await until(async () => (await idsOf(on)).length > 0)
  return on
}
const pendingIn = ({ world }: CapabilityWorld): Promise<string[]> => world.store.keys(keyOf(Pending, ''), keyOf(Pending, END), 100)

describe('an MCP server over stdio', () => {
  test('gets what the operator gives it, and nothing of the server’s own environment', async (t) => {
    process.env['COUNTERSIGN_TEST_SECRET'] = 'hidden'
    t.after(() => delete process.env['COUNTERSIGN_TEST_SECRET'])
    const on = await ready(t, mcp(child([], { GIVEN: 'yes' })))
    const { output } = await on.invoke('cap:test/environment', {}, V)
    const environment = JSON.parse(output.content[0].text) as Record<string, string>
    assert.deepEqual([environment['GIVEN'], environment['COUNTERSIGN_TEST_SECRET']], ['yes', undefined])
  })

  for (const [name, rest] of [
    ['ends with its pipes', ''],
    ['does not end by itself', 'sleep 300'],
  ])
    test(`that a shell starts and that ${name} is ended with all that the shell has started`, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'countersign-mcp-'))
      t.after(() => rmSync(folder, { recursive: true, force: true }))
      const pids = join(folder, 'pids')
      const script = 'sleep 300 & echo $! >> "$PIDS"; "$NODE" "$SERVER"; eval "$REST"'
      const env = { PIDS: pids, NODE: process.execPath, SERVER: STDIO, REST: rest! }
      const on = await ready(t, mcp({ command: 'sh', args: ['-c', script], env }))
      assert.equal((await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok, true)
      const alive = (): string[] => readFileSync(pids, 'utf8').trim().split('\n').filter(isAlive)
      assert.equal(alive().length, 1, 'of the one that was only asked for its revision nothing is left')
      if (rest === '') {
        const [first] = alive()
        await on.invoke('cap:test/dies', {}, V)
        await until(async () => (await on.invoke('cap:test/echo', { message: 'back' }, V)).ok)
        assert.equal(isAlive(first!), false, 'it has gone with the server that it was started for')
      }
      await on.close()
      await until(() => alive().length === 0, 2_000)
    })

  test('that dies fails the call that it had, is started again, and nothing else breaks', async (t) => {
    const on = await ready(t, mcp(child()))
    const [dead, slow] = await Promise.all([on.invoke('cap:test/dies', {}, V), on.invoke('cap:test/hangs', {}, V)])
    for (const { ok, error } of [dead, slow]) assert.deepEqual([ok, error.code], [false, 'EXECUTION_FAILED'])
    assert.equal((await idsOf(on)).length, 8, 'its tools stay known while it is away')
    await until(async () => (await on.invoke('cap:test/echo', { message: 'back' }, V)).ok)
    assert.deepEqual(await pendingIn(on), [])
  })

  test('that hangs gives TIMEOUT to its caller, and still answers other calls', async (t) => {
    const on = await ready(t, mcp(child()))
    const hanging = on.invoke('cap:test/hangs', {}, { ...V, timeout: 'PT1S' })
    assert.equal((await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok, true)
    const { error, duration_ms } = await hanging
    assert.equal(error.code, 'TIMEOUT')
    assert.ok(duration_ms >= 1_000 && duration_ms < 5_000)
    assert.equal((await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok, true, 'the connection is as good as before')
  })

  test('that answers too much fails that call and no other', async (t) => {
    const on = await ready(t, mcp(child()))
    const { ok, output, error } = await on.invoke('cap:test/floods', {}, V)
    assert.deepEqual([ok, output, error.code], [false, null, 'EXECUTION_FAILED'])
    assert.match(error.message, /larger than 262144 bytes/)
    assert.equal((await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok, true)
  })

  test('whose tools change is listed again without a request', async (t) => {
    const on = await ready(t, mcp(child()))
    assert.equal((await on.invoke('cap:test/grown', {}, V)).error.code, 'NOT_FOUND')
    await on.invoke('cap:test/grows', {}, V)
    await until(async () => (await idsOf(on)).includes('cap:test/grown'))
    await until(async () => (await on.invoke('cap:test/grown', {}, V)).ok)
  })

  test('that cannot be started, or says nothing, is tried again and again, and the rest works', async (t) => {
    const sources = [
      mcp({ command: '/nowhere/at/all', args: [], env: {} }, { name: 'missing' }),
      mcp({ command: 'sleep', args: ['60'], env: {} }, { name: 'mute' }, { ...quick, connectMs: 300 }),
    ]
    const on = await capabilityWorld([...sources, local(capability('echo', (input) => input))])
    t.after(on.close)
    await new Promise((done) => setTimeout(done, 1_000))
    assert.deepEqual(await idsOf(on), ['cap:echo'])
    assert.equal((await on.invoke('cap:echo')).ok, true)
  })
})

describe('an MCP server over Streamable HTTP', () => {
  for (const status of [301, 302, 303, 307, 308])
    test(`that sends elsewhere (${status}) is not followed: the operator’s headers go to no other address`, async (t) => {
      const arrived: string[] = []
      const listen = async (name: string, answer: (response: ServerResponse) => void): Promise<string> => {
        const server = createServer((request, response) => {
          arrived.push(`${name} ${request.headers['x-token'] as string}`)
          request.resume()
          answer(response)
        })
        t.after(() => server.closeAllConnections() === undefined && server.close())
        server.listen(0, '127.0.0.1')
        await once(server, 'listening')
        return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
      }
      const elsewhere = await listen('elsewhere', (response) => void response.writeHead(404).end())
      const url = await listen('here', (response) => void response.writeHead(status, { location: elsewhere }).end())
      const on = await capabilityWorld([mcp({ url, headers: { 'x-token': 'secret' } })])
      t.after(on.close)
      await until(() => arrived.length >= 3)
      assert.deepEqual([...new Set(arrived)], ['here secret'])
    })

  test('that goes away fails the calls in between and is found again when it comes back', async (t) => {
    const first = await serveOverHttp(t)
    const on = await ready(t, mcp({ url: first.url, headers: {} }))
    assert.equal((await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok, true)
    await first.close()
    for (let i = 0; i < 3; i++) {
      const { ok, error } = await on.invoke('cap:test/echo', { message: 'hi' }, V)
      assert.deepEqual([ok, error.code], [false, 'EXECUTION_FAILED'])
    }
    await serveOverHttp(t, 0, Number(new URL(first.url).port))
    await until(async () => (await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok)
  })

  test('that lost its session in a restart is connected again', async (t) => {
    const first = await serveOverHttp(t, 0, 0, true)
    const on = await ready(t, mcp({ url: first.url, headers: {} }))
    assert.equal((await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok, true)
    await first.close()
    await serveOverHttp(t, 0, Number(new URL(first.url).port), true)
    await until(async () => (await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok)
  })

  test('with a thousand tools is listed page by page, each once; what is no longer offered is not found', async (t) => {
    const many = await serveOverHttp(t, 1_000)
    const on = await ready(t, mcp({ url: many.url, headers: {} }, {}, { ...quick, refreshMs: 300 }))
    const everything = async (): Promise<string[]> => {
      const seen: string[] = []
      for (let cursor: string | null = null; ;) {
        const page = await on.world.call('devin', 'delegation/capability.list', { limit: 200, ...(cursor ? { cursor } : {}) })
        assert.ok(page.items.length <= 200)
        seen.push(...page.items.map(({ capability_id }: any) => capability_id))
        cursor = page.next_cursor
        if (cursor === null) return seen
      }
    }
    await until(async () => (await everything()).length === 1_008)
    assert.equal(new Set(await everything()).size, 1_008)
    assert.equal((await on.invoke('cap:test/tool-0999', {}, V)).output.content[0].text, '999')
    await many.close()
    await serveOverHttp(t, 0, Number(new URL(many.url).port))
    await until(async () => (await everything()).length === 8, 20_000)
    assert.equal((await on.invoke('cap:test/tool-0999', {}, V)).error.code, 'NOT_FOUND')
  })

  test('asks for what its operator says that its tools need', async (t) => {
    const http = await serveOverHttp(t)
    const on = await ready(t, mcp({ url: http.url, headers: {} }, { permissions: { '*': ['test:use'], echo: [] } }))
    assert.equal((await on.invoke('cap:test/echo', { message: 'hi' }, V)).ok, true)
    assert.equal((await on.invoke('cap:test/sum', { of: [1] }, V)).error.code, 'PERMISSION_DENIED')
  })
})

describe('between intent and outcome', () => {
  test('the intent is durable before anything runs, and says nothing of the arguments', async (t) => {
    let seen: string[] = []
    const on = await capabilityWorld([local(capability('look', async () => ({ seen: (seen = await pendingIn(on)) })))])
    t.after(on.close)
    assert.equal((await on.invoke('cap:look', { word: 'swordfish' })).ok, true)
    assert.equal(seen.length, 1)
    assert.deepEqual(await pendingIn(on), [], 'and the outcome closes it')
  })

  test('a repeated call joins the one under way, and later gets the same answer; it runs once', async (t) => {
    const gate = Promise.withResolvers<void>()
    let runs = 0
    const on = await capabilityWorld([local(capability('once', () => gate.promise.then(() => ({ run: ++runs }))))])
    t.after(on.close)
    const both = [on.invoke('cap:once', {}, {}, 'key-1'), on.invoke('cap:once', {}, {}, 'key-1')]
    await until(async () => (await pendingIn(on)).length === 1)
    both.push(on.invoke('cap:once', {}, {}, 'key-1'))
    await new Promise((done) => setTimeout(done, 20))
    gate.resolve()
    const answers = [...(await Promise.all(both)), await on.invoke('cap:once', {}, {}, 'key-1')]
    for (const answer of answers) assert.deepEqual(answer, answers[0])
    assert.deepEqual([answers[0].output, runs], [{ run: 1 }, 1])
    assert.equal((await refusalOf(on.invoke('cap:once', { other: 1 }, {}, 'key-1'))).code, 'CONFLICT')
  })

  test('a crash leaves the intent; the next start records an unknown outcome and runs nothing', async () => {
    const disk = memoryDisk()
    let runs = 0
    const hangs = capability('hangs', () => (runs++, new Promise(() => undefined)))
    const on = await capabilityWorld([local(hangs)], { store: memoryStore({ disk }) })
    void on.invoke('cap:hangs', {}, {}, 'key-1').catch(() => undefined)
    await until(() => runs === 1)
    const copy = structuredClone(disk)
    const world = await createWorld({
      store: memoryStore({ disk: copy }),
      populated: false,
      startMs: on.world.kernel.now() + 1,
      seed: 2,
      perform: () => assert.fail('nothing runs'),
    })
    assert.equal(await concludeUnknown(world.kernel, silent), 1)
    assert.equal(await concludeUnknown(world.kernel, silent), 0)
    const { items } = await world.call('admin', 'collaboration/audit.query', { task_id: on.task_id, limit: 200 })
    const last = items.filter(({ action }: any) => action.startsWith('capability.')).at(-1)
    assert.deepEqual([last.action, last.after.error, last.after.reason], ['capability.failed', 'EXECUTION_FAILED', 'unknown'])
    const input = { run_id: on.run_id, attempt: 1, ref: { capability_id: 'cap:hangs', version: '1.0.0' }, input: {} }
    const again = await world.call('devin', 'delegation/capability.invoke', input, { key: 'key-1' })
    assert.deepEqual([again.ok, again.error.code], [false, 'EXECUTION_FAILED'], 'the same call gets that answer')
    assert.match(again.error.message, /unknown/)
    assert.equal(runs, 1)
    await on.close()
  })

  test('a stop tells what runs, records it as not known to have ended, and takes no longer than its bounds', async () => {
    const hangs = capability('hangs', () => new Promise(() => undefined))
    const on = await capabilityWorld([local(hangs)])
    const calling = on.invoke('cap:hangs')
    await until(async () => (await pendingIn(on)).length === 1)
    await on.effects.stop()
    const { error } = await calling
    assert.equal(error.code, 'EXECUTION_FAILED')
    assert.match(error.message, /stopping/)
    assert.equal((await on.events()).at(-1).after.reason, 'stopped')
    await on.close()
  })

  test('a store that cannot write for a while gets the outcome when it can', async (t) => {
    let full = false
    let refused = 0
    const store = memoryStore({
      onWrite(_, apply) {
        if (full && ++refused) throw new Refusal('UNAVAILABLE', 'the disk is full')
        apply()
      },
    })
    const on = await capabilityWorld([local(capability('fill', () => ((full = true), { done: true })))], { store })
    t.after(on.close)
    const calling = on.invoke('cap:fill')
    await until(() => refused >= 2)
    full = false
    assert.deepEqual((await calling).output, { done: true })
    assert.equal((await on.events()).at(-1).action, 'capability.completed')
  })

  test('without a port nothing is invoked, and nothing is recorded', async () => {
    const world = await createWorld({ perform: null })
    const { run } = await world.play(delegation.scenes['offering']!)
    const before = await stateHash(world.store)
    const input = { run_id: run.id, ref: { capability_id: 'cap:web-search', version: '2.1.0' }, input: { query: 'x' } }
    assert.equal((await refusalOf(world.call('robin', 'delegation/capability.invoke', input))).code, 'UNAVAILABLE')
    assert.equal(await stateHash(world.store), before)
    await world.close()
  })
})

describe('bounds', () => {
  test('an agent has so many invocations under way; what ends makes room', async (t) => {
    const gate = Promise.withResolvers<object>()
    const on = await capabilityWorld([local(capability('wait', () => gate.promise))])
    t.after(on.close)
    const waiting = Array.from({ length: limits.invocationsPerAgentMax }, () => on.invoke('cap:wait'))
    await until(async () => (await pendingIn(on)).length === limits.invocationsPerAgentMax)
    const refusal = await refusalOf(on.invoke('cap:wait'))
    assert.deepEqual([refusal.code, refusal.details?.['max']], ['QUOTA_EXCEEDED', limits.invocationsPerAgentMax])
    gate.resolve({})
    await Promise.all(waiting)
    assert.equal((await on.invoke('cap:wait')).ok, true)
  })

  test('an output of just the size passes, and a byte more does not; what no decoder would take does not either', async (t) => {
    const sized = (bytes: number) => 'x'.repeat(bytes - 2)
    const deep = Array.from({ length: 40 }).reduce<unknown>((inner) => [inner], 1)
    const all = [
      capability('fits', () => sized(limits.invokeOutputBytesMax)),
      capability('over', () => sized(limits.invokeOutputBytesMax + 1)),
      capability('deep', () => deep),
      capability('surrogate', () => '\ud800'),
      capability('nothing', () => undefined),
    ]
    const on = await capabilityWorld([local(...all)])
    t.after(on.close)
    const reasonOf = async (name: string): Promise<string> => {
      const { ok } = await on.invoke(`cap:${name}`)
      return ok ? 'ok' : (await on.events()).at(-1).after.reason
    }
    assert.deepEqual(await Promise.all(['fits'].map(reasonOf)), ['ok'])
    assert.equal(await reasonOf('over'), 'output_too_large')
    assert.equal(await reasonOf('deep'), 'output_invalid')
    assert.equal(await reasonOf('surrogate'), 'output_invalid')
    assert.equal((await on.invoke('cap:nothing')).output, null)
  })

  test('patterns of a schema cannot hold the process', async (t) => {
    const evil = capability('evil', () => ({}), {
      input_schema: { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } },
    })
    const on = await capabilityWorld([local(evil)])
    t.after(on.close)
    const began = performance.now()
    assert.equal((await on.invoke('cap:evil', { a: `${'a'.repeat(40)}!` })).error.code, 'INVALID_INPUT')
    assert.ok(performance.now() - began < SOON_MS)
  })

  test('schemas of the older draft are understood; one that cannot be used is never passed by', async (t) => {
    const older = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: { pair: { type: 'array', items: [{ type: 'string' }, { type: 'number' }] } },
    }
    let runs = 0
    const unusable = { type: 'object', $ref: 'https://example.com/elsewhere.json' }
    const on = await capabilityWorld([
      local(
        capability('older', (input) => input, { input_schema: older }),
        capability('unusable', () => ++runs, { input_schema: unusable }),
        capability('unprovable', () => ++runs, { output_schema: unusable }),
      ),
    ])
    t.after(on.close)
    assert.equal((await on.invoke('cap:older', { pair: ['x', 1] })).ok, true)
    assert.equal((await on.invoke('cap:older', { pair: ['x', 'y'] })).error.code, 'INVALID_INPUT')
    for (const name of ['cap:unusable', 'cap:unprovable']) {
      const { ok, error } = await on.invoke(name, {})
      assert.deepEqual([ok, error.code], [false, 'EXECUTION_FAILED'], 'what could not be checked is not run')
      assert.match(error.message, /cannot be used/)
    }
    assert.equal(runs, 0)
  })
})

describe('the offers of sources', () => {
  test('a start that finds everything as it was leaves no fact; a source that is gone, or moved to other projects, is taken back', async () => {
    const disk = memoryDisk()
    const all = [capability('one', () => 1), capability('two', () => 2)]
    const on = await capabilityWorld([local(...all)], { store: memoryStore({ disk }) })
    const offers = (world: CapabilityWorld['world']): Promise<number> => world.store.head('system').then(({ seq }) => seq)
    const before = await offers(on.world)
    const restarted = async (sources: readonly CapabilitySource[]): Promise<string[]> => {
      const { createCapabilityRegistry: createCapabilities } = await import('#capabilities/registry.ts')
      const capabilities = createCapabilities(sources, realClock, silent)
      await capabilities.start(on.world.kernel)
      await capabilities.stop()
      return idsOf(on)
    }
    assert.deepEqual(await restarted([local(...all)]), ['cap:one', 'cap:two'])
    assert.equal(await offers(on.world), before)
    assert.deepEqual(await restarted([local(all[0]!)]), ['cap:one'])
    assert.deepEqual(await restarted([{ ...local(...all), projects: ['project_other'] }]), [])
    assert.deepEqual(await restarted([local(...all)]), ['cap:one', 'cap:two'])
    const late: CapabilitySource = { ...local(...all), projects: ['project_other'], start: () => undefined }
    assert.deepEqual(await restarted([late]), [], 'at once, even if the source cannot be reached')
    assert.deepEqual(await restarted([]), [])
    await on.close()
  })

  test('an offer that cannot be stored or shown is left out with a warning, and the rest is there', async (t) => {
    const warned: any[] = []
    const odd = [
      capability('fine', () => 1),
      capability('two words', () => 1),
      capability('huge', () => 1, { input_schema: { type: 'object', description: 'x'.repeat(100_000) } }),
      capability('fine', () => 2),
      capability('nul', () => 1, { description: 'a\0b' }),
    ]
    const on = await capabilityWorld([local(...odd)], { log: { ...silent, warn: (fields: object) => void warned.push(fields) } as never })
    t.after(on.close)
    assert.deepEqual(await idsOf(on), ['cap:fine'])
    assert.deepEqual(
      warned.map((one) => one.capability),
      ['cap:two words', 'cap:huge', 'cap:fine', 'cap:nul'],
    )
    assert.equal((await on.invoke('cap:fine')).output, 1)
  })
})

describe("the operator's file", () => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-capabilities-'))
  const path = join(folder, 'capabilities.json')
  const read = (text: string, env: Record<string, string> = {}) => {
    writeFileSync(path, text)
    return readCapabilities(path, { clock: realClock, log: silent, env })
  }
  const skills = {
    house: { skills: [{ capability_id: 'cap:tone', version: '1.0.0', name: 'Tone', input_schema: {}, prompt_template: 'Be kind.' }] },
  }

  test('names servers and skills', () => {
    const file = {
      mcpServers: {
        files: { command: 'files', args: ['--all'], env: { TOKEN: '${SECRET}' }, projects: ['project_a'] },
        web: { url: 'https://example.com/mcp' },
      },
      skills,
    }
    const sources = read(JSON.stringify(file), { SECRET: 'x' })
    assert.deepEqual(
      sources.map(({ name, projects }) => [name, projects]),
      [
        ['files', ['project_a']],
        ['web', ['project_default']],
        ['house', ['project_default']],
      ],
    )
  })

  const wrong: readonly (readonly [string, RegExp])[] = [
    ['', /not JSON/],
    ['[]', /the file must be an object/],
    ['{"servers":{}}', /unknown setting "servers": there are mcpServers, skills and devices/],
    ['{"mcpServers":{"a":{}}}', /mcpServers\.a: command is required/],
    ['{"mcpServers":{"a":{"command":"x","arguments":[]}}}', /unknown setting mcpServers\.a\.arguments:/],
    ['{"mcpServers":{"A b":{"command":"x"}}}', /"A b" is not a name for a source/],
    ['{"mcpServers":{"a":{"url":"ftp://x"}}}', /mcpServers\.a: url/],
    ['{"mcpServers":{"a":{"url":"http://"}}}', /mcpServers\.a\.url is not an address/],
    ['{"mcpServers":{"a":{"command":"x","projects":[]}}}', /mcpServers\.a: projects/],
    ['{"mcpServers":{"a":{"command":"x","env":{"K":"${NOT_SET}"}}}}', /environment variable NOT_SET, which is not set/],
    ['{"mcpServers":{"a":{"command":"x","permissions":{"*":["Not A Scope"]}}}}', /mcpServers\.a: permissions/],
    [JSON.stringify({ mcpServers: { house: { command: 'x' } }, skills }), /two sources named house/],
    ['{"skills":{"a":{"skills":[{"capability_id":"tone"}]}}}', /skills\.a: skills\.0/],
    ['{"mcpServers":{},"mcpServers":{}}', /repeated|twice|mcpServers/],
  ]
  for (const [text, message] of wrong)
    test(`${text.slice(0, 80) || 'nothing'} is refused with a sentence`, () =>
      assert.throws(() => read(text), { name: 'StartError', message }))
  test('that is not there is refused with a sentence', () =>
    assert.throws(() => readCapabilities(join(folder, 'none.json'), { clock: realClock, log: silent, env: {} }), /cannot be read/))
  test.after(() => rmSync(folder, { recursive: true, force: true }))
})

test('the MCP client is loaded only by a source that needs it', () => {
  const text = readFileSync(join(import.meta.dirname, '../../src/capabilities/mcp.ts'), 'utf8')
  const statically = [...text.matchAll(/^import (?!type)[^\n]*'(@modelcontextprotocol[^']*)'/gm)]
  assert.deepEqual(statically, [])
  assert.match(text, /await import\('@modelcontextprotocol\/client'\)/)
})
