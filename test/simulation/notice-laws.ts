// Laws of being told at the right time: nothing is said of what is decided, nothing at night but what is critical, and that at once; a push
// and a mail say what was composed for their channel and nothing else; and no floor lowers a risk.
import { createECDH } from 'node:crypto'
import type { Kernel } from '#kernel/kernel.ts'
import type { PushRing } from '#workers/keys/push-keys.ts'
import type { Mail } from '#workers/notices/mail.ts'
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'

/** One history in so many has nights, pushes, mails and floors; it has receivers as well. */
const ONE_IN = 8
export const isAtNight = (seed: number): boolean => seed % ONE_IN === 4

const CHANNEL = 'execution.channel/'
const REQUEST = 'execution.request/'
const COMPOSE = 'execution/notice.compose'
const MINUTE_MS = 60_000
const DAY_MINUTES = 24 * 60
const isOpen = ({ status }: any): boolean => status === 'pending' || status === 'assigned'

/** Keys that are the same in every process. */
function keyOf(byte: number) {
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(Buffer.alloc(32, byte))
  const point = pair.getPublicKey()
  const text = (part: Buffer): string => part.toString('base64url')
  return { key: text(point), x: text(point.subarray(1, 33)), y: text(point.subarray(33)), d: text(pair.getPrivateKey()) }
}
const { key, ...own } = keyOf(7)
export const pushRing: PushRing = {
  v: 1,
  current: { key, created_at: '2026-01-01T00:00:00.000Z', jwk: { kty: 'EC', crv: 'P-256', ...own } },
  earlier: [],
}
export const subscription = { p256dh: keyOf(9).key, auth: Buffer.alloc(16, 3).toString('base64url') }

/** By a second reading of the rule: quiet hours belong to the day on which they begin. */
export function isQuiet(hours: any, ms: number): boolean {
  if (hours === undefined) return false
  const minuteOf = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))
  const [from, to] = [minuteOf(hours.from), minuteOf(hours.to)]
  const local = new Date(ms + hours.offset_minutes * MINUTE_MS)
  const minute = local.getUTCHours() * 60 + local.getUTCMinutes()
  const begins = (day: number): boolean => hours.days === undefined || (day % 7 !== 0 && day % 7 !== 6)
  const today = local.getUTCDay()
  const length = (to - from + DAY_MINUTES) % DAY_MINUTES
  if (minute >= from && minute - from < length) return begins(today)
  return minute + DAY_MINUTES - from < length && begins(today + 6)
}

export type NoticeLaws = {
  /** The kernel as the worker of notices has it. */
  readonly spy: (kernel: Kernel) => Kernel
  readonly judge: (fact: SeenFact) => void
  readonly judgePush: (endpoint: string) => void
  readonly judgeMail: (mail: Mail) => void
  /** The link that was sent to confirm an address. */
  readonly tokenFor: (channel: string) => string | undefined
}

export function createNoticeLaws(record: FactRecord, now: () => number, happened: (what: string) => void, fail: Fail): NoticeLaws {
  /** The notice that was composed last for each channel: ids of requests, or the event. */
  const composed = new Map<string, string[]>()
  const tokens = new Map<string, string>()
  const docOf = (name: string): any => record.docs.get(name)?.value ?? null

  /** Both moments: what is decided stays so, and a night that lasts from one to the other was one all the time. */
  type Moment = { readonly ms: number; readonly open: ReadonlySet<string> }
  const momentNow = (): Moment => ({
    ms: now(),
    open: new Set([...record.docs].flatMap(([name, { value }]) => (name.startsWith(REQUEST) && isOpen(value) ? [value.id as string] : []))),
  })

  function judgeItem(channel: any, request_id: string, before: Moment, isCritical: boolean): void {
    const what = `${channel.id} of ${channel.person} is told of ${request_id}`
    if (!before.open.has(request_id)) fail(`${what}, which was decided before`)
    const after = now()
    const isNight = (): boolean =>
      Array.from({ length: 5 }, (_, i) => before.ms + ((after - before.ms) * i) / 4).every((ms) => isQuiet(channel.quiet_hours, ms))
    if (!isCritical && Math.abs(after - before.ms) < 60 * MINUTE_MS && isNight()) fail(`${what} at night, and it is not critical`)
    if (isCritical && isQuiet(channel.quiet_hours, after)) happened('critical at night')
  }

  function judgeComposed({ target, event, request_id }: any, output: any, before: Moment): void {
    const channel = docOf(CHANNEL + target)
    if (channel === null) return
    const isCritical = (id: string): boolean => docOf(REQUEST + id)?.priority === 'critical'
    if (request_id !== null && output.until !== null) {
      happened(output.is_held === true ? 'notice held back' : 'notice waits')
      if (isCritical(request_id)) fail(`${target} waits with ${request_id}, which is critical`)
    }
    if (output.data === null) return
    const items: string[] = request_id === null ? [event] : [request_id, ...output.along.map((one: any) => one.data.request_id)]
    composed.set(target, items)
    for (const id of request_id === null ? [] : items) judgeItem(channel, id, before, isCritical(id))
  }

  return {
    spy: (kernel) => ({
      ...kernel,
      async call(operation, input, caller, options) {
        if (operation !== COMPOSE) return kernel.call(operation, input, caller, options)
        const before = momentNow()
        const output = await kernel.call(operation, input, caller, options)
        judgeComposed(input, output, before)
        return output
      },
    }),
    judge({ line, images }) {
      const made = line.action === 'execution/request.created' ? images[0]!.after : null
      if (made?.kind !== 'request' || !String(made.requester).startsWith('agent_')) return
      const policies = [made.owner, made.project_id].map((id) => docOf(`execution.policy/${id}`))
      for (const { agent_id, tag, risk } of policies.flatMap((policy) => policy?.floors ?? [])) {
        if ((agent_id ?? made.requester) !== made.requester || (tag !== undefined && !made.tags.includes(tag))) continue
        happened('floor under a risk')
        if ((made.risk ?? 'R0') < risk) fail(`${made.id} has the risk ${made.risk}, and a floor says ${risk}`)
      }
    },
    judgePush(endpoint) {
      const id = endpoint.slice(endpoint.lastIndexOf('/') + 1)
      const told = [...composed.keys()].some((target) => docOf(CHANNEL + target)?.label === id)
      if (!told) fail(`a push goes to ${endpoint}, and nothing was composed for it`)
    },
    judgeMail({ id, text }) {
      const target = id.slice(0, id.indexOf('_', id.indexOf('_') + 1))
      const items = composed.get(target)
      if (items === undefined) return fail(`a mail goes to ${target}, and nothing was composed for it`)
      const token = /\/mail\/confirm\?token=(\S+)/.exec(text)?.[1]
      if (token !== undefined) tokens.set(target, token)
      for (const [, request_id] of text.matchAll(/\/inbox\/(\S+)/g))
        if (!items.includes(request_id!)) fail(`a mail to ${target} speaks of ${request_id}, which was not composed for it`)
    },
    tokenFor: (channel) => tokens.get(channel),
  }
}
