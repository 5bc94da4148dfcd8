// Readers of single settings: each turns a text into its value, or refuses it with a sentence that names the setting.
import { resolve } from 'node:path'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { isKeyName } from '#kernel/log/tree/note.ts'
import { limits } from '#kernel/limits.ts'
import { ConfigError, type Named } from './config-error.ts'

const refuse = ({ name, value }: Named, rule: string): never => {
  throw new ConfigError(`${name} must be ${rule}, not ${JSON.stringify(value)}`)
}

/** '' is a choice that is not listed: not given. */
export const oneOf =
  <const W extends string>(...choices: readonly W[]) =>
  (named: Named): W =>
    choices.find((choice) => choice === named.value) ?? refuse(named, choices.filter((choice) => choice !== '').join(', '))

export const logLevelOf = oneOf('silent', 'error', 'warn', 'info', 'debug')
export type LogLevel = ReturnType<typeof logLevelOf>
export const isOn = (named: Named): boolean => oneOf('on', 'off')(named) === 'on'

export const pathOf = ({ value }: Named): string | null => (value === '' ? null : resolve(value))

const integerIn = (text: string, digits: number): number => (new RegExp(`^\\d{1,${digits}}$`).test(text) ? Number(text) : Number.NaN)

export function portOf(named: Named): number {
  const port = integerIn(named.value, 5)
  return port <= 65_535 ? port : refuse(named, 'a port from 0 to 65535')
}

/** null: off. */
export function quotaOf(named: Named): number | null {
  if (named.value === 'off') return null
  return /^[1-9]\d{0,6}$/.test(named.value) ? Number(named.value) : refuse(named, 'a number from 1 to 9999999, or off')
}

export const countTo =
  (max: number) =>
  (named: Named): number => {
    const count = integerIn(named.value, 4)
    return count >= 1 && count <= max ? count : refuse(named, `a number from 1 to ${max}`)
  }

const DRAIN_SECONDS_MAX = 30

export function drainMsOf(named: Named): number {
  const seconds = integerIn(named.value, 2)
  return seconds <= DRAIN_SECONDS_MAX ? seconds * 1_000 : refuse(named, `a number of seconds from 0 to ${DRAIN_SECONDS_MAX}`)
}

const unitBytes = { '': 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 } as const
const BLOB_BYTES_MAX = 100 * 2 ** 30

function unitsIn(value: string): number {
  const [, digits, unit] = /^(\d{1,12})(KiB|MiB|GiB|)$/.exec(value) ?? []
  return Number(digits) * unitBytes[unit as keyof typeof unitBytes]
}
/** null: off. */
export function bytesOf(named: Named): number | null {
  if (named.value === 'off') return null
  const bytes = unitsIn(named.value)
  return bytes >= 1 && Number.isSafeInteger(bytes) ? bytes : refuse(named, 'a size such as 2GiB, or off')
}
export function blobBytesOf(named: Named): number {
  const bytes = unitsIn(named.value)
  return bytes >= 1 && bytes <= BLOB_BYTES_MAX ? bytes : refuse(named, 'a size from 1 to 100GiB such as 64MiB')
}

/** The value is not repeated: it may hold a password. */
export function smtpOf({ value, name }: Named): string | null {
  if (value === '') return null
  const url = URL.parse(value)
  if (url === null || !['smtp:', 'smtps:'].includes(url.protocol) || url.hostname === '')
    throw new ConfigError(`${name} must be an address such as smtp://name:password@mail.example.com:587`)
  return value
}

/** A host of the local network has no dot. */
export function senderOf({ value, name }: Named): string {
  if (value !== '' && !/^[^\s@<>,;"]+@[^\s@<>,;"]+$/.test(value))
    throw new ConfigError(`${name} must be one e-mail address such as countersign@example.com`)
  return value
}

/** The session of a person: from a minute to a month. */
export function sessionMsOf(named: Named): number {
  const ms = spanOf(named)
  return ms >= limits.sessionMsMin && ms <= limits.sessionMsMax ? ms : refuse(named, 'a duration from PT1M to P31D such as PT12H')
}
/** null: off. undefined: not given. */
export function rememberMsOf(named: Named): number | null | undefined {
  if (named.value === '') return undefined
  return named.value === 'off' ? null : sessionMsOf(named)
}
function spanOf(named: Named): number {
  try {
    return durationMs(named.value, 'INVALID_REQUEST', named.name)
  } catch {
    return refuse(named, 'a duration such as PT12H')
  }
}

export function nodeOf(named: Named): string | null {
  if (named.value === '') return null
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(named.value)) return named.value
  return refuse(named, 'a name of at most 63 letters, digits, dots, dashes and underscores')
}

export function logOriginOf(named: Named): string {
  if (named.value === '' || isKeyName(named.value)) return named.value
  return refuse(named, `a name of at most ${limits.logNameCharsMax} characters without spaces and "+", such as tasks.example.com/log`)
}

export function logEveryMsOf(named: Named): number {
  const ms = spanOf(named)
  return ms >= limits.logEveryMsMin && ms <= limits.logEveryMsMax ? ms : refuse(named, 'a duration from PT0.1S to PT1H such as PT1S')
}

const listOf = ({ value, name }: Named, isFit: (part: string) => boolean, rule: string): readonly string[] =>
  value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map((part) => {
      if (!isFit(part)) throw new ConfigError(`${name} lists ${rule}, not ${JSON.stringify(part)}`)
      return part
    })

export const hostsOf = (named: Named): readonly string[] =>
  listOf(named, (host) => /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)$/i.test(host), 'host names without port or path')

export const originsOf = (named: Named): readonly string[] =>
  listOf(named, (origin) => URL.canParse(origin) && new URL(origin).origin === origin, 'origins such as https://desk.example.com')
