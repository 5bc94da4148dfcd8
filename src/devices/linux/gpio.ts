// GPIO lines by the character device, version 2 (linux/gpio.h). A line is requested at its first use and held from then on.
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { DeviceError, firstLevel, type Direction, type Edge, type Level, type Lines } from '../port.ts'
import type { LineProfile, Profile } from '../profile.ts'
import { ErrnoError, ioctl, watchReadable } from './libc.ts'

const [GET_LINEINFO, GET_LINE, SET_CONFIG, GET_VALUES, SET_VALUES] = [0xc100b405, 0xc250b407, 0xc110b40d, 0xc010b40e, 0xc010b40f]
const [USED, INPUT, OUTPUT, RISING, FALLING] = [1n, 4n, 8n, 16n, 32n]
const OUTPUT_VALUES = 2
const O_CLOEXEC = 0o2000000
/** Never `node`: an edge line of that name would collide with /proc/irq/N/node. */
const CONSUMER = 'countersign'
const EVENT_BYTES = 48

export function failureOf(error: unknown, what: string): DeviceError {
  const { code } = error as { code?: string }
  if (code === 'EBUSY') return new DeviceError('busy', `${what} is held by something else (EBUSY)`)
  if (code === 'ENODEV' || code === 'ENXIO' || code === 'EREMOTEIO' || code === 'ENOENT')
    return new DeviceError('absent', `${what} is not there (${code})`)
  if (code === 'EACCES' || code === 'EPERM') return new DeviceError('denied', `the daemon's user may not use ${what} (${code})`)
  return new DeviceError('io', `${what}: ${error instanceof ErrnoError ? error.message : String((error as Error).message)}`)
}

type Held = { readonly fd: number; direction: Direction; readonly watchers: Set<(edge: Edge) => void>; poll: { close(): void } | null }

export function linuxLines(profile: Profile): Lines & { close(): void } {
  const chips = new Map<string, number>()
  const held = new Map<number, Held>()
  const lineAt = (line: number): LineProfile => {
    const found = profile.gpio.get(line)
    if (!found || found.chip === null || found.offset === null)
      throw new DeviceError('absent', `line ${line} has no chip and offset in the profile`)
    return found
  }
  function chipOf(path: string): number {
    const known = chips.get(path)
    if (known !== undefined) return known
    const fd = openSync(path, constants.O_RDWR | O_CLOEXEC)
    chips.set(path, fd)
    return fd
  }

  function request({ chip, offset }: LineProfile, flags: bigint, initial: Level | null): number {
    const request = Buffer.alloc(592)
    request.writeUInt32LE(offset!, 0)
    request.write(CONSUMER, 256, 'utf8')
    request.writeBigUInt64LE(flags, 288)
    if (initial !== null) {
      request.writeUInt32LE(1, 296)
      request.writeUInt32LE(OUTPUT_VALUES, 320)
      request.writeBigUInt64LE(BigInt(initial), 328)
      request.writeBigUInt64LE(1n, 336)
    }
    request.writeUInt32LE(1, 560)
    ioctl('GPIO_V2_GET_LINE', chipOf(chip!), GET_LINE, request)
    return request.readInt32LE(588)
  }

  const flagsOf = (direction: Direction): bigint => (direction === 'out' ? OUTPUT : INPUT | RISING | FALLING)

  function hold(line: number): Held {
    const known = held.get(line)
    if (known) return known
    const found = lineAt(line)
    try {
      const fd = request(found, flagsOf(found.direction), found.direction === 'out' ? firstLevel(profile, line) : null)
      const opened: Held = { fd, direction: found.direction, watchers: new Set(), poll: null }
      held.set(line, opened)
      return opened
    } catch (error) {
      throw failureOf(error, `line ${line}`)
    }
  }

  function values(fd: number): Buffer {
    const bits = Buffer.alloc(16)
    bits.writeBigUInt64LE(1n, 8)
    ioctl('GPIO_V2_LINE_GET_VALUES', fd, GET_VALUES, bits)
    return bits
  }

  function isUsed({ chip, offset, held: byProfile, line }: LineProfile): boolean {
    if (byProfile) return true
    if (held.has(line)) return false
    try {
      const info = Buffer.alloc(256)
      info.writeUInt32LE(offset!, 64)
      ioctl('GPIO_V2_GET_LINEINFO', chipOf(chip!), GET_LINEINFO, info)
      return (info.readBigUInt64LE(72) & USED) !== 0n
    } catch {
      return true
    }
  }

  /** Reads events while a tool watches. Unread, the kernel keeps a few and drops the rest. */
  function listen(held: Held): void {
    const events = Buffer.alloc(EVENT_BYTES * 16)
    held.poll ??= watchReadable(held.fd, () => {
      const count = readSync(held.fd, events)
      for (let at = 0; at + EVENT_BYTES <= count; at += EVENT_BYTES)
        for (const watcher of held.watchers) watcher(events.readUInt32LE(at + 8) === 1 ? 'rising' : 'falling')
    })
  }
  function leave(held: Held, edge: (edge: Edge) => void): void {
    held.watchers.delete(edge)
    if (held.watchers.size > 0) return
    held.poll?.close()
    held.poll = null
  }

  return {
    get(line) {
      const { fd } = hold(line)
      try {
        return Number(values(fd).readBigUInt64LE(0) & 1n) as Level
      } catch (error) {
        throw failureOf(error, `line ${line}`)
      }
    },
    set(line, value) {
      const handle = hold(line)
      if (handle.direction === 'in') throw new DeviceError('denied', `line ${line} is an input: gpio.mode makes it an output`)
      const bits = Buffer.alloc(16)
      bits.writeBigUInt64LE(BigInt(value), 0)
      bits.writeBigUInt64LE(1n, 8)
      try {
        ioctl('GPIO_V2_LINE_SET_VALUES', handle.fd, SET_VALUES, bits)
      } catch (error) {
        throw failureOf(error, `line ${line}`)
      }
    },
    direction: (line) => held.get(line)?.direction ?? profile.gpio.get(line)!.direction,
    mode(line, direction) {
      const handle = hold(line)
      if (handle.direction === direction) return
      const config = Buffer.alloc(272)
      config.writeBigUInt64LE(flagsOf(direction), 0)
      if (direction === 'out') {
        config.writeUInt32LE(1, 8)
        config.writeUInt32LE(OUTPUT_VALUES, 32)
        config.writeBigUInt64LE(BigInt(firstLevel(profile, line)), 40)
        config.writeBigUInt64LE(1n, 48)
      }
      try {
        ioctl('GPIO_V2_LINE_SET_CONFIG', handle.fd, SET_CONFIG, config)
      } catch (error) {
        throw failureOf(error, `line ${line}`)
      }
      handle.direction = direction
    },
    isHeld: (line) => isUsed(lineAt(line)),
    watch(line, edge) {
      const handle = hold(line)
      if (handle.direction === 'out') throw new DeviceError('denied', `line ${line} is an output: nothing outside changes it`)
      handle.watchers.add(edge)
      listen(handle)
      return () => leave(handle, edge)
    },
    close() {
      for (const { fd, poll } of held.values()) {
        poll?.close()
        closeSync(fd)
      }
      for (const fd of chips.values()) closeSync(fd)
      held.clear()
      chips.clear()
    },
  }
}
