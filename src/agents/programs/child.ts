// One child process: started without a shell, in its own process group, with bounded output. Ending it also ends every process that it
// has started.
import { spawn } from 'node:child_process'
import { limits } from '#kernel/limits.ts'
import { createLineReader } from '#kernel/codec/line-reader.ts'

export type Command = {
  /** The program and its arguments; never a shell's line. */
  readonly argv: readonly [string, ...string[]]
  readonly cwd: string
  /** The whole environment of the child. */
  readonly env: Readonly<Record<string, string>>
  readonly graceMs: number
}
/** How a child ended. `isFatal`: a restarted child would end the same way. */
export type ChildEnd = { readonly code: number | null; readonly fault: string | null; readonly isFatal: boolean; readonly stderr: string }
export type Child = {
  write(text: string): void
  /** Closes the input of the child. */
  close(): void
  /** Asks the child to end, and kills it after the grace period. The fault is the reason that people see. */
  stop(fault: string | null, isFatal?: boolean, withinMs?: number): void
  readonly ended: Promise<ChildEnd>
}
/** `lines`: each line is handled before the next is read. `text`: the whole output, at the end. */
export type Hearing =
  | {
      readonly kind: 'lines'
      /** The longest line, and everything together; by default the bounds of `limits`. */
      readonly lineBytesMax?: number
      readonly outputBytesMax?: number
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

  const outputBytesMax = (hearing.kind === 'lines' ? hearing.outputBytesMax : undefined) ?? limits.childOutputBytesMax
  let printed = 0
  /** Whether the program has printed more than the limit, on both outputs together. */
  const isTooMuch = (bytes: number): boolean => {
    printed += bytes
    if (printed <= outputBytesMax) return false
    stop(`the command printed more than ${outputBytesMax / 2 ** 20} MiB`, true)
    return true
  }
  child.stderr.on('data', (part: Buffer) => {
    if (isTooMuch(part.length)) return void child.stderr.destroy()
    stderr = (stderr + part.toString()).slice(-limits.childErrorBytesMax)
  })
  child.stdin.on('error', () => undefined) // the child no longer reads; its end is reported
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
    // A process that left the group keeps the pipes open and is no longer our child.
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

/** Resolves when all output was handled. Reading waits for the handler, so the pipe blocks a child that prints faster. */
async function listen(
  stdout: AsyncIterable<Buffer>,
  hearing: Hearing,
  isTooMuch: (bytes: number) => boolean,
  stop: (fault: string, isFatal: boolean) => void,
): Promise<void> {
  const lineBytesMax = (hearing.kind === 'lines' ? hearing.lineBytesMax : undefined) ?? limits.childLineBytesMax
  const lines = createLineReader(lineBytesMax)
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
      if (lines.tooLong) return stop(`the command printed a line of more than ${lineBytesMax / 1_024} KiB`, true)
    }
  } catch {
    // The pipe broke. The exit of the child gives the reason.
  }
  if (hearing.kind === 'text') hearing.hear(Buffer.concat(parts).toString())
}
