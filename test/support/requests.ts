// A stage for requests: agents ask, people answer, and time passes as far as a test lets it.
import { CALL_CHANNEL, Delivery } from '#kernel/delivery.ts'
import type { Actor } from '#kernel/identity.ts'
import type { Step } from '#kernel/operation.ts'
import { END } from '#kernel/schema.ts'
import { Request } from '#protocols/execution/schema.ts'
import { timers } from '#workers/timers.ts'
import { again, linesOf, stage, type Stage } from './stage.ts'
import { silent } from './worker-world.ts'

export const DECIDE = { action: 'DECIDE', payload: { question: 'Which plan?', options: ['Small', 'Large', 'None'] } }
export const APPROVE = { action: 'APPROVE', payload: { item: 'Deploy 1.4.2', details: { to: 'production' } } }

export type Asked = {
  readonly on: Stage
  /** By somebody of the cast, or by whom a credential would make. */
  call(as: string | Actor, operation: string, input?: object): Promise<any>
  refused: Stage['refused']
  /** Asks as devin, whose owner is alice; answers the request. */
  ask(input: object, as?: string | Actor): Promise<any>
  /** The document itself. */
  stored(id: string): Promise<Request>
  /** What the record says of it, oldest first, without the protocol. */
  facts(id: string): Promise<any[]>
  /** Lets time pass, and does what is due meanwhile, in order; answers the operations that were not refused. */
  pass(seconds: number): Promise<string[]>
  /** The timers that wait, by name. */
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
    const channel = timers(world.kernel, silent)
    const done: string[] = []
    const before = (await linesOf(world)).length
    for (const delivery of await due()) await channel.send(delivery)
    for (const line of (await linesOf(world)).slice(before)) done.push(line.action.slice('execution/'.length))
    return done
  }
  async function due(): Promise<Delivery[]> {
    const now = new Date(world.kernel.now()).toISOString()
    return (await deliveries()).filter((one) => one.due <= now).toSorted((a, b) => (a.due < b.due ? -1 : 1))
  }
  async function deliveries(): Promise<Delivery[]> {
    const prefix = `${Delivery.kind}/${CALL_CHANNEL}/`
    const keys = await world.store.keys(prefix, prefix + END, 1_000)
    return (await world.store.read(keys)).map((row) => row!.value as Delivery)
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
      const own = (await deliveries()).filter(({ lane }) => lane === id)
      return Object.fromEntries(own.map((one) => [one.id.slice(one.id.lastIndexOf('/') + 1), one.due]))
    },
    restarted: async () => askedOn(await again(on)),
  }
  return asked
}

/** What stands in a signed receipt. */
export const claimsIn = (receipt: { signature: string }): any =>
  JSON.parse(Buffer.from(receipt.signature.split('.')[1]!, 'base64url').toString())
