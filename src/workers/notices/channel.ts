// The channel of notices: signed webhooks, pushes or e-mails tell people that something waits for them, and webhooks tell agents that their
// requests were answered. The outbox retries. This file makes one attempt, judges its result, and gives up after the last.
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import type { Caller } from '#kernel/log/streams.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { keyOf, type AnyDoc } from '#kernel/declare/schema.ts'
import {
  AgentChannel,
  Channel as Told,
  Hook,
  linkToken,
  Notice,
  NOTICE_CHANNEL,
  noticeId,
  type Event,
} from '#protocols/execution/notices/notice.ts'
import { pushKeyNamed, type PushRing } from '../keys/push-keys.ts'
import { createMailer, type Mailer, type MailOptions } from './mail.ts'
import { digestOf, mailFor, type NoticeItem } from './messages.ts'
import { encryptPush, PUSH_BYTES_MAX, pushHeaders, vapidHeader } from './push.ts'
import { createPlanner } from './planner.ts'
import { UNANSWERED, Unanswered, type Share } from '../lane-shares.ts'
import { runOutbox, type Channel } from '../outbox.ts'
import { addressOf, ownersOf, signedHeaders, webhookBackoffMs, type WebhookOptions } from '../webhooks/agents.ts'
import { post, type Posted } from '../webhooks/post.ts'
import { ALONE, type Duty } from '../leases.ts'
import { workersAsOne, type Worker, type WorkerLog } from '../worker.ts'

type Body = { readonly target: string; readonly order: string; readonly event: Event; readonly request_id: string | null }
type Composed = {
  readonly data: NoticeItem | null
  readonly until: string | null
  readonly why: string | null
  readonly is_held?: boolean
  readonly kind: 'webhook' | 'push' | 'email'
  readonly state?: string
  readonly place: string
  readonly along: readonly { readonly order: string; readonly place: string; readonly data: NoticeItem }[]
  readonly gone: readonly { readonly order: string; readonly why: string }[]
}

export type NoticeOptions = WebhookOptions & {
  /** Under which address people reach this server: links in messages begin with it. */
  origin?(): string
  readonly mail?: MailOptions | null | undefined
  /** Sends mails. Tests replace it. */
  readonly mailer?: Mailer
  pushKeys?(): PushRing
}

/** Concurrent posts to one address. */
const WINDOW = 4
const removed: Posted = { status: null, error: 'it was removed', durationMs: 0 }

export function notices(kernel: Kernel, options: NoticeOptions): Channel & { close(): void } {
  const { origin = () => '', mail, pushKeys } = options
  const mailer = options.mailer ?? (mail ? createMailer(mail) : null)
  /** Each channel sends one message at a time, which includes the other waiting items. */
  const turns = new Map<string, Promise<void | typeof UNANSWERED>>()

  /** Created when it is sent, so that its full lifetime remains. Mail programs can open it: it asks before it signs a person in. */
  async function signInLink(target: string, request_id: string | null): Promise<string> {
    const [channel] = await kernel.store.read([keyOf(Told, target)])
    const { token } = (await kernel.call('identity/login.issue', { user_id: channel?.value['person'] }, SYSTEM)) as { token: string }
    return `${origin()}/login?token=${token}&ask=1${request_id === null ? '' : `&next=/inbox/${request_id}`}`
  }

  const senders = {
    webhook(hook: Hook, { target, order, event }: Body, items: readonly NoticeItem[]): Promise<Posted> {
      const [type, nowMs] = [event === 'receipt' ? 'receipt' : 'inbox.item', kernel.now()]
      const body = JSON.stringify({ type, timestamp: new Date(nowMs).toISOString(), data: digestOf(items) })
      return (options.post ?? post)(hook.endpoint, signedHeaders(hook, `msg_${target}_${order}`, body, nowMs), body, options)
    },
    async push({ endpoint, push }: Hook, { target }: Body, items: readonly NoticeItem[]): Promise<Posted> {
      const key = pushKeys && push ? pushKeyNamed(pushKeys(), push.key) : null
      // The server no longer has the key of this subscription: the browser has to subscribe again.
      if (key === null) return { status: 410, error: 'it was made with a key that this server does not have any more', durationMs: 0 }
      // A button of the notice answers only for this person, even if another person is signed in with the browser by then.
      const [channel] = await kernel.store.read([keyOf(Told, target)])
      const person = channel?.value['person']
      const whole = JSON.stringify({ ...digestOf(items), person })
      const text =
        Buffer.byteLength(whole) <= PUSH_BYTES_MAX
          ? whole
          : JSON.stringify({ event: 'digest', count: items.length, link: '/inbox', person })
      const headers = pushHeaders(vapidHeader(endpoint, key, origin(), kernel.now()), items[0]!.priority)
      return (options.post ?? post)(endpoint, headers, encryptPush(text, push!), options)
    },
    async email(hook: Hook, { target, order, event, request_id }: Body, items: readonly NoticeItem[]): Promise<Posted> {
      if (mailer === null) return { status: null, error: 'this server sends no mail any more: --smtp', durationMs: 0 }
      const linkTo = (purpose: 'confirm' | 'stop'): string => `${origin()}/mail/${purpose}?token=${linkToken(hook, purpose)}`
      const signIn = event === 'sign_in' ? await signInLink(target, request_id) : ''
      const links = { confirm: linkTo('confirm'), stop: linkTo('stop'), signIn }
      const stop = event === 'confirm' || event === 'sign_in' ? null : links.stop
      return mailer.send(
        { to: hook.endpoint, ...mailFor(items, origin(), links, kernel.now()), stop, id: `${target}_${order}` },
        options.timeoutMs,
      )
    },
  }

  async function isGathering({ target, order }: Body): Promise<boolean> {
    const [channel, notice] = await kernel.store.read([keyOf(Told, target), keyOf(Notice, noticeId(target, order))])
    return channel !== undefined && (channel.value['kind'] !== 'webhook' || notice?.value['held'] !== undefined)
  }

  /** A lane is a channel. People and owners of agents take turns; receipts and mails leave lanes to webhooks and pushes of people. */
  async function sharesOf(targets: readonly string[]): Promise<Share[]> {
    const read = async <T>(doc: AnyDoc): Promise<(T | undefined)[]> =>
      (await kernel.store.read(targets.map((id) => keyOf(doc, id)))).map((row) => row?.value as T | undefined)
    const [ofPeople, ofAgents, hooks] = [await read<Told>(Told), await read<AgentChannel>(AgentChannel), await read<Hook>(Hook)]
    const owners = await ownersOf(
      kernel,
      targets.map((id, i) => ofAgents[i]?.agent_id ?? ofPeople[i]?.person ?? id),
    )
    return owners.map((owner, i) => {
      const isMail = ofPeople[i]?.kind === 'email'
      return {
        owner,
        address: isMail ? `${owner} mail` : addressOf(owner, hooks[i]?.endpoint),
        yields: isMail || ofPeople[i] === undefined,
      }
    })
  }

  async function sendNotice(what: Body, tries: number, as: Caller): Promise<void | typeof UNANSWERED> {
    const call = (operation: string, input: object): Promise<unknown> => kernel.call(`execution/notice.${operation}`, input, as)
    const { target, order } = what
    const { data, until, why, is_held, kind, state, place, along, gone } = (await call('compose', what)) as Composed
    // It was sent along with another notice.
    if (state !== undefined && state !== 'waiting') return
    if (until !== null) return void (await call('defer', { target, order, until, ...(is_held === true ? { is_held } : {}) }))
    const none = { target, status: null, duration_ms: 0 }
    for (const notice of gone) await call('record', { ...none, order: notice.order, state: 'dropped', error: notice.why })
    if (data === null) return void (await call('record', { ...none, order, state: 'dropped', error: why }))
    const [hook] = await kernel.store.read([keyOf(Hook, target)])
    const items = [{ place, data }, ...along].toSorted((a, b) => (a.place < b.place ? -1 : 1)).map((entry) => entry.data)
    const { status, error, durationMs, isLate } = hook ? await senders[kind](hook.value as Hook, what, items) : removed
    if (options.signal?.aborted && error !== null) throw new Error(error)
    if (error !== null) options.failed?.(kind)
    // Status 410 means gone for good. Any other failure can be temporary.
    const isGone = status === 410 || (kind === 'push' && status === 404)
    const isLast = error !== null && (tries + 1 >= options.attemptsMax || isGone)
    const next = error === null ? 'accepted' : isLast ? 'given_up' : 'waiting'
    await call('record', { target, order, state: next, status, duration_ms: durationMs, error })
    if (next === 'accepted')
      for (const notice of along)
        await call('record', { target, order: notice.order, state: next, status, duration_ms: durationMs, error, along: order })
    if (next === 'waiting') throw isLate ? new Unanswered(error!) : new Error(error!)
    return isLate ? UNANSWERED : undefined
  }

  return {
    name: NOTICE_CHANNEL,
    ordered: false,
    window: WINDOW,
    lanesMax: limits.webhooksMax,
    sharesOf,
    backoffMs: (count) => webhookBackoffMs(count, options.random),
    async send({ body, attempt: tries }: Delivery, as) {
      const what = body as Body
      // A webhook gets each notice separately, several concurrently.
      if (!(await isGathering(what))) return sendNotice(what, tries, as)
      const before = turns.get(what.target)
      const turn = (before ?? Promise.resolve()).catch(() => undefined).then(() => sendNotice(what, tries, as))
      turns.set(what.target, turn)
      try {
        return await turn
      } finally {
        if (turns.get(what.target) === turn) turns.delete(what.target)
      }
    },
    close: () => mailer?.close(),
  }
}

export type NoticeDuties = { readonly planner: Duty; readonly outbox: Duty }

export function runNoticeChannel(
  kernel: Kernel,
  options: NoticeOptions,
  clock: Clock,
  log: WorkerLog,
  { planner, outbox }: NoticeDuties = { planner: ALONE, outbox: ALONE },
): Worker {
  const stopping = new AbortController()
  const channel = notices(kernel, { ...options, signal: stopping.signal })
  const both = workersAsOne(runOutbox(kernel, channel, clock, log, outbox), createPlanner(kernel, clock, log, planner))
  return {
    ...both,
    async stop() {
      stopping.abort()
      await both.stop()
      channel.close()
    },
  }
}
