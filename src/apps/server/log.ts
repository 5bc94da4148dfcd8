// JSON lines on stderr. Bodies, credentials and query strings are never given to the log.
import { writeSync } from 'node:fs'
import type { LogLevel } from './settings/config.ts'

type Say = { (message: string): void; (fields: object, message?: string): void }
const levels = ['debug', 'info', 'warn', 'error', 'fatal'] as const
type Level = (typeof levels)[number]
/** `level`: the lowest that is written. `child`: the same log, with these fields on every line. */
export type Logger = Readonly<Record<Level, Say>> & { readonly level: LogLevel; child(fields: object): Logger }

/** Fields that are never logged. */
const secrets = new Set([
  'authorization',
  'body',
  'cookie',
  'headers',
  'input',
  'key',
  'password',
  'query',
  'secret',
  'session',
  'token',
  'url',
])

export function createLog(level: LogLevel, write: (line: string) => void = toStderr): Logger {
  const from = level === 'silent' ? levels.length : levels.indexOf(level)
  const logger = (always: object): Logger => {
    const sayAt = (at: Level, index: number): Say =>
      index < from
        ? () => undefined
        : (first: string | object, message?: string) => {
            const [fields, msg] = typeof first === 'string' ? [{}, first] : [first, message]
            write(`${lineOf({ level: at, time: new Date().toISOString(), ...always, ...fields, ...(msg === undefined ? {} : { msg }) })}\n`)
          }
    const methods = Object.fromEntries(levels.map((at, index) => [at, sayAt(at, index)])) as Record<Level, Say>
    return { ...methods, level, child: (fields) => logger({ ...always, ...fields }) }
  }
  return logger({})
}

/** A circular object, or one that JSON cannot represent, is logged without its fields: logging never throws. */
function lineOf(line: { readonly level: string; readonly time: string; readonly msg?: string }): string {
  try {
    return JSON.stringify(line, printable)
  } catch {
    const { level, time, msg } = line
    return JSON.stringify({ level, time, msg, fields: 'they cannot be written as JSON' })
  }
}

function printable(name: string, value: unknown): unknown {
  if (secrets.has(name)) return '[redacted]'
  if (typeof value === 'bigint') return String(value)
  if (!(value instanceof Error)) return value
  const { name: type, message, stack, cause } = value
  return { ...Object.fromEntries(Object.entries(value)), type, message, stack, ...(cause === undefined ? {} : { cause }) }
}

/** Retries while the pipe is full, for at most a second: a stalled reader must not stop the server. */
const TRIES = 100
const pause = new Int32Array(new SharedArrayBuffer(4))

/** Synchronous, so that the last line before a crash is not lost. */
function toStderr(line: string): void {
  let rest = Buffer.from(line)
  for (let tries = 0; rest.length > 0 && tries < TRIES; tries++) {
    try {
      rest = rest.subarray(writeSync(2, rest))
    } catch (error) {
      // The reader of standard error is gone, so the error has no reader either.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
      Atomics.wait(pause, 0, 0, 10)
    }
  }
}
