// TLS of our own, on real sockets: accepted and refused connections, and the renewal of a certificate.
import assert from 'node:assert/strict'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { connect as connectPlainly } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { WebSocket } from 'ws'
import { first, second } from '../support/over-sockets/certificates.ts'
import { runPiped } from '../support/as-processes/cli.ts'
import { send, sendBytes } from '../support/over-sockets/http-client.ts'
import { httpWorld, JSON_HEADERS } from '../support/over-sockets/http-world.ts'
import { dataFolder, runToEnd, start, type Running } from '../support/as-processes/server-process.ts'
import { SOON_MS } from '../support/over-sockets/soon.ts'

const tls = { cert: first.cert, key: first.key }
const ca = first.cert

function folder(t: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), 'countersign-tls-'))
  t.after(() => rmSync(made, { recursive: true, force: true }))
  return made
}

function handshake(port: number, options: ConnectionOptions): Promise<TLSSocket> {
  return new Promise((done, failed) => {
    const socket = connect({ host: '127.0.0.1', port, ca, ...options }, () => done(socket))
    socket.once('error', failed)
  })
}

test('operations, pages and cookies go over TLS: Secure, bound to the host, and never plain again', async (t) => {
  const { port } = await httpWorld(t, { tls })
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  for (const text of ['one', 'x'.repeat(100_000)]) {
    const body = JSON.stringify({ id: 'one', text })
    const answer = await send(port, '/v1/toy/note.write', { headers: { ...JSON_HEADERS, 'content-length': body.length }, body, ca, agent })
    assert.equal(answer.status, 200, answer.text)
    assert.equal(answer.headers['strict-transport-security'], 'max-age=31536000')
  }
  const login = await send(port, '/login?token=good', { method: 'GET', ca, agent })
  assert.match(String(login.headers['set-cookie']), /^__Host-countersign=key-alice; Path=\/; .*; HttpOnly; SameSite=Strict; Secure$/)
  const page = await send(port, '/', { method: 'GET', headers: { cookie: '__Host-countersign=key-alice' }, ca, agent })
  assert.match(page.text, /signed in as <strong>user_alice/)
  const figures = await send(port, '/metrics', { method: 'GET', ca })
  assert.match(figures.text, /^countersign_connections [12]$/m)
})

test('a forwarded host counts for nothing without a proxy', async (t) => {
  const { port } = await httpWorld(t, { tls })
  const headers = { host: 'evil.example', 'x-forwarded-host': 'tasks.example.com' }
  assert.equal((await send(port, '/health', { method: 'GET', headers, ca })).status, 421)
})

test('TLS 1.2 and 1.3 are accepted, older versions are not', async (t) => {
  const { port } = await httpWorld(t, { tls })
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const socket = await handshake(port, { minVersion: version, maxVersion: version })
    assert.equal(socket.getProtocol(), version)
    socket.destroy()
  }
  const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
  await assert.rejects(handshake(port, old), /alert|version|reset/i)
})

test('plain HTTP on that port gets no answer and does no harm', async (t) => {
  const { port, logged } = await httpWorld(t, { tls })
  const said = await sendBytes(port, 'GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n').catch(() => '')
  assert.doesNotMatch(said, /HTTP\/1\.1 200/)
  assert.equal((await send(port, '/health', { method: 'GET', ca })).status, 200)
  assert.deepEqual(logged, [])
})

test('a body that does not arrive in time is refused over TLS too', async (t) => {
  const { port } = await httpWorld(t, { tls, bounds: { requestMs: 200 } })
  const socket = await handshake(port, {})
  socket.write('POST /v1/toy/note.write HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer key-alice\r\n')
  socket.write('content-type: application/json\r\ncontent-length: 100\r\n\r\n{')
  let said = ''
  for await (const part of socket) said += String(part)
  assert.match(said, /^HTTP\/1\.1 408 /)
})

test('a client that never completes the TLS handshake is disconnected in time, and does not hold up a stop', async (t) => {
  const quick = await httpWorld(t, { tls, bounds: { requestMs: 200 } })
  const socket = connectPlainly(quick.port, '127.0.0.1')
  socket.on('error', () => undefined)
  await new Promise((done) => socket.once('close', done))
  const { port, stop } = await httpWorld(t, { tls, bounds: { stopMs: 2 * SOON_MS } })
  const silent = connectPlainly(port, '127.0.0.1')
  silent.on('error', () => undefined)
  await new Promise((done) => silent.once('connect', done))
  await send(port, '/health', { method: 'GET', ca })
  const began = performance.now()
  await stop()
  assert.ok(performance.now() - began < SOON_MS, 'the stop did not wait for it')
})

test('sockets are opened over TLS', async (t) => {
  const { port } = await httpWorld(t, { tls })
  const socket = new WebSocket(`wss://127.0.0.1:${port}/v1/ws`, { ca, headers: { authorization: 'Bearer key-alice' } })
  await new Promise((done, failed) => socket.once('open', done).once('error', failed))
  socket.terminate()
})

// --- The server ------------------------------------------------------------------------------------------------------------

const certificateOf = async (port: number): Promise<string> => {
  const socket = await handshake(port, { rejectUnauthorized: false })
  const { subject } = socket.getPeerCertificate()
  socket.destroy()
  return String(subject.CN)
}

async function logged(server: Running, message: RegExp): Promise<void> {
  for (let tries = 0; !message.test(server.stderr()); tries++) {
    assert.ok(tries < 500, `${message} was not logged: ${server.stderr()}`)
    await new Promise((done) => setTimeout(done, 10))
  }
}

test('a certificate that was renewed is taken up at SIGHUP; a wrong one leaves the old one in place', async (t) => {
  const place = folder(t)
  const [cert, key] = [join(place, 'tls.crt'), join(place, 'tls.key')]
  copyFileSync(first.files.cert, cert)
  copyFileSync(first.files.key, key)
  const server = await start(t, ['--data', dataFolder(t), '--tls-cert', cert, '--tls-key', key])
  assert.match(
    server.stdout(),
    /^countersign ready https:\/\/127\.0\.0\.1:\d+\nLog in as the owner in a browser \(works once, 15 minutes\):\nhttps:/,
  )
  assert.equal((await send(server.port, server.link, { method: 'GET', ca })).status, 303)
  const kept = await handshake(server.port, {})
  assert.equal(await certificateOf(server.port), 'countersign test first')

  copyFileSync(second.files.cert, cert)
  server.child.kill('SIGHUP')
  await logged(server, /the certificate stays as it was: the certificate in .* do not belong together/)
  assert.equal(await certificateOf(server.port), 'countersign test first')

  copyFileSync(second.files.key, key)
  server.child.kill('SIGHUP')
  await logged(server, /the certificate was read again/)
  assert.equal(await certificateOf(server.port), 'countersign test second')
  assert.equal((await send(server.port, '/health', { method: 'GET', ca: second.cert })).status, 200)
  kept.write('GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
  let said = ''
  for await (const part of kept) said += String(part)
  assert.match(said, /^HTTP\/1\.1 200 /, 'who was connected stays connected')
  assert.equal((await server.end()).code, 0)
})

test('with a certificate others may be let in', async (t) => {
  const { cert, key } = first.files
  const data = dataFolder(t)
  const refused = await runToEnd(t, ['--data', data, '--port', '0', '--host', '0.0.0.0'])
  assert.deepEqual([refused.code, refused.stdout], [2, ''])
  const args = ['--data', data, '--host', '0.0.0.0', '--hosts', 'tasks.example.com', '--tls-cert', cert, '--tls-key', key]
  const server = await start(t, args)
  const port = Number(/^countersign ready https:\/\/0\.0\.0\.0:(\d+)\n/.exec(server.stdout())![1])
  const health = await send(port, '/health', { method: 'GET', headers: { host: `tasks.example.com:${port}` }, ca })
  assert.equal(health.status, 200)
  assert.match(server.stdout(), new RegExp(`^https://tasks\\.example\\.com:${port}/login\\?token=`, 'm'), 'a link that others can open')
  assert.ok(server.stdout().includes(`COUNTERSIGN_URL=https://tasks.example.com:${port} `), 'the name that the certificate has')
  await server.end()
})

test('a problem with the files is reported in a sentence, and nothing starts', async (t) => {
  const place = folder(t)
  const file = (name: string, text: string): string => {
    writeFileSync(join(place, name), text)
    return join(place, name)
  }
  const { cert, key } = first.files
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
  for (const [its, itsKey, message] of [
    [join(place, 'gone.crt'), key, /the TLS certificate cannot be read: ENOENT/],
    [cert, place, /the TLS key cannot be read: EISDIR/],
    [file('text.crt', 'hello'), key, /text\.crt holds no TLS certificate in PEM/],
    [file('broken.crt', broken), key, /broken\.crt holds no certificate that can be used/],
    [cert, file('broken.key', broken), /broken\.key holds no private key that can be used/],
    [cert, file('locked.key', '-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n'), /locked\.key is encrypted with a password/],
    [cert, second.files.key, /first\.crt and the key in .*second\.key do not belong together/],
  ] as const) {
    const { code, stdout, stderr } = await runToEnd(t, [
      '--data',
      join(place, 'data'),
      '--port',
      '0',
      '--tls-cert',
      its,
      '--tls-key',
      itsKey,
    ])
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, message)
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
  }
})

test('the command line connects with the right CA, and says why without it', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data, '--tls-cert', first.files.cert, '--tls-key', first.files.key])
  const place = { cwd: folder(t), env: { COUNTERSIGN_URL: `https://127.0.0.1:${server.port}`, COUNTERSIGN_DATA: data } }
  const trusting = await runPiped(['me', 'get', '--json'], { ...place, env: { ...place.env, NODE_EXTRA_CA_CERTS: first.files.cert } })
  assert.equal(trusting.code, 0, trusting.err)
  assert.equal((JSON.parse(trusting.out) as { id: string }).id, 'service_admin')
  const doubting = await runPiped(['me', 'get', '--json'], place)
  assert.notEqual(doubting.code, 0)
  assert.match(doubting.err + doubting.out, /SELF_SIGNED_CERT[^]*NODE_EXTRA_CA_CERTS/)
  const looking = await runPiped(['doctor', '--quick', '--json'], place)
  assert.match(looking.out, /SELF_SIGNED_CERT[^]*NODE_EXTRA_CA_CERTS/)
  await server.end()
})
