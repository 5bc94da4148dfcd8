// An MCP server as a child process, in its own process group: the processes that it starts end with it. (`npx some-server` starts the server
// proper as its child, and a signal to npx alone would leave that one behind.) The transport of the client library knows no groups.
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import type { JSONRPCMessage, ReadBuffer, Transport } from '@modelcontextprotocol/client'

export type StdioSettings = {
  readonly command: string
  readonly args: readonly string[]
  /** The complete environment of the child. */
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string
  /** Gets the server's error output. The client passes `ignore` for the process that only probes the revision. */
  readonly stderr: ((part: Buffer) => void) | 'ignore'
  readonly codec: { readonly ReadBuffer: new () => ReadBuffer; readonly serializeMessage: (message: JSONRPCMessage) => string }
}

/** The time to end by itself. */
const CLOSE_MS = 300
/** The time to read the last output of an ended child. */
const LEFT_MS = 2_000

export class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: Transport['onmessage']
  /** A client that finds this field and `_dispose` can start a second process to ask for the revision. */
  readonly _serverParams: StdioSettings
  #child: ChildProcessWithoutNullStreams | null = null
  #exited: Promise<void> = Promise.resolve()
  readonly #buffer: ReadBuffer

  constructor(settings: StdioSettings) {
    this._serverParams = settings
    this.#buffer = new settings.codec.ReadBuffer()
  }

  start(): Promise<void> {
    const { command, args, env, cwd, stderr } = this._serverParams
    const child = spawn(command, args, { env, detached: true, stdio: ['pipe', 'pipe', 'pipe'], ...(cwd === undefined ? {} : { cwd }) })
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const reportError = (error: Error): void => this.onerror?.(error)
    this.#child = child
    this.#exited = new Promise((gone) => child.once('exit', () => gone()).once('error', () => gone()))
    child.once('spawn', resolve).on('error', (error) => {
      reject(error)
      reportError(error)
    })
    child.once('exit', () => {
      // Its remaining processes would hold the pipes open. A process outside of the group keeps its pipes, but this process does not wait for it.
      this.#end()
      setTimeout(() => child.stdout.destroy(), LEFT_MS).unref()
    })
    child.once('close', () => this.onclose?.())
    child.stdin.on('error', reportError)
    child.stdout.on('error', reportError).on('data', (part: Buffer) => this.#hear(part))
    child.stderr.on('data', (part: Buffer) => (stderr === 'ignore' ? undefined : stderr(part)))
    return promise
  }

  #hear(part: Buffer): void {
    try {
      this.#buffer.append(part)
    } catch (error) {
      // The message is longer than its bound.
      this.onerror?.(error as Error)
      return void this.close()
    }
    for (;;) {
      try {
        const message = this.#buffer.readMessage()
        if (message === null) return
        this.onmessage?.(message)
      } catch (error) {
        this.onerror?.(error as Error)
      }
    }
  }

  send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin
    if (!stdin?.writable) return Promise.reject(new Error('the server is not running'))
    return new Promise((done) => {
      if (stdin.write(this._serverParams.codec.serializeMessage(message))) done()
      else stdin.once('drain', done)
    })
  }

  /** The whole group. */
  #end(): void {
    try {
      if (this.#child?.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL')
    } catch {
      // The process has ended already.
    }
  }

  async close(): Promise<void> {
    this.#child?.stdin.end()
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, CLOSE_MS)
    await Promise.race([this.#exited, late])
    clearTimeout(timer)
    this.#end()
    this.#buffer.clear()
  }

  _dispose(): Promise<void> {
    return this.close()
  }
}
