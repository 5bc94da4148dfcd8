// I2C buses by /dev/i2c-N (linux/i2c-dev.h). Two of its structures carry pointers: their layout here is that of 64-bit machines.
import { closeSync, constants, openSync } from 'node:fs'
import { DeviceError, type Buses } from '../port.ts'
import type { Profile } from '../profile.ts'
import { failureOf } from './gpio.ts'
import { addressOf, ErrnoError, ioctl } from './libc.ts'

const [I2C_SLAVE, I2C_FUNCS, I2C_RDWR, I2C_SMBUS] = [0x703, 0x705, 0x707, 0x720]
const READS = 1
const FUNC_I2C = 1n
const FUNC_BLOCKS = 0x0c00_0000n
const [QUICK, BYTE, BYTE_DATA, WORD_DATA, I2C_BLOCK] = [0, 1, 2, 3, 8]
const BLOCK_BYTES = 32
const O_CLOEXEC = 0o2000000

type Bus = { readonly fd: number; readonly isWhole: boolean; readonly hasBlocks: boolean }

export function linuxBuses(profile: Profile): Buses & { close(): void } {
  const buses = new Map<number, Bus>()
  function busAt(bus: number): Bus {
    const known = buses.get(bus)
    if (known) return known
    const fd = openSync(profile.i2c.get(bus)?.path ?? `/dev/i2c-${bus}`, constants.O_RDWR | O_CLOEXEC)
    const funcs = Buffer.alloc(8)
    ioctl('I2C_FUNCS', fd, I2C_FUNCS, funcs)
    const can = funcs.readBigUInt64LE(0)
    const opened = { fd, isWhole: (can & FUNC_I2C) !== 0n, hasBlocks: (can & FUNC_BLOCKS) === FUNC_BLOCKS }
    buses.set(bus, opened)
    return opened
  }

  /** One transaction with a repeated start between its parts. */
  function whole(fd: number, addr: number, write: Uint8Array, read: number): Uint8Array {
    const parts = [...(write.length > 0 ? [Buffer.from(write)] : []), ...(read > 0 ? [Buffer.alloc(read)] : [])]
    const messages = Buffer.alloc(16 * parts.length)
    for (const [i, part] of parts.entries()) {
      messages.writeUInt16LE(addr, i * 16)
      messages.writeUInt16LE(read > 0 && i === parts.length - 1 ? READS : 0, i * 16 + 2)
      messages.writeUInt16LE(part.length, i * 16 + 4)
      messages.writeBigUInt64LE(addressOf(part), i * 16 + 8)
    }
    const request = Buffer.alloc(16)
    request.writeBigUInt64LE(addressOf(messages), 0)
    request.writeUInt32LE(parts.length, 8)
    ioctl('I2C_RDWR', fd, I2C_RDWR, request)
    return read > 0 ? parts.at(-1)! : new Uint8Array()
  }

  function smbus(fd: number, addr: number, reads: boolean, command: number, size: number, data: Buffer | null): void {
    // Fails with EBUSY if a kernel driver has the address.
    ioctl('I2C_SLAVE', fd, I2C_SLAVE, addr)
    const request = Buffer.alloc(16)
    request[0] = reads ? READS : 0
    request[1] = command
    request.writeUInt32LE(size, 4)
    if (data) request.writeBigUInt64LE(addressOf(data), 8)
    ioctl('I2C_SMBUS', fd, I2C_SMBUS, request)
  }

  /** A word of SMBus is two bytes of I2C in the same order, a block has as many bytes as fit; more bytes follow from the next register on. */
  function portion({ fd, hasBlocks }: Bus, addr: number, reads: boolean, register: number, bytes: Buffer): number {
    const data = Buffer.alloc(BLOCK_BYTES + 2)
    const count = bytes.length === 1 ? 1 : bytes.length === 2 || !hasBlocks ? 2 : Math.min(bytes.length, BLOCK_BYTES)
    const [size, at] = count === 1 ? [BYTE_DATA, 0] : count === 2 ? [WORD_DATA, 0] : [I2C_BLOCK, 1]
    if (at === 1) data[0] = count
    if (!reads) bytes.copy(data, at, 0, count)
    smbus(fd, addr, reads, register & 0xff, size, data)
    if (reads) data.copy(bytes, 0, at, at + count)
    return count
  }

  /** Transfers for controllers that support only SMBus. */
  function inPortions(bus: Bus, addr: number, write: Uint8Array, read: number): Uint8Array {
    const [register = 0, ...rest] = write
    const bytes = Buffer.alloc(read)
    if (write.length === 1 && read === 0) smbus(bus.fd, addr, false, register, BYTE, null)
    const written = Buffer.from(rest)
    for (let i = 0; i < written.length;) i += portion(bus, addr, false, register + i, written.subarray(i))
    if (write.length === 0) {
      for (let i = 0; i < read; i++) {
        const data = Buffer.alloc(BLOCK_BYTES + 2)
        smbus(bus.fd, addr, true, 0, BYTE, data)
        bytes[i] = data[0]!
      }
      return bytes
    }
    for (let i = 0; i < read;) i += portion(bus, addr, true, register + written.length + i, bytes.subarray(i))
    return bytes
  }

  function refuseDriven(fd: number, addr: number): void {
    ioctl('I2C_SLAVE', fd, I2C_SLAVE, addr)
  }

  return {
    transfer(bus, addr, write, read) {
      const place = `0x${addr.toString(16)} of bus ${bus}`
      return Promise.resolve().then(() => {
        try {
          const found = busAt(bus)
          refuseDriven(found.fd, addr)
          return found.isWhole ? whole(found.fd, addr, write, read) : inPortions(found, addr, write, read)
        } catch (error) {
          throw failureOf(error, place)
        }
      })
    },
    answers(bus, addr) {
      return Promise.resolve().then(() => {
        let found: Bus
        try {
          found = busAt(bus)
        } catch (error) {
          throw failureOf(error, `bus ${bus}`)
        }
        try {
          // A quick write could change an EEPROM, so its addresses are probed by a read.
          const isMemory = (addr >= 0x30 && addr <= 0x37) || (addr >= 0x50 && addr <= 0x5f)
          smbus(found.fd, addr, isMemory, 0, isMemory ? BYTE : QUICK, isMemory ? Buffer.alloc(BLOCK_BYTES + 2) : null)
          return true
        } catch (error) {
          if (!(error instanceof ErrnoError)) throw new DeviceError('io', (error as Error).message)
          return error.code === 'EBUSY'
        }
      })
    },
    close() {
      for (const { fd } of buses.values()) closeSync(fd)
      buses.clear()
    },
  }
}
