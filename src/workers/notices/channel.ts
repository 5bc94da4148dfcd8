// The channel of notices: people are told by signed webhooks that something waits for them, and agents that their requests were answered.
// The outbox tries again; here is one attempt, what it means, and when it was the last. Another way to tell people is another `Channel`
// beside this one.
import type { Clock } from '#kernel/ports/clock.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { Hook, NOTICE_CHANNEL, type Event } from '#protocols/execution/notices/notice.ts'
import { watchRequests } from './planner.ts'
import { runOutbox, type Channel } from '../outbox.ts'
import { signedHeaders, webhookBackoffMs, type WebhookOptions } from '../webhooks/agents.ts'
import { post, type Posted } from '../webhooks/post.ts'
import type { Worker, WorkerLog } from '../worker.ts'

type Body = { readonly target: string; readonly order: string; readonly event: Event; readonly request_id: string | null }
type Composed = { readonly data: object | null; readonly until: string | null; readonly why: string | null }

/** Posts to one address at a time that may be under way. */
const WINDOW = 4

export function notices(kernel: Kernel, options: WebhookOptions): Channel {
  const call = (operation: string, input: object): Promise<unknown> => kernel.call(`execution/notice.${operation}`, input, SYSTEM)

  async function attempt({ target, order, event }: Body, data: object): Promise<Posted> {
    const [hook] = await kernel.store.read([keyOf(Hook, target)])
    if (!hook) return { status: null, error: 'it was removed', durationMs: 0 }
    const [type, nowMs] = [event === 'receipt' ? 'receipt' : 'inbox.item', kernel.now()]
    const body = JSON.stringify({ type, timestamp: new Date(nowMs).toISOString(), data })
    const { endpoint, ...secrets } = hook.value as Hook
    return (options.post ?? post)(endpoint, signedHeaders(secrets, `msg_${target}_${order}`, body, nowMs), body, options)
  }

  return {
    name: NOTICE_CHANNEL,
    ordered: false,
    window: WINDOW,
    lanesMax: limits.webhooksMax,
    backoffMs: (count) => webhookBackoffMs(count, options.random),
    async send({ body, attempt: tries }: Delivery) {
      const what = body as Body
      const { target, order, event, request_id } = what
      const { data, until, why } = (await call('compose', { target, event, request_id })) as Composed
      if (until !== null) return void (await call('defer', { target, order, until }))
      const none = { target, order, status: null, duration_ms: 0 }
      if (data === null) return void (await call('record', { ...none, state: 'dropped', error: why }))
      const { status, error, durationMs } = await attempt(what, data)
      if (options.signal?.aborted && error !== null) throw new Error(error)
      // What is gone for good says so (410); anything else may pass.
      const isLast = error !== null && (tries + 1 >= options.attemptsMax || status === 410)
      const state = error === null ? 'accepted' : isLast ? 'given_up' : 'waiting'
      await call('record', { target, order, state, status, duration_ms: durationMs, error })
      if (state === 'waiting') throw new Error(error!)
    },
  }
}

export function runNotices(kernel: Kernel, options: WebhookOptions, clock: Clock, log: WorkerLog): Worker {
  const stopping = new AbortController()
  const outbox = runOutbox(kernel, notices(kernel, { ...options, signal: stopping.signal }), clock, log)
  const watch = watchRequests(kernel, clock, log, outbox.wake)
  return {
    async stop() {
      stopping.abort()
      await Promise.all([watch.stop(), outbox.stop()])
    },
  }
}
