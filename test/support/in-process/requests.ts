// A stage for requests: agents ask, people answer, and time passes as far as a test lets it.
import assert from 'node:assert/strict'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import type { Step } from '#kernel/declare/operation.ts'
import { duePrefix, dueUntil, END, idIn, type Due } from '#kernel/declare/schema.ts'
import { Request } from '#protocols/execution/schema.ts'
import { again, linesOf, stage, type Stage } from './stage.ts'

export const DECIDE = { action: 'DECIDE', payload: { question: 'Which plan?', options: ['Small', 'Large', 'None'] } }
export const APPROVE = { action: 'APPROVE', payload: { item: 'Deploy 1.4.2', details: { to: 'production' } } }

export type Asked = {
  readonly on: Stage
  /** Calls as a member of the cast, or as an actor that a credential would resolve to. */
  call(as: string | Actor, operation: string, input?: object): Promise<any>
  refused: Stage['refused']
  /** Asks as devin, whose owner is alice; returns the request. */
  ask(input: object, as?: string | Actor): Promise<any>
  /** The document itself. */
  stored(id: string): Promise<Request>
  /** The events of the record about it, oldest first, without the protocol. */
  facts(id: string): Promise<any[]>
  /** Advances time and runs due operations in order; returns those that were not refused. */
  pass(seconds: number): Promise<string[]>
  /** The call that is due next, by name. */
  waiting(id: string): Promise<Record<string, string>>
  /** Another process on a copy of the same disk. */
  restarted(): Promise<Asked>
}

const inDefault: Actor['projects'] = new Map([['project_default', 'member']])
export const person = (id: string, actsFor: readonly string[] = []): Actor => ({
  id,
  kind: 'human',
  projects: inDefault,
  actsFor: new Set(actsFor),
})
export const agent = (id: string): Actor => ({ id, kind: 'agent', projects: inDefault })

export const requests = async (scene: readonly Step[] = []): Promise<Asked> => askedOn(await stage(scene))

const named = (operation: string): string => (operation.includes('/') ? operation : `execution/${operation}`)

function askedOn(on: Stage): Asked {
  const { world } = on
  const call: Asked['call'] = (as, operation, input = {}) =>
    typeof as === 'string' ? on.call(as, named(operation), input) : world.kernel.call(named(operation), input, as)

  async function ring(): Promise<string[]> {
    const before = (await linesOf(world)).length
    // Each call may bring up the next thing that is due.
    for (let next = await first(); next !== null; next = await first())
      await world.kernel.call(next.call, next.input, { ...SYSTEM, basis: { kind: 'timer', id: next.call } })
    return (await linesOf(world)).slice(before).map((line) => line.action.slice('execution/'.length))
  }
  async function first(): Promise<Due | null> {
    const entries = await world.store.scan(duePrefix, dueUntil(new Date(world.kernel.now()).toISOString()), 1_000)
    const key = entries.map(idIn).find((one) => one.startsWith(`${Request.kind}/`))
    return key === undefined ? null : Request.due(await asked.stored(key.slice(Request.kind.length + 1)))
  }

  const asked: Asked = {
    on,
    call,
    refused: (code, as, operation, input, key) => on.refused(code, as, named(operation), input, key),
    ask: async (input, as = 'devin') => (await call(as, 'request.create', input)).request,
    async stored(id) {
      const [found] = await world.store.read([`${Request.kind}/${id}`])
      return found!.value as Request
    },
    async facts(id) {
      const lines = await linesOf(world)
      return lines
        .filter(({ subject, action }) => subject === `${Request.kind}/${id}` && action.startsWith('execution/'))
        .map((line) => ({ ...line, action: line.action.slice('execution/'.length) }))
    },
    async pass(seconds) {
      world.advance(seconds * 1_000)
      return ring()
    },
    async waiting(id) {
      const due = Request.due(await asked.stored(id))
      const key = `${Request.kind}/${id}`
      const entries = (await world.store.scan(duePrefix, duePrefix + END, 1_000)).filter((entry) => idIn(entry) === key)
      assert.deepEqual(entries, due === null ? [] : [`${duePrefix}${due.at}\0${key}`], 'the index says the same')
      return due === null ? {} : { [due.call.slice('execution/request.'.length)]: due.at }
    },
    restarted: async () => askedOn(await again(on)),
  }
  return asked
}

/** The claims of a signed receipt. */
export const claimsIn = (receipt: { signature: string }): any =>
  JSON.parse(Buffer.from(receipt.signature.split('.')[1]!, 'base64url').toString())
