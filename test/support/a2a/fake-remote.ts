// A remote agent that does what a test says: a card, signed or not, and one task whose states the test sets.
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { canonical } from '#kernel/log/canonical-json.ts'

type Status = { state: string; timestamp?: string; message?: object }

export async function startFakeRemote(t: TestContext) {
  const heard: { method: string; params: any; authorization: string | undefined }[] = []
  const tasks = new Map<string, { id: string; contextId: string; status: Status; artifacts?: object[] }>()
  const remote = {
    url: '',
    heard,
    tasks,
    /** Changes the card before it is signed. */
    card: {} as object,
    key: null as { kid: string; privateKey: KeyObject; jwk: object } | null,
    /** What the next answers are, instead of the usual: null cuts the connection after the call was carried out. */
    cuts: 0,
    answerOf: null as ((method: string, params: any) => object | undefined) | null,
    newKey: (kid: string): void => {
      const { privateKey, publicKey } = generateKeyPairSync('ed25519')
      remote.key = { kid, privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid } }
    },
    said: (method: string) => heard.filter((one) => one.method === method).map(({ params }) => params),
    /** The only task, moved to a state. */
    move(state: string, text = '', artifacts?: object[]): void {
      const task = [...tasks.values()].at(-1)!
      const message = text === '' ? {} : { message: { messageId: `s-${heard.length}`, role: 'ROLE_AGENT', parts: [{ text }] } }
      task.status = { state: `TASK_STATE_${state}`, timestamp: new Date().toISOString(), ...message }
      if (artifacts !== undefined) task.artifacts = artifacts
    },
  }
  function perform(method: string, params: any): object {
    const given = remote.answerOf?.(method, params)
    if (given !== undefined) return given
    if (method === 'SendMessage') {
      const { taskId, contextId } = params.message
      const id: string = taskId ?? `task-${tasks.size + 1}`
      if (taskId === undefined)
        tasks.set(id, { id, contextId, status: { state: 'TASK_STATE_SUBMITTED', timestamp: '2026-01-01T00:00:00Z' } })
      else if (tasks.get(id)!.status.state === 'TASK_STATE_INPUT_REQUIRED') remote.move('WORKING')
      return { task: tasks.get(id)! }
    }
    if (method === 'ListTasks') return { tasks: [...tasks.values()].filter((one) => one.contextId === params.contextId) }
    if (method === 'CancelTask') tasks.get(params.id)!.status = { state: 'TASK_STATE_CANCELED' }
    return tasks.get(params.id)!
  }
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const reply = (json: unknown, status = 200): void =>
        void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json))
      if (request.url === '/.well-known/jwks.json') return reply({ keys: remote.key === null ? [] : [remote.key.jwk] })
      if (request.url === '/writer/.well-known/agent-card.json') {
        const card = {
          name: 'Remote',
          supportedInterfaces: [{ url: `${remote.url}/writer`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
          ...remote.card,
        }
        if (remote.key === null) return reply(card)
        const header = Buffer.from(JSON.stringify({ alg: 'EdDSA', kid: remote.key.kid })).toString('base64url')
        const input = Buffer.from(`${header}.${Buffer.from(canonical(card)).toString('base64url')}`)
        const signature = sign(null, input, remote.key.privateKey).toString('base64url')
        return reply({ ...card, signatures: [{ protected: header, signature }] })
      }
      const { id, method, params } = JSON.parse(Buffer.concat(parts).toString()) as { id: number; method: string; params: any }
      heard.push({ method, params, authorization: request.headers.authorization })
      const result = perform(method, params) as { error?: object }
      if (remote.cuts > 0 && remote.cuts-- > 0) return void request.socket.destroy()
      reply({ jsonrpc: '2.0', id, ...('error' in result ? result : { result }) })
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  remote.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return remote
}
