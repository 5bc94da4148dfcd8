// A client of the daemon's wire, over any stream: lines out, lines in. It sends its name and version, ignores result fields that it does not know,
// and keeps a tool unchanged (HACP hardware draft, 2.5 and 3.3).
import { createLineReader } from '#kernel/codec/line-reader.ts'
import { limits } from '#kernel/limits.ts'
import type { ShownTask } from './daemon/schema.ts'

/** An error response of the daemon, as sent on the wire. */
export class HacpError extends Error {
  override name = 'HacpError'
  readonly code: number
  readonly data: Readonly<Record<string, unknown>>
  constructor(code: number, message: string, data: Readonly<Record<string, unknown>>) {
    super(typeof data['reason'] === 'string' ? `${message}: ${data['reason']}` : message)
    this.code = code
    this.data = data
  }
}

/** A tool as the daemon lists it; unknown fields are kept. */
export type ListedTool = Readonly<Record<string, unknown>> & {
  readonly name: string
  readonly version: number
  readonly risk_level: number
  readonly timeout_ms: number
  readonly supports_rollback: boolean
  readonly description: string
  readonly params_schema: Readonly<Record<string, unknown>>
}

export type HacpClient = {
  receive(bytes: Uint8Array): void
  /** The stream has ended: pending calls are rejected. */
  ended(message: string): void
  call(method: string, params: object): Promise<unknown>
  open(): Promise<{ readonly session_id: string; readonly capabilities: readonly string[]; readonly protocol_version: string }>
  tools(session_id: string): Promise<ListedTool[]>
  /** Submits one step, waits until its task has ended, and returns the outcome from the events. */
  finish(session_id: string, tool: string, args: object, more?: RunOptions): Promise<Finished>
  /** The same with the whole task. */
  run(session_id: string, tool: string, args: object, more?: RunOptions): Promise<ShownTask>
}
export type Finished = { readonly task_id: string; readonly status: string }
export type RunOptions = {
  readonly intent?: string | undefined
  readonly extra?: object | undefined
  /** Cancels the task. The call still waits until the task has ended. */
  readonly signal?: AbortSignal | undefined
  readonly started?: ((task_id: string) => void) | undefined
  /** Told of each event of the task, in order. */
  readonly heard?: ((event: HeardEvent) => void) | undefined
}

export type HeardEvent = { readonly task_id: string; readonly phase: string; readonly status?: string }
type Waiting = { resolve(value: unknown): void; reject(error: Error): void }
type Message = {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string; readonly data?: Readonly<Record<string, unknown>> }
  readonly method?: string
  readonly params?: HeardEvent
}

/** Answers can be longer than requests: a task has the results of many steps. */
const ANSWER_BYTES_MAX = 64 * limits.deviceLineBytesMax

export function createHacpClient(name: string, version: string, write: (line: string) => void): HacpClient {
  const lines = createLineReader(ANSWER_BYTES_MAX)
  const waiting = new Map<number, Waiting>()
  const followed = new Map<string, (event: HeardEvent) => void>()
  const text = new TextDecoder()
  let last = 0
  let endReason: string | null = null

  function take(message: Message): void {
    if (message.method === 'task.event') {
      if (message.params) followed.get(message.params.task_id)?.(message.params)
      return
    }
    const found = typeof message.id === 'number' ? waiting.get(message.id) : undefined
    if (!found) return
    waiting.delete(message.id as number)
    const { error } = message
    if (error) found.reject(new HacpError(error.code, error.message, error.data ?? {}))
    else found.resolve(message.result)
  }

  function call(method: string, params: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (endReason !== null) return reject(new Error(endReason))
      const id = ++last
      waiting.set(id, { resolve, reject })
      write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    })
  }

  async function finish(session_id: string, tool: string, args: object, more: RunOptions = {}): Promise<Finished> {
    const task = { intent: more.intent ?? tool, steps: [{ tool, args }] }
    const { task_id } = (await call('task.submit', { session_id, task, ...more.extra })) as { task_id: string }
    more.started?.(task_id)
    const end = Promise.withResolvers<string>()
    followed.set(task_id, (event) => {
      more.heard?.(event)
      if (event.phase === 'task_finish') end.resolve(event.status ?? '')
    })
    const cancel = (): void => void call('task.cancel', { session_id, task_id }).catch(() => undefined)
    if (more.signal?.aborted) cancel()
    more.signal?.addEventListener('abort', cancel, { once: true })
    try {
      await call('task.events.subscribe', { session_id, task_id })
      const status = endReason === null ? await end.promise : ''
      if (endReason !== null) throw new Error(endReason)
      return { task_id, status }
    } finally {
      followed.delete(task_id)
      more.signal?.removeEventListener('abort', cancel)
    }
  }

  async function run(session_id: string, tool: string, args: object, more: RunOptions = {}): Promise<ShownTask> {
    const { task_id } = await finish(session_id, tool, args, more)
    return (await call('task.get', { session_id, task_id })) as ShownTask
  }

  return {
    receive(bytes) {
      lines.push(bytes)
      for (let line = lines.next(); line !== null; line = lines.next()) if (line.length > 0) take(JSON.parse(text.decode(line)) as Message)
    },
    ended(message) {
      endReason ??= message
      for (const call of waiting.values()) call.reject(new Error(endReason))
      waiting.clear()
      for (const [task_id, hear] of followed) hear({ task_id, phase: 'task_finish' })
    },
    call,
    open: () =>
      call('session.open', { client_name: name, client_version: version, protocol_version: '0.1.0' }) as ReturnType<HacpClient['open']>,
    tools: async (session_id) => ((await call('tool.list', { session_id })) as { tools: ListedTool[] }).tools,
    finish,
    run,
  }
}
