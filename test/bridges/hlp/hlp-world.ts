// A server with `/hlp`, the calls of its clients, and refusals that change nothing.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { hlp } from '#bridges/hlp/index.ts'
import { stateHash } from '../../support/in-process/world.ts'
import { send, type Answer } from '../../support/over-sockets/http-client.ts'
import { hxpWorld, type HxpWorld } from '../../support/over-sockets/hxp-world.ts'

export type As = keyof HxpWorld['keys']
export async function hlpWorld(t: TestContext) {
  const world = await hxpWorld(t, { http: { bridges: [hlp] } })
  const raw = (as: As | null, path: string, body?: string, headers: Record<string, string> = {}): Promise<Answer> =>
    send(world.port, path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...(as === null ? {} : { authorization: `Bearer ${world.keys[as]}` }), ...headers },
      ...(body === undefined ? {} : { body }),
    })
  const op = (as: As, name: string, params: object, more: object = {}): Promise<Answer> =>
    raw(as, `/hlp/v1/ops/${name}`, JSON.stringify({ params, ...more }))
  const refused = async (status: number, code: string, asked: () => Promise<Answer>): Promise<any> => {
    const before = await stateHash(world.store)
    const answer = await asked()
    assert.equal(answer.status, status, answer.text)
    const { error } = answer.json
    assert.deepEqual(Object.keys(answer.json), ['error'])
    assert.deepEqual(Object.keys(error), [
      'code',
      'message',
      'details',
      'retryable',
      'operation_id',
      'correlation_id',
      'spec_version',
      'schema_version',
      'profile',
    ])
    assert.deepEqual([error.code, error.spec_version, error.schema_version, error.profile], [code, '0.2.0-draft', '0.2', 'HLP-industrial'])
    assert.equal(await stateHash(world.store), before, 'a refusal changes nothing')
    return error
  }
  return { ...world, raw, op, refused }
}
export type On = Awaited<ReturnType<typeof hlpWorld>>
export async function started({ op }: On): Promise<any> {
  const task = (await op('alice', 'task.create', { goal: 'Fix it' })).json
  await op('alice', 'task.assign', { task_id: task.id, agent_id: 'agent_devin' })
  return (await op('devin', 'task.start', { task_id: task.id })).json
}
export const PAYLOAD = { kind: 'inline', uri: 'data:text/plain,hello' }
