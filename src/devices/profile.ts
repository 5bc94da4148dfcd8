// The profile of a board: lines, buses, serial ports and sensors, and the envelope of allowed values. The operator writes it.
import { at, fields, FileProblem, integer, list, number, oneOf, record, objectWith, text, type Reader } from './file-reader.ts'

export type LineProfile = {
  readonly line: number
  readonly name: string | null
  readonly direction: 'in' | 'out'
  readonly safe: 0 | 1 | null
  readonly risk_level: number | null
  readonly held: boolean
  readonly chip: string | null
  readonly offset: number | null
}
export type RegisterLimit = { readonly min: number; readonly max: number; readonly slew: number | null }
export type ChipProfile = {
  readonly addr: number
  readonly name: string | null
  readonly chip: string | null
  readonly celsius: number | null
  readonly registers: number | null
  readonly delay_ms: number
  readonly held: boolean
  readonly risk_level: number | null
  readonly limits: ReadonlyMap<number, RegisterLimit>
}
export type BusProfile = {
  readonly bus: number
  readonly name: string | null
  readonly path: string | null
  readonly chips: ReadonlyMap<number, ChipProfile>
}
export type PortProfile = {
  readonly port: string
  readonly path: string | null
  readonly peer: 'invert' | null
  readonly risk_level: number | null
}
export type SensorProfile = {
  readonly name: string
  readonly bus: number
  readonly addr: number
  readonly chip: string
  readonly unit: string
}
export type Interlock = { readonly never: ReadonlyMap<number, number>; readonly message: string }

export type Profile = {
  readonly board: string
  readonly model: string
  readonly gpio: ReadonlyMap<number, LineProfile>
  readonly interlocks: readonly Interlock[]
  readonly wires: readonly (readonly [number, number])[]
  readonly i2c: ReadonlyMap<number, BusProfile>
  readonly uart: ReadonlyMap<string, PortProfile>
  readonly sensors: ReadonlyMap<string, SensorProfile>
}

/** A key or value that is a number, in decimal or as `0x48`. */
const numeral =
  (max: number): Reader<number> =>
  (value, place) => {
    const number = typeof value === 'string' && /^(?:0[xX][0-9a-fA-F]+|\d+)$/.test(value) ? Number(value) : value
    return integer(0, max)(number, place)
  }

const level = integer(0, 1)
const risk = integer(0, 3)
const held = oneOf('kernel')
const Line = objectWith({
  name: text,
  direction: oneOf('in', 'out'),
  safe: level,
  risk_level: risk,
  held,
  chip: text,
  offset: integer(0, 65_535),
})
const Limit = objectWith({ min: number, max: number, slew: number })
const Chip = objectWith({
  name: text,
  chip: text,
  celsius: number,
  registers: integer(1, 256),
  delay_ms: integer(0, 60_000),
  held,
  risk_level: risk,
  limits: record((value, place) => Limit(value, place)),
})
const Port = objectWith({ path: text, peer: oneOf('invert'), risk_level: risk })
const Sensor = objectWith({ i2c: list((value) => value), chip: text, unit: text })

function lineOf(value: unknown, place: string, key: string): LineProfile {
  const { name = null, direction = 'in', safe = null, risk_level = null, held: by, chip = null, offset = null } = Line(value, place)
  return {
    line: numeral(65_535)(key, place),
    name,
    direction,
    safe: safe as 0 | 1 | null,
    risk_level,
    held: by !== undefined,
    chip,
    offset,
  }
}

function chipOf(value: unknown, place: string, key: string): ChipProfile {
  const {
    name = null,
    chip = null,
    celsius = null,
    registers = null,
    delay_ms = 0,
    held: by,
    risk_level = null,
    limits = {},
  } = Chip(value, place)
  const bounds = Object.entries(limits).map(([register, { min = 0, max = 255, slew = null }]) => {
    return [numeral(255)(register, at(place, 'limits')), { min, max, slew }] as const
  })
  return {
    addr: numeral(127)(key, place),
    name,
    chip,
    celsius,
    registers,
    delay_ms,
    held: by !== undefined,
    risk_level,
    limits: new Map(bounds),
  }
}

function busOf(value: unknown, place: string, key: string): BusProfile {
  const { path = null, name = null, ...chips } = fields(value, place)
  const found = Object.entries(chips).map(([addr, inner]) => chipOf(inner, at(place, addr), addr))
  return {
    bus: numeral(255)(key, place),
    name: name === null ? null : text(name, at(place, 'name')),
    path: path === null ? null : text(path, at(place, 'path')),
    chips: new Map(found.map((chip) => [chip.addr, chip])),
  }
}

function sensorOf(value: unknown, place: string, name: string): SensorProfile {
  const { i2c, chip = 'tmp105', unit = '' } = Sensor(value, place)
  if (i2c?.length !== 2) throw new FileProblem(`${place}.i2c must be a bus and an address`)
  return { name, bus: numeral(255)(i2c[0], place), addr: numeral(127)(i2c[1], place), chip, unit }
}

function interlockOf(value: unknown, place: string): Interlock {
  const { never = {}, message = 'these lines must not be so together' } = objectWith({
    never: record((inner, where) => level(inner, where)),
    message: text,
  })(value, place)
  const lines = Object.entries(never).map(([line, value]) => [numeral(65_535)(line, at(place, 'never')), value] as const)
  if (lines.length === 0) throw new FileProblem(`${place}.never must name lines`)
  return { never: new Map(lines), message }
}

const wire: Reader<readonly [number, number]> = (value, place) => {
  const ends = list(numeral(65_535))(value, place)
  if (ends.length !== 2) throw new FileProblem(`${place} must name two lines`)
  return [ends[0]!, ends[1]!]
}

const mapBy = <K, T>(items: readonly T[], key: (item: T) => K): ReadonlyMap<K, T> => new Map(items.map((item) => [key(item), item]))

const Whole = objectWith({
  board: text,
  model: text,
  gpio: record(lineOf),
  interlocks: list(interlockOf),
  wires: list(wire),
  i2c: record(busOf),
  uart: record((value, place, port): PortProfile => {
    const { path = null, peer = null, risk_level = null } = Port(value, place)
    return { port, path, peer, risk_level }
  }),
  sensors: record(sensorOf),
})

export function readProfile(value: unknown): Profile {
  const {
    board = 'simulated',
    model = 'unknown',
    gpio = {},
    interlocks = [],
    wires = [],
    i2c = {},
    uart = {},
    sensors = {},
  } = Whole(value, '')
  const lines = mapBy(Object.values(gpio), ({ line }) => line)
  for (const { never } of interlocks)
    for (const line of never.keys()) if (!lines.has(line)) throw new FileProblem(`interlocks: there is no line ${line} in gpio`)
  return {
    board,
    model,
    gpio: lines,
    interlocks,
    // A wire might lead to a line that this board does not have; nothing reads it there.
    wires: wires.filter((ends) => ends.every((line) => lines.has(line))),
    i2c: mapBy(Object.values(i2c), ({ bus }) => bus),
    uart: mapBy(Object.values(uart), ({ port }) => port),
    sensors: mapBy(Object.values(sensors), ({ name }) => name),
  }
}
