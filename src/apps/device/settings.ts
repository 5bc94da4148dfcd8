// Settings of the daemon: each by flag or environment variable, the flag wins. A value that is not understood ends the start with a sentence.
import { isIPv6 } from 'node:net'
import { join, resolve } from 'node:path'
import { ConfigError, type LogLevel } from '../server/settings/config.ts'

export type Address = { readonly host: string; readonly port: number }
export type DeviceConfig = {
  readonly data: string
  readonly board: 'simulated' | 'linux'
  readonly profile: string | null
  readonly policies: string | null
  /** null: there is none. */
  readonly socket: string | null
  readonly listen: Address | null
  readonly wss: Address | null
  readonly tls: { readonly cert: string; readonly key: string; readonly clientCa: string } | null
  readonly approvalKeys: string | null
  readonly plugins: string | null
  readonly log: LogLevel
}

type Setting = { readonly flag: string; readonly env: string; readonly value: string; readonly help: string }
export const deviceSettings: readonly Setting[] = [
  { flag: 'data', env: 'COUNTERSIGN_DEVICE_DATA', value: '<folder>', help: 'the folder that holds everything; ./device by default' },
  { flag: 'board', env: 'COUNTERSIGN_DEVICE_BOARD', value: '<simulated|linux>', help: 'the board; simulated by default' },
  {
    flag: 'profile',
    env: 'COUNTERSIGN_DEVICE_PROFILE',
    value: '<file>',
    help: "lines, buses, ports and limits; the board's own by default",
  },
  { flag: 'policies', env: 'COUNTERSIGN_DEVICE_POLICIES', value: '<file>', help: 'the policies of clients; by default one, `default`' },
  {
    flag: 'socket',
    env: 'COUNTERSIGN_DEVICE_SOCKET',
    value: '<path|off>',
    help: 'the Unix socket; device.sock in the data folder by default',
  },
  { flag: 'listen', env: 'COUNTERSIGN_DEVICE_LISTEN', value: '<host:port>', help: 'TCP with mutual TLS; off by default' },
  { flag: 'wss', env: 'COUNTERSIGN_DEVICE_WSS', value: '<host:port>', help: 'WebSocket with mutual TLS, path /hacp; off by default' },
  { flag: 'tls-cert', env: 'COUNTERSIGN_DEVICE_TLS_CERT', value: '<file>', help: 'the certificate of the daemon' },
  { flag: 'tls-key', env: 'COUNTERSIGN_DEVICE_TLS_KEY', value: '<file>', help: 'its key' },
  {
    flag: 'tls-client-ca',
    env: 'COUNTERSIGN_DEVICE_TLS_CLIENT_CA',
    value: '<file>',
    help: 'the authority of the certificates that clients have, and a list of those that it revoked',
  },
  {
    flag: 'approval-keys',
    env: 'COUNTERSIGN_DEVICE_APPROVAL_KEYS',
    value: '<file>',
    help: 'keys (JWKS) of the server whose approvals count',
  },
  { flag: 'plugins', env: 'COUNTERSIGN_DEVICE_PLUGINS', value: '<folder>', help: 'modules with further tools' },
  { flag: 'log', env: 'COUNTERSIGN_LOG', value: '<level>', help: 'silent, error, warn, info or debug; info by default' },
]

export const deviceHelp = (): string =>
  `Usage: countersign device up [options]\n\nThe hardware daemon, in the foreground.\n\nOptions:\n${deviceSettings
    .map(({ flag, env, value, help }) => `  ${`--${flag} ${value}`.padEnd(28)} ${help} (${env})\n`)
    .join('')}`

const LEVELS: readonly LogLevel[] = ['silent', 'error', 'warn', 'info', 'debug']

function given(argv: readonly string[], env: NodeJS.ProcessEnv): Map<string, string> {
  const values = new Map<string, string>()
  for (const { flag, env: name } of deviceSettings) {
    const value = env[name]
    if (value !== undefined && value !== '') values.set(flag, value)
  }
  const seen = new Set<string>()
  for (let i = 0; i < argv.length; i++) {
    const [, flag, inline] = /^--([a-z-]+)(?:=(.*))?$/s.exec(argv[i]!) ?? []
    if (flag === undefined || !deviceSettings.some((one) => one.flag === flag))
      throw new ConfigError(`${argv[i]} is not an option of device up; see countersign device up --help`)
    const value = inline ?? argv[++i]
    if (value === undefined) throw new ConfigError(`--${flag} needs a value`)
    if (seen.has(flag)) throw new ConfigError(`--${flag} is given twice`)
    seen.add(flag)
    values.set(flag, value)
  }
  return values
}

function addressOf(text: string | undefined, flag: string): Address | null {
  if (text === undefined || text === 'off') return null
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(text) ?? []
  if (host === undefined || Number(port) > 65_535) throw new ConfigError(`--${flag} must be HOST:PORT, not ${JSON.stringify(text)}`)
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  if (bare !== host && !isIPv6(bare)) throw new ConfigError(`--${flag}: ${host} is no address`)
  return { host: bare, port: Number(port) }
}

export function readDeviceConfig(argv: readonly string[], env: NodeJS.ProcessEnv): DeviceConfig {
  const values = given(argv, env)
  const path = (flag: string): string | null => (values.has(flag) ? resolve(values.get(flag)!) : null)
  const data = resolve(values.get('data') ?? './device')
  const board = values.get('board') ?? 'simulated'
  if (board !== 'simulated' && board !== 'linux') throw new ConfigError(`--board must be simulated or linux, not ${JSON.stringify(board)}`)
  const log = (values.get('log') ?? 'info') as LogLevel
  if (!LEVELS.includes(log)) throw new ConfigError(`--log must be one of: ${LEVELS.join(', ')}`)
  const listen = addressOf(values.get('listen'), 'listen')
  const wss = addressOf(values.get('wss'), 'wss')
  const [cert, key, clientCa] = [path('tls-cert'), path('tls-key'), path('tls-client-ca')]
  const tls = cert !== null && key !== null && clientCa !== null ? { cert, key, clientCa } : null
  if ((listen ?? wss) && tls === null)
    throw new ConfigError(
      '--listen and --wss need --tls-cert, --tls-key and --tls-client-ca: no client is served over a network without a certificate',
    )
  const socket = values.get('socket')
  return {
    data,
    board,
    profile: path('profile'),
    policies: path('policies'),
    socket: socket === 'off' ? null : socket === undefined ? join(data, 'device.sock') : resolve(socket),
    listen,
    wss,
    tls,
    approvalKeys: path('approval-keys'),
    plugins: path('plugins'),
    log,
  }
}
