// Exchanges, queues and bindings of HCP 1.0 (L1: AMQP Topology), as one harness declares or checks them. Never with a TTL or a length: limits
// are the broker's policy (C25).
import { commandQueue, COMMANDS, DEAD, deadQueue, eventQueue, EVENTS } from '#protocols/harness/envelope.ts'

export type TopologyMode = 'declare' | 'check'
export type QueueKind = 'classic' | 'quorum'

type Binding = { readonly exchange: string; readonly queue: string; readonly routingKey: string }
export type Topology = {
  readonly exchanges: readonly { readonly exchange: string; readonly type: 'direct' | 'topic'; readonly durable: true }[]
  readonly queues: readonly string[]
  readonly bindings: readonly Binding[]
}

export const topologyOf = (id: string): Topology => ({
  exchanges: [
    { exchange: COMMANDS, type: 'direct', durable: true },
    { exchange: EVENTS, type: 'topic', durable: true },
    { exchange: DEAD, type: 'direct', durable: true },
  ],
  queues: [commandQueue(id), eventQueue(id), deadQueue(id)],
  bindings: [
    { exchange: COMMANDS, queue: commandQueue(id), routingKey: id },
    { exchange: EVENTS, queue: eventQueue(id), routingKey: `${id}.#` },
    { exchange: DEAD, queue: deadQueue(id), routingKey: id },
  ],
})

/** The options of a queue. A classic queue has no arguments, so that other harnesses can declare it too. */
export const queueOptions = (queue: string, kind: QueueKind): object => ({
  queue,
  durable: true,
  ...(kind === 'quorum' ? { arguments: { 'x-queue-type': 'quorum' } } : {}),
})
