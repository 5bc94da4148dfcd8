// Settings of the daemon: its table, and the rules between the values. An invalid value stops startup with an error message.
import { isIPv6 } from 'node:net'
import { join, resolve } from 'node:path'
import { ConfigError, type Named } from '../server/settings/config-error.ts'
import { logLevelOf, oneOf, pathOf } from '../server/settings/readers.ts'
import { helpRows, onOff, option, readSettings, text, type Env, type Table } from '../server/settings/setting.ts'

export type Address = { readonly host: string; readonly port: number }

const PREFIX = 'COUNTERSIGN_DEVICE_'

function addressOf({ value, name }: Named): Address | null {
  if (value === 'off') return null
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(value) ?? []
  if (host === undefined || Number(port) > 65_535) throw new ConfigError(`${name} must be HOST:PORT, not ${JSON.stringify(value)}`)
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  if (bare !== host && !isIPv6(bare)) throw new ConfigError(`${name}: ${host} is not an address`)
  return { host: bare, port: Number(port) }
}

export const deviceSettings = {
  data: option('<folder>', './device', ({ value }) => resolve(value), 'the folder that holds everything'),
  board: option('<simulated|linux>', 'simulated', oneOf('simulated', 'linux'), 'the board'),
  profile: option('<file>', '', pathOf, "lines, buses, ports and limits; the board's own by default"),
  policies: option('<file>', '', pathOf, 'the policies of clients; by default one, `default`'),
  socket: text('<path|off>', 'the Unix socket', '<data>/device.sock'),
  listen: option('<host:port>', 'off', addressOf, 'TCP with mutual TLS'),
  wss: option('<host:port>', 'off', addressOf, 'WebSocket with mutual TLS, path /hacp'),
  'tls-cert': option('<file>', '', pathOf, 'the certificate of the daemon'),
  'tls-key': option('<file>', '', pathOf, 'its key'),
  'tls-client-ca': option(
    '<file>',
    '',
    pathOf,
    'the authority of the client certificates, and a list of the certificates that it has revoked',
  ),
  'approval-keys': option('<file>', '', pathOf, 'keys (JWKS) of the server whose approvals count'),
  plugins: option('<folder>', '', pathOf, 'modules with further tools'),
  log: { ...option('<level>', 'info', logLevelOf, 'silent, error, warn, info or debug'), env: 'COUNTERSIGN_LOG' },
  help: onOff('show this and exit'),
} as const satisfies Table

export const deviceHelp = (): string =>
  `Usage: countersign device up [options]\n\nThe hardware daemon, in the foreground.\n\nOptions:\n${helpRows(deviceSettings, PREFIX)}\n`

export type DeviceConfig = Readonly<ReturnType<typeof readDeviceConfig>>

export function readDeviceConfig(argv: readonly string[], env: Env) {
  const { value, named } = readSettings(deviceSettings, PREFIX, argv, env)
  const data = value('data')
  const [listen, wss] = [value('listen'), value('wss')]
  const [cert, key, clientCa] = [value('tls-cert'), value('tls-key'), value('tls-client-ca')]
  const tls = cert !== null && key !== null && clientCa !== null ? { cert, key, clientCa } : null
  if ((listen ?? wss) && tls === null)
    throw new ConfigError(
      '--listen and --wss need --tls-cert, --tls-key and --tls-client-ca: no client is served over a network without a certificate',
    )
  const socket = named('socket').value
  return {
    data,
    board: value('board'),
    profile: value('profile'),
    policies: value('policies'),
    /** null: off. */
    socket: socket === 'off' ? null : socket.startsWith('<data>') ? join(data, 'device.sock') : resolve(socket),
    listen,
    wss,
    tls,
    approvalKeys: value('approval-keys'),
    plugins: value('plugins'),
    log: value('log'),
  }
}
