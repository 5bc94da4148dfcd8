// `audit verify --all` at a server: it ends with 0 only if the server has said that everything is in order.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer } from '#apps/server/server.ts'
import { inProcess, temporary, type Ran } from '../../support/as-processes/cli.ts'

const json = (health: unknown) => (answer: ServerResponse) => void answer.end(JSON.stringify(health))
const cases: readonly (readonly [string, (answer: ServerResponse) => void, number, RegExp])[] = [
  ['verified', json({ record: 'verified' }), 0, /^✔ /],
  ['verifying', json({ record: 'verifying' }), 0, /^✔ /],
  ['changed', json({ record: 'changed' }), 1, /^✖ http.*: the server found a difference from the record/m],
  [
    'a word that nobody knows',
    json({ record: 'lost' }),
    1,
    /^✖ http.*: .*it says "lost", which this version does not know; .* not checked$/m,
  ],
  ['nothing about it', json({}), 1, /^✖ http.*: .*it does not say; .* not checked$/m],
  ['null', json(null), 1, /^✖ http.*: .*it does not say; .* not checked$/m],
  ['no JSON', (answer) => void answer.end('<html>'), 1, /^✖ http.*: .*there is no answer: .* not checked$/m],
  [
    'that it is elsewhere',
    (answer) => void answer.writeHead(302, { location: '/' }).end(),
    1,
    /^✖ http.*: .*there is no answer: .* not checked$/m,
  ],
  ['nothing at all', () => undefined, 1, /^✖ http.*: .*there is no answer: TimeoutError.* not checked$/m],
]

test('a server that does not say that its record is in order is a finding', async (t) => {
  const home = temporary('audit')
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const { config } = readConfig(['--data', join(home, 'data'), '--port', '0', '--log', 'silent'], {}) as { config: Config }
  const server = await startServer(config, { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })
  t.after(() => server.stop())
  let health = cases[0]![1]
  // The server as those see it who are not told its findings, but for the word at /health.
  const door = createServer((from, answer) => {
    if (from.url === '/health') return health(answer)
    const { port } = new URL(server.url)
    const to = request({ port, host: '127.0.0.1', path: from.url, method: from.method, headers: from.headers }, (said) => {
      void text(said).then((body) => {
        const { 'content-length': _, ...headers } = said.headers
        answer.writeHead(said.statusCode!, headers).end(body.replace(/"findings_total":\d+/, '"findings_total":null'))
      })
    })
    from.pipe(to)
  }).listen(0, '127.0.0.1')
  await once(door, 'listening')
  t.after(() => {
    door.closeAllConnections()
    door.close()
  })
  const url = `http://127.0.0.1:${(door.address() as AddressInfo).port}`
  const verify = (...more: string[]): Promise<Ran> =>
    inProcess({ home, env: { COUNTERSIGN_URL: url } }).run(['audit', 'verify', '--all', ...more])
  for (const [says, answers, code, message] of cases) {
    health = answers
    const ran = await verify()
    assert.equal(ran.code, code, `${says}: ${ran.out}${ran.err}`)
    assert.match(ran.out, message, says)
  }
  health = json({})
  const { valid, findings } = JSON.parse((await verify('--json')).out)
  assert.deepEqual([valid, findings.length], [false, 1])
})
