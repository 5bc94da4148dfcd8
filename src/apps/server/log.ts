// JSON lines on stderr. Bodies, credentials and query strings are never given to the log.
import pino, { type Logger } from 'pino'
import type { LogLevel } from './settings/config.ts'

/** Should somebody ever hand one of these to the log, it does not come out. */
const secrets = ['authorization', 'body', 'cookie', 'headers', 'input', 'key', 'password', 'query', 'secret', 'session', 'token', 'url']

export function createLog(level: LogLevel): Logger {
  const paths = secrets.flatMap((name) => [name, `*.${name}`])
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths, censor: '[redacted]' },
  }
  // Synchronous: the last line before the end is the one that is needed.
  return pino(options, pino.destination({ fd: 2, sync: true }))
}
