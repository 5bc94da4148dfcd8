// The agent behind an ACP proxy: a child in its own process group, which shares our standard error.
import { spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'

export type Command = {
  readonly argv: readonly [string, ...string[]]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}
export type AgentChild = {
  readonly input: Writable
  readonly output: Readable
  /** Closes the agent's input so that it ends; kills it with all its children if it does not. */
  end(): void
  kill(signal: NodeJS.Signals): void
  /** Its exit code; 1 after a signal, 127 if it cannot be started. */
  readonly ended: Promise<number>
}

/** An agent that is killed can lose its session. */
const GRACE_MS = 5_000
const [EXIT_FAILED, EXIT_NOT_FOUND] = [1, 127]

export function startAgent({ argv: [file, ...args], cwd, env }: Command, note: (text: string) => void): AgentChild {
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'inherit'] })
  const { promise: ended, resolve } = Promise.withResolvers<number>()
  const timers: NodeJS.Timeout[] = []
  let hasEnded = false
  function leave(code: number): void {
    hasEnded = true
    for (const timer of timers) clearTimeout(timer)
    resolve(code)
  }
  function kill(signal: NodeJS.Signals): void {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal)
    } catch {
      // The process has ended already.
    }
  }
  child.stdin.on('error', () => undefined) // the child no longer reads; its end is reported
  child.on('error', ({ message }) => {
    note(`the agent cannot be started: ${message}`)
    leave(EXIT_NOT_FOUND)
  })
  child.on('exit', (code) => {
    // Its children would run on without an owner.
    kill('SIGKILL')
    leave(code ?? EXIT_FAILED)
  })
  return {
    input: child.stdin,
    output: child.stdout,
    end() {
      child.stdin.end()
      // A timer would keep the proxy alive, and its signal could reach another process with the same number.
      if (hasEnded) return
      if (timers.length === 0) timers.push(setTimeout(kill, GRACE_MS, 'SIGTERM'), setTimeout(kill, 2 * GRACE_MS, 'SIGKILL'))
    },
    kill,
    ended,
  }
}
