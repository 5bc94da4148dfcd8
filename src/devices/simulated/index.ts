// The simulated board: lines, wires, chips and a serial peer in memory, as its profile describes them.
import { setTimeout as wait } from 'node:timers/promises'
import { DeviceError, firstLevel, type Board, type Buses, type Direction, type Edge, type Level, type Lines, type Ports } from '../port.ts'
import type { ChipProfile, Profile } from '../profile.ts'

type Line = { direction: Direction; value: Level; readonly held: boolean; readonly watchers: Set<(edge: Edge) => void> }

function simulatedLines(profile: Profile): Lines {
  const lines = new Map<number, Line>()
  for (const { line, direction, held } of profile.gpio.values()) lines.set(line, { direction, value: 0, held, watchers: new Set() })
  const drives = Map.groupBy(profile.wires, ([from]) => from)
  const lineAt = (line: number): Line => {
    const found = lines.get(line)
    if (!found) throw new DeviceError('absent', `there is no line ${line}`)
    if (found.held) throw new DeviceError('busy', `the kernel holds line ${line}`)
    return found
  }
  function change(line: number, value: Level): void {
    const found = lines.get(line)!
    if (found.value === value) return
    found.value = value
    for (const watcher of found.watchers) watcher(value === 1 ? 'rising' : 'falling')
    for (const [, to] of drives.get(line) ?? []) if (lines.get(to)!.direction === 'in') change(to, value)
  }
  return {
    get: (line) => lineAt(line).value,
    set(line, value) {
      if (lineAt(line).direction === 'in') throw new DeviceError('denied', `line ${line} is an input: gpio.mode makes it an output`)
      change(line, value)
    },
    direction: (line) => lines.get(line)!.direction,
    mode(line, direction) {
      const found = lineAt(line)
      if (found.direction === direction) return
      found.direction = direction
      if (direction === 'out') return change(line, firstLevel(profile, line))
      for (const [from, to] of profile.wires) if (to === line) change(line, lines.get(from)!.value)
    },
    isHeld: (line) => lines.get(line)?.held ?? false,
    watch(line, edge) {
      const { watchers } = lineAt(line)
      watchers.add(edge)
      return () => watchers.delete(edge)
    },
  }
}

const CHIP_BYTES = 256
type Chip = { readonly profile: ChipProfile; readonly bytes: Uint8Array; pointer: number }

/** The temperature register of a TMP105: sixteenths of a degree in the upper twelve bits. */
function chipOf(profile: ChipProfile): Chip {
  const bytes = new Uint8Array(CHIP_BYTES)
  if (profile.celsius !== null) new DataView(bytes.buffer).setInt16(0, Math.round(profile.celsius * 16) << 4)
  return { profile, bytes, pointer: 0 }
}

function simulatedBuses(profile: Profile): Buses {
  const chips = new Map<string, Chip>()
  for (const { bus, chips: there } of profile.i2c.values())
    for (const chip of there.values()) chips.set(`${bus} ${chip.addr}`, chipOf(chip))
  const chipAt = (bus: number, addr: number): Chip => {
    const found = chips.get(`${bus} ${addr}`)
    if (!found) throw new DeviceError('absent', `nothing answers at 0x${addr.toString(16)} of bus ${bus} (ENXIO)`)
    if (found.profile.held) throw new DeviceError('busy', `a driver of the kernel holds 0x${addr.toString(16)} (EBUSY)`)
    return found
  }
  return {
    async transfer(bus, addr, write, read) {
      const chip = chipAt(bus, addr)
      if (chip.profile.delay_ms > 0) await wait(chip.profile.delay_ms)
      const size = chip.profile.registers ?? CHIP_BYTES
      if (write.length > 0) chip.pointer = write[0]! % size
      for (const byte of write.subarray(1)) {
        chip.bytes[chip.pointer] = byte
        chip.pointer = (chip.pointer + 1) % size
      }
      const start = chip.pointer
      return Uint8Array.from({ length: read }, (_, i) => chip.bytes[(start + i) % size]!)
    },
    answers: (bus, addr) => Promise.resolve(chips.has(`${bus} ${addr}`)),
  }
}

const UNREAD_BYTES_MAX = 64 * 1024

function simulatedPorts(profile: Profile): Ports {
  const unread = new Map<string, number[]>([...profile.uart.keys()].map((port) => [port, []]))
  const portAt = (port: string): number[] => {
    const found = unread.get(port)
    if (!found) throw new DeviceError('absent', `there is no serial port ${port}`)
    return found
  }
  return {
    write(port, bytes) {
      const held = portAt(port)
      if (profile.uart.get(port)!.peer === 'invert') for (const byte of bytes) if (held.length < UNREAD_BYTES_MAX) held.push(byte ^ 0xff)
      return Promise.resolve()
    },
    take: (port, count) => Uint8Array.from(portAt(port).splice(0, count)),
  }
}

export const simulatedBoard = (profile: Profile): Board => ({
  name: 'simulated',
  profile,
  lines: simulatedLines(profile),
  buses: simulatedBuses(profile),
  ports: simulatedPorts(profile),
  close() {},
})
