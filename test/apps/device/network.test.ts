// The daemon over a network: mutual TLS, the certificate's subject selects the policy, and a client without a certificate is refused.
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect, type TLSSocket } from 'node:tls'
import WebSocket from 'ws'
import { clientOn, startDaemon, type Any, type Client, type Daemon } from '#test/support/hardware/daemon.ts'

const file = (name: string): string => join(import.meta.dirname, '../../support/hardware/tls', name)
const credentials = (name: string): object => ({
  cert: readFileSync(file(`${name}.crt`)),
  key: readFileSync(file(`${name}.key`)),
  ca: readFileSync(file('ca.crt')),
})

describe('the daemon over a network', () => {
  let daemon: Daemon
  before(async () => {
    const tls = ['--tls-cert', file('server.crt'), '--tls-key', file('server.key'), '--tls-client-ca', file('clients.pem')]
    daemon = await startDaemon({
      options: ['--listen', '127.0.0.1:0', '--wss', '127.0.0.1:0', '--socket', 'off', ...tls],
      policies: { policies: { far: { subjects: ['CN=robin,O=Acme'], tools: ['gpio.*'] } } },
    })
  })
  after(() => daemon.end())

  const reach = (options: object): Promise<Client> =>
    new Promise((done, failed) => {
      const [host, port] = daemon.ready.listen!.split(':')
      const socket: TLSSocket = connect({ host: host!, port: Number(port), servername: 'localhost', ...options })
      socket.once('error', failed).once('close', () => failed(new Error('closed')))
      // With TLS 1.3 a client learns only after the handshake that its certificate is not accepted.
      socket.once('secureConnect', () => {
        const client = clientOn(socket)
        void client.call('session.open', {}).then((answer) => done(Object.assign(client, { answer })))
      })
    })

  it('serves whom a policy names, with lines', async () => {
    const client = (await reach(credentials('robin'))) as Client & { answer: Any }
    const { session_id } = client.answer.result
    equal((await client.run(session_id, [{ tool: 'gpio.set', args: { line: 17, value: 1 } }])).status, 'SUCCESS')
    client.close()
    equal(daemon.ready.socket, null)
  })

  it('turns away wrong, foreign, expired and revoked certificates', async () => {
    for (const name of ['outsider', 'expired', 'revoked']) await rejects(reach(credentials(name)), name)
    await rejects(reach({ ca: readFileSync(file('ca.crt')) }), 'no certificate')
  })

  it('gives nothing to a good certificate that no policy names', async () => {
    const client = (await reach(credentials('stranger'))) as Client & { answer: Any }
    deepEqual([client.answer.error.code, client.answer.error.data.code], [-32003, 'not_authenticated'])
    client.close()
  })

  it('serves a WebSocket, one document a frame', async () => {
    const url = `wss://${daemon.ready.wss}/hacp`
    const open = (protocol: string | undefined, name: string, path = url): Promise<WebSocket> =>
      new Promise((done, failed) => {
        const socket = new WebSocket(path, protocol === undefined ? [] : [protocol], { ...credentials(name) })
        socket.once('open', () => done(socket)).once('error', failed)
      })
    const socket = await open('hacp', 'robin')
    equal(socket.protocol, 'hacp')
    const next = (): Promise<Any> => new Promise((done) => socket.once('message', (frame: Buffer) => done(JSON.parse(frame.toString()))))
    socket.send('{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "method": "session.open"\n}')
    match((await next()).result.session_id, /^[\w-]+$/)
    socket.send('{"jsonrpc":"2.0","id":2,"method":"a\nb"}')
    equal((await next()).error.code, -32700)
    socket.close()
    await rejects(open(undefined, 'robin'))
    await rejects(open('hacp', 'robin', `wss://${daemon.ready.wss}/other`))
    await rejects(open('hacp', 'outsider'))
    ok(daemon.process.exitCode === null)
  })

  it('refuses an unreadable address and continues', async () => {
    const [host, port] = daemon.ready.wss!.split(':')
    const upgrade = 'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-protocol: hacp'
    const answer = await new Promise<string>((done, failed) => {
      const socket = connect({ host: host!, port: Number(port), servername: 'localhost', ...credentials('robin') })
      socket.once('secureConnect', () => socket.write(`GET http://[bad/hacp HTTP/1.1\r\nhost: localhost\r\n${upgrade}\r\n\r\n`))
      socket.once('data', (bytes: Buffer) => done(bytes.toString())).once('error', failed)
      socket.once('close', () => done('closed'))
    })
    match(answer, /^HTTP\/1\.1 404 /)
    const client = await reach(credentials('robin'))
    client.close()
    ok(daemon.process.exitCode === null)
  })
})
