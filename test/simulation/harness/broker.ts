// A broker in the simulation: two queues, confirms, returns, acknowledgements. It loses no message that it has confirmed, and whatever else a
// real one does is drawn by lot: a publish that never arrives, a confirm that is lost, another order, a message once more.
import type { Arrived, Handler } from '#bridges/hcp/link.ts'
import { Unroutable, type Parcel } from '#protocols/harness/message-decoder.ts'
import type { Random } from '../random.ts'

type Message = { readonly queue: string; readonly arrived: Arrived }

type Faults = {
  readonly lose: number
  readonly unconfirmed: number
  readonly again: number
  readonly shuffle: number
  readonly park: number
}
export const NO_FAULTS: Faults = { lose: 0, unconfirmed: 0, again: 0, shuffle: 0, park: 0 }

export type SimulatedBroker = {
  readonly dead: readonly string[]
  declare(queue: string): void
  publish(user: string, parcel: Parcel): Promise<void>
  consume(queue: string, handler: Handler): void
  /** Messages that were not acknowledged go back into their queue. */
  cut(queue: string): void
  /** Hands out one message. Answers whether there was one. */
  step(): boolean
  setFaults(faults: Faults): void
  /** Messages that were held back for a while continue. */
  release(): void
  isEmpty(): boolean
}

/** Answers are not held back: without them nothing of a session can be known, and its events would be put aside. */
const mayPark = ({ arrived: { properties, body } }: Message): boolean =>
  properties.type === 'task_submit' || /"sequence":([2-9]|\d\d)/.test(body.toString())

export function createBroker(random: Random): SimulatedBroker {
  const waiting = new Map<string, Message[]>()
  const unacked = new Map<string, Set<Message>>()
  const handlers = new Map<string, Handler>()
  const parked: Message[] = []
  const dead: string[] = []
  let faults = NO_FAULTS

  const queueOf = ({ exchange, key }: Parcel): string =>
    exchange === 'hcp.commands' ? `hcp.cmd.${key}` : exchange === 'hcp.events' ? `hcp.evt.${key.split('.')[0]!}` : 'hcp.dead'

  return {
    dead,
    declare: (queue) => void (waiting.has(queue) || (waiting.set(queue, []), unacked.set(queue, new Set()))),
    async publish(user, parcel) {
      await Promise.resolve()
      if (random.chance(faults.lose)) throw new Error('the connection was lost')
      const queue = queueOf(parcel)
      if (queue === 'hcp.dead') {
        dead.push(`${parcel.headers?.['reason']}: ${parcel.headers?.['detail']}`)
        return
      }
      const messages = waiting.get(queue)
      if (messages === undefined) throw new Unroutable(`no queue takes messages for ${parcel.key}`)
      const { properties, body, headers = {} } = parcel
      const message = { queue, arrived: { queue, body, properties, user_id: user, headers } }
      messages.push(message)
      if (random.chance(faults.again)) messages.push(message)
      await Promise.resolve()
      if (random.chance(faults.unconfirmed)) throw new Error('the connection was lost')
    },
    consume: (queue, handler) => void handlers.set(queue, handler),
    cut(queue) {
      waiting.get(queue)?.unshift(...(unacked.get(queue) ?? []))
      unacked.get(queue)?.clear()
      handlers.delete(queue)
    },
    step() {
      const ready = [...waiting].filter(([queue, messages]) => messages.length > 0 && handlers.has(queue))
      if (ready.length === 0) return false
      const [queue, messages] = random.pick(ready)
      const at = random.chance(faults.shuffle) ? random.below(messages.length) : 0
      const [message] = messages.splice(at, 1)
      if (random.chance(faults.park) && mayPark(message!)) return parked.push(message!) > 0
      const handler = handlers.get(queue)!
      unacked.get(queue)!.add(message!)
      void handler(message!.arrived).then((verdict) => {
        // Of a consumer that is gone nothing is heard any more.
        if (handlers.get(queue) !== handler || !unacked.get(queue)!.delete(message!)) return
        if (verdict === 'requeue') messages.unshift(message!)
      })
      return true
    },
    release() {
      for (const message of parked.splice(0)) waiting.get(message.queue)!.push(message)
    },
    setFaults: (next) => void (faults = next),
    isEmpty: () => [...waiting.values(), ...unacked.values()].every((all) => ('size' in all ? all.size : all.length) === 0),
  }
}
