// A data folder with a sample of every kind of document, made once by a real server, and copies of it for tests that tamper with one.
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { flowSteps, remember, type FlowRefs } from '../as-processes/flow.ts'
import { createCaller, enroll, startServer } from '../as-processes/server.ts'

export type Made = {
  readonly folder: string
  readonly alice: string
  readonly devin: string
  readonly admin: string
  readonly revoked: { readonly key: string; readonly id: string }
  readonly task: string
  readonly waiting: { readonly task: string; readonly checkpoint: string }
  readonly answered: string
  readonly artifact: string
  readonly checksum: string
  copy(): string
  remove(): void
}

/** More than one portion, so that an answer has begun before the end is read. */
export const BYTES = 'these bytes were sent\n'.repeat(30_000)

export async function makeFolder(): Promise<Made> {
  const root = mkdtempSync(join(tmpdir(), 'countersign-tampering-'))
  const folder = join(root, 'data')
  const server = await startServer(folder)
  const keys = await enroll(server.port, server.adminKey)
  const { call, close } = createCaller(server.port)
  const must = async (bearer: string, operation: string, input: object, key?: string): Promise<any> => {
    const { status, body } = await call(bearer, operation, input, key)
    if (status !== 200) throw new Error(`${operation} answered ${status}: ${JSON.stringify(body)}`)
    return body
  }
  const play = async (tag: string, steps = flowSteps): Promise<FlowRefs> => {
    const refs: FlowRefs = { tag }
    for (const [i, { as, operation, input }] of steps.entries()) remember(refs, await must(keys[as], operation, input(refs), `${tag}-${i}`))
    return refs
  }
  const whole = await play('whole')
  await must(server.adminKey, 'identity/project.add', { id: 'project_blue', name: 'Blue' })
  await must(server.adminKey, 'identity/project.join', { project_id: 'project_blue', subject: 'user_alice', role: 'member' })
  await must(keys.alice, 'collaboration/task.create', { project_id: 'project_blue', spec: { goal: 'Paint it' } })
  // The substitution leaves a pending errand, which is due when the substitution ends.
  const until = new Date(Date.now() + 86_400_000).toISOString()
  await must(keys.alice, 'identity/substitute.add', { person: 'user_alice', substitute: 'user_owner', until })
  const waiting = await play('waiting', flowSteps.slice(0, 4))
  await must(keys.alice, 'collaboration/checkpoint.resolve', { checkpoint_id: waiting.checkpoint.id, action: 'approve' })
  const send = async (body: string): Promise<{ uri: string; checksum: string }> => {
    const path = `/v1/collaboration/artifact.upload?task_id=${waiting.task.id}&media_type=text/plain`
    const headers = { authorization: `Bearer ${keys.devin}`, 'content-type': 'application/octet-stream' }
    const sent = await fetch(`http://127.0.0.1:${server.port}${path}`, { method: 'PUT', headers, body })
    return (await sent.json()) as { uri: string; checksum: string }
  }
  const upload = await send(BYTES)
  // This upload is never committed, so it waits for its expiry.
  await send('left behind')
  const payload = { kind: 'blob', uri: upload.uri }
  const { artifact } = await must(keys.devin, 'collaboration/artifact.commit', { task_id: waiting.task.id, type: 'file', payload })
  const asked = await play('asked', flowSteps.slice(0, 4))
  const { key, issued } = await must(server.adminKey, 'identity/key.issue', { subject: 'user_alice' })
  await must(server.adminKey, 'identity/key.revoke', { key_id: issued.id })
  const question = (text: string): object => ({
    action: 'DECIDE',
    agent_id: 'agent_devin',
    timeout_seconds: 86_400,
    payload: { question: text, options: ['yes', 'no'] },
  })
  const { request } = await must(keys.devin, 'execution/request.create', question('Drop it?'))
  await must(keys.alice, 'execution/request.resolve', { request_id: request.id, result: 'no' })
  await must(keys.devin, 'execution/request.create', question('Delete the table?'))
  close()
  await server.end('SIGTERM')
  let copies = 0
  return {
    folder,
    alice: keys.alice,
    devin: keys.devin,
    admin: server.adminKey,
    revoked: { key, id: issued.id },
    task: whole.task.id,
    waiting: { task: asked.task.id, checkpoint: asked.checkpoint.id },
    answered: request.id,
    artifact: artifact.id,
    checksum: upload.checksum,
    copy() {
      const to = join(root, `copy-${++copies}`)
      cpSync(folder, to, { recursive: true })
      return to
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}

export function inDatabase(folder: string, change: (db: DatabaseSync) => void): void {
  const db = new DatabaseSync(join(folder, 'countersign.db'))
  try {
    change(db)
  } finally {
    db.close()
  }
}
