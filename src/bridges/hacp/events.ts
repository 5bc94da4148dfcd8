// Events of tasks (HACP hardware draft, 8; W21): past events in order, then live ones. A subscriber that does not read loses its
// subscription and never slows a task.
import { send, type Connection } from '#bindings/jsonrpc/connection.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import type { Sealed } from '#kernel/log/store.ts'
import type { Step, Task, TaskEvent } from '#protocols/hardware/daemon/schema.ts'
import type { Failure } from './failures.ts'

type Subscription = { readonly connection: Connection<Failure>; waiting: TaskEvent[] | null }

type Begun = { go(past: readonly TaskEvent[]): void; end(): void }
export type TaskEvents = {
  /** Buffers live events until `go` gets the past ones. */
  begin(task_id: string, connection: Connection<Failure>): Begun
  progress(task_id: string, index: number): void
  disconnected(connection: Connection<Failure>): void
  stop(): void
}

/** Bytes that are queued for a subscriber that does not read. */
const UNREAD_BYTES_MAX = limits.unsentBytesHigh

export function createTaskEvents(kernel: Kernel): TaskEvents {
  const subscriptions = new Map<string, Set<Subscription>>()

  function tell(subscription: Subscription, event: TaskEvent): void {
    const { connection } = subscription
    if (subscription.waiting) return void subscription.waiting.push(event)
    if (connection.outChars + connection.peer.output.writableLength > UNREAD_BYTES_MAX) return end(event.task_id, subscription)
    send(connection, JSON.stringify({ jsonrpc: '2.0', method: 'task.event', params: event }))
    if (event.phase === 'task_finish') end(event.task_id, subscription)
  }

  function end(task_id: string, subscription: Subscription): void {
    const all = subscriptions.get(task_id)
    if (all?.delete(subscription) && all.size === 0) subscriptions.delete(task_id)
  }

  const publish = (event: TaskEvent): void => {
    for (const subscription of subscriptions.get(event.task_id) ?? []) tell(subscription, event)
  }

  function onFacts(facts: readonly Sealed[]): void {
    if (subscriptions.size === 0) return
    for (const { at, fact } of facts) for (const event of eventsOf(fact.action, fact.images[0]?.value, at)) publish(event)
  }

  const leave = kernel.tail.follow(onFacts, () => subscriptions.size > 0)
  return {
    begin(task_id, connection) {
      // A new subscription of a connection to the same task replaces the former one.
      for (const former of subscriptions.get(task_id) ?? []) if (former.connection === connection) end(task_id, former)
      const subscription: Subscription = { connection, waiting: [] }
      subscriptions.set(task_id, (subscriptions.get(task_id) ?? new Set()).add(subscription))
      if (connection.state === 'closed') end(task_id, subscription)
      return {
        go(past) {
          if (!subscriptions.get(task_id)?.has(subscription)) return
          const delivered = new Set(past.map(nameOf))
          const live = subscription.waiting!.filter((event) => event.phase !== 'progress' && !delivered.has(nameOf(event)))
          subscription.waiting = null
          for (const event of [...past, ...live]) tell(subscription, event)
        },
        end: () => end(task_id, subscription),
      }
    },
    progress: (task_id, index) => publish({ task_id, step_index: index, phase: 'progress', ts: timestampOf(kernel.now()) }),
    disconnected(connection) {
      for (const [task_id, all] of subscriptions)
        for (const subscription of all) if (subscription.connection === connection) end(task_id, subscription)
    },
    stop: leave,
  }
}

const nameOf = ({ phase, step_index }: TaskEvent): string => `${phase} ${step_index}`

function eventsOf(action: string, value: unknown, at: string): TaskEvent[] {
  if (action === 'hardware/task.finish') {
    const { id: task_id, status } = value as Task
    return [{ task_id, phase: 'task_finish', status, ts: at }]
  }
  if (action !== 'hardware/task.step.start' && action !== 'hardware/task.step.finish') return []
  const { task_id, index: step_index, status } = value as Step
  return action === 'hardware/task.step.start'
    ? [{ task_id, step_index, phase: 'start', ts: at }]
    : [{ task_id, step_index, phase: 'finish', status, ts: at }]
}
