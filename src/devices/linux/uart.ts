// Serial ports by termios2 (asm-generic layout): raw bytes at any baud rate, read without blocking.
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { DeviceError, type Framing, type Ports } from '../port.ts'
import type { Profile } from '../profile.ts'
import { failureOf } from './gpio.ts'
import { ioctl } from './libc.ts'

const [TCGETS2, TCSETS2] = [0x802c542a, 0x402c542b]
const [CBAUD, BOTHER, CREAD, CLOCAL, CS8, CRTSCTS] = [0o10017, 0o10000, 0o200, 0o4000, 0o60, 0o20000000000]
const [CSIZE, PARENB, PARODD, CSTOPB] = [0o60, 0o400, 0o1000, 0o100]
const [VTIME, VMIN] = [17 + 5, 17 + 6]
const O_CLOEXEC = 0o2000000
const BAUD = 115_200
const FULL_MS = 5

function configure(fd: number, { baud = BAUD, parity = 'none' }: Framing): void {
  const settings = Buffer.alloc(44)
  ioctl('TCGETS2', fd, TCGETS2, settings)
  const flags = settings.readUInt32LE(8) & ~(CBAUD | CRTSCTS | CSIZE | PARENB | PARODD | CSTOPB)
  const parities = { none: 0, even: PARENB, odd: PARENB | PARODD }
  settings.writeUInt32LE(0, 0)
  settings.writeUInt32LE(0, 4)
  settings.writeUInt32LE((flags | BOTHER | CS8 | CREAD | CLOCAL | parities[parity]) >>> 0, 8)
  settings.writeUInt32LE(0, 12)
  settings[VTIME] = 0
  settings[VMIN] = 0
  settings.writeUInt32LE(baud, 36)
  settings.writeUInt32LE(baud, 40)
  ioctl('TCSETS2', fd, TCSETS2, settings)
}

export function linuxPorts(profile: Profile): Ports & { close(): void } {
  const open = new Map<string, number>()
  function portAt(port: string): number {
    const known = open.get(port)
    if (known !== undefined) return known
    const path = profile.uart.get(port)?.path
    if (!path) throw new DeviceError('absent', `the port ${port} has no path in the profile`)
    try {
      const fd = openSync(path, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK | O_CLOEXEC)
      configure(fd, {})
      open.set(port, fd)
      return fd
    } catch (error) {
      throw failureOf(error, `the port ${port}`)
    }
  }
  return {
    async write(port, bytes, framing) {
      const fd = portAt(port)
      if (framing.baud !== undefined || framing.parity !== undefined) configure(fd, framing)
      for (let done = 0; done < bytes.length;) {
        try {
          done += writeSync(fd, bytes, done)
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw failureOf(error, `the port ${port}`)
          await wait(FULL_MS)
        }
      }
    },
    take(port, count) {
      const bytes = Buffer.alloc(count)
      try {
        return bytes.subarray(0, readSync(portAt(port), bytes, 0, count, null))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return new Uint8Array()
        throw error instanceof DeviceError ? error : failureOf(error, `the port ${port}`)
      }
    },
    close() {
      for (const fd of open.values()) closeSync(fd)
      open.clear()
    },
  }
}
