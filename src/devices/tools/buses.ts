// I2C, serial and sensor tools. A transaction is never interrupted; a wait for bytes can be.
import type { Value } from '#kernel/log/store.ts'
import { numberOf } from '../file-reader.ts'
import { Cancelled, DeviceError } from '../port.ts'
import { builtIn, invalidArgument, pause, type Bench, type DeviceTool, type Execute, type Target } from './tool.ts'

const hex = (value: number): string => `0x${value.toString(16).padStart(2, '0')}`
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')
const bytesIn = (text: unknown): Buffer => Buffer.from(String(text), 'base64')
const placeOf = (args: Readonly<Record<string, unknown>>): [bus: number, addr: number] => [numberOf(args['bus']), numberOf(args['addr'])]
const registerIn = (args: Readonly<Record<string, unknown>>): Uint8Array =>
  args['reg'] === undefined ? new Uint8Array() : Uint8Array.of(numberOf(args['reg']))

const read: Execute = async ({ board }, { args }) => ({
  result: { data: base64(await board.buses.transfer(...placeOf(args), registerIn(args), Number(args['len']))) },
})

/** Runs under the lock of the chip, so that it compares with the current value. */
async function refuseOutside({ envelope }: Bench, name: string, args: Readonly<Record<string, unknown>>): Promise<void> {
  const objection = await envelope.objectionTo([{ tool: { name }, args }])
  if (objection !== null) throw new DeviceError('envelope', objection)
}

const write: Execute = async (bench, { args }) => {
  await refuseOutside(bench, 'i2c.write', args)
  const data = bytesIn(args['data'])
  await bench.board.buses.transfer(...placeOf(args), Buffer.concat([registerIn(args), data]), 0)
  return { result: { written: data.length } }
}

const transfer: Execute = async (bench, { args }) => {
  await refuseOutside(bench, 'i2c.transfer', args)
  return { result: { data: base64(await bench.board.buses.transfer(...placeOf(args), bytesIn(args['data']), Number(args['len']))) } }
}

/** Addresses outside of these are reserved. */
const [FIRST, LAST] = [0x03, 0x77]
const scan: Execute = async ({ board }, { args, signal }) => {
  const addrs: string[] = []
  for (let addr = FIRST; addr <= LAST; addr++) {
    if (signal.aborted) throw new Cancelled('the scan was ended')
    if (await board.buses.answers(numberOf(args['bus']), addr)) addrs.push(hex(addr))
  }
  return { result: { addrs } }
}

const LOOK_MS = 5
async function receiveBytes({ board }: Bench, port: string, len: number, timeoutMs: number, signal: AbortSignal): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let count = 0
  for (const end = performance.now() + timeoutMs; ;) {
    const part = board.ports.take(port, len - count)
    parts.push(part)
    count += part.length
    if (count === len || performance.now() >= end) return Buffer.concat(parts)
    if (!(await pause(Math.max(1, Math.min(LOOK_MS, end - performance.now())), signal))) throw new Cancelled('the reading was ended')
  }
}

const READ_MS = 1_000
const waitIn = (args: Readonly<Record<string, unknown>>): number => (args['timeout_ms'] as number | undefined) ?? READ_MS

const uartRead: Execute = async (bench, { args, signal }) => ({
  result: { data: base64(await receiveBytes(bench, String(args['port']), Number(args['len']), waitIn(args), signal)) },
})

const uartWrite: Execute = async ({ board }, { args }) => {
  const data = bytesIn(args['data'])
  await board.ports.write(String(args['port']), data, {
    baud: args['baud'] as number | undefined,
    parity: args['parity'] as 'even' | undefined,
  })
  return { result: { written: data.length } }
}

const exchange: Execute = async (bench, acting) => {
  const { args, signal } = acting
  await uartWrite(bench, acting)
  return { result: { data: base64(await receiveBytes(bench, String(args['port']), Number(args['len']), waitIn(args), signal)) } }
}

/** Converts the bytes of a chip to its value. */
const chips: Readonly<Record<string, { readonly register: number; readonly bytes: number; value(view: DataView): number }>> = {
  tmp105: { register: 0, bytes: 2, value: (view) => (view.getInt16(0) >> 4) / 16 },
  lm75: { register: 0, bytes: 2, value: (view) => (view.getInt16(0) >> 5) / 8 },
}
export const knownChips = Object.keys(chips)

const sensor: Execute = async ({ board }, { args }) => {
  const { name, bus, addr, chip, unit } = board.profile.sensors.get(String(args['name']))!
  const known = chips[chip]
  if (!known) throw new DeviceError('io', `there is no way to read a ${chip}; known are: ${knownChips.join(', ')}`)
  const bytes = Uint8Array.from(await board.buses.transfer(bus, addr, Uint8Array.of(known.register), known.bytes))
  return { result: { name, value: known.value(new DataView(bytes.buffer)), unit } }
}

export const chipResource = (bus: number, addr: number): string => `i2c:${bus}:${hex(addr)}`

function busTarget(args: Value, { board }: Bench): Target {
  const bus = numberOf(args['bus'])
  const found = board.profile.i2c.get(bus)
  if (!found) throw invalidArgument('bus', `bus: this board has no bus ${bus}`)
  if (args['addr'] === undefined) return { resource: `i2c:${bus}`, target: `bus ${bus}` }
  const addr = numberOf(args['addr'])
  const chip = found.chips.get(addr)
  const target = `chip ${hex(addr)}${chip?.name ? ` ${chip.name}` : ''} of bus ${bus}`
  return { resource: chipResource(bus, addr), target, raised: chip?.risk_level ?? 0 }
}

function portTarget(args: Value, { board }: Bench): Target {
  const found = board.profile.uart.get(String(args['port']))
  if (!found) throw invalidArgument('port', `port: this board has no serial port ${String(args['port']).slice(0, 100)}`)
  return { resource: `uart:${found.port}`, target: `port ${found.port}`, raised: found.risk_level ?? 0 }
}

function sensorTarget(args: Value, { board }: Bench): Target {
  const found = board.profile.sensors.get(String(args['name']))
  if (!found) throw invalidArgument('name', `name: this board has no sensor ${String(args['name']).slice(0, 100)}`)
  return { resource: chipResource(found.bus, found.addr), target: `sensor ${found.name}` }
}

const SHOWN_BYTES_MAX = 64
async function registerBefore(args: Value, { board }: Bench): Promise<string | null> {
  if (args['reg'] === undefined) return null
  const length = Math.min(SHOWN_BYTES_MAX, bytesIn(args['data']).length)
  return base64(await board.buses.transfer(...placeOf(args), registerIn(args), length))
}

export const busTools: readonly DeviceTool[] = [
  builtIn('i2c.read', { target: busTarget, execute: read }),
  builtIn('i2c.write', { target: busTarget, before: registerBefore, execute: write }),
  builtIn('i2c.transfer', { target: busTarget, execute: transfer }),
  builtIn('i2c.scan', { target: busTarget, execute: scan }),
  builtIn('uart.read', { target: portTarget, execute: uartRead }),
  builtIn('uart.write', { target: portTarget, execute: uartWrite }),
  builtIn('uart.exchange', { target: portTarget, execute: exchange }),
  builtIn('sensor.read', { target: sensorTarget, execute: sensor }),
  builtIn('hw.i2c.list', ({ board }) => ({ result: { buses: [...board.profile.i2c.values()].map(({ bus, name }) => ({ bus, name })) } })),
  builtIn('hw.uart.list', ({ board }) => ({ result: { ports: [...board.profile.uart.keys()].map((port) => ({ port })) } })),
]
