// The conversation with one child about one run: its lines become operations, messages become lines. A restarted child gets the run again,
// and every question that was answered before is answered immediately, so it returns to the place it had reached.
import { sha256 } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import type { Message } from '#protocols/delegation/schema.ts'
import type { Call } from '#protocols/index.ts'
import type { CallOptions } from '#sdk/transport/transport.ts'
import { startChild, type Child, type ChildEnd, type Command } from './child.ts'
import {
  answerLine,
  errorLine,
  inlinePayload,
  messageLine,
  ofTask,
  runLine,
  parseLine,
  type MailboxItem,
  type ParsedLine,
} from './lines.ts'
import { openKeptSession } from './kept-session.ts'
import { AGENT_VARIABLE } from './marker.ts'
import { createTimeLimit } from './time-limit.ts'
import { promptFor, resultIn, type Profile } from './profiles.ts'

/** How operations are called: in this process, or over the network. A refusal has a code. */
export type Port = {
  readonly call: Call<CallOptions>
  upload(
    task_id: string,
    bytes: Buffer,
    about?: { readonly media_type: string; readonly name: string },
  ): Promise<{ readonly uri: string; readonly checksum: string; readonly size: number }>
}
export type Plan = Command & {
  readonly profile: Profile
  readonly timeLimitMs: number
  readonly waitMs: number
  /** The mode of an ACP agent; by default the first offered one that asks for everything. */
  readonly mode?: string
  /** An ACP agent reads and writes its files through us: inside `cwd` alone, each by the policy. */
  readonly offersFiles?: boolean
  /** Each run begins a session of its own. */
  readonly isFresh?: boolean
}

/** over: the run has ended. waits: a person must answer. lost: another process has the run. */
export type Outcome =
  | { readonly kind: 'over' | 'waits' | 'lost' | 'stopped' }
  | { readonly kind: 'failed'; readonly message: string; readonly isFatal: boolean }
/** A conversation as the run loop sees it. */
export type RunHandle = {
  pass(messages: readonly Message[], attempt: number): void
  stop(kind: 'lost' | 'stopped'): void
  readonly ended: Promise<Outcome>
}
type Note = (message: string) => void

type LineCall = ParsedLine & { kind: 'call' }
type Conversation = {
  readonly plan: Plan
  readonly port: Port
  readonly note: Note
  readonly limit: ReturnType<typeof createTimeLimit>
  item: MailboxItem
  /** asking: the child's question is being sent, and the answer can arrive first. waiting: a person must answer. ended: `outcome` is set. */
  phase: 'running' | 'asking' | 'waiting' | 'ended'
  outcome: Outcome | null
  /** Null before it is started, and once a child that speaks in lines has exited. */
  child: Child | null
  /** The number of performed lines of each type, and of questions. */
  readonly counts: Map<string, number>
  questions: number
  /** Answers without a question yet, the number of all answers, and the wait for the next one. */
  readonly resumes: Message[]
  resumed: number
  waiter: PromiseWithResolvers<Message> | null
}

type Failure = { readonly code: string; readonly message: string }
const failureIn = (error: unknown): Failure => {
  const { code, message } = error as Partial<Failure>
  if (typeof code !== 'string' || typeof message !== 'string') throw error
  return { code, message }
}
const textIn = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null))
/** The grace period of a child at a stop of the server, which waits for it. */
const STOP_MS = 300
const checkpointIn = ({ body }: Message): string => (body as { checkpoint_id: string }).checkpoint_id
/** The child ended while its question was open. */
class Gone extends Error {
  readonly code = 'GONE'
}
/** Calls about a task carry no attempt: a later attempt repeats the same call, under the same key. */
const repeatableInput = (operation: string, { attempt, ...input }: LineCall['input']): object =>
  operation.startsWith('collaboration/') ? input : { ...input, attempt }
const isEnded = (state: string): boolean => state === 'completed' || state === 'failed'

export function startConversation(item: MailboxItem, plan: Plan, port: Port, note: Note): RunHandle {
  const self: Conversation = {
    plan,
    port,
    note,
    limit: createTimeLimit(plan.timeLimitMs, () =>
      self.child?.stop(`the command took longer than its limit of ${plan.timeLimitMs / 1_000} s`, true),
    ),
    item,
    phase: 'running',
    outcome: null,
    child: null,
    counts: new Map(),
    questions: 0,
    resumes: item.messages.filter(({ kind }) => kind === 'resume'),
    resumed: 0,
    waiter: null,
  }
  return {
    pass(messages, attempt) {
      self.item = { ...self.item, attempt }
      for (const message of messages) passMessage(self, message)
    },
    stop: (kind) => conclude(self, kind),
    ended: work(self).finally(() => self.limit.end()),
  }
}

// --- The child -------------------------------------------------------------------------------------------------------------

async function work(self: Conversation): Promise<Outcome> {
  const { item, plan, port } = self
  if (item.run.started_at === null && item.run.state === 'running')
    await port.call('delegation/run.start', { run_id: item.run.id, attempt: item.attempt }).catch(failureIn)
  // A stop or a cancel came first.
  if (self.outcome !== null) return self.outcome
  const isLines = plan.profile.input === 'lines'
  const prompt = isLines ? '' : promptFor(self.item.request)
  const session = await openKeptSession(plan, port, self.item)
  if (self.outcome !== null) return self.outcome
  const argv = session.argv.map((word) => (plan.profile.input === 'argv' ? word.replaceAll('{prompt}', () => prompt) : word))
  if (argv.some((word) => Buffer.byteLength(word) > limits.childPromptBytesMax))
    return {
      kind: 'failed',
      message: 'the prompt is too long for an argument: use a profile that takes it on standard input',
      isFatal: true,
    }
  let printed = ''
  // The marker comes last, so that no setting of the operator overrides it.
  const command = { ...plan, argv: argv as [string, ...string[]], env: { ...plan.env, [AGENT_VARIABLE]: item.run.agent_id } }
  const child = startChild(
    command,
    plan.profile.output.kind === 'lines'
      ? { kind: 'lines', hear: (line) => receive(self, line), gone: () => leave(self) }
      : { kind: 'text', hear: (text) => (printed = text) },
  )
  self.child = child
  if (isLines) child.write(runLine(self.item) + steersOf(self.item.messages))
  else if (plan.profile.input === 'stdin') child.write(prompt)
  if (!isLines) child.close()
  const end = await child.ended
  self.limit.pause()
  const isGood = end.code === 0 && end.fault === null && plan.profile.output.kind !== 'lines'
  if (self.outcome === null) await session.conclude(printed, isGood).catch(failureIn)
  if (!isGood || self.outcome !== null) return outcomeOf(self, end)
  return deliver(self, resultIn(printed, session.output)).catch((error: unknown) => {
    if (error instanceof Gone && self.outcome !== null) return self.outcome
    throw error
  })
}

function outcomeOf({ outcome }: Conversation, { code, fault, stderr, isFatal }: ChildEnd): Outcome {
  if (outcome) return outcome
  const message = fault ?? (code === 0 ? 'the command ended without saying complete or fail' : `the command ended with code ${code}`)
  const last = stderr === '' ? '' : `. Its last output: ${stderr.slice(-1_000)}`
  return { kind: 'failed', message: `${message}${last}`, isFatal }
}

function end(self: Conversation, kind: 'over' | 'waits' | 'lost' | 'stopped'): void {
  self.phase = 'ended'
  self.outcome ??= { kind }
}
function conclude(self: Conversation, kind: 'over' | 'waits' | 'lost' | 'stopped'): void {
  end(self, kind)
  self.child?.stop(null, false, kind === 'stopped' ? STOP_MS : self.plan.graceMs)
  // The program has printed its result and exited, so no exit ends this wait.
  if (self.plan.profile.output.kind !== 'lines') self.waiter?.reject(new Gone('the child has ended'))
}

/** A child that speaks in lines has exited: no answer can reach it. */
function leave(self: Conversation): void {
  self.child = null
  if (self.waiter) self.waiter.reject(goneFrom(self))
}
function goneFrom(self: Conversation): Gone {
  end(self, 'waits')
  return new Gone('the child has ended')
}

/** The output of a program that does not know this protocol becomes the artifact. */
async function deliver(self: Conversation, text: string | null): Promise<Outcome> {
  const { item, port, note } = self
  if (text === null) return { kind: 'failed', message: 'the command succeeded but printed no result', isFatal: false }
  const { task_id } = item.run
  const call = { kind: 'call', effect: 'none' } as const
  let answer: object | null
  if (task_id === null) {
    const result = { text: text.slice(0, limits.textCharsMax) }
    const input = { run_id: item.run.id, attempt: item.attempt, result }
    answer = await perform(self, { ...call, type: 'complete', operation: 'delegation/run.complete', input })
  } else {
    const bytes = Buffer.from(text)
    const payload =
      bytes.length <= limits.inlineBytesMax / 2 ? inlinePayload(text) : { kind: 'blob', ...(await port.upload(task_id, bytes)) }
    const input = { ...ofTask(self.item), type: 'text', payload }
    answer = await perform(self, { ...call, type: 'commit', operation: 'collaboration/artifact.commit', input })
  }
  if (answer !== null) note('delivered')
  return self.outcome ?? { kind: 'over' }
}

// --- Lines of the child ----------------------------------------------------------------------------------------------------

async function receive(self: Conversation, bytes: Uint8Array): Promise<void> {
  if (self.phase === 'ended') return
  const { plan, note } = self
  const line = parseLine(bytes, self.item)
  if (line.kind === 'wrong') return self.child?.write(errorLine('line', 'INVALID_REQUEST', line.message))
  try {
    if (line.effect === 'asks') return await ask(self, line)
    if (line.effect === 'answers') return await answerCall(self, line)
    const answer = await perform(self, line)
    if (line.type === 'progress') note(textIn(line.input['message'] ?? `${textIn(line.input['percent'])} %`))
    const isDelivered = line.type === 'commit' && (answer?.['task'] as { state?: string } | undefined)?.state === 'review_ready'
    if (answer === null || !(isDelivered || line.effect === 'ends')) return
    note(line.type === 'fail' ? `failed: ${textIn(line.input['error'])}` : 'delivered')
    self.outcome = { kind: 'over' }
    self.phase = 'ended'
    self.child?.close()
    // The child has printed everything; it can still clean up.
    setTimeout(() => self.child?.stop(null), plan.graceMs).unref()
  } catch (error) {
    const { code, message } = failureIn(error)
    self.child?.write(errorLine(line.type, code, message))
  }
}

/** Makes a call, and waits while a person has stopped the run. Null: the call was refused, and the child got the error. */
async function perform(self: Conversation, { type, operation, input }: LineCall): Promise<Record<string, unknown> | null> {
  const { port, counts } = self
  const count = (counts.get(type) ?? 0) + 1
  counts.set(type, count)
  for (;;) {
    const before = self.resumed
    try {
      const key = `child/${self.item.run.id}/${type}/${count}/${sha256(JSON.stringify(repeatableInput(operation, input))).slice(0, 16)}`
      return await port.call(operation, input, { idempotencyKey: key })
    } catch (error) {
      const { code, message } = failureIn(error)
      if (code === 'CONFLICT' && (await isLost(self, operation))) conclude(self, 'lost')
      else if (type !== 'progress' || (code !== 'INVALID_TRANSITION' && code !== 'QUOTA_EXCEEDED')) {
        const state = await stateNow(self)
        if (type !== 'progress' && (state === 'blocked' || self.resumed > before)) {
          if (self.resumed === before) await nextResume(self)
          continue
        }
        if (isEnded(state)) conclude(self, 'over')
        else self.child?.write(errorLine(type, code, message))
      }
      return null
    }
  }
}

async function stateNow({ port, item }: Conversation): Promise<string> {
  return (await port.call('delegation/run.get', { run_id: item.run.id })).run.state
}

/** Whether a call was refused because another process has the run. A conflict about a task can have other causes. */
async function isLost({ port, item }: Conversation, operation: string): Promise<boolean> {
  if (operation.startsWith('delegation/')) return true
  const runs = [{ run_id: item.run.id, attempt: item.attempt }]
  const { items } = await port.call('delegation/mailbox.extend', { runs })
  return items[0]?.lease_until === null
}

/** A restarted child delegates the same work once. */
async function answerCall(self: Conversation, line: LineCall): Promise<void> {
  const { port, counts, item } = self
  const memo = { run_id: item.run.id, key: `${line.type}/${(counts.get(line.type) ?? 0) + 1}` }
  const isRemembered = line.operation === 'delegation/agent.delegate'
  const known = isRemembered ? ((await port.call('delegation/memo.get', memo)) as { found: boolean; value: Record<string, unknown> }) : null
  if (known?.found) {
    counts.set(line.type, (counts.get(line.type) ?? 0) + 1)
    return self.child?.write(answerLine(line.type, known.value))
  }
  const answer = await perform(self, line)
  if (answer === null) return
  const value = isRemembered ? { run_id: (answer['run'] as { id: string }).id } : answer
  if (isRemembered) await port.call('delegation/memo.put', { ...memo, attempt: self.item.attempt, value })
  self.child?.write(answerLine(line.type, value))
}

// --- Questions and answers -------------------------------------------------------------------------------------------------

/** People get the n-th question of the run once. A restarted child that repeats it gets the same answer. */
async function ask(self: Conversation, line: LineCall): Promise<void> {
  const { port, resumes } = self
  const memo = { run_id: self.item.run.id, key: `ask/${++self.questions}` }
  const known = (await port.call('delegation/memo.get', memo)) as { found: boolean; value: { checkpoint_id: string } }
  if (known.found) {
    const rest = resumes.filter((message) => checkpointIn(message) !== known.value.checkpoint_id)
    resumes.splice(0, resumes.length, ...rest)
    const { checkpoint } = await port.call('collaboration/checkpoint.get', { checkpoint_id: known.value.checkpoint_id })
    return self.child?.write(answerLine('resume', { checkpoint_id: checkpoint.id, resolution: checkpoint.resolution }))
  }
  const message = await inPhase(self, 'asking', () => answerTo(self, line))
  if (message === null) return
  const value = { checkpoint_id: checkpointIn(message) }
  await port.call('delegation/memo.put', { ...memo, attempt: self.item.attempt, value })
  self.child?.write(messageLine(message))
}

async function answerTo(self: Conversation, line: LineCall): Promise<Message | null> {
  const { resumes, counts, note } = self
  const isAsked = (await stateNow(self)) === 'blocked' || (await isAnswerToAgent(self, resumes[0]))
  if (!isAsked) {
    // Earlier answers belong to earlier questions.
    resumes.length = 0
    counts.set(line.type, self.questions - 1)
    note(`asks: ${textIn((line.input['payload'] as { prompt?: unknown }).prompt)}`)
    if ((await perform(self, line)) === null) return null
  }
  return nextResume(self)
}

async function isAnswerToAgent({ port, item }: Conversation, message: Message | undefined): Promise<boolean> {
  if (message === undefined) return false
  const { checkpoint } = await port.call('collaboration/checkpoint.get', { checkpoint_id: checkpointIn(message) })
  return checkpoint.raised_by === item.run.agent_id
}

async function nextResume(self: Conversation): Promise<Message> {
  const found = self.resumes.shift()
  if (found) return found
  if (self.child === null) throw goneFrom(self)
  return inPhase(self, 'waiting', async () => {
    self.limit.pause()
    // The answer can take days: after a while the child is stopped, and started again with the answer.
    const patience = setTimeout(() => conclude(self, 'waits'), self.plan.waitMs)
    self.waiter = Promise.withResolvers<Message>()
    try {
      return await self.waiter.promise
    } finally {
      self.waiter = null
      clearTimeout(patience)
      self.limit.goOn()
    }
  })
}

/** Restores the phase afterwards, unless the conversation has ended. */
async function inPhase<T>(self: Conversation, phase: 'asking' | 'waiting', run: () => Promise<T>): Promise<T> {
  const before = self.phase
  if (before !== 'ended') self.phase = phase
  try {
    return await run()
  } finally {
    if (self.phase === phase) self.phase = before
  }
}

// --- Messages of the run ---------------------------------------------------------------------------------------------------

function passMessage(self: Conversation, message: Message): void {
  const { child, plan, limit, waiter } = self
  const isLines = plan.profile.input === 'lines'
  if (message.kind === 'resume') {
    self.resumed++
    if (waiter) return waiter.resolve(message)
    if (self.phase === 'asking') return void self.resumes.push(message)
    limit.goOn()
  }
  if (message.kind === 'block') limit.pause()
  if (isLines) child?.write(messageLine(message))
  if (message.kind === 'cancel') conclude(self, 'over')
}

const steersOf = (messages: readonly Message[]): string =>
  messages
    .filter(({ kind }) => kind === 'steer')
    .map(messageLine)
    .join('')
