// Events of tasks (HACP hardware draft, 8; W21): what has happened so far, in order, then what happens. A subscriber that does not read loses
// the subscription and never slows a task.
import { send, type Connection } from '#bindings/jsonrpc/connection.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Sealed } from '#kernel/log/store.ts'
import type { Tail } from '#kernel/log/tail.ts'
import { Step, stepId, Task } from '#protocols/hardware/daemon/schema.ts'
import type { Failure } from './failures.ts'

type Event = {
  readonly task_id: string
  readonly step_index?: number
  readonly phase: string
  readonly ts: string
  readonly status?: string
}
type Subscription = { readonly connection: Connection<Failure>; waiting: Event[] | null }

export type TaskEvents = {
  subscribe(task_id: string, connection: Connection<Failure>): void
  progress(task_id: string, index: number): void
  disconnected(connection: Connection<Failure>): void
  stop(): void
}

/** Bytes that wait for a client that does not read. */
const UNREAD_BYTES_MAX = limits.unsentBytesHigh

export function createTaskEvents(kernel: Kernel, tail: Tail): TaskEvents {
  const subscriptions = new Map<string, Set<Subscription>>()

  function tell(subscription: Subscription, event: Event): void {
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

  const publish = (event: Event): void => {
    for (const subscription of subscriptions.get(event.task_id) ?? []) tell(subscription, event)
  }

  function heard(facts: readonly Sealed[]): void {
    if (subscriptions.size === 0) return
    for (const { at, fact } of facts) for (const event of eventsOf(fact.action, fact.images[0]?.value, at)) publish(event)
  }

  async function past(task_id: string): Promise<Event[]> {
    const { store } = kernel
    const [found] = await store.read([keyOf(Task, task_id)])
    const task = found!.value as Task
    const events: Event[] = []
    for (let i = 0; i < task.steps; i++) {
      const [there] = await store.read([keyOf(Step, stepId(task_id, i))])
      const step = there?.value as Step | undefined
      if (!step) break
      events.push({ task_id, step_index: i, phase: 'start', ts: step.started_at })
      if (step.finished_at !== null) events.push({ task_id, step_index: i, phase: 'finish', status: step.status, ts: step.finished_at })
    }
    if (task.finished_at !== null) events.push({ task_id, phase: 'task_finish', status: task.status, ts: task.finished_at })
    return events
  }

  const leave = tail.follow(heard, () => subscriptions.size > 0)
  return {
    subscribe(task_id, connection) {
      if (connection.state === 'closed') return
      // A connection hears of a task once, however often it asks.
      for (const one of subscriptions.get(task_id) ?? []) if (one.connection === connection) end(task_id, one)
      const subscription: Subscription = { connection, waiting: [] }
      const all = subscriptions.get(task_id) ?? new Set()
      subscriptions.set(task_id, all.add(subscription))
      const begin = (events: readonly Event[]): void => {
        if (!subscriptions.get(task_id)?.has(subscription)) return
        const told = new Set(events.map(nameOf))
        const live = subscription.waiting!.filter((event) => event.phase !== 'progress' && !told.has(nameOf(event)))
        subscription.waiting = null
        for (const event of [...events, ...live]) tell(subscription, event)
      }
      // A past that cannot be read ends the subscription; task.get says why.
      past(task_id).then(begin, () => end(task_id, subscription))
    },
    progress: (task_id, index) => publish({ task_id, step_index: index, phase: 'progress', ts: timestampOf(kernel.now()) }),
    disconnected(connection) {
      for (const [task_id, all] of subscriptions) for (const one of all) if (one.connection === connection) end(task_id, one)
    },
    stop: leave,
  }
}

const nameOf = ({ phase, step_index }: Event): string => `${phase} ${step_index}`

function eventsOf(action: string, value: unknown, at: string): Event[] {
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
