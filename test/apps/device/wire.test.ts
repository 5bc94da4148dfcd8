// The daemon's wire under every kind of bytes: ids, notifications, batches, whitespace, long lines, bad text, clients that do not read.
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { clientAt, startDaemon, type Any, type Client, type Daemon } from '#test/support/hardware/daemon.ts'

const LINES = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 200_000 : 20_000

describe('the wire of the daemon', () => {
  let daemon: Daemon
  let client: Client
  before(async () => {
    daemon = await startDaemon()
    client = await clientAt(daemon.ready.socket)
  })
  after(async () => {
    client.close()
    await daemon.end()
  })
  const answer = async (text: string): Promise<Any> => {
    client.raw(text)
    return client.next()
  }

  it('answers ids as they came, and a null or absent id with nothing', async () => {
    client.raw('{"jsonrpc":"2.0","id":null,"method":"session.open"}\n{"jsonrpc":"2.0","method":"session.open"}\n')
    const { id, error } = await answer('{"jsonrpc":"2.0","id":"a-1","method":"nothing"}\n')
    deepEqual([id, error.code], ['a-1', -32601])
    for (const bad of ['1.5', '{}', '[]', 'true']) {
      const refused = await answer(`{"jsonrpc":"2.0","id":${bad},"method":"session.open"}\n`)
      deepEqual([refused.id, refused.error.code, refused.error.data.code], [null, -32600, 'invalid_request'])
    }
  })

  it('refuses a malformed request and continues', async () => {
    const cases: [string, number, string][] = [
      ['{\n', -32700, 'parse_error'],
      ['{"jsonrpc":"2.0"}{"jsonrpc":"2.0"}\n', -32700, 'parse_error'],
      ['[]\n', -32600, 'invalid_request'],
      ['7\n', -32600, 'invalid_request'],
      ['{"jsonrpc":"1.0","id":1,"method":"x"}\n', -32600, 'invalid_request'],
      ['{"jsonrpc":"2.0","id":"p","method":"session.open","params":[1]}\n', -32602, 'invalid_params'],
    ]
    for (const [text, code, word] of cases) {
      const { error } = await answer(text)
      deepEqual([error.code, error.data.code], [code, word], text)
    }
    client.raw(Buffer.from([0x22, 0xff, 0xfe, 0x22, 0x0a]))
    equal((await client.next()).error.code, -32700)
  })

  it('answers JSON that it refuses under the id of its sender', async () => {
    const deep = `${'['.repeat(40)}${']'.repeat(40)}`
    const read = (path: string): string =>
      `"method":"task.submit","params":{"session_id":"x","task":{"intent":"x","steps":[{"tool":"file.read","args":{"path":${path}}}]}}`
    const twice = 'the key "id" appears twice in one object'
    const beyond = 'a number is beyond 2^53 and would lose digits'
    const cases: [string, string | number | null, string][] = [
      [`{"jsonrpc":"2.0","id":7,${read(String.raw`"/a\u0000b"`)}}`, 7, 'a text holds the character NUL'],
      [`{"jsonrpc":"2.0","id":"a","method":"x","params":{"b":1,"b":2}}`, 'a', 'the key "b" appears twice in one object'],
      [`{"jsonrpc":"2.0","method":"tool.list","params":${deep},"id":8}`, 8, 'the body is nested more than 32 deep'],
      [`{"jsonrpc":"2.0","id":9,"method":"tool.list","params":{"id":1,"id":2}}`, 9, twice],
      [`{"jsonrpc":"2.0","id":10,"method":"tool.list","params":{"n":1e300}}`, 10, beyond],
      [String.raw`{"jsonrpc":"2.0","id":11,"\u0069d" : 12,"method":"tool.list"}`, null, twice],
      [`{"jsonrpc":"2.0","id":90071992547409930,"method":"tool.list"}`, null, beyond],
    ]
    for (const [text, id, reason] of cases) {
      const refused = await answer(`${text}\n`)
      deepEqual(
        [refused.id, refused.error.code, refused.error.data.code, refused.error.data.reason],
        [id, -32602, 'invalid_params', reason],
      )
    }
    // In a batch each gets its own; a notification gets none.
    const all = await answer(
      `[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"id":3,"method":"c"}]\n`,
    )
    deepEqual(
      all.map(({ id, error }: Any) => [id, error.code]),
      [
        [1, -32602],
        [null, -32602],
      ],
    )
    client.raw(`{"jsonrpc":"2.0","method":"tool.list","params":{"a":1,"a":2}}\n`)
    equal((await answer(`{"jsonrpc":"2.0","id":"next","method":"nothing"}\n`)).id, 'next')
  })

  it('lets messages of a connection take effect in their order', async () => {
    const set = { tool: 'gpio.set', args: { line: 17, value: 1 } }
    for (let round = 0; round < 20; round++) {
      const id = await client.open()
      const call = (message: object): string => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`
      const task = { intent: 'x', steps: [set] }
      client.raw(
        [
          call({ id: 's1', method: 'tool.list', params: { session_id: id } }),
          call({ id: 's2', method: 'task.submit', params: { session_id: id, task } }),
          call({ method: 'session.close', params: { session_id: id } }),
          call({ id: 's3', method: 'tool.list', params: { session_id: id } }),
          call({ id: 's4', method: 'task.submit', params: { session_id: id, task } }),
          call({ id: 's5', method: 'session.close', params: { session_id: id } }),
        ].join(''),
      )
      const answers = new Map<string, Any>()
      while (answers.size < 5) {
        const one = await client.next()
        answers.set(one.id, one)
      }
      deepEqual(
        ['s1', 's2', 's3', 's4', 's5'].map((name) => answers.get(name).error?.code ?? 0),
        [0, 0, -32000, -32000, -32000],
      )
    }
  })

  it('takes whitespace between documents, and one byte at a time', async () => {
    client.raw(' \t \r\n\n\n')
    for (const byte of Buffer.from('  {"jsonrpc":"2.0","id":"slow","method":"nothing"}\t\n')) client.socket.write(Uint8Array.of(byte))
    equal((await client.next()).id, 'slow')
  })

  it('answers a batch as one line, and only those that want an answer', async () => {
    const batch = [
      { jsonrpc: '2.0', id: 'b1', method: 'nothing' },
      { jsonrpc: '2.0', method: 'nothing' },
      { jsonrpc: '2.0', id: 'b2', method: 'session.open', params: {} },
    ]
    const answers = await answer(`${JSON.stringify(batch)}\n`)
    deepEqual(answers.map(({ id }: Any) => id).toSorted(), ['b1', 'b2'])
    const many = Array.from({ length: 101 }, () => batch[0])
    equal((await answer(`${JSON.stringify(many)}\n`)).error.code, -32600)
  })

  it('ends a connection whose line is longer than a megabyte, and holds no more of it', async () => {
    const one = await clientAt(daemon.ready.socket)
    const part = 'x'.repeat(64 * 1024)
    const closed = new Promise((done) => one.socket.once('close', done))
    const said = one.next()
    for (let sent = 0; sent < 100 * 1024 * 1024 && !one.socket.destroyed && one.socket.writable; sent += part.length)
      if (!one.socket.write(part)) await Promise.race([new Promise((done) => one.socket.once('drain', done)), closed])
    const { id, error } = await said
    deepEqual([id, error.code, error.data.code], [null, -32600, 'too_large'])
    await closed
    equal((await client.call('nothing')).error.code, -32601)
  })

  it('is not slowed by a client that never reads', async () => {
    const mute = await clientAt(daemon.ready.socket)
    mute.socket.pause()
    const session = await client.open()
    const line = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tool.list', params: { session_id: 'none' } })}\n`
    for (let i = 0; i < 20_000; i++) mute.raw(line)
    const began = performance.now()
    for (let i = 0; i < 20; i++) ok((await client.ask('tool.list', { session_id: session })).tools.length > 0)
    ok(performance.now() - began < 10_000)
    mute.close()
  })

  it('survives any line', async () => {
    const one = await clientAt(daemon.ready.socket)
    const session = await client.open()
    const pieces = [
      '{',
      '}',
      '"',
      '[',
      ']',
      ':',
      ',',
      '\\',
      '\0',
      'é',
      '\u2028',
      '1e999',
      'null',
      '"jsonrpc":"2.0"',
      '"method":"task.submit"',
      `"session_id":"${session}"`,
      '"__proto__":{}',
      '"params":',
    ]
    let seed = 7
    const random = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below
    for (let i = 0; i < LINES; i++) one.raw(`${Array.from({ length: random(12) }, () => pieces[random(pieces.length)]).join('')}\n`)
    await new Promise((done) => setTimeout(done, 500))
    equal((await client.call('nothing')).error.code, -32601)
    equal(daemon.process.exitCode, null)
    one.close()
  })
})
