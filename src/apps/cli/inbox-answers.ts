// From a key to an answer: what has to be asked first, what is sent, and what is said when the server says no.
import type { Item } from '#protocols/execution/inbox.ts'
import { CliError, exits } from './exits.ts'
import { cardIn, choicesOf, isOpen, type Style } from './inbox-card.ts'
import type { Items } from './inbox-items.ts'
import type { Remote } from './remote.ts'
import { untilOf } from './until.ts'

/** What somebody types, and what becomes of it. */
export type Prompt = { readonly label: string; text: string; readonly hidden: boolean; done(text: string): void | Promise<void> }

export type Stage = {
  readonly items: Items
  tell(text: string, style?: Style): void
  ask(label: string, done: Prompt['done'], hidden?: boolean): void
  /** Does it, draws, and says what went wrong. */
  attempt(work: () => Promise<void>): Promise<void>
  /** Somebody has answered here. */
  answered(item: Item, words: string): void
}

type Reply = { readonly result: unknown; readonly reason?: string; readonly words: string }
export type Answers = {
  /** An answer is under way. */
  readonly isBusy: boolean
  answer(item: Item, key: string): void
  question(item: Item): void
  snooze(item: Item): void
}

export function createAnswers(remote: Remote, stage: Stage): Answers {
  const { items, tell, ask, attempt, answered } = stage
  let isBusy = false

  async function send(item: Item, { result, reason, words }: Reply): Promise<void> {
    const { request_id, digest } = item
    isBusy = true
    tell('sending…', 'dim')
    try {
      const input = { request_id, digest, result, ...(reason === undefined ? {} : { reason }) }
      const answer: { receipt?: unknown } = await remote.call('execution/request.resolve', input)
      const done = answer.receipt ? words : `${words}, your vote`
      items.mark(request_id, done)
      answered(item, done)
      await items.reload(request_id)
    } catch (error) {
      if (!(error instanceof CliError) || error.exit !== exits.refused) throw error
      await shownAgain(item, error)
    } finally {
      isBusy = false
    }
  }

  /** Not what was shown, or not open any more: it is shown as it is now. */
  async function shownAgain({ request_id }: Item, error: CliError): Promise<void> {
    const now = await items.reload(request_id)
    if (error.code === 'CHANGED') return tell('it has changed since it was shown: read it again, then answer', 'red')
    if (now && !isOpen(now)) return tell(`too late, it is ${items.marks.get(request_id) ?? now.status}`, 'red')
    tell(error.message, 'red')
  }

  /** What cannot be taken back is asked twice. */
  function sure(warning: string | null, question: string, then: () => Promise<void>): void {
    if (warning === null) return void then()
    ask(`${warning} ${question} (y or n)`, (text) => (/^y(es)?$/i.test(text.trim()) ? then() : tell('left as it was')))
  }

  function judging(item: Item, key: string): void {
    const isYes = key.toLowerCase() === 'a'
    const result = isYes ? 'approved' : 'rejected'
    const answer = (reason?: string): Promise<void> =>
      attempt(() => send(item, { result, words: result, ...(reason === undefined ? {} : { reason }) }))
    const isGrave = isYes && (item.risk === 'R4' || item.risk === 'R5')
    const isEnd = !isYes && item.kind !== 'request' && item.task_id !== null
    const warning = isGrave ? `Its risk is ${item.risk}.` : isEnd ? `If you reject: ${item.effects.reject}.` : null
    const mustSay = !isYes && cardIn(item).payload.reject_requires_reason === true
    if (!mustSay && key === key.toLowerCase()) return sure(warning, isYes ? 'Approve?' : 'Reject?', answer)
    ask(mustSay ? 'Why not? The agent wants a reason.' : 'Why? The agent and the record get it.', (text) => {
      if (text.trim() !== '') return answer(text)
      return mustSay ? tell('a rejection needs a reason here', 'red') : answer()
    })
  }

  function choosing(item: Item, key: string): void {
    const result = choicesOf(item)[Number(key) - 1]!
    const isEnd = item.kind === 'review' && result === 'rejected'
    sure(isEnd ? 'This ends the task.' : null, `Answer ${String(result)}?`, () =>
      attempt(() => send(item, { result, words: String(result) })),
    )
  }

  function providing(item: Item): void {
    const { prompt = item.title, sensitive = false, validation, placeholder } = cardIn(item).payload
    const values = validation?.multiple === true ? (validation.allowed_values ?? []) : []
    const hint = values.length > 0 ? ' (numbers such as 1,3)' : placeholder === undefined ? '' : ` (such as ${placeholder})`
    if (values.length > 0) tell(values.map((value, i) => `${i + 1} ${value}`).join('  '))
    const then = (result: unknown): Promise<void> => attempt(() => send(item, { result, words: 'provided' }))
    const done = (text: string): void | Promise<void> => {
      if (text === '') return tell('left as it was')
      if (values.length === 0) return then(text)
      const chosen = text.split(/[\s,]+/).map((number) => values[Number(number) - 1])
      return chosen.includes(undefined) ? tell('those are no numbers of the list', 'red') : then(chosen)
    }
    ask(`${prompt}${hint}${sensitive ? ' (not shown)' : ''}`, done, sensitive)
  }

  return {
    get isBusy() {
      return isBusy
    },
    answer(item, key) {
      if (key === 'p') providing(item)
      else if (/^[1-9]$/.test(key)) choosing(item, key)
      else judging(item, key)
    },
    question({ request_id }) {
      ask('What do you want to know? The agent replies.', (text) => {
        if (text.trim() === '') return
        return attempt(async () => {
          await remote.call('execution/request.question', { request_id, text })
          await items.reload(request_id)
          tell('asked: the reply appears here', 'green')
        })
      })
    },
    snooze({ request_id }) {
      ask('Until when? 30m, 2h, 1d, tomorrow, or a time; 1h when left empty', (text) => {
        const until = untilOf(text.trim() === '' ? '1h' : text, Date.now())
        if (until === null) return tell('that is no time: 30m, 2h, 1d, tomorrow, or 2026-12-24T09:00:00Z', 'red')
        return attempt(async () => {
          await remote.call('execution/request.snooze', { request_id, until })
          items.mark(request_id, 'snoozed')
          tell(`it comes back at ${until}`, 'green')
        })
      })
    },
  }
}
