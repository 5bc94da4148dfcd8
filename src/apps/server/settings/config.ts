// The configuration of a server: the values of its table of settings, and the rules between them. An invalid value stops startup with an error
// message; there is no fallback to the default.
import { isIPv6 } from 'node:net'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { limits } from '#kernel/limits.ts'
import type { RelyingParty } from '#kernel/ports/passkeys.ts'
import { ConfigError, type Named } from './config-error.ts'
import { databaseOf } from './database-settings.ts'
import { harnessSettings } from './harness-settings.ts'
import { withSecretFiles } from './secret-files.ts'
import { helpRows, readSettings, type Env, type Settings } from './setting.ts'
import { PREFIX, settings, startExamples } from './settings.ts'

/** Where the server is by default. */
export const URL_USUAL = 'http://127.0.0.1:3402'

export type TlsFiles = { readonly cert: string; readonly key: string }
export type IssuerSettings = {
  readonly url: string
  /** The address of the issuer's keys; null: its OpenID description names it. */
  readonly jwks: string | null
  readonly audience: string
}
export type OidcSettings = {
  readonly url: string
  readonly clientId: string
  /** null: a public client. */
  readonly secret: string | null
  readonly scopes: string
  readonly groupsClaim: string
  /** The first sign-in registers the person. */
  readonly creates: boolean
}

export { ConfigError } from './config-error.ts'
export type { LogLevel } from './readers.ts'

export type Config = Readonly<ReturnType<typeof configOf>>
export type Startup = { readonly kind: 'start'; readonly config: Config } | { readonly kind: 'help' } | { readonly kind: 'version' }

export function readConfig(argv: readonly string[], env: Env): Startup {
  const flags = readSettings(settings, PREFIX, argv, {})
  if (flags.value('help')) return { kind: 'help' }
  if (flags.value('version')) return { kind: 'version' }
  return { kind: 'start', config: configOf(readSettings(settings, PREFIX, argv, withSecretFiles(env))) }
}

function configOf({ value, named, isGiven }: Settings<typeof settings>) {
  const proxied = value('proxy') === 'trusted'
  const tls = tlsOf(named('tls-cert'), named('tls-key'))
  const isSecure = proxied || tls !== null
  const host = hostOf(named('host'), isSecure)
  const dev = devOf(named('dev'), host, proxied)
  const oidc = oidcOf(named, value, isGiven)
  // null: without a bound.
  const quota = dev && !isGiven('quota') ? null : value('quota')
  // Without a general quota, the special ones are off too, unless the operator sets them.
  const quotaFor = (flag: 'requests-open' | 'requests-per-minute' | 'critical-per-hour' | 'reads-per-minute'): number | null =>
    quota === null && !isGiven(flag) ? null : value(flag)
  return {
    data: value('data'),
    port: value('port'),
    host,
    hosts: value('hosts'),
    /** The origin that people open; null: from the first of `hosts`, or the listening address. */
    publicUrl: publicUrlOf(named('public-url'), isSecure),
    origins: value('origins'),
    passkeyOrigins: value('passkey-origins'),
    proxied,
    /** null: plain HTTP. */
    tls,
    issuer: issuerOf(named('issuer'), named('issuer-jwks'), named('audience'), named('oidc-client-id')),
    /** null: people do not sign in with the issuer. */
    oidc,
    signIn: {
      sessionMs: value('session-max'),
      rememberMs: rememberMsOf(value('remember'), named('issuer').value !== ''),
      insteadOfLinks: value('login-links') ? null : hostOfIssuer(named('login-links'), oidc),
    },
    /** Well-known credentials, any origin, no quotas: only for a machine without real data. */
    dev,
    log: value('log'),
    /** '': by the public address or the installation. */
    logOrigin: value('log-origin'),
    logEveryMs: value('log-every'),
    logIsPublic: value('log-public'),
    witnesses: value('witnesses'),
    quota,
    requestsOpenMax: quotaFor('requests-open'),
    requestsPerMinute: quotaFor('requests-per-minute'),
    criticalPerHourMax: quotaFor('critical-per-hour'),
    // No quota: it limits decisions without a person, not the work of an agent.
    defaultSecondsMin: dev && !isGiven('default-after') ? null : value('default-after'),
    readsPerMinute: quotaFor('reads-per-minute'),
    blobBytesMax: value('blob-max'),
    byteQuotas: { task: value('bytes-per-task'), actor: value('bytes-per-actor'), project: value('bytes-per-project') },
    diskFloorBytes: value('disk-floor') ?? 0,
    /** Where the JSON-RPC socket is; null: off. */
    socket: socketOf(named('socket'), value('data')),
    policy: value('policy'),
    capabilities: value('capabilities'),
    gates: value('gates'),
    agents: value('agents'),
    webhookPrivate: value('webhook-private'),
    webhookAttemptsMax: value('webhook-attempts'),
    /** The database that several servers can share; null: the data folder. */
    database: databaseOf(named, value('require-replicated')),
    node: value('node'),
    drainMs: value('drain'),
    smtp: value('smtp'),
    mailFrom: value('mail-from'),
    noticesPerHourMax: value('notices-per-hour'),
    web: value('web'),
    harness: harnessSettings(named, (message) => new ConfigError(message)),
    skipVerify: value('skip-verify'),
    link: value('link'),
    readOnly: value('read-only'),
  }
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

/** The development credentials are well known, so the server must be reachable from this machine only. */
function devOf({ value, name }: Named, host: string, proxied: boolean): boolean {
  if (value === '' || value === '0') return false
  if (value !== 'on' && value !== '1') throw new ConfigError(`${name} must be 1 or 0, not ${JSON.stringify(value)}`)
  if (proxied)
    throw new ConfigError(`${name} accepts credentials that everybody knows, so it does not go with --proxy: others could use them`)
  if (!isLoopback(host)) throw new ConfigError(`${name} accepts credentials that everybody knows, so --host must be 127.0.0.1, not ${host}`)
  return true
}

function issuerOf(issuer: Named, jwks: Named, audience: Named, clientId: Named): IssuerSettings | null {
  if (issuer.value === '') {
    const stray = [jwks, audience].find(({ value }) => value !== '')
    if (stray) throw new ConfigError(`${stray.name} needs --issuer: whose tokens they are`)
    return null
  }
  if (audience.value === '' && clientId.value === '')
    throw new ConfigError(`${issuer.name} needs --audience or --oidc-client-id: a token for another service must not count here`)
  return {
    // Kept verbatim: it is compared with the `iss` claim of tokens, character by character.
    url: issuerUrlOf(issuer),
    jwks: jwks.value === '' ? null : issuerUrlOf(jwks),
    audience: audience.value || clientId.value,
  }
}

const OIDC_FLAGS = ['oidc-client-secret-file', 'oidc-scopes', 'oidc-groups-claim', 'oidc-people'] as const
type Read = Settings<typeof settings>

function oidcOf(named: Read['named'], value: Read['value'], isGiven: Read['isGiven']): OidcSettings | null {
  const [issuer, clientId, scopes, claim] = [named('issuer'), named('oidc-client-id'), named('oidc-scopes'), named('oidc-groups-claim')]
  if (clientId.value !== '' && issuer.value === '') throw new ConfigError(`${clientId.name} needs --issuer: where people sign in`)
  if (clientId.value === '') {
    const stray = OIDC_FLAGS.find((flag) => isGiven(flag))
    if (stray) throw new ConfigError(`${named(stray).name} needs --oidc-client-id: the name of this server at the issuer`)
    return null
  }
  if (!/^[!-~]{1,200}$/.test(clientId.value)) throw new ConfigError(`${clientId.name} must have 1 to 200 characters without spaces`)
  if (!/^[!#-[\]-~]+( [!#-[\]-~]+)*$/.test(scopes.value) || !scopes.value.split(' ').includes('openid'))
    throw new ConfigError(`${scopes.name} must be scopes with spaces between them, openid among them, not ${JSON.stringify(scopes.value)}`)
  if (!/^[!-~]{1,100}$/.test(claim.value)) throw new ConfigError(`${claim.name} must be the name of a claim, such as groups`)
  return {
    url: issuerUrlOf(issuer),
    clientId: clientId.value,
    secret: clientSecretIn(named('oidc-client-secret-file').name, value('oidc-client-secret-file')),
    scopes: scopes.value,
    groupsClaim: claim.value,
    creates: value('oidc-people') === 'create',
  }
}

function clientSecretIn(name: string, file: string | null): string | null {
  if (file === null) return null
  let secret: string
  try {
    secret = readFileSync(file, 'utf8').trim()
  } catch (error) {
    throw new ConfigError(`${name} cannot be read: ${(error as Error).message}`)
  }
  if (!/^[ -~]{1,1000}$/.test(secret)) throw new ConfigError(`${name} must hold one line of at most 1000 printable characters: ${file}`)
  return secret
}

/** Remembered devices would keep people signed in after the issuer has removed them. */
const rememberMsOf = (given: number | null | undefined, hasIssuer: boolean): number | null =>
  given === undefined ? (hasIssuer ? null : limits.rememberedMs) : given

function hostOfIssuer({ name }: Named, oidc: OidcSettings | null): string {
  if (oidc === null) throw new ConfigError(`${name} off needs --issuer and --oidc-client-id: nobody could sign in otherwise`)
  return new URL(oidc.url).host
}

function issuerUrlOf({ value, name }: Named): string {
  if (!isSafeUrl(value)) throw new ConfigError(`${name} must be a URL with https (http on this machine only), not ${JSON.stringify(value)}`)
  return value
}

/** Keys fetched without TLS could be forged. */
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

/** Whether the operator has set the address at which others reach this server. */
export const isPublic = ({ publicUrl, hosts }: Config): boolean => publicUrl !== null || hosts.length > 0

/**
 * The address at which others reach this server: `--public-url`, the first of `--hosts`, or the address on which it listens. A proxy has the usual port of
 * https.
 */
export function publicOrigin({ publicUrl, hosts, host, tls, proxied }: Config, port: number): string {
  if (publicUrl !== null) return publicUrl
  const scheme = tls !== null || proxied ? 'https' : 'http'
  const usual = scheme === 'https' ? 443 : 80
  return `${scheme}://${hosts[0] ?? hostInUrl(host)}${proxied || port === usual ? '' : `:${port}`}`
}

/**
 * The site of passkeys: the host of `--public-url`, otherwise localhost, because browsers make no passkeys for IP addresses. `origin` is the
 * address of this server.
 */
export function relyingParty({ publicUrl, passkeyOrigins }: Config, origin: string): RelyingParty {
  if (publicUrl !== null) return { id: new URL(publicUrl).hostname, origins: [publicUrl, ...passkeyOrigins] }
  const { protocol, port } = new URL(origin)
  return { id: 'localhost', origins: [`${protocol}//localhost${port === '' ? '' : `:${port}`}`, ...passkeyOrigins] }
}

/** The address at which a command on this machine reaches the server: with a certificate its name, and never an address for all interfaces. */
export function localOrigin(config: Config, port: number): string {
  const { hosts, host, tls } = config
  if (tls !== null && hosts.length > 0) return publicOrigin(config, port)
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `${tls === null ? 'http' : 'https'}://${hostInUrl(reachable)}:${port}`
}

/** The host as written in a URL: IPv6 addresses in brackets. */
export const hostInUrl = (host: string): string => (isIPv6(host) ? `[${host}]` : host)

export function helpText(command = 'npm start --'): string {
  return `Countersign: the control plane for work that people delegate to agents.

Usage: ${command} [options]

${helpRows(settings, PREFIX)}

Examples:
${startExamples.map((example) => `  ${command} ${example}`).join('\n')}

The server prints one line when it is ready, a one-time login link if the output is a terminal or --link is given, and what to do next.
SIGTERM or Ctrl-C stops it: calls that are under way are finished first.
`
}
