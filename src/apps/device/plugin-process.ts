// The process of a plug-in: it imports one module, calls its functions for the daemon, and returns JSON. A module that crashes its process
// does not affect the daemon.
import { AsyncLocalStorage } from 'node:async_hooks'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { messageOf } from '#kernel/codec/cut-text.ts'
import { NotJson, plainJson } from '#kernel/codec/plain-json.ts'
import { limits } from '#kernel/limits.ts'

export type Ask =
  | { readonly id: number; readonly what: 'execute' | 'resource'; readonly tool: string; readonly args: object }
  | { readonly abort: number }

export type Reply =
  /** The first message: the module's `tools`, each function as the word `function`; or why it could not be loaded. */
  | { readonly tools: unknown }
  | { readonly problem: string }
  | { readonly id: number; readonly json: string }
  /** `isValue`: it returned something that is not JSON; otherwise it threw. */
  | { readonly id: number; readonly error: string; readonly isValue: boolean }
  /** An uncaught error, with the call that caused it if known. */
  | { readonly stray: string; readonly id: number | null }

/** The descriptor of the pipe whose other end the daemon holds. */
const LIFELINE = 4
const WATCH = `const { Socket } = require('node:net')
new Socket({ fd: ${LIFELINE} }).on('error', () => undefined).on('close', () => process.kill(process.pid, 'SIGKILL')).resume()`

type Function = (...args: readonly unknown[]) => unknown
type Exported = { readonly name?: unknown; readonly execute?: Function; readonly resource?: Function }

const calls = new AsyncLocalStorage<number>()
const underWay = new Map<number, AbortController>()
const tell = (reply: Reply): void => void process.send!(reply, () => undefined)

async function answerCall(tools: readonly Exported[], { id, what, tool, args }: Extract<Ask, { id: number }>): Promise<void> {
  const stopping = new AbortController()
  underWay.set(id, stopping)
  try {
    const found = tools.find(({ name }) => name === tool)
    if (!found?.[what]) throw new Error(`the module does not export ${tool} any more: restart the daemon`)
    const value = await calls.run(id, () => found[what]!(args, { signal: stopping.signal }))
    const bounds = { depth: limits.deviceResultDepthMax, chars: limits.deviceResultCharsMax }
    tell({ id, json: plainJson(value ?? null, 'the result', bounds) })
  } catch (error) {
    tell({ id, error: messageOf(error), isValue: error instanceof NotJson })
  } finally {
    underWay.delete(id)
  }
}

/** Functions cannot be sent: whether there is one is all that the daemon needs to know. */
const describeTool = (tool: unknown): unknown =>
  typeof tool === 'object' && tool !== null
    ? Object.fromEntries(Object.entries(tool).map(([name, held]) => [name, typeof held === 'function' ? 'function' : (held as unknown)]))
    : tool

async function serve(path: string): Promise<void> {
  const stray = (error: unknown): void => tell({ stray: messageOf(error), id: calls.getStore() ?? null })
  process.on('uncaughtException', stray).on('unhandledRejection', stray)
  // A service manager signals every process of the service; the daemon says when this one ends.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined)
  // The module can block this thread, so another thread checks that the daemon lives: no step must act without its record.
  new Worker(WATCH, { eval: true }).unref()
  let tools: unknown
  try {
    ;({ tools } = (await import(pathToFileURL(path).href)) as { tools?: unknown })
    tell({ tools: JSON.parse(JSON.stringify(Array.isArray(tools) ? tools.map(describeTool) : null)) as unknown })
  } catch (error) {
    tell({ problem: messageOf(error) })
    return
  }
  process.on('message', (ask: Ask) => {
    if ('abort' in ask) underWay.get(ask.abort)?.abort()
    else void answerCall(tools as readonly Exported[], ask)
  })
}

await serve(process.argv[2]!)
