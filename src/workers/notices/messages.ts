// The texts of mails and digests. They quote only the title from the agent, marked as such, and never an argument.
import { limits } from '#kernel/limits.ts'

export type NoticeItem = {
  readonly event: string
  readonly request_id?: string
  readonly agent_id?: string
  readonly requester?: string
  readonly title?: string
  readonly priority?: string
  readonly risk?: string | null
  /** In a mail: the name of the asking agent. */
  readonly name?: string | null
  readonly expires_at?: string | null
  readonly overdue?: boolean
  readonly link?: string
}

/** A single item, or a digest of all waiting ones. */
export function digestOf(items: readonly NoticeItem[]): object {
  if (items.length === 1) return items[0]!
  const listed = items.slice(0, limits.digestItemsMax)
  return { event: 'digest', count: items.length, link: '/inbox', items: listed }
}

/**
 * Text of an agent in a mail: mail programs turn addresses into links, and the reader trusts the sender. https://a.example becomes
 * https[:]//a[.]example, which no program follows.
 */
const defuseLinks = (text: string): string =>
  text.replaceAll('://', '[:]//').replaceAll(/(?<=[\p{L}\p{N}])[.\u3002\uFF0E\uFF61](?=[\p{L}\p{N}-]*\p{L})/gu, '[.]')

const [MINUTE_MS, HOUR_MS, DAY_MS] = [60_000, 3_600_000, 86_400_000] as const
function spanOf(ms: number): string {
  if (ms < MINUTE_MS) return 'under 1 min'
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`
  return ms < 2 * DAY_MS ? `${Math.floor(ms / HOUR_MS)} h` : `${Math.floor(ms / DAY_MS)} days`
}
function timeLeft({ expires_at, overdue }: NoticeItem, nowMs: number): string | null {
  const ms = expires_at ? Date.parse(expires_at) - nowMs : null
  if (overdue === true || (ms !== null && ms <= 0)) return 'overdue'
  return ms === null ? null : spanOf(ms)
}

const nameIn = ({ name, requester }: NoticeItem): string => defuseLinks(name ?? requester ?? 'An agent')
const titleIn = ({ title }: NoticeItem): string => defuseLinks(title ?? 'a question')
/** [R3, 29 min] Roll back payments-api */
function headFor(item: NoticeItem, nowMs: number): string {
  const marks = [item.risk, timeLeft(item, nowMs)].filter(Boolean).join(', ')
  return `${marks === '' ? '' : `[${marks}] `}${titleIn(item)}`
}

function lineFor(item: NoticeItem, origin: string, nowMs: number): string {
  const { priority, risk, expires_at, link = '' } = item
  const left = timeLeft(item, nowMs)
  const until = expires_at
    ? `  answer by ${expires_at.slice(0, 16).replace('T', ' ')} UTC (${left === 'overdue' ? left : `${left} left`})\n`
    : ''
  return `${nameIn(item)} (${[priority, risk].filter(Boolean).join(', ')})\n  it says: "${titleIn(item)}"\n${until}  ${origin}${link}\n`
}

const began: Readonly<Record<string, string>> = {
  created: 'asks for your answer',
  assigned: 'asks for your answer; it was given to you',
  escalated: 'asks for your answer; you were called in',
  reminded: 'still waits for your answer',
  overdue: 'waits for your answer, and its time is over',
  released: 'waits for an answer',
}

/** About the account: the person should know even if they did it themself. */
const ofAccount: Readonly<Record<string, { readonly subject: string; readonly text: string }>> = {
  passkey_added: {
    subject: 'A passkey was added to your account',
    text: 'A passkey was added to your account in Countersign. If that was not you, remove it now, end your sessions, and tell an owner:',
  },
  passkey_removed: {
    subject: 'A passkey was removed from your account',
    text: 'A passkey was removed from your account in Countersign. If that was not you, end your sessions and tell an owner:',
  },
  passkey_reset: {
    subject: 'Your passkeys are being reset',
    text: 'An owner has reset your passkeys in Countersign: in a day none of them counts, and the next one that is added does. If you did not ask for that, tell the other owners now:',
  },
}

type Links = { readonly confirm: string; readonly stop: string; readonly signIn: string }
/** The mail for items in order of urgency: the subject names the first. */
export function mailFor(items: readonly NoticeItem[], origin: string, links: Links, nowMs: number) {
  const [first] = items as [NoticeItem]
  const footer = `\n-- \nCountersign at ${origin}. Stop these mails: ${links.stop}\n`
  if (first.event === 'confirm')
    return {
      subject: 'Confirm this address for Countersign',
      text: `A user of Countersign at ${origin} wants to receive notifications at this address.\n\nIf that was you, confirm it:\n${links.confirm}\n\nIf not, do nothing: no other mail is sent here.\n`,
    }
  if (first.event === 'sign_in')
    return {
      subject: 'Your link to sign in to Countersign',
      text: `Open this link in the browser that you want to use. It works once, within ${limits.loginMs / 60_000} minutes:\n${links.signIn}\n\nIf you did not ask for it, do nothing: without this link nobody is signed in.\n`,
    }
  const account = ofAccount[first.event]
  if (account !== undefined) return { subject: account.subject, text: `${account.text}\n\n${origin}/settings/passkeys\n${footer}` }
  if (first.event === 'test') return { subject: 'A test of Countersign', text: `This is the test that you asked for.\n${footer}` }
  if (items.length === 1)
    return {
      subject: `${headFor(first, nowMs)} (${nameIn(first)})`,
      text: `${nameIn(first)} ${began[first.event] ?? 'asks'}:\n\n${lineFor(first, origin, nowMs)}${footer}`,
    }
  const listed = items.slice(0, limits.digestItemsMax)
  const more = items.length > listed.length ? `\nand ${items.length - listed.length} more: ${origin}/inbox\n` : ''
  return {
    subject: `${items.length} items wait: ${headFor(first, nowMs)} and ${items.length - 1} more`,
    text: `${items.length} items wait for your answer:\n\n${listed.map((item) => lineFor(item, origin, nowMs)).join('\n')}${more}${footer}`,
  }
}
