// The tools of the daemon as data: name, version, risk, timeout, rollback, schema, flag and words. The port in src/devices does them.
import { either, t, type TSchema } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'

export type RiskLevel = 0 | 1 | 2 | 3

/** Which of its arguments names a file, and whether it is read or written. */
export type PathUse = { readonly argument: string; readonly use: 'read' | 'write' }

export type Tool = {
  readonly name: string
  readonly version: number
  readonly risk_level: RiskLevel
  readonly timeout_ms: number
  readonly supports_rollback: boolean
  readonly flag: string
  readonly description: string
  readonly params_schema: TSchema
  readonly path?: PathUse
  /** It returns personal data: no client has it unless a policy names it in full. */
  readonly personal?: boolean
}

const hex = (digits: string, message: string) => t.String({ pattern: `^0[xX]${digits}$`, description: message })
const Number8 = t.Union([t.Integer({ minimum: 0, maximum: 255 }), hex('[0-9a-fA-F]{1,2}', 'a number such as "0x10"')])
const Bus = t.Union([t.Integer({ minimum: 0, maximum: 255 }), hex('[0-9a-fA-F]{1,2}', 'a number such as "0x1"')])
const Address = t.Union([t.Integer({ minimum: 0, maximum: 127 }), hex('[0-7]?[0-9a-fA-F]', 'a 7-bit address such as "0x48"')])
const Line = t.Union([
  t.Integer({ minimum: 0, maximum: 65_535 }),
  t.String({ minLength: 1, maxLength: limits.nameCharsMax, description: 'the name of a line' }),
])
const Port = t.String({ minLength: 1, maxLength: limits.nameCharsMax })
const Level = t.Integer({ minimum: 0, maximum: 1 })
const BASE64 = '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$'
const data = (bytesMax: number) =>
  t.String({ pattern: BASE64, maxLength: Math.ceil(bytesMax / 3) * 4, description: 'bytes in base64 (RFC 4648)' })
const Length = t.Integer({ minimum: 1, maximum: limits.transferBytesMax })
const WaitMs = t.Integer({ minimum: 0, maximum: limits.deviceWaitMsMax })
const Path = t.String({ minLength: 1, maxLength: limits.pathCharsMax })

type Parts = Partial<Omit<Tool, 'name' | 'risk_level' | 'flag' | 'description' | 'params_schema'>>
const tool = (
  name: string,
  risk_level: RiskLevel,
  flag: string,
  description: string,
  args: Parameters<typeof t.Object>[0] = {},
  parts: Parts = {},
): Tool => ({
  name,
  version: 1,
  risk_level,
  timeout_ms: 1_000,
  supports_rollback: false,
  flag,
  description,
  params_schema: t.Object(args),
  ...parts,
})

const SLOW_MS = 5_000
const waiting = { timeout_ms: limits.deviceWaitMsMax + 1_000 }
const reads = (use: PathUse['use']): Parts => ({ timeout_ms: SLOW_MS, path: { argument: 'path', use } })

export const boardTools: readonly Tool[] = [
  tool('hw.info', 0, 'CAP_HW_LIST', 'The board, its model and the id of the device.'),
  tool('hw.gpio.list', 0, 'CAP_HW_LIST', 'List the GPIO lines with their names, directions and values.'),
  tool('hw.i2c.list', 0, 'CAP_HW_LIST', 'List the I2C buses.'),
  tool('hw.uart.list', 0, 'CAP_HW_LIST', 'List the serial ports.'),
  tool('gpio.get', 0, 'CAP_GPIO_READ', 'Read a GPIO line.', { line: Line }),
  tool('gpio.set', 2, 'CAP_GPIO_RW', 'Set a GPIO line to 0 or 1.', { line: Line, value: Level }, { supports_rollback: true }),
  tool(
    'gpio.mode',
    2,
    'CAP_GPIO_RW',
    'Make a GPIO line an input or an output.',
    { line: Line, direction: either('in', 'out') },
    { supports_rollback: true },
  ),
  tool(
    'gpio.pulse',
    2,
    'CAP_GPIO_RW',
    'Set a GPIO line for some milliseconds; the former value is back at the end, also after a cancel.',
    { line: Line, value: Level, ms: t.Integer({ minimum: 1, maximum: 10_000 }) },
    { timeout_ms: 11_000 },
  ),
  tool(
    'gpio.watch',
    0,
    'CAP_GPIO_READ',
    'Wait for edges of a GPIO line.',
    {
      line: Line,
      edge: t.Optional(either('rising', 'falling', 'both')),
      timeout_ms: t.Optional(WaitMs),
      max_events: t.Optional(t.Integer({ minimum: 1, maximum: 1_000 })),
    },
    waiting,
  ),
  tool(
    'i2c.read',
    0,
    'CAP_I2C_READ',
    'Read bytes of an I2C chip, from a register if one is named.',
    { bus: Bus, addr: Address, reg: t.Optional(Number8), len: Length },
    { timeout_ms: SLOW_MS },
  ),
  tool(
    'i2c.write',
    2,
    'CAP_I2C_RW',
    'Write bytes to an I2C chip, to a register if one is named.',
    { bus: Bus, addr: Address, reg: t.Optional(Number8), data: data(limits.transferBytesMax) },
    { timeout_ms: SLOW_MS },
  ),
  tool(
    'i2c.transfer',
    2,
    'CAP_I2C_RW',
    'Write bytes to an I2C chip and read its answer in one transaction.',
    { bus: Bus, addr: Address, data: data(limits.transferBytesMax), len: Length },
    { timeout_ms: SLOW_MS },
  ),
  tool('i2c.scan', 1, 'CAP_I2C_READ', 'Find the addresses of a bus that answer.', { bus: Bus }, { timeout_ms: 10_000 }),
  tool(
    'uart.read',
    1,
    'CAP_UART_RW',
    'Read at most this many bytes of a serial port, until the timeout.',
    { port: Port, len: Length, timeout_ms: t.Optional(WaitMs) },
    waiting,
  ),
  tool(
    'uart.write',
    2,
    'CAP_UART_RW',
    'Write bytes to a serial port.',
    {
      port: Port,
      data: data(limits.transferBytesMax),
      baud: t.Optional(t.Integer({ minimum: 50, maximum: 4_000_000 })),
      parity: t.Optional(either('none', 'even', 'odd')),
    },
    { timeout_ms: 10_000 },
  ),
  tool(
    'uart.exchange',
    2,
    'CAP_UART_RW',
    'Write bytes to a serial port and read its answer.',
    { port: Port, data: data(limits.transferBytesMax), len: Length, timeout_ms: t.Optional(WaitMs) },
    waiting,
  ),
  tool(
    'file.read',
    0,
    'CAP_FILE_READ',
    'Read a file, or a part of it.',
    {
      path: Path,
      offset: t.Optional(t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
      length: t.Optional(t.Integer({ minimum: 1, maximum: limits.fileBytesMax })),
    },
    reads('read'),
  ),
  tool(
    'file.write',
    1,
    'CAP_FILE_WRITE',
    'Write a whole file, replaced in one step.',
    { path: Path, data: data(limits.fileBytesMax) },
    { ...reads('write'), supports_rollback: true },
  ),
  tool('file.list', 0, 'CAP_FILE_READ', 'List a folder.', { path: Path }, reads('read')),
  tool('file.stat', 0, 'CAP_FILE_READ', 'The type, size and time of a file or folder.', { path: Path }, reads('read')),
  tool('sys.cpuinfo', 0, 'CAP_SYS_READ', 'Processors: model, count and clock.'),
  tool('sys.meminfo', 0, 'CAP_SYS_READ', 'Memory: total, free and available bytes.'),
  tool('sys.thermal', 0, 'CAP_SYS_READ', 'Thermal zones in degrees Celsius.'),
  tool('sys.uptime', 0, 'CAP_SYS_READ', 'Seconds since the system and the daemon were started.'),
  tool('sys.load', 0, 'CAP_SYS_READ', 'Load averages.'),
  tool('sys.disk', 0, 'CAP_SYS_READ', "The disk of the daemon's data: total and free bytes."),
  tool('sys.net', 0, 'CAP_SYS_READ', 'Network interfaces and the bytes that they carried.'),
  tool('sys.hwmon', 0, 'CAP_SYS_READ', 'Sensors of the hardware monitor.'),
  tool('sensor.read', 0, 'CAP_SENSOR_READ', 'Read a sensor by its name.', {
    name: t.String({ minLength: 1, maxLength: limits.nameCharsMax }),
  }),
]

/** Only if the operator has named programs: never in the default set (HACP hardware draft, 12). */
export const procTools: readonly Tool[] = [
  tool(
    'proc.exec',
    3,
    'CAP_PROC',
    'Run a program that the operator has named, without a shell.',
    {
      program: t.String({ minLength: 1, maxLength: limits.nameCharsMax }),
      args: t.Optional(t.Array(t.String({ maxLength: limits.pathCharsMax }), { maxItems: 100 })),
    },
    { timeout_ms: 30_000 },
  ),
]

/** `gpio.*` names every tool that begins so; anything else is one name. */
export const patternMatches = (pattern: string, name: string): boolean =>
  pattern.endsWith('.*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name

export const shownTool = ({ path: _, personal, ...shown }: Tool): object => ({ ...shown, ...(personal ? { personal } : {}) })
