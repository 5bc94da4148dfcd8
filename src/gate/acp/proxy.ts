// `countersign acp`: between an editor and its ACP agent. Frames pass, except permission questions, which are asked in both places, and modes
// in which the agent would never ask.
import { randomUUID } from 'node:crypto'
import { limits } from '#kernel/limits.ts'
import { startAgent, type Command } from './child.ts'
import { fieldsIn, isId, readFrames, textIn, type Fields, type Frame, type Id, type Source } from './frames.ts'
import { modeOptionsIn, neverAsks, pinnedAnswer, pinsFor, switchIn, type Pin } from './modes.ts'
import { BadQuestion, describedIn, outcomeFor, permissionIn, type Permission } from './permission.ts'
import { createQuestions, type Ports } from './questions.ts'
import { createWriter, type Sink } from './writer.ts'

export type AcpOptions = {
  readonly ports: Ports
  readonly command: Command
  readonly input: Source
  readonly output: Sink
  note(text: string): void
  /** Aborts when the proxy has to end. */
  readonly stop: AbortSignal
}

const [INVALID_REQUEST, INVALID_PARAMS, INTERNAL] = [-32_600, -32_602, -32_603]
const ASKS = 'session/request_permission'
const OPENS: ReadonlySet<string> = new Set(['session/new', 'session/load', 'session/resume', 'session/fork'])
const ENDS: ReadonlySet<string> = new Set(['session/cancel', 'session/close', 'session/delete'])
const RECORD_MS = 3_000

const keyOf = (id: Id): string => `${typeof id} ${id}`
const errorTo = (id: Id, code: number, message: string): Omit<Frame, 'isOdd'> => ({ id, error: { code, message } })

type Pending = { readonly method: string; readonly params: Fields; readonly switches: string | null }
type SessionModes = {
  /** Allowed modes: the initial mode of the session, and modes that a person allowed. */
  readonly modes: Set<string>
  readonly modeOptions: ReadonlySet<string>
  /** All modes that the agent has. */
  readonly available: unknown
}

/** Resolves with the exit code of the agent when both sides have ended. */
export async function serveAcp({ ports, command, input, output, note, stop }: AcpOptions): Promise<number> {
  const agent = startAgent(command, note)
  const editorOut = createWriter(output)
  const agentOut = createWriter(agent.input)
  const sessions = new Map<string, SessionModes>()
  const fromEditorOpen = new Map<string, Pending>()
  const fromAgentOpen = new Map<string, Id>()
  const ours = new Map<string, (answer: Frame) => void>()
  const known = new Map<string, Fields>()
  let version: string | null = null
  let hasEditor = true
  let pinning = 0
  let held: Omit<Frame, 'isOdd'>[] = []
  let orphaned: NodeJS.Timeout | undefined

  const questions = createQuestions(ports, {
    toEditor,
    tell,
    note,
    hasEditor: () => hasEditor,
    changed: () => {
      if (!hasEditor && questions.count() === 0) orphaned ??= setTimeout(agent.end, limits.acpOrphanMsMax)
    },
  })

  /** While a mode is being pinned, frames after the answer about its session wait. */
  function toEditor(frame: Omit<Frame, 'isOdd'>): void {
    if (pinning > 0 && held.length < limits.acpPendingMax) held.push(frame)
    else editorOut.send(frame)
  }
  function tell(sessionId: string, text: string): void {
    const update = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `\n\nCountersign: ${text}\n\n` } }
    toEditor({ method: 'session/update', params: { sessionId, update } })
  }

  // --- From the agent ------------------------------------------------------------------------------------------------------------

  async function fromAgent(frame: Frame): Promise<void> {
    const { id, method } = frame
    if (method === undefined) await answerOfAgent(frame)
    else if (method === ASKS) askFor(frame)
    else if (method === '$/cancel_request') withdrawn(frame)
    else if (isId(id)) requestOfAgent(frame, id)
    else {
      if (method === 'session/update') learn(fieldsIn(frame.params))
      toEditor(frame)
    }
    await editorOut.ready()
  }

  function requestOfAgent(frame: Frame, id: Id): void {
    const key = keyOf(id)
    if (fromAgentOpen.has(key) || questions.isOpen(id))
      return note(`the agent used the id ${JSON.stringify(id)} again; its second request was dropped`)
    if (!hasEditor) return agentOut.send(errorTo(id, INTERNAL, 'the editor has closed the connection'))
    if (fromAgentOpen.size >= limits.acpPendingMax)
      return agentOut.send(errorTo(id, INVALID_REQUEST, `at most ${limits.acpPendingMax} requests can be open`))
    fromAgentOpen.set(key, id)
    toEditor(frame)
  }

  function askFor({ id, params, isOdd }: Frame): void {
    if (!isId(id)) return note('the agent asked without an id; the question was dropped')
    if (questions.isOpen(id) || fromAgentOpen.has(keyOf(id)))
      return note(`the agent used the id ${JSON.stringify(id)} again; its second question was dropped`)
    if (isOdd) return agentOut.send(errorTo(id, INVALID_PARAMS, 'the question repeats keys, is nested too deep or holds text that is none'))
    if (questions.count() >= limits.acpPendingMax)
      return agentOut.send(errorTo(id, INVALID_REQUEST, `at most ${limits.acpPendingMax} questions can be open`))
    let permission: Permission
    try {
      permission = permissionIn(params, (sessionId, toolCallId) => known.get(`${sessionId} ${toolCallId}`) ?? {})
    } catch (error) {
      if (!(error instanceof BadQuestion)) throw error
      note(`the agent asked a malformed question: ${error.message}`)
      return agentOut.send(errorTo(id, INVALID_PARAMS, error.message))
    }
    const { sessionId } = permission
    clearTimeout(orphaned)
    orphaned = undefined
    void questions.ask({
      id,
      permission,
      subAgent: sessions.has(sessionId) ? null : sessionId,
      version,
      answer(verdict, isSilent) {
        agentOut.send({ id, result: outcomeFor(verdict, permission) })
        // Agents take a cancelled question for a refusal; silence ends the turn, so that no model reads it as a no.
        if (isSilent) agentOut.send({ method: 'session/cancel', params: { sessionId } })
      },
    })
  }

  function withdrawn(frame: Frame): void {
    const id = fieldsIn(frame.params)['requestId']
    if (isId(id) && questions.isOpen(id)) questions.cancel((question) => question.id === id, 'agent')
    else if (!isId(id) || fromAgentOpen.has(keyOf(id))) toEditor(frame)
  }

  async function answerOfAgent(frame: Frame): Promise<void> {
    const key = keyOf(frame.id as Id)
    const onAnswer = ours.get(key)
    if (onAnswer) return onAnswer(frame)
    const asked = fromEditorOpen.get(key)
    if (asked === undefined) return note('the agent answered a request that the editor did not make; dropped')
    fromEditorOpen.delete(key)
    const { method, params, switches } = asked
    const sessionId = textIn(frame.result, 'sessionId') ?? textIn(params, 'sessionId')
    if (method === 'initialize') version = textIn(fieldsIn(frame.result)['agentInfo'], 'version')?.slice(0, limits.labelCharsMax) ?? null
    if (switches !== null) questions.ended(sessionId!, switches, frame.error === undefined ? 'succeeded' : 'failed', undefined)
    if (method === 'session/prompt' && sessionId !== null) turnEnded(sessionId)
    if (OPENS.has(method) && frame.error === undefined && sessionId !== null) return openSession(frame, sessionId)
    toEditor(frame)
  }

  function turnEnded(sessionId: string): void {
    questions.turnEnded(sessionId)
    if (!hasEditor && questions.count() === 0) agent.end()
  }

  /** Remembers fields from updates of a call, because its question can omit them. */
  function learn(params: Fields): void {
    const sessionId = textIn(params, 'sessionId')
    const update = fieldsIn(params['update'])
    const toolCallId = textIn(update, 'toolCallId')
    if (sessionId !== null) keepMode(sessionId, update)
    if (sessionId === null || toolCallId === null || !String(update['sessionUpdate']).startsWith('tool_call')) return
    const key = `${sessionId} ${toolCallId}`
    const described = { ...known.get(key), ...describedIn(update) }
    known.delete(key)
    const { status } = update
    if (status === 'completed' || status === 'failed')
      return questions.ended(sessionId, toolCallId, status === 'completed' ? 'succeeded' : 'failed', update['rawOutput'])
    if (JSON.stringify(described).length > limits.gateArgumentsBytesMax) return
    known.set(key, described)
    if (known.size > limits.acpCallsKnownMax) known.delete(known.keys().next().value!)
  }

  // --- Modes ---------------------------------------------------------------------------------------------------------------------

  /** Sets the session to a mode that asks before the editor learns of it. */
  async function openSession(frame: Frame, sessionId: string): Promise<void> {
    const answer = fieldsIn(frame.result)
    const pins = pinsFor(sessionId, answer)
    const began = textIn(answer['modes'], 'currentModeId')
    const modes = new Set([...(began === null || neverAsks(began) ? [] : [began]), ...pins.map(({ to }) => to)])
    const available = fieldsIn(answer['modes'])['availableModes']
    sessions.set(sessionId, { modes, available, modeOptions: new Set(modeOptionsIn(answer)) })
    if (pins.length === 0) return toEditor(frame)
    pinning++
    // The reader continues: it delivers the agent's answer.
    void Promise.all(pins.map(sendPin)).then((failures) => {
      const failure = failures.find((failed) => failed !== null)
      const passed = failure
        ? errorTo(frame.id as Id, INTERNAL, `Countersign cannot make this agent ask: ${failure}`)
        : { ...frame, result: pinnedAnswer(answer, pins) }
      editorOut.send(passed)
      if (--pinning > 0) return
      const late = held
      held = []
      for (const frame of late) toEditor(frame)
      if (!failure) for (const { from, to } of pins) tell(sessionId, `this agent never asks in ${from}, so it is set to ${to}.`)
    })
  }

  /** Resolves with the error, or with null once the mode is set. */
  async function sendPin({ method, params, from, to }: Pin): Promise<string | null> {
    if (to === '') return `it has no mode that asks in place of ${from}`
    const id = `countersign-${randomUUID()}`
    const { error } = await new Promise<Frame>((done) => {
      ours.set(keyOf(id), done)
      agentOut.send({ id, method, params })
    })
    ours.delete(keyOf(id))
    return error === undefined ? null : `${method} to ${to} failed: ${textIn(error, 'message') ?? ''}`
  }

  /** Resets an agent that leaves the mode by itself. */
  function keepMode(sessionId: string, update: Fields): void {
    const isMode = update['sessionUpdate'] === 'current_mode_update'
    if (!isMode && update['sessionUpdate'] !== 'config_option_update') return
    const session = sessions.get(sessionId)
    const answer = isMode ? { modes: { currentModeId: update['currentModeId'], availableModes: session?.available } } : update
    for (const pin of pinsFor(sessionId, answer)) {
      if (session?.modes.has(pin.from)) continue
      void sendPin(pin).then((failure) => {
        tell(
          sessionId,
          failure === null
            ? `the agent switched to ${pin.from}, which never asks; it is set back to ${pin.to}.`
            : `the agent no longer asks: ${failure}. It is ended.`,
        )
        if (failure !== null) agent.end()
      })
    }
  }
  /** The editor's switch to a mode that might never ask is a separate question. */
  function askToSwitch(frame: Frame, id: Id, mode: string): void {
    const sessionId = textIn(frame.params, 'sessionId') ?? ''
    const toolCallId = `switch ${randomUUID()}`
    const title = `Switch to ${mode}`.slice(0, limits.acpTitleCharsMax)
    const once = [
      { optionId: 'allow', kind: 'allow_once', name: 'Switch' },
      { optionId: 'reject', kind: 'reject_once', name: 'Stay' },
    ]
    const described = { title, kind: 'switch_mode', rawInput: { mode } }
    const shown = { sessionId, toolCall: { toolCallId, ...described, status: 'pending' }, options: once }
    const note = 'in another mode the agent can run tools without asking'
    const permission: Permission = { sessionId, toolCallId, title, tool: 'switch_mode', arguments: { ...described, note }, shown, once }
    void questions.ask({
      id: toolCallId,
      permission,
      subAgent: null,
      version,
      answer(verdict) {
        if (verdict !== 'allow') return toEditor(errorTo(id, INVALID_PARAMS, `the switch to ${mode} was not allowed`))
        sessions.get(sessionId)?.modes.add(mode)
        pass(frame, id, toolCallId)
      },
    })
  }

  // --- From the editor -----------------------------------------------------------------------------------------------------------

  async function fromEditor(frame: Frame): Promise<void> {
    const { id, method, params } = frame
    if (method === undefined) answerOfEditor(frame)
    else {
      const sessionId = textIn(params, 'sessionId')
      // Before the agent learns of the end: some agents would still run a call that is allowed afterwards.
      if (ENDS.has(method) && sessionId !== null) questions.cancel(({ permission }) => permission.sessionId === sessionId)
      if (!isId(id)) agentOut.send(frame)
      else if (fromEditorOpen.has(keyOf(id))) note(`the editor used the id ${JSON.stringify(id)} again; its second request was dropped`)
      else requestOfEditor(frame, id)
    }
    await agentOut.ready()
  }

  function requestOfEditor(frame: Frame, id: Id): void {
    if (fromEditorOpen.size >= limits.acpPendingMax)
      return toEditor(errorTo(id, INVALID_REQUEST, `at most ${limits.acpPendingMax} requests can be open`))
    const session = sessions.get(textIn(frame.params, 'sessionId') ?? '')
    const mode = switchIn(frame.method!, frame.params, session?.modeOptions ?? new Set())
    if (mode === null || session?.modes.has(mode)) return pass(frame, id, null)
    askToSwitch(frame, id, mode)
  }

  function pass(frame: Frame, id: Id, switches: string | null): void {
    fromEditorOpen.set(keyOf(id), { method: frame.method!, params: fieldsIn(frame.params), switches })
    agentOut.send(frame)
  }

  function answerOfEditor(frame: Frame): void {
    if (questions.takeAnswer(frame)) return
    if (fromAgentOpen.delete(keyOf(frame.id as Id))) return agentOut.send(frame)
    note('the editor answered what is not asked, or not any more; dropped')
  }

  /** The agent lives on while an answer can still reach it. An editor that only ended its input can still read. */
  function editorGone(): void {
    if (!hasEditor) return
    hasEditor = false
    editorOut.leave()
    for (const id of fromAgentOpen.values()) agentOut.send(errorTo(id, INTERNAL, 'the editor has closed the connection'))
    fromAgentOpen.clear()
    const wasAsking = questions.count() > 0
    questions.orphan()
    if (!wasAsking || questions.count() === 0) agent.end()
  }

  // --- Until the end -------------------------------------------------------------------------------------------------------------

  output.once?.('close', () => (editorOut.end(), editorGone()))
  const tooLong = (side: string): void => {
    note(`the ${side} sent a line of more than ${limits.acpLineBytesMax} bytes; the session ends`)
    questions.cancel(() => true)
    agent.end()
  }
  const noise = (side: string) => (): void => note(`the ${side} sent a line that is not a frame; skipped it`)
  void readFrames(input, fromEditor, noise('editor'))
    .then((isWhole) => (isWhole ? undefined : tooLong('editor')))
    .catch(() => undefined)
    .then(editorGone)
  const agentRead = readFrames(agent.output, fromAgent, noise('agent'))
    .then((isWhole) => (isWhole ? undefined : tooLong('agent')))
    .catch(() => undefined)
  stop.addEventListener('abort', () => (questions.leave(), agent.end()), { once: true })
  const code = await agent.ended
  await Promise.race([agentRead, new Promise((done) => setTimeout(done, RECORD_MS).unref())])
  clearTimeout(orphaned)
  questions.leave()
  await Promise.race([questions.recorded(), new Promise((done) => setTimeout(done, RECORD_MS).unref())])
  return code
}
