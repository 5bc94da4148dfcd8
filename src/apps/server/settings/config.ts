// The configuration of a server: each setting by flag or environment variable, the flag wins. A value that is not understood is an error
// with a sentence, never a default.
import type { ByteQuotas } from '#kernel/ports/stored-bytes.ts'
import { harnessSettings, type HarnessSettings } from './harness-settings.ts'
import { isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import { distanceOf } from '#kernel/codec/spelling.ts'
import { ConfigError, type Named } from './config-error.ts'
import { databaseOf, nodeOf, type DatabaseSettings } from './database-settings.ts'
import { withSecretFiles } from './secret-files.ts'
import { settings, startExamples } from './settings.ts'

/** Where the server is by default. */
export const URL_USUAL = 'http://127.0.0.1:3402'

export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug'

export type Config = {
  readonly data: string
  readonly port: number
  readonly host: string
  readonly hosts: readonly string[]
  /** The origin that people open; null: after the first of `hosts`, or where it listens. */
  readonly publicUrl: string | null
  readonly origins: readonly string[]
  readonly proxied: boolean
  /** The files of the server's certificate and its key; null: plain HTTP. */
  readonly tls: TlsFiles | null
  /** The issuer whose tokens people may come with; null: none. */
  readonly issuer: IssuerSettings | null
  /** Well-known credentials, any origin, no quotas: for a machine where nothing is at stake. */
  readonly dev: boolean
  readonly log: LogLevel
  /** Changes that one agent may make in a minute; null: as many as it likes. */
  readonly quota: number | null
  /** Questions that one agent may ask of people: open at a time, in a minute, and as critical in an hour; null: as many as it likes. */
  readonly requestsOpenMax: number | null
  readonly requestsPerMinute: number | null
  readonly criticalPerHourMax: number | null
  readonly defaultSecondsMin: number | null
  /** Reads of one actor in a minute, in units; null: as much as it likes. */
  readonly readsPerMinute: number | null
  readonly blobBytesMax: number
  readonly byteQuotas: ByteQuotas
  /** Room that uploads leave on the disk. */
  readonly diskFloorBytes: number
  /** Where the JSON-RPC socket is; null: there is none. */
  readonly socket: string | null
  /** The file that names sources of capabilities; null: there are none. */
  readonly capabilities: string | null
  /** A file that says which agents are programs of this machine; null: none are. */
  readonly agents: string | null
  /** Webhooks may be at loopback, private and link-local addresses. */
  readonly webhookPrivate: boolean
  /** null: no e-mail. */
  readonly smtp: string | null
  /** Empty: after the host of this server. */
  readonly mailFrom: string
  readonly noticesPerHourMax: number | null
  readonly webhookAttemptsMax: number
  /** The database that several servers may share; null: the data folder of this one. */
  readonly database: DatabaseSettings | null
  /** The name of this server among several; null: one is made up. */
  readonly node: string | null
  /** For how long a server that stops says so before it closes. */
  readonly drainMs: number
  /** Whether people get the page in the browser. */
  readonly web: 'on' | 'off'
  /** The broker to other harnesses; null: none. */
  readonly harness: HarnessSettings | null
  readonly skipVerify: boolean
  /** The owner's login link is printed wherever the output goes. */
  readonly link: boolean
  readonly readOnly: boolean
}

export type TlsFiles = { readonly cert: string; readonly key: string }
export type IssuerSettings = {
  readonly url: string
  /** Where its keys are; null: its own description says so. */
  readonly jwks: string | null
  readonly audience: string
}

type Flag = (typeof settings)[number]['flag']
type Given = ReadonlyMap<string, string>

export { ConfigError } from './config-error.ts'

export type Wish = { readonly kind: 'start'; readonly config: Config } | { readonly kind: 'help' } | { readonly kind: 'version' }

export function readConfig(argv: readonly string[], given: Readonly<Record<string, string | undefined>>): Wish {
  const flags = readFlags(argv)
  if (flags.has('help')) return { kind: 'help' }
  if (flags.has('version')) return { kind: 'version' }
  const env = withSecretFiles(given)
  const of = (flag: Flag): Named => {
    const setting = settings.find((candidate) => candidate.flag === flag)!
    const fromEnv = setting.env === null ? undefined : env[setting.env]
    if (flags.has(flag)) return { value: flags.get(flag)!, name: `--${flag}` }
    // An empty variable is how most shells say "not set".
    return fromEnv ? { value: fromEnv, name: setting.env! } : { value: setting.usual, name: `--${flag}` }
  }
  const proxied = oneOf(of('proxy'), ['', 'trusted']) === 'trusted'
  const tls = tlsOf(of('tls-cert'), of('tls-key'))
  const host = hostOf(of('host'), proxied || tls !== null)
  const dev = devOf(of('dev'), host, proxied)
  const isGiven = (flag: Flag): boolean => flags.has(flag) || of(flag).name !== `--${flag}`
  const quota = dev && !isGiven('quota') ? null : quotaOf(of('quota'))
  // An operator who wants no quota wants none of them, as far as nothing else is said.
  const asking = (flag: Flag): number | null => (quota === null && !isGiven(flag) ? null : quotaOf(of(flag)))
  return {
    kind: 'start',
    config: {
      data: resolve(of('data').value),
      port: portOf(of('port')),
      host,
      hosts: hostsOf(of('hosts')),
      publicUrl: publicUrlOf(of('public-url'), proxied || tls !== null),
      origins: originsOf(of('origins')),
      proxied,
      tls,
      issuer: issuerOf(of('issuer'), of('issuer-jwks'), of('audience')),
      dev,
      log: oneOf(of('log'), ['silent', 'error', 'warn', 'info', 'debug']),
      quota,
      requestsOpenMax: asking('requests-open'),
      requestsPerMinute: asking('requests-per-minute'),
      criticalPerHourMax: asking('critical-per-hour'),
      // No quota: it is not about how much an agent may do, but about who decides.
      defaultSecondsMin: dev && !isGiven('default-after') ? null : quotaOf(of('default-after')),
      readsPerMinute: asking('reads-per-minute'),
      blobBytesMax: sizeOf(of('blob-max')),
      byteQuotas: {
        task: bytesOf(of('bytes-per-task')),
        actor: bytesOf(of('bytes-per-actor')),
        project: bytesOf(of('bytes-per-project')),
      },
      diskFloorBytes: bytesOf(of('disk-floor')) ?? 0,
      socket: socketOf(of('socket'), resolve(of('data').value)),
      capabilities: of('capabilities').value === '' ? null : resolve(of('capabilities').value),
      agents: of('agents').value === '' ? null : resolve(of('agents').value),
      webhookPrivate: oneOf(of('webhook-private'), ['on', 'off']) === 'on',
      webhookAttemptsMax: countOf(of('webhook-attempts'), 100),
      database: databaseOf(of, flags.has('require-replicated')),
      node: nodeOf(of('node')),
      drainMs: drainOf(of('drain')) * 1_000,
      smtp: smtpOf(of('smtp')),
      mailFrom: senderOf(of('mail-from')),
      noticesPerHourMax: quotaOf(of('notices-per-hour')),
      web: oneOf(of('web'), ['on', 'off']),
      harness: harnessSettings(
        (flag) => of(flag as 'amqp'),
        (message) => new ConfigError(message),
      ),
      skipVerify: flags.has('skip-verify'),
      link: flags.has('link'),
      readOnly: flags.has('read-only'),
    },
  }
}

function readFlags(argv: readonly string[]): Given {
  const given = new Map<string, string>()
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i]!
    const [, name, value] = /^--([^=]+)(?:=(.*))?$/s.exec(word) ?? (word === '-h' ? [word, 'help'] : [])
    if (name === undefined) throw new ConfigError(`unknown word ${JSON.stringify(word)}: options begin with --; see --help`)
    const setting = settings.find((candidate) => candidate.flag === name)
    if (!setting) throw new ConfigError(`there is no option --${name}${suggestion(name)} (see --help)`)
    if (given.has(name)) throw new ConfigError(`--${name} is given twice`)
    if (setting.value === null && value !== undefined) throw new ConfigError(`--${name} takes no value`)
    const its = setting.value === null ? 'on' : (value ?? argv[++i])
    if (its === undefined || (value === undefined && its.startsWith('--')))
      throw new ConfigError(`--${name} needs a value: --${name} ${setting.value}`)
    given.set(name, its)
  }
  return given
}

function suggestion(name: string): string {
  const nearest = settings.map(({ flag }) => ({ flag, distance: distanceOf(name, flag) })).toSorted((a, b) => a.distance - b.distance)[0]!
  return nearest.distance <= 3 ? `: did you mean --${nearest.flag}?` : ''
}

function oneOf<const W extends string>({ value, name }: Named, message: readonly W[]): W {
  const found = message.find((word) => word === value)
  if (found === undefined)
    throw new ConfigError(`${name} must be ${message.filter((word) => word !== '').join(', ')}, not ${JSON.stringify(value)}`)
  return found
}

function portOf({ value, name }: Named): number {
  const port = /^\d{1,5}$/.test(value) ? Number(value) : Number.NaN
  if (!(port <= 65_535)) throw new ConfigError(`${name} must be a port from 0 to 65535, not ${JSON.stringify(value)}`)
  return port
}

function quotaOf({ value, name }: Named): number | null {
  if (value === 'off') return null
  if (/^[1-9]\d{0,6}$/.test(value)) return Number(value)
  throw new ConfigError(`${name} must be a number from 1 to 9999999, or off, not ${JSON.stringify(value)}`)
}

function countOf({ value, name }: Named, max: number): number {
  const count = /^\d{1,4}$/.test(value) ? Number(value) : 0
  if (!(count >= 1 && count <= max)) throw new ConfigError(`${name} must be a number from 1 to ${max}, not ${JSON.stringify(value)}`)
  return count
}

const DRAIN_SECONDS_MAX = 30

function drainOf({ value, name }: Named): number {
  const seconds = /^\d{1,2}$/.test(value) ? Number(value) : Number.NaN
  if (!(seconds <= DRAIN_SECONDS_MAX))
    throw new ConfigError(`${name} must be a number of seconds from 0 to ${DRAIN_SECONDS_MAX}, not ${JSON.stringify(value)}`)
  return seconds
}

function smtpOf({ value, name }: Named): string | null {
  if (value === '') return null
  const url = URL.parse(value)
  if (url === null || !['smtp:', 'smtps:'].includes(url.protocol) || url.hostname === '')
    throw new ConfigError(`${name} must be an address such as smtp://name:password@mail.example.com:587`)
  return value
}

/** Also of a host of one's own network, which has no dot. */
function senderOf({ value, name }: Named): string {
  if (value !== '' && !/^[^\s@<>,;"]+@[^\s@<>,;"]+$/.test(value))
    throw new ConfigError(`${name} must be one e-mail address such as countersign@example.com`)
  return value
}

/** The system keeps a socket's path in 108 bytes, the last of which is NUL. */
const SOCKET_BYTES_MAX = 107 - '.new'.length

function socketOf({ value, name }: Named, data: string): string | null {
  if (value === 'off') return null
  const isUsual = value.startsWith('<data>')
  const path = resolve(isUsual ? value.replace('<data>', data) : value)
  if (Buffer.byteLength(path) <= SOCKET_BYTES_MAX) return path
  // It was not asked for: a data folder far down does without.
  if (isUsual) return null
  throw new ConfigError(`${name} is ${path}, which is longer than ${SOCKET_BYTES_MAX} bytes: choose a shorter path, or off`)
}

const unitBytes = { '': 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 } as const

function unitsIn(value: string): number {
  const [, digits, unit] = /^(\d{1,12})(KiB|MiB|GiB|)$/.exec(value) ?? []
  return Number(digits) * unitBytes[unit as keyof typeof unitBytes]
}
/** null: off. */
function bytesOf({ value, name }: Named): number | null {
  if (value === 'off') return null
  const bytes = unitsIn(value)
  if (!(bytes >= 1 && Number.isSafeInteger(bytes)))
    throw new ConfigError(`${name} must be a size such as 2GiB, or off, not ${JSON.stringify(value)}`)
  return bytes
}
function sizeOf({ value, name }: Named): number {
  const bytes = unitsIn(value)
  if (!(bytes >= 1 && bytes <= BLOB_BYTES_MAX))
    throw new ConfigError(`${name} must be a size from 1 to 100GiB such as 64MiB, not ${JSON.stringify(value)}`)
  return bytes
}
const BLOB_BYTES_MAX = 100 * 2 ** 30

const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host)

/** Plain HTTP beyond this machine would carry credentials in the open. */
function hostOf({ value, name }: Named, isSafe: boolean): string {
  if (isLoopback(value) || isSafe) return value
  throw new ConfigError(
    `${name} is ${value}, which others can reach, without TLS: listen on 127.0.0.1, give a certificate with --tls-cert and --tls-key, or put a proxy with TLS in front and declare it with --proxy trusted`,
  )
}

function tlsOf(cert: Named, key: Named): TlsFiles | null {
  if (cert.value === '' && key.value === '') return null
  const [given, missing] = cert.value === '' ? [key, cert] : [cert, key]
  if (missing.value === '') throw new ConfigError(`${given.name} needs ${missing.name}: a certificate and its key go together`)
  return { cert: resolve(cert.value), key: resolve(key.value) }
}

/** Everybody knows its credentials, so nobody else may reach it. */
function devOf({ value, name }: Named, host: string, proxied: boolean): boolean {
  if (value === '' || value === '0') return false
  if (value !== 'on' && value !== '1') throw new ConfigError(`${name} must be 1 or 0, not ${JSON.stringify(value)}`)
  if (proxied)
    throw new ConfigError(`${name} accepts credentials that everybody knows, so it does not go with --proxy: others could use them`)
  if (!isLoopback(host)) throw new ConfigError(`${name} accepts credentials that everybody knows, so --host must be 127.0.0.1, not ${host}`)
  return true
}

function issuerOf(issuer: Named, jwks: Named, audience: Named): IssuerSettings | null {
  if (issuer.value === '') {
    const stray = [jwks, audience].find(({ value }) => value !== '')
    if (stray) throw new ConfigError(`${stray.name} needs --issuer: whose tokens they are`)
    return null
  }
  if (audience.value === '') throw new ConfigError(`${issuer.name} needs --audience: a token for another service must not count here`)
  return {
    // Compared with what stands in tokens, letter by letter.
    url: issuerUrlOf(issuer),
    jwks: jwks.value === '' ? null : issuerUrlOf(jwks),
    audience: audience.value,
  }
}

function issuerUrlOf({ value, name }: Named): string {
  if (!isSafeUrl(value)) throw new ConfigError(`${name} must be a URL with https (http on this machine only), not ${JSON.stringify(value)}`)
  return value
}

/** Keys that came in the open could be anybody's. */
export function isSafeUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || url.username !== '' || url.password !== '' || url.hash !== '') return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname.replace(/^\[(.*)\]$/, '$1')))
}

/** An address with a scheme that this server does not speak would lead nowhere, or carry credentials in the open. */
function publicUrlOf({ value, name }: Named, isSecure: boolean): string | null {
  if (value === '') return null
  const url = isSafeUrl(value) ? new URL(value) : null
  if (url === null || url.pathname !== '/' || url.search !== '')
    throw new ConfigError(`${name} must be an address without a path, such as https://tasks.example.com, not ${JSON.stringify(value)}`)
  if ((url.protocol === 'https:') !== isSecure)
    throw new ConfigError(
      isSecure
        ? `${name} is ${value}, but people reach this server with https: name an https address`
        : `${name} is ${value}, but this server speaks plain HTTP: declare the proxy that ends TLS with --proxy trusted, or give a certificate with --tls-cert and --tls-key`,
    )
  return url.origin
}

/** Whether the operator has said under which address others reach this server. */
export const isPublic = ({ publicUrl, hosts }: Config): boolean => publicUrl !== null || hosts.length > 0

/**
 * Under which address others reach this server: `--public-url`, the first of `--hosts`, or where it listens. A proxy has the port that https
 * usually has.
 */
export function publicOrigin({ publicUrl, hosts, host, tls, proxied }: Config, port: number): string {
  if (publicUrl !== null) return publicUrl
  const scheme = tls !== null || proxied ? 'https' : 'http'
  const usual = scheme === 'https' ? 443 : 80
  return `${scheme}://${hosts[0] ?? hostInUrl(host)}${proxied || port === usual ? '' : `:${port}`}`
}

/** Under which address a command on this machine reaches it: a certificate has a name, and every address is none. */
export function localOrigin(config: Config, port: number): string {
  const { hosts, host, tls } = config
  if (tls !== null && hosts.length > 0) return publicOrigin(config, port)
  const its = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `${tls === null ? 'http' : 'https'}://${hostInUrl(its)}:${port}`
}

function hostsOf({ value, name }: Named): string[] {
  const hosts = value.split(',').map((host) => host.trim())
  return hosts
    .filter((host) => host !== '')
    .map((host) => {
      if (!/^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)$/i.test(host))
        throw new ConfigError(`${name} lists host names without port or path, not ${JSON.stringify(host)}`)
      return host
    })
}

function originsOf({ value, name }: Named): string[] {
  const origins = value.split(',').map((origin) => origin.trim())
  return origins
    .filter((origin) => origin !== '')
    .map((origin) => {
      if (!URL.canParse(origin) || new URL(origin).origin !== origin)
        throw new ConfigError(`${name} lists origins such as https://desk.example.com, not ${JSON.stringify(origin)}`)
      return origin
    })
}

/** As it stands in a URL. */
export const hostInUrl = (host: string): string => (isIPv6(host) ? `[${host}]` : host)

/** Where the words of every row begin. */
const HELP_COLUMN = 22

export function helpText(command = 'npm start --'): string {
  const rows = settings.map(({ flag, value, env, usual, help }) => {
    const left = `  --${flag}${value === null ? '' : ` ${value}`}`
    // A flag that is longer than the column has a line of its own.
    const start = left.length < HELP_COLUMN ? left.padEnd(HELP_COLUMN) : `${left}\n${' '.repeat(HELP_COLUMN)}`
    return `${start}${help}${usual === '' ? '' : ` (default ${usual})`}${env === null ? '' : `\n${' '.repeat(HELP_COLUMN)}or ${env}`}`
  })
  return `Countersign: the control plane for work that people delegate to agents.

Usage: ${command} [options]

${rows.join('\n')}

Examples:
${startExamples.map((message) => `  ${command} ${message}`).join('\n')}

The server prints one line when it is ready, a one-time login link if the output is a terminal or --link is given, and what to do next.
SIGTERM or Ctrl-C stops it: calls that are under way are finished first.
`
}
