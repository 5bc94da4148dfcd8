// The conversation with an ACP agent about one run: the run is a session, and each prompt ends with a delivery or with the reason for another.
import { limits } from '#kernel/limits.ts'
import type { Message } from '#protocols/delegation/schema.ts'
import { pause } from '#sdk/transport/transport.ts'
import type { LoadSessionRequest, NewSessionResponse, PromptResponse, ResumeSessionRequest, SessionUpdate } from '@agentclientprotocol/sdk'
import type { Outcome, Plan, Port, RunHandle } from '../programs/conversation.ts'
import type { MailboxItem } from '../programs/lines.ts'
import { AGENT_VARIABLE } from '../programs/marker.ts'
import { promptFor } from '../programs/profiles.ts'
import { createTimeLimit } from '../programs/time-limit.ts'
import { openConnection, type Connection } from './connection.ts'
import { deliver } from './delivery.ts'
import { readFor, writeFor } from './files.ts'
import { againPrompt, forgottenPrompt, nextPrompt, steersOf } from './prompts.ts'
import { createQuestions, takeLeft } from './questions.ts'
import { recordOf } from './record-summary.ts'
import { findSession, noteSession, type NotedSession } from './sessions.ts'
import { untilFree, type Abilities, type Sdk, type Talk } from './talk.ts'
import { createToolCalls, isToolCall } from './tool-calls.ts'
import { openWorkFolder } from './work-folder.ts'

/** The SDK's number of "authentication required", and of a session that the agent does not know. */
const NO_LOGIN = -32_000
const STOP_MS = 300
/** Modes that ask about everything; the first offered one is used. In other modes some agents let a model or a list answer. */
const ASKING_MODES = ['default', 'read-only', 'ask']
const RISKY_MODES = ['bypassPermissions', 'acceptEdits', 'auto', 'auto-edit', 'autoEdit', 'yolo', 'agent', 'agent-full-access', 'autopilot']

export function startAcpConversation(item: MailboxItem, plan: Plan, port: Port, note: (message: string) => void): RunHandle {
  const pending: { talk: Talk | null; before: Message[]; attempt: number; stop: 'lost' | 'stopped' | null } = {
    talk: null,
    before: [],
    attempt: item.attempt,
    stop: null,
  }
  async function work(): Promise<Outcome> {
    const sdk = await import('@agentclientprotocol/sdk')
    const talk = createTalk(sdk, { ...item, attempt: pending.attempt }, plan, port, note)
    pending.talk = talk
    for (const message of pending.before) receive(talk, message)
    if (pending.stop !== null) conclude(talk, { kind: pending.stop })
    return converse(talk).finally(() => talk.limit.end())
  }
  return {
    pass(messages, attempt) {
      pending.attempt = attempt
      if (pending.talk === null) return void pending.before.push(...messages)
      pending.talk.item = { ...pending.talk.item, attempt }
      for (const message of messages) receive(pending.talk, message)
    },
    stop(kind) {
      pending.stop = kind
      if (pending.talk !== null) conclude(pending.talk, { kind })
    },
    ended: work(),
  }
}

function createTalk(sdk: Sdk, item: MailboxItem, plan: Plan, port: Port, note: (message: string) => void): Talk {
  const talk: Talk = {
    sdk,
    plan,
    port,
    note,
    limit: createTimeLimit(plan.timeLimitMs, () => {
      const message = `the agent took longer than its limit of ${plan.timeLimitMs / 1_000} s`
      conclude(talk, { kind: 'failed', message, isFatal: true })
    }),
    calls: createToolCalls(),
    folder: openWorkFolder(plan.cwd, item.run.id),
    closing: new AbortController(),
    item,
    resumed: 0,
    waiter: null,
    outcome: null,
    isInterrupted: false,
    connection: null,
    session_id: null,
    snapshot: null,
    questions: null,
    abilities: null,
    isPrompted: false,
    isCancelled: false,
    amendments: [],
    text: '',
    quietSince: 0,
    progress: '',
  }
  return talk
}

/** The outcome is final; the agent's open questions are answered, its turn is cancelled and its process ends. */
function conclude(talk: Talk, outcome: Outcome): void {
  talk.outcome ??= outcome
  talk.closing.abort()
  talk.questions?.abandon()
  talk.waiter?.resolve()
  if (outcome.kind === 'stopped') talk.connection?.child.stop(null, false, STOP_MS)
  else void cancelTurn(talk)
}

/** A late answer must not reach an agent that was cancelled: some would run the call then. */
async function cancelTurn(talk: Talk): Promise<void> {
  const { connection, session_id, questions, sdk } = talk
  questions?.abandon()
  if (connection === null || session_id === null || !talk.isPrompted || talk.isCancelled) return
  talk.isCancelled = true
  await connection.answersWritten()
  await connection.agent.notify(sdk.methods.agent.session.cancel, { sessionId: session_id }).catch(() => undefined)
}

function receive(talk: Talk, message: Message): void {
  const { kind, body } = message
  if (kind === 'resume') {
    talk.resumed++
    talk.waiter?.resolve()
  }
  if (kind === 'cancel') conclude(talk, { kind: 'over' })
  if (kind === 'block') {
    talk.isInterrupted = true
    void cancelTurn(talk)
  }
  if (kind !== 'steer') return
  const [text] = steersOf([message])
  if (text === undefined) return void body
  // A second prompt during a turn cancels the first with some agents, and starts a second turn with others.
  if (talk.abilities?.canSteer !== true || !talk.isPrompted) return void talk.amendments.push(text)
  const words = { sessionId: talk.session_id, prompt: [{ type: 'text', text }] }
  talk.connection?.agent.request('_session/steering', words).catch(() => talk.amendments.push(text))
}

// --- The session -----------------------------------------------------------------------------------------------------------

async function converse(talk: Talk): Promise<Outcome> {
  const { item, port } = talk
  if (item.run.started_at === null && item.run.state === 'running')
    await port.call('delegation/run.start', { run_id: item.run.id, attempt: item.attempt }).catch(refusalOnly)
  if (talk.outcome !== null) return talk.outcome
  let outcome: Outcome
  try {
    outcome = await reach(talk)
  } finally {
    await close(talk)
    await talk.questions?.concludeRest()
  }
  // A later try of the same run still needs its first snapshot.
  if (outcome.kind === 'over' || (outcome.kind === 'failed' && outcome.isFatal)) await talk.folder.forget().catch(() => undefined)
  return outcome
}
async function reach(talk: Talk): Promise<Outcome> {
  try {
    const connection = connect(talk)
    talk.connection = connection
    return await Promise.race([talkThrough(talk, connection), endOf(talk, connection)])
  } catch (error) {
    if (talk.outcome !== null) return talk.outcome
    return talk.connection?.isGone() === true ? await endOf(talk, talk.connection) : failureOf(error)
  }
}
/** Ignores a refusal and throws any other error. */
function refusalOnly(error: unknown): void {
  if (typeof (error as { code?: unknown }).code !== 'string') throw error
}

async function talkThrough(talk: Talk, connection: Connection): Promise<Outcome> {
  talk.abilities = await introduce(talk, connection)
  let prompt = await begin(talk, connection)
  for (let count = 1; talk.outcome === null; count++) {
    if (count > limits.acpPromptsMax)
      return { kind: 'failed', message: `the agent did not finish within ${limits.acpPromptsMax} prompts`, isFatal: true }
    const { stopReason } = await take(talk, connection, prompt)
    if (talk.outcome !== null) break
    if (talk.isInterrupted) return { kind: 'waits' }
    const answered = talk.questions!.takeAnswered()
    const amendments = talk.amendments.splice(0)
    if (answered.length > 0 || amendments.length > 0) {
      // The end of the task withdraws its questions too, and the message about it can come later.
      if (!(await untilFree(talk))) return talk.outcome ?? { kind: 'over' }
      prompt = nextPrompt(answered, amendments)
    } else if (stopReason === 'end_turn') return deliver(talk)
    else return { kind: 'failed', message: `the agent ended its turn with ${stopReason}`, isFatal: true }
  }
  return talk.outcome
}

async function endOf(talk: Talk, { ended }: Connection): Promise<Outcome> {
  const { code, fault, stderr, isFatal } = await ended
  // We ended the process; the turn has the reason.
  if (talk.closing.signal.aborted) return talk.outcome ?? { kind: 'stopped' }
  const message = fault ?? `the agent ended with code ${code}`
  return { kind: 'failed', message: stderr === '' ? message : `${message}. Its last output: ${stderr.slice(-1_000)}`, isFatal }
}

function failureOf(error: unknown): Outcome {
  const { message, code, data } = error as Error & { code?: unknown; data?: unknown }
  const detail = data === undefined || data === null ? '' : ` (${JSON.stringify(data).slice(0, 500)})`
  if (code === NO_LOGIN)
    return { kind: 'failed', message: `the agent wants a login: ${message}. Log in with its own command.`, isFatal: true }
  return { kind: 'failed', message: `the agent refused: ${message}${detail}`, isFatal: false }
}

function connect(talk: Talk): Connection {
  const { sdk, plan, item } = talk
  const { methods } = sdk
  const app = sdk
    .client({ name: 'countersign' })
    .onNotification(methods.client.session.update, ({ params }) => {
      if (params.sessionId === talk.session_id) return hear(talk, params.update)
      // During a load the replay arrives before the session is ours.
      if (talk.session_id === null) talk.quietSince = performance.now()
      else talk.note('the agent sent an update for another session; skipped it')
    })
    .onRequest(methods.client.session.requestPermission, async ({ params, signal, requestId }) => {
      if (params.sessionId !== talk.session_id || talk.questions === null || !talk.isPrompted)
        throw sdk.RequestError.invalidParams({ sessionId: params.sessionId }, 'no prompt of this session is open')
      const ids = params.options.map(({ optionId }) => optionId)
      if (ids.length > limits.acpOptionsMax) throw sdk.RequestError.invalidParams(undefined, `more than ${limits.acpOptionsMax} options`)
      if (new Set(ids).size < ids.length) throw sdk.RequestError.invalidParams({ options: ids }, 'two options have the same optionId')
      if (requestId !== null) talk.connection?.expectAnswer(requestId)
      const answer = await talk.questions.ask(talk.calls.learn(params.toolCall), params.options, signal)
      // Only a cancelled turn ends with all agents; otherwise a missing answer is read as a no.
      if (talk.questions.hasUnanswered) void cancelTurn(talk)
      return answer
    })
  /** A question without an answer ends the turn here too. */
  const perform = async <T>(act: Promise<T>): Promise<T> =>
    act.finally(() => {
      if (talk.questions?.hasUnanswered === true) void cancelTurn(talk)
    })
  if (plan.offersFiles === true)
    app
      .onRequest(methods.client.fs.readTextFile, ({ params, signal }) => perform(readFor(talk, params, signal)))
      .onRequest(methods.client.fs.writeTextFile, ({ params, signal }) => perform(writeFor(talk, params, signal)))
  const command = { ...plan, env: { ...plan.env, [AGENT_VARIABLE]: item.run.agent_id } }
  return openConnection(command, app, talk.note)
}

async function introduce({ sdk, plan }: Talk, { agent }: Connection): Promise<Abilities> {
  const {
    agentCapabilities: can = {},
    agentInfo,
    _meta,
    protocolVersion,
  } = await agent.request(sdk.methods.agent.initialize, {
    protocolVersion: sdk.PROTOCOL_VERSION,
    clientCapabilities: plan.offersFiles === true ? { fs: { readTextFile: true, writeTextFile: true } } : {},
    clientInfo: { name: 'countersign', version: '1' },
  })
  if (protocolVersion !== sdk.PROTOCOL_VERSION)
    throw new Error(`the agent speaks version ${protocolVersion} of ACP, not ${sdk.PROTOCOL_VERSION}`)
  const steering = { ..._meta, ...can._meta }['steering'] as { supported?: unknown } | undefined
  return {
    name: (agentInfo?.name ?? 'acp').slice(0, limits.labelCharsMax),
    canResume: Boolean(can.sessionCapabilities && 'resume' in can.sessionCapabilities && can.sessionCapabilities.resume),
    canLoad: can.loadSession === true,
    canClose: Boolean(can.sessionCapabilities && 'close' in can.sessionCapabilities && can.sessionCapabilities.close),
    canSteer: steering?.supported === true,
  }
}

/** Begins or continues the session, and returns the first prompt. */
async function begin(talk: Talk, connection: Connection): Promise<string> {
  const { port, item, plan } = talk
  const { run, request, messages } = item
  const program = plan.argv.join(' ').slice(0, 500)
  const found = await findSession(port, run, plan.isFresh === true)
  const fits = found !== null && found.session.folder === plan.cwd && found.session.program === program
  const isBack = fits && (await comeBack(talk, connection, found.session))
  const opened = isBack ? found.session.session_id : (await open(talk, connection)).sessionId
  talk.session_id = opened
  const isSameRun = isBack && found.isSameRun
  talk.snapshot = isSameRun ? found.session.snapshot : await talk.folder.snapshot().catch((error: unknown) => noSnapshot(talk, error))
  const noted: NotedSession = {
    session_id: opened,
    folder: plan.cwd,
    program,
    at: isBack ? found.session.at : new Date().toISOString(),
    snapshot: talk.snapshot,
  }
  if (!isSameRun) await noteSession(port, run.id, talk.item.attempt, noted)
  talk.questions = createQuestions({
    port,
    agent_id: run.agent_id,
    task_id: run.task_id,
    folder: plan.cwd,
    client: { name: talk.abilities!.name, session_id: opened.slice(0, limits.labelCharsMax) },
    waits: (view) => holdFor(talk, view.task_id !== null),
    goesOn: () => talk.limit.goOn(),
  })
  const amendments = [...steersOf(messages), ...talk.amendments.splice(0)]
  const task = promptFor(request)
  const left = await takeLeft(port, opened, run.task_id)
  if (isSameRun) return againPrompt(left, amendments)
  const prompt = amendments.length === 0 ? task : `${task}\n${nextPrompt([], amendments)}`
  if (found === null || isBack) return prompt
  await tell(talk, 'The earlier session of this agent cannot be continued: its memory of this task is gone.')
  return forgottenPrompt(prompt, await recordOf(port, run.task_id))
}

function noSnapshot(talk: Talk, error: unknown): null {
  talk.note(`cannot compute the changed files: ${(error as Error).message.split('\n')[0]}`)
  return null
}

async function open(talk: Talk, { agent }: Connection): Promise<NewSessionResponse> {
  const { sdk, plan } = talk
  const session = await agent.request(sdk.methods.agent.session.new, { cwd: plan.cwd, mcpServers: [] })
  await setMode(talk, agent, session.sessionId, session.modes)
  return session
}

const MINUTE_MS = 60_000
/** Late parts of a replay must not run into the new turn. */
const QUIET_MS = 500
const QUIET_MS_MAX = 10_000

/** Resumes a session. False: the agent cannot, or the session no longer exists. */
async function comeBack(talk: Talk, { agent }: Connection, { session_id, at }: NotedSession): Promise<boolean> {
  const { sdk, plan, abilities, closing } = talk
  if (!abilities!.canResume && !abilities!.canLoad) return false
  const place: ResumeSessionRequest & LoadSessionRequest = { sessionId: session_id, cwd: plan.cwd, mcpServers: [] }
  try {
    if (abilities!.canResume) {
      const { modes } = await agent.request(sdk.methods.agent.session.resume, place)
      await setMode(talk, agent, session_id, modes)
      return true
    }
    // An agent was seen to empty a session that is loaded within the minute in which it began.
    const early = (Math.floor(Date.parse(at) / MINUTE_MS) + 1) * MINUTE_MS - Date.now()
    if (early > 0) await pause(early + 1_000, closing.signal)
    const { modes } = await agent.request(sdk.methods.agent.session.load, place)
    talk.quietSince = performance.now()
    const until = talk.quietSince + QUIET_MS_MAX
    while (performance.now() < until && performance.now() - talk.quietSince < QUIET_MS) await pause(QUIET_MS, closing.signal)
    await setMode(talk, agent, session_id, modes)
    return true
  } catch (error) {
    if (talk.closing.signal.aborted || (error as { code?: unknown }).code === NO_LOGIN) throw error
    talk.note(`the earlier session cannot be continued: ${(error as Error).message}`)
    return false
  }
}

/** After every new, load and resume: several agents fall back to a mode in which a model answers instead of a person. */
async function setMode(talk: Talk, agent: Connection['agent'], sessionId: string, modes: NewSessionResponse['modes']): Promise<void> {
  const { plan, sdk, note } = talk
  const offered = (modes?.availableModes ?? []).map(({ id }) => id)
  const modeId = plan.mode ?? ASKING_MODES.find((mode) => offered.includes(mode))
  if (plan.mode !== undefined && !offered.includes(plan.mode))
    throw new Error(`the agent has no mode ${plan.mode}; it offers ${offered.join(', ') || 'none'}`)
  if (modeId !== undefined) return void (await agent.request(sdk.methods.agent.session.setMode, { sessionId, modeId }))
  if (modes && RISKY_MODES.includes(modes.currentModeId))
    note(`the agent is in mode ${modes.currentModeId}, which does not ask: choose another with --mode (${offered.join(', ')})`)
}

// --- One turn --------------------------------------------------------------------------------------------------------------

async function take(talk: Talk, { agent }: Connection, prompt: string): Promise<PromptResponse> {
  talk.text = ''
  talk.calls.clear()
  talk.isPrompted = true
  talk.isCancelled = false
  talk.questions!.renew()
  try {
    return await agent.request(talk.sdk.methods.agent.session.prompt, {
      sessionId: talk.session_id!,
      prompt: [{ type: 'text', text: prompt }],
    })
  } finally {
    talk.isPrompted = false
    await talk.questions!.concludeRest()
  }
}

function hear(talk: Talk, update: SessionUpdate): void {
  talk.quietSince = performance.now()
  // A replay includes messages of people, so text before such a message belongs to an earlier turn.
  if (update.sessionUpdate === 'user_message_chunk') talk.text = ''
  if (!talk.isPrompted) return
  if (update.sessionUpdate === 'agent_message_chunk' && update.content.type === 'text' && talk.text.length < limits.childOutputBytesMax)
    talk.text += update.content.text
  if (update.sessionUpdate === 'plan')
    void tell(talk, `Plan: ${update.entries.map(({ status, content }) => `[${status}] ${content}`).join('; ')}`)
  if (!isToolCall(update)) return
  if (talk.text !== '' && !talk.text.endsWith('\n')) talk.text += '\n\n'
  const { status, title, toolCallId } = talk.calls.learn(update)
  if (status === 'completed' || status === 'failed') {
    void talk.questions!.concluded(toolCallId, status === 'completed' ? 'succeeded' : 'failed')
    void tell(talk, `${title ?? 'A tool call'}: ${status}`)
  }
}

/** Reports progress to watching people. A failure does not affect the run. */
async function tell(talk: Talk, message: string): Promise<void> {
  const cut = message.slice(0, limits.textCharsMax)
  if (cut === talk.progress) return
  talk.progress = cut
  talk.note(cut)
  const { port, item } = talk
  await port.call('delegation/run.progress', { run_id: item.run.id, attempt: item.attempt, message: cut }).catch(() => undefined)
}

/** The answer can take days: after a while the process is stopped, and the session continues with the answer. */
function holdFor(talk: Talk, isOfTask: boolean): void {
  const { limit, plan, closing, resumed } = talk
  limit.pause()
  if (!isOfTask) return
  void pause(plan.waitMs, closing.signal).then(async () => {
    if (closing.signal.aborted || talk.resumed !== resumed) return
    const { run } = await talk.port.call('delegation/run.get', { run_id: talk.item.run.id })
    if (run.state === 'blocked') conclude(talk, { kind: 'waits' })
  })
}

async function close(talk: Talk): Promise<void> {
  const { connection, session_id, abilities, sdk, plan, outcome } = talk
  talk.closing.abort()
  // A later approval must not begin a call of an ended process.
  talk.questions?.abandon()
  if (connection === null) return
  const isOver = outcome?.kind === 'over' && abilities?.canClose === true && session_id !== null
  const closed = isOver ? connection.agent.request(sdk.methods.agent.session.close, { sessionId: session_id }).catch(() => undefined) : null
  if (closed !== null) await Promise.race([closed, pause(STOP_MS, new AbortController().signal)])
  await connection.close(outcome?.kind === 'stopped' ? STOP_MS : plan.graceMs)
}
