// Those who are told by HTTP: people through their channels, agents through their callbacks. A receiver refuses, does not answer in time,
// or answers when nobody listens any more. Its laws: what is said has happened; what has happened is said at least once or given up on
// the record; and nothing counts as delivered that nobody took.
import type { Line } from '#kernel/log/hash-chain.ts'
import type { Group } from '#kernel/log/backend.ts'
import type { MemoryDisk } from '#stores/memory.ts'
import type { Mailer } from '#workers/notices/mail.ts'
import type { WebhookOptions } from '#workers/webhooks/agents.ts'
import type { Posted } from '#workers/webhooks/post.ts'
import { ATTEMPTS_MAX, fates, fatesOfFew, GONE, outcomes } from './fates.ts'
import { createHookedAgents } from './hooked-agents.ts'
import type { NoticeLaws } from './notice-laws.ts'
import type { Processes } from './processes.ts'
import { PUSH_SERVICE } from './telling.ts'
import type { Random } from './random.ts'
import type { Fail, Record as FactRecord } from './record.ts'

/** One history in so many has receivers: the others stay fast. */
const ONE_IN = 4
export const hasReceivers = (seed: number): boolean => seed % ONE_IN === 0
const NOTICE = 'execution.notice/'
const CALLBACK = 'execution.callback/'
const REQUEST = 'execution.request/'
const ends = new Set(['completed', 'failed', 'cancelled'].map((name) => `execution/request.${name}`))
const tells: Readonly<Record<string, readonly string[]>> = {
  created: ['request.created'],
  assigned: ['request.assigned', 'request.rerouted'],
  escalated: ['request.escalated'],
  reminded: ['request.reminded'],
  overdue: ['request.expired'],
  released: ['request.released'],
}
/** The channel or the callback, and which of its notices it is. */
const partsOf = (id: string): [target: string, order: string] => {
  const [, target, order] = /^msg_([a-z]+_[^_]+)_(.+)$/.exec(id)!
  return [target!, order!]
}

export type Receivers = {
  /** A mail arrives. */
  readonly mailer: Mailer
  /** A post arrives, and this is what its sender hears. */
  readonly post: NonNullable<WebhookOptions['post']>
  judgeGroup(group: Group): void
  /** When all is quiet. */
  judgeEnd(): void
}

export type ReceiverOptions = {
  readonly random: Random
  readonly disk: MemoryDisk
  readonly record: FactRecord
  readonly processes: Processes
  readonly isFaulty: () => boolean
  readonly happened: (what: string) => void
  readonly fail: Fail
  readonly notices: NoticeLaws
}

export function createReceivers({
  random,
  disk,
  record,
  processes,
  isFaulty,
  happened,
  fail,
  notices: timely,
}: ReceiverOptions): Receivers {
  const agents = createHookedAgents(disk, processes, fail)
  const taken = new Set<string>()
  /** Channels whose receiver took a push or a mail. */
  const takenBy = new Set<string>()
  const notices = new Map<string, any>()
  const docOf = (key: string): any => record.docs.get(key)?.value ?? null
  const lineAt = (position: number): Line | null => {
    const row = disk.facts[position - 1]
    return row === undefined ? null : (JSON.parse(row.line) as Line)
  }

  /** Nothing is said that did not happen: the fact that it is about stands on the disk. */
  function judgeSaid(id: string, type: string, data: any): void {
    const [target, order] = partsOf(id)
    if (type === 'inbox.item' && data.event === 'test') return
    judgeFact(id, type === 'receipt' ? type : data.event, data.request_id, order)
    if (type === 'receipt') {
      const request = docOf(REQUEST + data.request_id)
      if (request.receipt?.receipt_id !== data.receipt.receipt_id) fail(`${id} shows a receipt that is not on the disk`)
      else if (request.requester !== docOf(CALLBACK + target)?.agent_id) fail(`${id} tells somebody else of ${data.request_id}`)
    }
  }

  function judgeFact(id: string, event: string, request_id: string, order: string): void {
    const line = lineAt(Number(order))
    const isIt = event === 'receipt' ? ends.has(line?.action ?? '') : tells[event]?.some((action) => line?.action === `execution/${action}`)
    if (!isIt || line?.subject !== REQUEST + request_id)
      fail(`${id} says ${event} of ${request_id}, and the record has ${line?.action} there`)
  }

  function judgeNotice(id: string, notice: any): void {
    const { state, attempts, recent, event, request_id } = notice
    if (event !== 'test' && event !== 'confirm') judgeFact(`the notice ${id}`, event, request_id, id.slice(id.indexOf('/') + 1))
    if (state === 'accepted' && !taken.has(id) && !takenBy.has(id.slice(0, id.indexOf('/'))))
      fail(`the notice ${id} counts as delivered, and nobody took it`)
    if (state === 'given_up' && attempts < ATTEMPTS_MAX && recent.at(-1)?.status !== GONE) fail(`the notice ${id} is given up too early`)
  }

  /** Of what nobody can tell which notice it is, a push or a mail, it counts as delivered only if one was taken. */
  function unnamed(what: string, target: string | undefined): Promise<Posted> {
    const fate = isFaulty() ? random.weighted(fatesOfFew) : 'takes it'
    happened(`${what} ${fate}`)
    if (fate === 'takes it' && target !== undefined) takenBy.add(target)
    return Promise.resolve({ ...outcomes[fate], durationMs: 1 })
  }
  const channelAt = (endpoint: string): string | undefined => {
    const label = endpoint.slice(endpoint.lastIndexOf('/') + 1)
    return [...record.docs].find(([key, { value }]) => key.startsWith('execution.channel/') && value.label === label)?.[1].value.id
  }

  return {
    mailer: {
      send(mail) {
        timely.judgeMail(mail)
        return unnamed('mail', /^chn_[^_]+/.exec(mail.id)?.[0])
      },
      close() {},
    },
    post(endpoint, headers, body) {
      if (endpoint.startsWith(PUSH_SERVICE)) {
        timely.judgePush(endpoint)
        return unnamed('push', channelAt(endpoint))
      }
      const id = headers['webhook-id']!
      const { type, data } = JSON.parse(String(body)) as { type: string; data: any }
      const isOfRun = data.run !== undefined
      if (isOfRun) agents.judgePost(data)
      else judgeSaid(id, type, data)
      const fate = isFaulty() ? random.weighted(fates) : 'takes it'
      happened(`${isOfRun ? 'agent' : 'receiver'} ${fate}`)
      const isTaken = fate === 'takes it'
      if (isOfRun && (isTaken || fate === 'answers too late')) agents.take(data, isTaken)
      if (!isOfRun && isTaken) taken.add(partsOf(id).join('/'))
      return Promise.resolve({ ...outcomes[fate], durationMs: 1 })
    },
    judgeGroup(group) {
      agents.judgeGroup(group)
      const { create, update, remove } = group
      for (const { key, text } of [...create, ...update]) {
        if (!key.startsWith(NOTICE)) continue
        const [id, notice] = [key.slice(NOTICE.length), JSON.parse(text!) as object]
        notices.set(id, notice)
        judgeNotice(id, notice)
      }
      // After a jump of the clock by weeks the log of a notice goes before its last attempt.
      for (const key of remove) if (key.startsWith(NOTICE)) notices.set(key.slice(NOTICE.length), { state: 'forgotten' })
    },
    judgeEnd() {
      agents.judgeEnd()
      for (const [id, { state }] of notices) if (state === 'waiting') fail(`the notice ${id} is neither delivered nor given up`)
      for (const { position, line } of disk.facts) {
        const { action, subject } = JSON.parse(line) as Line
        const callback = ends.has(action) ? docOf(subject).callback : undefined
        if (callback !== undefined && !notices.has(`${callback}/${String(position).padStart(16, '0')}`))
          fail(`${subject} ended at ${position}, and its callback ${callback} is never told`)
      }
    },
  }
}
