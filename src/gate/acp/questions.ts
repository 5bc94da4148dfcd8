// The open questions of an ACP agent. The policy allows or denies each one, or it is asked in the editor and in the inbox: the first answer
// counts and the other side learns it. The server decides which answer was first.
import { canonical } from '#kernel/log/canonical-json.ts'
import { createHash, randomUUID } from 'node:crypto'
import type { CallView, GatePort, Outcome } from '../port.ts'
import { refusalText } from '../answers.ts'
import { outcomeFor, verdictIn, type Permission, type Verdict } from './permission.ts'
import type { Frame, Id } from './frames.ts'

/** The person at the editor, by their own login. */
export type Person = {
  /** Why an answer in the editor does not count for this request; null: it does. */
  refusal(request_id: string): Promise<string | null>
  answer(request_id: string, verdict: Exclude<Verdict, 'cancelled'>): Promise<void>
}

export type Ports = {
  /** Uses the agent's key; null without a server, and then the editor alone decides. */
  readonly port: GatePort | null
  /** null: no person is logged in, and answers count in the inbox alone. */
  readonly person: Person | null
  /** The name of the agent in rules. */
  readonly name: string
  readonly task_id: string | null
  /** The address of the server, for links. */
  readonly where: string
}

export type Sides = {
  toEditor(frame: Omit<Frame, 'isOdd'>): void
  /** A message in the chat of the session. */
  tell(sessionId: string, text: string): void
  /** A line for the log of the editor. */
  note(text: string): void
  hasEditor(): boolean
  /** A question has ended. */
  changed(): void
}

export type Question = {
  /** The id of the agent's request, under which the editor is asked too. */
  readonly id: Id
  readonly permission: Permission
  /** The session of a sub-agent, which the editor has not opened. */
  readonly subAgent: string | null
  readonly version: string | null
  /** `isSilent`: no person answered, or the question was withdrawn. */
  answer(verdict: Verdict, isSilent: boolean): void
}

type Open = {
  readonly question: Question
  readonly stop: AbortController
  call: CallView | null
  showings: number
  isAlone: boolean
  /** The id of the dialog in the editor. Each dialog has its own, so a late answer belongs to the call that it showed. */
  shownAs: Id | null
  /** The editor has answered; its answer is on the way to the server. */
  isAnswered: boolean
  answering: Promise<void> | null
  wasInEditor: boolean
  isDecided: boolean
  isSettled: boolean
}
type By = 'editor' | 'inbox' | 'policy' | 'agent' | 'end'

const POLL_SECONDS = 25
const [RETRY_MS, RETRY_MS_MAX] = [250, 5_000]
const LATE: ReadonlySet<unknown> = new Set(['ALREADY_RESOLVED', 'EXPIRED', 'NOT_FOUND'])

const keyOf = (id: Id): string => `${typeof id} ${id}`
const codeOf = (error: unknown): unknown => (error as { code?: unknown } | null)?.code
const messageOf = (error: unknown): string => (error as Error | null)?.message ?? String(error)
function isUnreachable(error: unknown): boolean {
  const { status } = (error ?? {}) as { status?: unknown }
  return typeof status !== 'number' || status >= 500
}
const pause = (ms: number, { signal }: AbortController): Promise<void> =>
  new Promise((done) => {
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), done()), { once: true })
  })

export function createQuestions({ port, person, name, task_id, where }: Ports, sides: Sides) {
  const open = new Map<string, Open>()
  const shown = new Map<string, Open>()
  /** Equal calls are one question for the server: the second is asked when the first has ended. */
  const turns = new Map<string, Promise<unknown>>()
  /** Calls that the agent runs, by session and call. */
  const running = new Map<string, { readonly sessionId: string; readonly call_id: string }[]>()
  const recording = new Set<Promise<unknown>>()
  let wasReached = false
  let hasSaidAlone = false

  const record = (work: Promise<unknown>): void => {
    const done = work.catch((error: unknown) => sides.note(`not recorded: ${messageOf(error)}`)).finally(() => recording.delete(done))
    recording.add(done)
  }
  const linkOf = ({ url, request_id }: CallView): string => url ?? `${where}/inbox/${request_id}`
  const labelOf = ({ question: { permission } }: Open): string => `“${permission.title}”`
  const tell = ({ question }: Open, text: string): void => sides.tell(question.permission.sessionId, text)

  /** Repeats the work until the server answers. Throws its refusals, and the failure if no server was ever there. */
  async function insist<T>(one: Open, work: () => Promise<T>): Promise<T> {
    for (let ms = RETRY_MS; ; ms = Math.min(2 * ms, RETRY_MS_MAX)) {
      try {
        const answer = await work()
        wasReached = true
        return answer
      } catch (error) {
        if (!isUnreachable(error)) wasReached = true
        if (!isUnreachable(error) || !wasReached || one.isSettled) throw error
        if (ms === RETRY_MS * 2)
          tell(one, `${labelOf(one)} waits: Countersign cannot be reached (${messageOf(error)}). Nothing runs without its answer.`)
        await pause(ms, one.stop)
        if (one.isSettled) throw error
      }
    }
  }

  async function ask(question: Question): Promise<void> {
    const one: Open = {
      question,
      stop: new AbortController(),
      call: null,
      shownAs: null,
      showings: 0,
      isAlone: false,
      isAnswered: false,
      answering: null,
      wasInEditor: false,
      isDecided: false,
      isSettled: false,
    }
    open.set(keyOf(question.id), one)
    let key: string
    try {
      key = canonical(question.permission.arguments)
    } catch (error) {
      return fail(one, error)
    }
    const before = turns.get(key)
    const ended = new Promise<void>((done) => one.stop.signal.addEventListener('abort', () => done(), { once: true }))
    turns.set(key, ended)
    await before
    void ended.then(() => turns.get(key) === ended && turns.delete(key))
    await propose(one).catch((error: unknown) => fail(one, error))
  }

  function fail(one: Open, error: unknown): void {
    if (one.isSettled) return
    settle(one, 'cancelled', 'policy')
    tell(one, `${labelOf(one)} was not run: Countersign refuses it (${messageOf(error)}).`)
  }

  async function propose(one: Open): Promise<void> {
    if (one.isSettled) return
    if (port === null) return askAlone(one, 'there is no key of an agent here')
    const { permission, subAgent, version } = one.question
    let view: CallView
    try {
      view = await insist(one, () =>
        port.propose({
          server: 'acp',
          tool: `${name}/${permission.tool}`,
          arguments: permission.arguments,
          definition: null,
          ...(task_id === null ? {} : { task_id }),
          client: {
            name,
            ...(version === null ? {} : { version }),
            session_id: permission.sessionId,
            ...(subAgent === null ? {} : { sub_agent: subAgent }),
          },
        }),
      )
    } catch (error) {
      if (isUnreachable(error) && !wasReached) return askAlone(one, messageOf(error))
      throw error
    }
    one.call = view
    if (one.isSettled) return withdraw(view)
    if (view.state !== 'waiting') return decide(one, view)
    void follow(one, view).catch((error: unknown) => fail(one, error))
    await askEditor(one, view)
  }

  // --- Asking ------------------------------------------------------------------------------------------------------------------

  function show(one: Open): void {
    const { id, permission } = one.question
    one.shownAs = one.showings++ === 0 ? id : `countersign-${randomUUID()}`
    shown.set(keyOf(one.shownAs), one)
    sides.toEditor({ id: one.shownAs, method: 'session/request_permission', params: permission.shown })
  }

  /** Ends the dialog, after the editor's answer or by a request to close it. */
  function hide(one: Open, isTold: boolean): void {
    if (one.shownAs === null) return
    shown.delete(keyOf(one.shownAs))
    if (isTold) sides.toEditor({ method: '$/cancel_request', params: { requestId: one.shownAs } })
    one.shownAs = null
  }

  function askAlone(one: Open, why: string): void {
    if (!hasSaidAlone) {
      hasSaidAlone = true
      sides.note(`no server: ${why}. The editor alone decides, and nothing is recorded`)
      tell(one, `Countersign is not connected (${why}). You alone decide here, and nothing is recorded.`)
    }
    one.isAlone = true
    if (!sides.hasEditor()) return settle(one, 'cancelled', 'end')
    show(one)
  }

  async function askEditor(one: Open, view: CallView): Promise<void> {
    if (!sides.hasEditor()) return
    const refusal =
      person === null
        ? 'no person is logged in here'
        : await person.refusal(view.request_id!).catch((error: unknown) => (isUnreachable(error) ? null : messageOf(error)))
    if (one.isSettled || one.isDecided) return
    if (refusal === null) return show(one)
    tell(one, `${labelOf(one)} waits for an answer in the inbox: ${linkOf(view)} (${refusal})`)
  }

  async function follow(one: Open, { call_id }: CallView): Promise<void> {
    while (!one.isSettled && !one.isDecided) {
      const began = Date.now()
      const decided = await insist(one, () => port!.awaitAny([call_id], POLL_SECONDS, one.stop.signal)).catch((error: unknown) => {
        if (one.isSettled) return null
        throw error
      })
      if (decided === null) return
      const [view] = decided
      if (view) return decide(one, view)
      // A server that stops answers each wait immediately.
      if (Date.now() - began < RETRY_MS) await pause(RETRY_MS, one.stop)
    }
  }

  // --- Answers -----------------------------------------------------------------------------------------------------------------

  /** Takes the editor's answer; false if there was no such question. */
  function takeAnswer({ id, result, error, isOdd }: Frame): boolean {
    const one = shown.get(keyOf(id as Id))
    if (one === undefined) return false
    if (one.isAnswered) return true
    one.isAnswered = true
    const verdict = error !== undefined || isOdd ? 'cancelled' : verdictIn(result, one.question.permission)
    if (one.isAlone) settle(one, verdict, 'editor')
    else if (verdict === 'cancelled') {
      settle(one, 'cancelled', 'editor')
      withdraw(one.call!)
    } else one.answering = give(one, verdict)
    return true
  }

  async function give(one: Open, verdict: Exclude<Verdict, 'cancelled'>): Promise<void> {
    const view = one.call!
    try {
      await insist(one, () => person!.answer(view.request_id!, verdict))
      one.wasInEditor = true
    } catch (error) {
      if (one.isSettled) return
      const why = LATE.has(codeOf(error))
        ? `${labelOf(one)} was answered in the inbox first.`
        : `${labelOf(one)} is not answered yet: ${messageOf(error)}. Answer in the inbox: ${linkOf(view)}`
      return tell(one, why)
    } finally {
      one.answering = null
    }
    void decide(one, { ...view, state: verdict === 'allow' ? 'approved' : 'denied' }).catch((error: unknown) => fail(one, error))
  }

  async function decide(one: Open, view: CallView): Promise<void> {
    await one.answering
    if (one.isSettled || one.isDecided) return
    one.isDecided = true
    const by: By = one.wasInEditor ? 'editor' : view.request_id ? 'inbox' : 'policy'
    if (view.state === 'approved') return begin(one, view, by)
    // Another process of this agent has used the approval.
    if (view.state === 'begun' || view.state === 'ended') return again(one)
    const isSilent = view.state !== 'denied'
    settle(one, isSilent ? 'cancelled' : 'reject', by, isSilent)
    if (by !== 'editor') tell(one, `${labelOf(one)}: ${refusalText(view)}`)
  }

  async function begin(one: Open, view: CallView, by: By): Promise<void> {
    try {
      await insist(one, () => port!.begin(view.call_id, view.digest))
    } catch (error) {
      if (one.isSettled) return withdraw(view)
      if (codeOf(error) === 'CALL_USED') return again(one)
      throw error
    }
    // Cancelled in between: the agent never gets the approval.
    if (one.isSettled) return record(port!.conclude(view.call_id, 'failed', 0, null))
    const { permission } = one.question
    const isOffered = outcomeFor('allow', permission).outcome['outcome'] === 'selected'
    if (isOffered) {
      const key = `${permission.sessionId} ${permission.toolCallId}`
      running.set(key, [...(running.get(key) ?? []), { sessionId: permission.sessionId, call_id: view.call_id }])
    } else {
      record(port!.conclude(view.call_id, 'failed', 0, null))
      tell(one, `${labelOf(one)} was not run: the agent offers no approval for one time.`)
    }
    settle(one, 'allow', by)
    if (by === 'inbox') tell(one, `${labelOf(one)} was approved in the inbox.`)
  }

  /** The call is asked about again: an approval counts once. The editor's dialog about the last one is closed. */
  function again(one: Open): Promise<void> {
    hide(one, !one.isAnswered)
    Object.assign(one, { call: null, isAnswered: false, wasInEditor: false, isDecided: false })
    return propose(one)
  }

  function settle(one: Open, verdict: Verdict, by: By, isSilent = false): void {
    if (one.isSettled) return
    one.isSettled = true
    open.delete(keyOf(one.question.id))
    one.stop.abort()
    hide(one, by !== 'editor')
    one.question.answer(verdict, isSilent)
    sides.changed()
  }

  const withdraw = ({ call_id, state }: CallView): void => {
    if (state !== 'denied' && state !== 'expired' && state !== 'cancelled') record(port!.cancel(call_id))
  }

  // --- Ends --------------------------------------------------------------------------------------------------------------------

  /** Answers `cancelled` and withdraws the items: the editor cancels the turn, or the agent its question. */
  function cancel(isMeant: (question: Question) => boolean, by: By = 'end'): void {
    for (const one of [...open.values()].filter(({ question }) => isMeant(question))) {
      settle(one, 'cancelled', by)
      if (one.call !== null && !one.isDecided) withdraw(one.call)
    }
  }

  function cancelAlone(): void {
    for (const one of open.values()) if (one.isAlone) settle(one, 'cancelled', 'end')
  }

  /** The agent has ended: its items stay, and show that no client waits. */
  function leave(): void {
    for (const one of open.values()) {
      settle(one, 'cancelled', 'end')
      if (one.call?.state === 'waiting') record(port!.leave(one.call.call_id))
    }
    conclude(() => true, 'unknown')
  }

  function conclude(isMeant: (key: string, sessionId: string) => boolean, outcome: Outcome, output?: unknown): void {
    const text = output === undefined ? '' : JSON.stringify(output)
    const hash = output === undefined ? null : createHash('sha256').update(text).digest('base64url')
    for (const [key, calls] of running) {
      if (!isMeant(key, calls[0]!.sessionId)) continue
      running.delete(key)
      for (const { call_id } of calls) record(port!.conclude(call_id, outcome, Buffer.byteLength(text), hash))
    }
  }

  return {
    ask,
    takeAnswer,
    cancel,
    leave,
    /** The editor is gone: questions that only the editor can answer end. */
    orphan: cancelAlone,
    isOpen: (id: Id): boolean => open.has(keyOf(id)),
    count: (): number => open.size,
    /** The agent reports the outcome of a call. */
    ended: (sessionId: string, toolCallId: string, outcome: Outcome, output: unknown): void =>
      conclude((key) => key === `${sessionId} ${toolCallId}`, outcome, output),
    /** The turn has ended: calls without a report have an unknown outcome. */
    turnEnded: (sessionId: string): void => conclude((_, of) => of === sessionId, 'unknown'),
    /** Resolves when all outcomes are recorded. */
    recorded: async (): Promise<void> => {
      while (recording.size > 0) await Promise.all(recording)
    },
  }
}
