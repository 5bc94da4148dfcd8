// One run through one child: its lines become operations, messages become lines. A child may be started anew at any time; it is then
// told the run again, and questions that were answered before are answered at once, so that it comes back to where it was.
import { sha256 } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import type { Message } from '#protocols/delegation/schema.ts'
import type { Call } from '#protocols/index.ts'
import { startChild, type Child, type ChildEnd, type Command } from './child.ts'
import { answerLine, errorLine, inlinePayload, messageLine, ofTask, runLine, parseLine, type Item, type Said } from './lines.ts'
import { AGENT_VARIABLE } from './marker.ts'
import { createLimit } from './time-limit.ts'
import { promptFor, resultIn, type Profile } from './profiles.ts'

export type PortOptions = { readonly key?: string; readonly signal?: AbortSignal; readonly timeoutMs?: number }
/** How operations are called: in this process, or over the network. A refusal has a code. */
export type Port = {
  readonly call: Call<PortOptions>
  upload(task_id: string, bytes: Buffer): Promise<{ readonly uri: string; readonly checksum: string; readonly size: number }>
}
export type Plan = Command & { readonly profile: Profile; readonly timeLimitMs: number; readonly waitMs: number }

/** over: the run has ended. waits: a person has the next word. lost: another process has the run. */
export type Outcome =
  | { readonly kind: 'over' | 'waits' | 'lost' | 'stopped' }
  | { readonly kind: 'failed'; readonly message: string; readonly isFatal: boolean }
export type Working = {
  tell(messages: readonly Message[], attempt: number): void
  stop(kind: 'lost' | 'stopped'): void
  readonly ended: Promise<Outcome>
}
export type Noted = (message: string) => void

type SaidCall = Said & { kind: 'call' }
type Failure = { readonly code: string; readonly message: string }
const failureIn = (error: unknown): Failure => {
  const { code, message } = error as Partial<Failure>
  if (typeof code !== 'string' || typeof message !== 'string') throw error
  return { code, message }
}
const wordsIn = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null))
/** The whole server waits for it. */
const STOP_MS = 300
const checkpointIn = ({ body }: Message): string => (body as { checkpoint_id: string }).checkpoint_id
/** The child ended while a person had the next word. */
class Gone extends Error {
  readonly code = 'GONE'
}
/** An act on a task is the same whichever attempt does it. */
const repeatableInput = (operation: string, { attempt, ...input }: SaidCall['input']): object =>
  operation.startsWith('collaboration/') ? input : { ...input, attempt }
const isEnded = (state: string): boolean => state === 'completed' || state === 'failed'

export function startRun(given: Item, plan: Plan, port: Port, note: Noted): Working {
  let item = given
  let outcome: Outcome | null = null
  let child: Child | null = null
  let asks = 0
  const counts = new Map<string, number>()
  /** Answers that no question has taken yet, and who waits for one. */
  const resumes = given.messages.filter(({ kind }) => kind === 'resume')
  let waiter: { wake(message: Message): void; leave(error: Gone): void } | null = null
  let isGone = false
  /** An answer may come before the question is known to be asked. */
  let isAsking = false
  let resumed = 0
  const limit = createLimit(plan.timeLimitMs, () =>
    child?.stop(`the command took longer than its limit of ${plan.timeLimitMs / 1_000} s`, true),
  )

  const conclude = (kind: 'over' | 'waits' | 'lost' | 'stopped'): void => {
    outcome ??= { kind }
    child?.stop(null, false, kind === 'stopped' ? STOP_MS : plan.graceMs)
  }

  async function nextResume(): Promise<Message> {
    const found = resumes.shift()
    if (found) return found
    if (isGone) throw leaveRun()
    limit.pause()
    // It is unknown when a person answers: after a while the child makes room and is started anew with the answer.
    const patience = setTimeout(() => conclude('waits'), plan.waitMs)
    const { promise, resolve, reject } = Promise.withResolvers<Message>()
    waiter = { wake: resolve, leave: reject }
    try {
      return await promise
    } finally {
      waiter = null
      clearTimeout(patience)
      limit.goOn()
    }
  }
  function leaveRun(): Gone {
    outcome ??= { kind: 'waits' }
    return new Gone('the child has ended')
  }
  function onChildGone(): void {
    isGone = true
    waiter?.leave(leaveRun())
  }

  async function stateNow(): Promise<string> {
    return (await port.call('delegation/run.get', { run_id: item.run.id })).run.state
  }

  const isHeld = async (): Promise<boolean> => {
    const runs = [{ run_id: item.run.id, attempt: item.attempt }]
    const { items } = await port.call('delegation/mailbox.extend', { runs })
    return items[0]?.lease_until !== null
  }
  /** It was refused because another process has the run: of what is done to a task, that is only one of the conflicts. */
  const isLost = async (operation: string): Promise<boolean> => operation.startsWith('delegation/') || !(await isHeld())

  /** Calls, and waits while a person has stopped the run; null: it was refused, and the child was told. */
  async function perform({ type, operation, input }: SaidCall): Promise<Record<string, unknown> | null> {
    const count = (counts.get(type) ?? 0) + 1
    counts.set(type, count)
    for (;;) {
      const before = resumed
      try {
        const key = `child/${item.run.id}/${type}/${count}/${sha256(JSON.stringify(repeatableInput(operation, input))).slice(0, 16)}`
        return await port.call(operation, input, { key })
      } catch (error) {
        const { code, message } = failureIn(error)
        if (code === 'CONFLICT' && (await isLost(operation))) conclude('lost')
        else if (type !== 'progress' || (code !== 'INVALID_TRANSITION' && code !== 'QUOTA_EXCEEDED')) {
          const state = await stateNow()
          if (type !== 'progress' && (state === 'blocked' || resumed > before)) {
            if (resumed === before) await nextResume()
            continue
          }
          if (isEnded(state)) conclude('over')
          else child?.write(errorLine(type, code, message))
        }
        return null
      }
    }
  }

  const own = async (message: Message | undefined): Promise<boolean> => {
    if (message === undefined) return false
    const checkpoint_id = checkpointIn(message)
    const { checkpoint } = await port.call('collaboration/checkpoint.get', { checkpoint_id })
    return checkpoint.raised_by === item.run.agent_id
  }

  /** The n-th question of the run, whichever child puts it: asked once, and answered with what a person said. */
  async function ask(said: SaidCall): Promise<void> {
    const memo = { run_id: item.run.id, key: `ask/${++asks}` }
    const known = (await port.call('delegation/memo.get', memo)) as { found: boolean; value: { checkpoint_id: string } }
    if (known.found) {
      const rest = resumes.filter((message) => checkpointIn(message) !== known.value.checkpoint_id)
      resumes.splice(0, resumes.length, ...rest)
      const { checkpoint } = await port.call('collaboration/checkpoint.get', { checkpoint_id: known.value.checkpoint_id })
      return child?.write(answerLine('resume', { checkpoint_id: checkpoint.id, resolution: checkpoint.resolution }))
    }
    isAsking = true
    const isAsked = (await stateNow()) === 'blocked' || (await own(resumes[0]))
    if (!isAsked) {
      // The messages of the run so far have led to this question.
      resumes.length = 0
      counts.set(said.type, asks - 1)
      note(`asks: ${wordsIn((said.input['payload'] as { prompt?: unknown }).prompt)}`)
      if ((await perform(said)) === null) {
        isAsking = false
        return
      }
    }
    const message = await nextResume()
    isAsking = false
    const value = { checkpoint_id: checkpointIn(message) }
    await port.call('delegation/memo.put', { ...memo, attempt: item.attempt, value })
    child?.write(messageLine(message))
  }

  /** A child that is started anew delegates the same once. */
  async function answerCall(said: SaidCall): Promise<void> {
    const memo = { run_id: item.run.id, key: `${said.type}/${(counts.get(said.type) ?? 0) + 1}` }
    const isKept = said.operation === 'delegation/agent.delegate'
    const known = isKept ? ((await port.call('delegation/memo.get', memo)) as { found: boolean; value: Record<string, unknown> }) : null
    if (known?.found) {
      counts.set(said.type, (counts.get(said.type) ?? 0) + 1)
      return child?.write(answerLine(said.type, known.value))
    }
    const answer = await perform(said)
    if (answer === null) return
    const short = isKept ? { run_id: (answer['run'] as { id: string }).id } : answer
    if (isKept) await port.call('delegation/memo.put', { ...memo, attempt: item.attempt, value: short })
    child?.write(answerLine(said.type, short))
  }

  async function hear(line: Uint8Array): Promise<void> {
    if (outcome) return
    const said = parseLine(line, item)
    if (said.kind === 'wrong') return child?.write(errorLine('line', 'INVALID_REQUEST', said.message))
    try {
      if (said.effect === 'asks') return await ask(said)
      if (said.effect === 'answers') return await answerCall(said)
      const answer = await perform(said)
      if (said.type === 'progress') note(wordsIn(said.input['message'] ?? `${wordsIn(said.input['percent'])} %`))
      const isDelivered = said.type === 'commit' && (answer?.['task'] as { state?: string } | undefined)?.state === 'review_ready'
      if (answer === null || !(isDelivered || said.effect === 'ends')) return
      note(said.type === 'fail' ? `failed: ${wordsIn(said.input['error'])}` : 'delivered')
      outcome = { kind: 'over' }
      child?.close()
      // It has said everything; it may still put things away.
      setTimeout(() => child?.stop(null), plan.graceMs).unref()
    } catch (error) {
      const { code, message } = failureIn(error)
      child?.write(errorLine(said.type, code, message))
    }
  }

  /** The output of a program that knows nothing of us becomes the artifact. */
  async function deliver(printed: string): Promise<Outcome> {
    const text = resultIn(printed, plan.profile.output)
    if (text === null) return { kind: 'failed', message: 'the command ended well and printed no result', isFatal: false }
    const { task_id } = item.run
    const call = { kind: 'call', effect: 'none' } as const
    let answer: object | null
    if (task_id === null) {
      const result = { text: text.slice(0, limits.textCharsMax) }
      const input = { run_id: item.run.id, attempt: item.attempt, result }
      answer = await perform({ ...call, type: 'complete', operation: 'delegation/run.complete', input })
    } else {
      const bytes = Buffer.from(text)
      const payload =
        bytes.length <= limits.inlineBytesMax / 2 ? inlinePayload(text) : { kind: 'blob', ...(await port.upload(task_id, bytes)) }
      const input = { ...ofTask(item), type: 'text', payload }
      answer = await perform({ ...call, type: 'commit', operation: 'collaboration/artifact.commit', input })
    }
    if (answer !== null) note('delivered')
    return outcome ?? { kind: 'over' }
  }

  function outcomeOf({ code, fault, stderr }: ChildEnd, isFatal: boolean): Outcome {
    if (outcome) return outcome
    const message = fault ?? (code === 0 ? 'the command ended without saying complete or fail' : `the command ended with code ${code}`)
    const last = stderr === '' ? '' : `. Its last output: ${stderr.slice(-1_000)}`
    return { kind: 'failed', message: `${message}${last}`, isFatal }
  }

  async function work(): Promise<Outcome> {
    if (item.run.started_at === null && item.run.state === 'running')
      await port.call('delegation/run.start', { run_id: item.run.id, attempt: item.attempt }).catch(failureIn)
    const isLines = plan.profile.input === 'lines'
    const prompt = isLines ? '' : promptFor(item.request)
    const argv = plan.argv.map((word) => (plan.profile.input === 'argv' ? word.replaceAll('{prompt}', () => prompt) : word))
    if (argv.some((word) => Buffer.byteLength(word) > limits.childPromptBytesMax))
      return {
        kind: 'failed',
        message: 'the prompt is too long for an argument: use a profile that takes it on standard input',
        isFatal: true,
      }
    let printed = ''
    // Last: no setting of an operator takes it away.
    const command = { ...plan, argv: argv as [string, ...string[]], env: { ...plan.env, [AGENT_VARIABLE]: item.run.agent_id } }
    child = startChild(
      command,
      plan.profile.output.kind === 'lines'
        ? { kind: 'lines', hear, gone: onChildGone }
        : { kind: 'text', hear: (text) => (printed = text) },
    )
    if (isLines) child.write(runLine(item) + steersOf(item.messages))
    else if (plan.profile.input === 'stdin') child.write(prompt)
    if (!isLines) child.close()
    const end = await child.ended
    limit.pause()
    const isGood = end.code === 0 && end.fault === null && plan.profile.output.kind !== 'lines'
    return isGood && !outcome ? deliver(printed) : outcomeOf(end, end.isFatal)
  }

  return {
    tell(messages, attempt) {
      item = { ...item, attempt }
      for (const message of messages) {
        if (message.kind === 'resume') resumed++
        if (message.kind === 'cancel') {
          child?.write(plan.profile.input === 'lines' ? messageLine(message) : '')
          conclude('over')
        } else if (message.kind === 'resume' && waiter) waiter.wake(message)
        else if (message.kind === 'resume' && isAsking) resumes.push(message)
        else {
          if (message.kind === 'block') limit.pause()
          if (message.kind === 'resume') limit.goOn()
          if (plan.profile.input === 'lines') child?.write(messageLine(message))
        }
      }
    },
    stop: (kind) => conclude(kind),
    ended: work().finally(() => limit.pause()),
  }
}

const steersOf = (messages: readonly Message[]): string =>
  messages
    .filter(({ kind }) => kind === 'steer')
    .map(messageLine)
    .join('')
