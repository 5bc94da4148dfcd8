// Hosts of plug-ins: each module runs in separate processes, with one call at a time in each. A busy loop, a crash or a late rejection ends at most the
// step that caused it; the next call finds another process.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { extname, join } from 'node:path'
import type { Socket } from 'node:net'
import { Cancelled, DeviceError } from '#devices/port.ts'
import type { Logger } from '../server/log.ts'
import { ConfigError } from '../server/settings/config.ts'
import type { Ask, Reply } from './plugin-process.ts'

export type PluginHost = {
  /** The module's `tools`, without their functions. */
  readonly tools: unknown
  /** Asked to yield, it has a moment; then its process is ended. */
  execute(tool: string, args: object, signal: AbortSignal): Promise<unknown>
  resource(tool: string, args: object): Promise<unknown>
  stop(): void
}

type Call = { readonly id: number; readonly tool: string; done(value: unknown): void; failed(error: Error): void }
type Running = { readonly child: ChildProcess; readonly tools: unknown; call: Call | null; isSpent: boolean }

const LOAD_MS = 30_000
/** A module must return the resource of a step within this time. */
const RESOURCE_MS = 1_000
/** Grace period after an abort: shorter than a task waits for a tool, so that the step can report how it ended. */
const YIELD_MS = 1_000
/** One process for the running step, one for resource queries about the next. */
const IDLE_MAX = 2
/** A module that exceeds this limit crashes alone, long before the service runs out of memory. */
const HEAP_MB = 128
const PROGRAM = join(import.meta.dirname, `plugin-process${extname(import.meta.filename)}`)

export async function hostOf(path: string, log: Pick<Logger, 'error'>): Promise<PluginHost> {
  const all = new Set<Running>()
  const idle: Running[] = []
  const isEndedByUs = new WeakSet<Running>()
  let calls = 0
  let isStopped = false

  async function start(): Promise<Running> {
    const child = spawn(process.execPath, [`--max-old-space-size=${HEAP_MB}`, PROGRAM, path], {
      // A module prints to the log, never to stdout, which has only the daemon's one line.
      stdio: ['ignore', 2, 2, 'ipc', 'pipe'],
    })
    ;(child.stdio[4] as Socket).on('error', () => undefined).unref()
    const ending = new AbortController()
    const timer = setTimeout(() => ending.abort(), LOAD_MS)
    const exited = once(child, 'exit', { signal: ending.signal }).then(([code, signal]) => {
      throw new Error(`its process ended while it was loaded (${String(code ?? signal)})`)
    })
    try {
      const [first] = (await Promise.race([once(child, 'message', { signal: ending.signal }), exited])) as [Reply]
      if (!('tools' in first)) throw new Error('problem' in first ? first.problem : 'it failed while it was loaded')
      const running: Running = { child, tools: first.tools, call: null, isSpent: false }
      child.on('message', (reply: Reply) => onReply(running, reply)).on('error', () => undefined)
      child.once('exit', (code, signal) => onExit(running, String(code ?? signal)))
      all.add(running)
      return running
    } catch (error) {
      child.kill('SIGKILL')
      throw ending.signal.aborted ? new Error(`it was not loaded within ${LOAD_MS / 1_000} s`) : error
    } finally {
      clearTimeout(timer)
      exited.catch(() => undefined)
      ending.abort()
    }
  }

  function onReply(one: Running, reply: Reply): void {
    const { call } = one
    if ('stray' in reply) {
      log.error({ plugin: path, error: reply.stray }, 'a plug-in raised an uncaught error; replacing its process')
      one.isSpent = true
      if (call === null) end(one)
      else if (call.id === reply.id) call.failed(new DeviceError('io', `${call.tool} failed: an error was left that nothing caught`))
    } else if (call && 'id' in reply && reply.id === call.id) {
      if ('json' in reply) return call.done(JSON.parse(reply.json))
      if (!reply.isValue) log.error({ plugin: path, tool: call.tool, error: reply.error }, 'a plug-in threw an error')
      call.failed(new DeviceError('io', reply.isValue ? `${call.tool} failed: ${reply.error}` : `${call.tool} failed`))
    }
  }

  function onExit(one: Running, how: string): void {
    all.delete(one)
    one.isSpent = true
    if (idle.includes(one)) idle.splice(idle.indexOf(one), 1)
    if (one.call === null && !isEndedByUs.has(one)) log.error({ plugin: path, how }, 'the process of a plug-in ended')
    one.call?.failed(new DeviceError('io', `${one.call.tool} failed: its process ended (${how})`))
  }

  /** Kills the process, no matter what it is doing. */
  function end(one: Running): void {
    one.isSpent = true
    isEndedByUs.add(one)
    one.child.kill('SIGKILL')
  }

  /** `given` aborts the call and grants YIELD_MS to yield; null: the process is killed without grace after RESOURCE_MS. */
  async function call(what: 'execute' | 'resource', tool: string, args: object, given: AbortSignal | null): Promise<unknown> {
    let running: Running
    try {
      running = idle.pop() ?? (await start())
    } catch (error) {
      throw new DeviceError('io', `${tool} failed: ${(error as Error).message}`)
    }
    const id = ++calls
    const signal = given ?? AbortSignal.timeout(RESOURCE_MS)
    let patience: NodeJS.Timeout | undefined
    const yields = (): void => {
      running.child.send({ abort: id } satisfies Ask, () => undefined)
      patience = setTimeout(end, given === null ? 0 : YIELD_MS, running)
    }
    try {
      return await new Promise((done, failed) => {
        // Already aborted: nothing was started.
        if (signal.aborted) return failed(new Cancelled())
        running.call = { id, tool, done, failed }
        running.child.send(
          { id, what, tool, args } satisfies Ask,
          (error) => error && failed(new DeviceError('io', `${tool} failed: its process ended`)),
        )
        signal.addEventListener('abort', yields, { once: true })
      })
    } catch (error) {
      throw signal.aborted ? new Cancelled(`${tool} was asked to end`) : error
    } finally {
      clearTimeout(patience)
      signal.removeEventListener('abort', yields)
      running.call = null
      if (running.isSpent || isStopped || idle.length === IDLE_MAX) end(running)
      else idle.push(running)
    }
  }

  async function first(): Promise<Running> {
    try {
      return await start()
    } catch (error) {
      throw new ConfigError(`${path}: ${(error as Error).message}`)
    }
  }
  const loaded = await first()
  idle.push(loaded)
  return {
    tools: loaded.tools,
    execute: (tool, args, signal) => call('execute', tool, args, signal),
    resource: (tool, args) => call('resource', tool, args, null),
    stop() {
      isStopped = true
      for (const running of all) end(running)
    },
  }
}
