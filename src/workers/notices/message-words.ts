// Messages of notices in words: of what an agent wrote they hold the title, marked as its own, and never an argument.
import { limits } from '#kernel/limits.ts'

export type Item = {
  readonly event: string
  readonly request_id?: string
  readonly agent_id?: string
  readonly requester?: string
  readonly title?: string
  readonly priority?: string
  readonly risk?: string | null
  readonly link?: string
}

/** One item, or all that wait. */
export function digestOf(items: readonly Item[]): object {
  if (items.length === 1) return items[0]!
  const shown = items.slice(0, limits.digestItemsMax)
  return { event: 'digest', count: items.length, link: '/inbox', items: shown }
}

const lineFor = ({ requester = '', title = '', priority = '', risk, link = '' }: Item, origin: string): string =>
  `${requester} (${[priority, risk].filter(Boolean).join(', ')})\n  it says: "${title}"\n  ${origin}${link}\n`

const began: Readonly<Record<string, string>> = {
  created: 'asks for your answer',
  assigned: 'asks for your answer; it was given to you',
  escalated: 'asks for your answer; you were called in',
  reminded: 'still waits for your answer',
  overdue: 'waits for your answer, and its time is over',
  released: 'waits for somebody to answer',
}

export function mailFor(
  items: readonly Item[],
  origin: string,
  links: { readonly confirm: string; readonly stop: string; readonly signIn: string },
) {
  const [first] = items as [Item]
  const footer = `\n-- \nCountersign at ${origin}. Stop these mails: ${links.stop}\n`
  if (first.event === 'confirm')
    return {
      subject: 'Confirm this address for Countersign',
      text: `Somebody who uses Countersign at ${origin} wants to be told at this address what waits for them.\n\nIf that was you, confirm it:\n${links.confirm}\n\nIf not, do nothing: nothing else is sent here.\n`,
    }
  if (first.event === 'sign_in')
    return {
      subject: 'Your link to sign in to Countersign',
      text: `Open this link in the browser that you want to use. It works once, within ${limits.loginMs / 60_000} minutes:\n${links.signIn}\n\nIf you did not ask for it, do nothing: without this link nobody is signed in.\n`,
    }
  if (first.event === 'test') return { subject: 'A test of Countersign', text: `This is the test that you asked for.\n${footer}` }
  if (items.length === 1)
    return {
      subject: `${first.requester ?? 'An agent'}: ${first.title ?? 'a question'}`,
      text: `An agent ${began[first.event] ?? 'asks'}:\n\n${lineFor(first, origin)}${footer}`,
    }
  const shown = items.slice(0, limits.digestItemsMax)
  const more = items.length > shown.length ? `\nand ${items.length - shown.length} more: ${origin}/inbox\n` : ''
  return {
    subject: `${items.length} items wait for your answer`,
    text: `${items.length} items wait for your answer:\n\n${shown.map((item) => lineFor(item, origin)).join('\n')}${more}${footer}`,
  }
}
