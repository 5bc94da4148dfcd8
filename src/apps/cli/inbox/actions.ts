// Actions of the inbox, each from a key to an answer: the prompts before it, the request, and the message after a refusal.
import type { Item } from '#protocols/execution/inbox/item.ts'
import type { Input, Output } from '#sdk/client.ts'
import { CliError, exits } from '../exit-codes.ts'
import { endsTask, isPhrase, phraseFor, riskSentence } from '../answer/guard.ts'
import { isVerdictWord } from '../answer/words.ts'
import { choicesOf, isNo, isOpen, payloadOf, type Style } from './card.ts'
import { isFile, scopeIn, verdictOf } from './keyboard-help.ts'
import type { InboxList } from './list.ts'
import type { Line } from '../input/line-editor.ts'
import type { Remote } from '../remote/remote.ts'
import { escapeControl } from '../output/safe-text.ts'
import { untilOf } from '../input/parse-when.ts'

/** A line that the person types, and the callback that takes it. */
export type Prompt = {
  readonly label: string
  line: Line
  readonly hidden: boolean
  /** One key answers it: y, or anything else. */
  readonly isKey: boolean
  done(text: string): void | Promise<void>
}

export type Stage = {
  readonly items: InboxList
  tell(text: string, style?: Style): void
  ask(label: string, done: Prompt['done'], hidden?: boolean): void
  /** Asks for y or n, by one key. */
  askKey(label: string, done: Prompt['done']): void
  /** Runs the work, redraws, and shows its error. */
  attempt(work: () => Promise<void>): Promise<void>
  /** The person has answered this item here. */
  answered(item: Item, message: string): void
  /** Uploads a requested file; the answer refers to it. */
  upload(item: Item, path: string): Promise<unknown>
  /** Hands the terminal to `work` and takes it back. */
  aside<T>(work: () => Promise<T>): Promise<T>
}

export type Reply = { readonly result: unknown; readonly reason?: string; readonly message: string }
export type InboxActions = {
  readonly isBusy: boolean
  /** One answer at a time. */
  busily(work: () => Promise<void>): Promise<void>
  answer(item: Item, key: string): void
  question(item: Item): void
  snooze(item: Item): void
  /** Grants a scope to the task of the item, after a preview of the questions it would have answered. The item itself stays open. */
  grant(item: Item): void
  /** Reloads an item that has changed or was closed. */
  shownAgain(item: Item, error: CliError): Promise<void>
}

/** Why the answer needs a confirmation; null if it needs none. */
export const warningFor = (item: Item, result: unknown): string | null =>
  endsTask(item, result) ? `${endingLabel(item)}: ${item.effects.reject}.` : null
const endingLabel = ({ kind }: Item): string => (kind === 'escalation' || kind === 'interrupt' ? 'End the task' : 'Reject')
/** The prompt for the reason that the answer needs; null if it needs none. */
export function reasonFor(item: Item, result: string): string | null {
  if (result === 'changes_requested') return 'Changes to make? The agent gets them.'
  return result === 'rejected' && payloadOf(item).reject_requires_reason === true ? 'Why not? The agent requires a reason.' : null
}

type Doubt = { readonly item: Item; readonly result: unknown; readonly warning?: string | null; readonly question: string }
/** Confirms an act that cannot be undone: from R4 on by the phrase of the item, otherwise by y or n. */
export function sure({ ask, askKey, tell }: Stage, { item, result, question, ...doubt }: Doubt, then: () => Promise<void>): void {
  const warning = doubt.warning === undefined ? warningFor(item, result) : doubt.warning
  const phrase = phraseFor(item, result)
  const quotedPhrase = JSON.stringify(escapeControl(phrase ?? ''))
  if (phrase !== null)
    return ask(`${riskSentence(item)}. ${warning === null ? '' : `${warning} `}${question} Type ${quotedPhrase} to confirm`, (text) =>
      isPhrase(phrase, text) ? then() : tell(`Nothing was answered: that is not ${quotedPhrase}`, 'red'),
    )
  if (warning === null) return void then()
  askKey(`${warning} ${question} (y or n)`, (text) => (isYes(text) ? then() : tell('Nothing was answered')))
}
export const isYes = (text: string): boolean => /^y(es)?$/i.test(text.trim())

/** The answer to an escalation that gives its task to another agent. */
export const handingOver = ({ checkpoint_id, digest }: Item, reassign_to: string) => ({
  checkpoint_id: checkpoint_id!,
  action: 'reassign' as const,
  reassign_to,
  digest,
})

const PREVIEW_DAYS = 30
type Preview = Output<'collaboration/grant.preview'>
const previewText = ({ would_answer, approved, rejected }: Preview): string =>
  would_answer === 0
    ? `In the last ${PREVIEW_DAYS} days it would have answered nothing that this agent asked.`
    : `In the last ${PREVIEW_DAYS} days it would have answered ${would_answer} of this agent's questions: people approved ${approved} and rejected ${rejected} of them.`

type Answering = 'execution/request.resolve' | 'execution/request.decline' | 'collaboration/checkpoint.resolve'

export function createInboxActions(remote: Remote, stage: Stage): InboxActions {
  const { items, tell, ask, attempt, answered } = stage
  let isBusy = false

  async function busily(work: () => Promise<void>): Promise<void> {
    isBusy = true
    tell('sending…', 'dim')
    try {
      await work()
    } finally {
      isBusy = false
    }
  }

  async function send<N extends Answering>(item: Item, message: string, operation: N, input: Input<N>): Promise<void> {
    const { request_id } = item
    try {
      const answer = await remote.call(operation, input)
      const outcome = 'request' in answer && answer.receipt === undefined ? `${message}, your vote` : message
      items.mark(request_id, outcome)
      answered(item, outcome)
      await items.reload(request_id)
    } catch (error) {
      if (!(error instanceof CliError) || error.exit !== exits.refused) throw error
      await shownAgain(item, error)
    }
  }
  const callFor = <N extends Answering>(item: Item, message: string, operation: N, input: Input<N>): Promise<void> =>
    attempt(() => busily(() => send(item, message, operation, input)))
  const sendResult = (item: Item, { result, reason, message }: Reply): Promise<void> => {
    const { request_id, digest } = item
    return callFor(item, message, 'execution/request.resolve', { request_id, digest, result, ...(reason === undefined ? {} : { reason }) })
  }

  /** Every action that sends a text. An empty text sends nothing. */
  function askText(label: string, then: (text: string) => void | Promise<void>): void {
    ask(label, (text) => (text.trim() === '' ? tell('Nothing was answered') : then(text.trim())))
  }
  const declineItem = (item: Item): void =>
    askText('Why do you decline it? The agent and the record get it.', (reason) =>
      callFor(item, 'declined', 'execution/request.decline', { request_id: item.request_id, digest: item.digest, reason }),
    )
  const instructAgent = (item: Item): void =>
    askText('Tell the agent what to do; it goes on with that.', (reason) =>
      sure(stage, { item, result: 'approved', question: 'Tell it?' }, () =>
        sendResult(item, { result: 'approved', message: 'told', reason }),
      ),
    )
  function handOver(item: Item): void {
    askText('Hand the task to which agent? Its id, such as agent_kim', (typed) => {
      const assignee = typed.startsWith('agent_') ? typed : `agent_${typed}`
      return callFor(item, `handed to ${assignee}`, 'collaboration/checkpoint.resolve', handingOver(item, assignee))
    })
  }

  async function shownAgain({ request_id }: Item, error: CliError): Promise<void> {
    const now = await items.reload(request_id)
    if (error.code === 'CHANGED') return tell('It has changed since it was shown: read it again, then answer', 'red')
    if (now && !isOpen(now)) return tell(`Too late: it is ${items.marks.get(request_id) ?? now.status}`, 'red')
    tell(error.message, 'red')
  }

  function judgeItem(item: Item, key: string, result: string): void {
    const answer = (reason?: string): Promise<void> =>
      sendResult(item, { result, message: result, ...(reason === undefined ? {} : { reason }) })
    const question = result === 'approved' ? 'Approve?' : result === 'rejected' ? `${endingLabel(item)}?` : 'Request changes?'
    const required = reasonFor(item, result)
    const go = (reason?: string): void => sure(stage, { item, result, question }, () => answer(reason))
    if (required === null && key === key.toLowerCase()) return go()
    ask(required ?? 'Why? The agent and the record get it.', (text) => {
      if (text.trim() !== '') return go(text)
      return required === null ? go() : tell('Not answered: a reason is required here', 'red')
    })
  }

  function chooseOption(item: Item, key: string): void {
    const result = choicesOf(item)[Number(key) - 1]!
    if (item.kind === 'review') return judgeItem(item, key, String(result))
    const go = (reason?: string): void =>
      sure(stage, { item, result, question: `Answer ${JSON.stringify(result)}?` }, () =>
        sendResult(item, { result, message: `answered ${JSON.stringify(result)}`, ...(reason === undefined ? {} : { reason }) }),
      )
    if (!isNo(item, result)) return go()
    ask('Why? The agent and the record get it; empty: no reason.', (text) => go(text.trim() === '' ? undefined : text))
  }

  function provideInput(item: Item): void {
    const { sensitive = false, validation } = payloadOf(item)
    const values = validation?.multiple === true ? (validation.allowed_values ?? []) : []
    if (values.length > 0) tell(values.map((value, i) => `${i + 1} ${value}`).join('  '))
    const then = (result: unknown): void => {
      // Ask for confirmation before sending a verdict word as a value.
      const warning = typeof result === 'string' && isVerdictWord(result) ? `The agent would get the word "${result}" as the value.` : null
      sure(stage, { item, result, warning, question: 'Send it?' }, () => sendResult(item, { result, message: 'provided' }))
    }
    const submitText = (text: string): void | Promise<void> => {
      if (text === '') return tell('Nothing was answered')
      if (values.length === 0) return then(text)
      const chosen = text.split(/[\s,]+/).map((number) => values[Number(number) - 1])
      return chosen.includes(undefined) ? tell('Not answered: these are not numbers of the list', 'red') : then(chosen)
    }
    ask(`Your answer${values.length > 0 ? ' (numbers such as 1,3)' : ''}${sensitive ? ' (not shown)' : ''}`, submitText, sensitive)
  }

  const sendingFile = (item: Item): void =>
    askText('Path of the file', (path) =>
      attempt(async () => {
        const result = await stage.upload(item, path)
        sure(stage, { item, result, question: 'Send it?' }, () => sendResult(item, { result, message: 'provided a file' }))
      }),
    )

  return {
    get isBusy() {
      return isBusy
    },
    busily,
    shownAgain,
    answer(item, key) {
      const result = verdictOf(item, key.toLowerCase())
      if (key === 'p') (isFile(item) ? sendingFile : provideInput)(item)
      else if (key === 'd') declineItem(item)
      else if (key === 't') instructAgent(item)
      else if (key === 'h') handOver(item)
      else if (result !== undefined) judgeItem(item, key, result)
      else chooseOption(item, key)
    },
    question({ request_id }) {
      ask('Your question to the agent; its reply appears in the card', (text) => {
        if (text.trim() === '') return
        return attempt(async () => {
          await remote.call('execution/request.question', { request_id, text })
          await items.reload(request_id)
          tell('Asked: the reply appears here', 'green')
        })
      })
    },
    grant(item) {
      const task_id = item.task_id!
      const offered = scopeIn(item)
      const message = offered === null ? 'such as deploy:staging' : `${offered} when left empty`
      ask(`Allow which scope beforehand, for this task? ${message}`, (typed) => {
        const scope = typed.trim() || offered
        if (scope === null) return tell('Nothing was granted')
        return attempt(async () => {
          const preview = await remote.call('collaboration/grant.preview', { task_id, scope, days: PREVIEW_DAYS })
          ask(
            `${previewText(preview)}\nAllow ${scope} until: task, session, 2h, 1d, or a time; nothing is granted when left empty`,
            (text) => {
              const [asked] = text.trim().toLowerCase().split(' ') as [string]
              if (asked === '') return tell('Nothing was granted')
              const until = asked === 'task' || asked === 'session' ? asked : untilOf(text, Date.now())
              if (until === null) return tell('Not a valid time: task, session, 2h, 1d, tomorrow, or 2026-12-24T09:00:00Z', 'red')
              return attempt(async () => {
                await remote.call('collaboration/grant.add', { task_id, scope, decision: 'allow', until })
                tell(`✔ granted: ${scope} until ${until}; this item still waits for your answer`, 'green')
              })
            },
          )
        })
      })
    },
    snooze({ request_id }) {
      ask('Snooze until: 30m, 2h, 1d, tomorrow, or a time; 1h when left empty', (text) => {
        const until = untilOf(text.trim() === '' ? '1h' : text, Date.now())
        if (until === null) return tell('Not a valid time: 30m, 2h, 1d, tomorrow, or 2026-12-24T09:00:00Z', 'red')
        return attempt(async () => {
          await remote.call('execution/request.snooze', { request_id, until })
          items.mark(request_id, 'snoozed')
          tell(`Snoozed: it comes back at ${until}`, 'green')
        })
      })
    },
  }
}
