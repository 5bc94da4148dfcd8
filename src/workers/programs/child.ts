// One child process: started without a shell, in a process group of its own, bounded in everything it says, and ended with all that it
// has started.
import { spawn } from 'node:child_process'
import { limits } from '#kernel/limits.ts'
import { createLineReader } from '#kernel/codec/line-reader.ts'

export type Command = {
  /** The program and its arguments; never a shell's line. */
  readonly argv: readonly [string, ...string[]]
  readonly cwd: string
  /** All that it gets. */
  readonly env: Readonly<Record<string, string>>
  readonly graceMs: number
}
/** How a child ended. `isFatal`: it would do the same again. */
export type ChildEnd = { readonly code: number | null; readonly fault: string | null; readonly isFatal: boolean; readonly stderr: string }
export type Child = {
  write(text: string): void
  /** Nothing more will be written. */
  close(): void
  /** Asks it to end, and makes it end after the grace. The fault says why, for people. */
  stop(fault: string | null, isFatal?: boolean, withinMs?: number): void
  readonly ended: Promise<ChildEnd>
}
/** `lines`: each is dealt with before the next is read. `text`: all of it, at the end. */
export type Hearing =
  | {
      readonly kind: 'lines'
      hear(line: Uint8Array): Promise<void>
      /** The process has ended: waits on its behalf can stop. */
      gone(): void
    }
  | { readonly kind: 'text'; hear(text: string): void }

/** The time to read the last output of an ended child. */
const LEFT_MS = 2_000

export function startChild({ argv: [file, ...args], cwd, env, graceMs }: Command, hearing: Hearing): Child {
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
  const { promise: ended, resolve } = Promise.withResolvers<ChildEnd>()
  let stderr = ''
  let fault: string | null = null
  let isFatal = false
  let timer: NodeJS.Timeout | undefined
  let isGone = false

  /** Signals the whole process group, including the processes that the child started. */
  function signal(name: NodeJS.Signals): void {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name)
    } catch {
      // The process has ended already.
    }
  }
  function stop(message: string | null, fatal = false, withinMs = graceMs): void {
    fault ??= message
    isFatal ||= fatal
    if (isGone || timer) return
    signal('SIGTERM')
    timer = setTimeout(() => signal('SIGKILL'), withinMs)
  }
  const end = (code: number | null): void => resolve({ code, fault, isFatal, stderr: stderr.trim() })

  let printed = 0
  /** Whether it has printed more than it may, on both outputs together. */
  const isTooMuch = (bytes: number): boolean => {
    printed += bytes
    if (printed <= limits.childOutputBytesMax) return false
    stop(`the command printed more than ${limits.childOutputBytesMax / 2 ** 20} MiB`, true)
    return true
  }
  child.stderr.on('data', (part: Buffer) => {
    if (isTooMuch(part.length)) return void child.stderr.destroy()
    stderr = (stderr + part.toString()).slice(-limits.childErrorBytesMax)
  })
  child.stdin.on('error', () => undefined) // it does not listen any more; its end says the rest
  child.on('error', ({ message }) => {
    isGone = true
    fault ??= `the command cannot be started: ${message}`
    isFatal = true
    end(null)
  })
  const heard = listen(child.stdout, hearing, isTooMuch, stop)
  child.on('exit', (code, name) => {
    isGone = true
    clearTimeout(timer)
    // Processes that it left behind would hold the pipes open and run on without an owner.
    signal('SIGKILL')
    if (hearing.kind === 'lines') hearing.gone()
    if (name !== null) fault ??= `the command was ended by ${name}`
    // One that left the group keeps the pipes open, and has no parent here any more.
    const deaf = setTimeout(() => child.stdout.destroy(), LEFT_MS).unref()
    void heard.then(() => {
      clearTimeout(deaf)
      end(code)
    })
  })
  return {
    write(text) {
      if (!child.stdin.writable) return
      child.stdin.write(text)
      if (child.stdin.writableLength > limits.childUnreadBytesMax) stop('the command does not read its input', true)
    },
    close: () => void child.stdin.end(),
    stop,
    ended,
  }
}

/** Resolves when the last of the output was dealt with. Reading waits for the dealing, so a child that is ahead is held by its pipe. */
async function listen(
  stdout: AsyncIterable<Buffer>,
  hearing: Hearing,
  isTooMuch: (bytes: number) => boolean,
  stop: (fault: string, isFatal: boolean) => void,
): Promise<void> {
  const lines = createLineReader(limits.childLineBytesMax)
  const parts: Buffer[] = []
  try {
    for await (const part of stdout) {
      if (isTooMuch(part.length)) return
      if (hearing.kind === 'text') {
        parts.push(part)
        continue
      }
      lines.push(part)
      for (let line = lines.next(); line !== null; line = lines.next()) if (line.length > 0) await hearing.hear(line)
      if (lines.tooLong) return stop(`the command printed a line of more than ${limits.childLineBytesMax / 1_024} KiB`, true)
    }
  } catch {
    // The pipe broke; its end says the rest.
  }
  if (hearing.kind === 'text') hearing.hear(Buffer.concat(parts).toString())
}
