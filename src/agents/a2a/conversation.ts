// The conversation with a remote agent about one run (A2A 1.0): the run is one task there. It is sent once, asked for its state, and every
// question of it goes to the people of our task.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import { pause } from '#sdk/transport/transport.ts'
import type { Outcome, Port, RunHandle } from '../programs/conversation.ts'
import { ofTask, type MailboxItem } from '../programs/lines.ts'
import { promptFor } from '../programs/profiles.ts'
import { deliver } from './delivery.ts'
import { RemoteError } from './remote-error.ts'
import type { RemoteAgent, RemoteTask } from './remote.ts'

export type Talk = {
  readonly port: Port
  readonly closing: AbortController
  note(message: string): void
  item: MailboxItem
  outcome: Outcome | null
  /** A person has stopped the run. */
  isInterrupted: boolean
  /** Wakes the conversation before its next look. */
  waker: AbortController
  progress: string
}
type Open = () => Promise<RemoteAgent>

/** The memo with the remote task of a run, for restarts and for its cancel. */
export const TASK_MEMO = 'a2a/task'

export function startRemoteConversation(item: MailboxItem, open: Open, port: Port, note: (message: string) => void): RunHandle {
  const talk: Talk = {
    port,
    closing: new AbortController(),
    note,
    item,
    outcome: null,
    isInterrupted: false,
    waker: new AbortController(),
    progress: '',
  }
  return {
    pass(messages, attempt) {
      talk.item = { ...talk.item, attempt, messages: [...talk.item.messages, ...messages] }
      if (messages.some(({ kind }) => kind === 'cancel')) conclude(talk, { kind: 'over' })
      if (messages.some(({ kind }) => kind === 'block')) talk.isInterrupted = true
      talk.waker.abort('woken')
    },
    stop: (kind) => conclude(talk, { kind }),
    ended: converse(talk, open).catch((error: unknown) => failureOf(talk, error)),
  }
}

function conclude(talk: Talk, outcome: Outcome): void {
  talk.outcome ??= outcome
  talk.closing.abort()
}
function failureOf(talk: Talk, error: unknown): Outcome {
  if (talk.outcome !== null) return talk.outcome
  if (error instanceof RemoteError) return { kind: 'failed', message: error.message, isFatal: error.isFatal }
  throw error
}

async function converse(talk: Talk, open: Open): Promise<Outcome> {
  const { item, port } = talk
  const begins = item.run.started_at === null && item.run.state === 'running'
  if (begins) await port.call('delegation/run.start', { run_id: item.run.id, attempt: item.attempt }).catch(refusalOnly)
  const remote = await open()
  let task = await taskOf(talk, remote)
  for (let [wait, misses] = [Number(limits.a2aPollMsMin), 0]; talk.outcome === null;) {
    const before = task
    try {
      if (task.isMessage !== true) {
        await sayAll(talk, remote, task)
        task = await remote.get(task.id)
      }
      misses = 0
    } catch (error) {
      if (!(error instanceof RemoteError) || error.isFatal || ++misses >= limits.a2aTriesMax) throw error
    }
    if (talk.outcome !== null) break
    if (talk.isInterrupted) return { kind: 'waits' }
    if (misses === 0) {
      const outcome = await meet(talk, remote, task)
      if (outcome !== null) return talk.outcome ?? outcome
    }
    const isMoved = canonical(before.status) !== canonical(task.status)
    wait = isMoved ? limits.a2aPollMsMin : Math.min(limits.a2aPollMsMax, wait * 1.5)
    talk.waker = new AbortController()
    await pause(wait * (misses + 1), AbortSignal.any([talk.waker.signal, talk.closing.signal]))
  }
  return talk.outcome
}

/** Ignores a refusal and throws any other error. */
function refusalOnly(error: unknown): void {
  if (typeof (error as { code?: unknown }).code !== 'string') throw error
}

// --- Notes of the run ----------------------------------------------------------------------------------------------------------

async function findNote(talk: Talk, key: string): Promise<unknown> {
  const { found, value } = await talk.port.call('delegation/memo.get', { run_id: talk.item.run.id, key })
  return found ? value : null
}
async function keep(talk: Talk, key: string, value: unknown): Promise<void> {
  await talk.port.call('delegation/memo.put', { run_id: talk.item.run.id, attempt: talk.item.attempt, key, value })
}

/** The remote task: of an earlier attempt, or a new one. The context finds the task of a message whose answer was lost. */
async function taskOf(talk: Talk, remote: RemoteAgent): Promise<RemoteTask> {
  const { run, request } = talk.item
  const known = (await findNote(talk, TASK_MEMO)) as { readonly task_id: string } | null
  if (known !== null) return remote.get(known.task_id)
  const before = run.continues === null ? null : await contextBefore(talk, run.continues)
  const contextId = before ?? run.id
  const isSent = (await findNote(talk, 'a2a/sending')) !== null
  if (!isSent) await keep(talk, 'a2a/sending', true)
  const found = isSent && before === null ? await remote.find(contextId) : null
  const task = found ?? (await remote.send({ messageId: `${run.id}-1`, text: promptFor(request), contextId }))
  if (task.isMessage !== true) await keep(talk, TASK_MEMO, { task_id: task.id, context_id: contextId })
  return task
}
/** A rework continues in the same context, so that the remote agent knows what it has done. */
async function contextBefore({ port }: Talk, run_id: string): Promise<string | null> {
  try {
    const { found, value } = await port.call('delegation/memo.get', { run_id, key: TASK_MEMO })
    return found ? (value as { context_id: string }).context_id : null
  } catch (error) {
    // The run of another agent: its context is not ours.
    refusalOnly(error)
    return null
  }
}

/** Sends new messages of people, each once. The answer to a question is sent with that question. */
async function sayAll(talk: Talk, remote: RemoteAgent, { id: taskId, status }: RemoteTask): Promise<void> {
  if (isEnded(status.state)) return
  const { run, messages } = talk.item
  for (const { kind, number, body } of messages) {
    const { text } = body as { readonly text?: unknown }
    if (kind !== 'steer' || typeof text !== 'string' || (await findNote(talk, `a2a/said/${number}`)) !== null) continue
    try {
      await remote.send({ messageId: `${run.id}-steer-${number}`, text, taskId })
    } catch (error) {
      // It takes no message now. The words are in the steering log.
      if (!(error instanceof RemoteError && error.isFatal)) throw error
      await tell(talk, `The remote agent did not take an amendment: ${error.message}`)
    }
    await keep(talk, `a2a/said/${number}`, true)
  }
}

// --- The states of the task ------------------------------------------------------------------------------------------------------

const isEnded = (state: string): boolean => /^TASK_STATE_(COMPLETED|FAILED|CANCELED|REJECTED)$/.test(state)

/** Handles the state of the remote task. Null: nothing to do until the next poll. */
async function meet(talk: Talk, remote: RemoteAgent, task: RemoteTask): Promise<Outcome | null> {
  const { state, text } = task.status
  const because = text === '' ? '' : `: ${text}`
  switch (state) {
    case 'TASK_STATE_COMPLETED':
      return deliver(talk, task)
    case 'TASK_STATE_FAILED':
      return failWith(`the remote agent failed${because}`)
    case 'TASK_STATE_REJECTED':
      return failWith(`the remote agent rejected the task${because}`)
    case 'TASK_STATE_CANCELED':
      return failWith(`the task was cancelled at the remote agent${because}`)
    case 'TASK_STATE_INPUT_REQUIRED':
      return question(talk, remote, task, 'input')
    case 'TASK_STATE_AUTH_REQUIRED':
      return question(talk, remote, task, 'escalation')
    default:
      if (text !== '') await tell(talk, text)
      return null
  }
}
const failWith = (message: string): Outcome => ({ kind: 'failed', message: message.slice(0, limits.textCharsMax), isFatal: true })

type Asked = { readonly checkpoint_id: string }

/** A question of the remote agent goes to the people of the task, once, and their answer goes back once. */
async function question(talk: Talk, remote: RemoteAgent, task: RemoteTask, kind: 'input' | 'escalation'): Promise<Outcome | null> {
  const { port, item } = talk
  const { status, id } = task
  const key = sha256(canonical({ ...status })).slice(0, 22)
  const question =
    status.text === '' ? (kind === 'input' ? 'The remote agent needs an input.' : 'The remote agent needs an authorization.') : status.text
  const prompt = (kind === 'input' ? question : `At the remote agent: ${question}`).slice(0, limits.promptCharsMax)
  if (item.run.task_id === null) return askCaller(talk, key, prompt)
  const asked = (await findNote(talk, `a2a/asked/${key}`)) as Asked | null
  if (asked === null) {
    const options = { idempotencyKey: `a2a/${item.run.id}/${key}` }
    const { checkpoint } = await port.call(
      'collaboration/checkpoint.raise',
      { ...(ofTask(talk.item) as { task_id: string }), kind, prompt },
      options,
    )
    await keep(talk, `a2a/asked/${key}`, { checkpoint_id: checkpoint.id }).catch(refusalOnly)
    talk.note(`asks: ${prompt}`)
    return { kind: 'waits' }
  }
  const { checkpoint } = await port.call('collaboration/checkpoint.get', { checkpoint_id: asked.checkpoint_id })
  if (checkpoint.state === 'pending') return { kind: 'waits' }
  const answer = checkpoint.resolution === null ? '' : wordsOf(checkpoint.resolution)
  const sent = `a2a/answered/${key}`
  if (answer === '' || (await findNote(talk, sent)) !== null) return null
  await remote.send({ messageId: `${item.run.id}-${asked.checkpoint_id}`, text: answer, taskId: id })
  await keep(talk, sent, true)
  return null
}

/** A run without a task asks its delegator, whose next message is the answer. */
async function askCaller(talk: Talk, key: string, message: string): Promise<null> {
  if ((await findNote(talk, `a2a/asked/${key}`)) !== null) return null
  const { run, attempt } = talk.item
  await talk.port.call('delegation/run.ask', { run_id: run.id, attempt, message }, { idempotencyKey: `a2a/${run.id}/${key}` })
  await keep(talk, `a2a/asked/${key}`, {})
  return null
}

type Resolution = { readonly action: string; readonly input?: unknown; readonly choice?: unknown; readonly comment?: unknown }
function wordsOf({ action, input, choice, comment }: Resolution): string {
  const text = (value: unknown): string =>
    typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)
  const words = [text(input), text(choice), text(comment)].filter((word) => word !== '')
  return words.length > 0 ? words.join('\n\n') : action === 'approve' ? 'Approved.' : ''
}

/** Reports progress to watching people. A failure does not affect the run. */
async function tell(talk: Talk, message: string): Promise<void> {
  const cut = message.slice(0, limits.textCharsMax)
  if (cut === talk.progress) return
  talk.progress = cut
  talk.note(cut)
  const { run, attempt } = talk.item
  await talk.port.call('delegation/run.progress', { run_id: run.id, attempt, message: cut }).catch(refusalOnly)
}
