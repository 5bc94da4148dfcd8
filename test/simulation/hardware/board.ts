// A board that misbehaves on command: a chip that sticks in the middle of a transaction, everything unplugged, and both over again. It outlives the
// daemon, as hardware does, and keeps what was done to it.
import { DeviceError, type Board, type Level } from '#devices/port.ts'
import { readProfile } from '#devices/profile.ts'
import { simulatedBoard } from '#devices/simulated/index.ts'
import { simulatedProfile } from '#devices/simulated/profile.ts'

export type FaultyBoard = {
  readonly board: Board
  /** Transactions that begin from now on do not end before `release`. */
  stick(): void
  release(): void
  unplug(): void
  plug(): void
  isPlugged(): boolean
  /** Breaches of the rules that hold for the hardware itself. */
  readonly violations: string[]
  level(line: number): Level
}

const TRANSFER_MS = 20

export function faultyBoard(): FaultyBoard {
  const { i2c, ...rest } = simulatedProfile
  const { '0x51': slow, ...chips } = i2c['1']
  const profile = readProfile({ ...rest, i2c: { '1': { ...chips, '0x51': { ...slow, delay_ms: 0 } } } })
  const inner = simulatedBoard(profile)
  const violations: string[] = []
  const inHand = new Set<string>()
  let isStuck = false
  let isPlugged = true
  let released = Promise.withResolvers<void>()
  const there = (): void => {
    if (!isPlugged) throw new DeviceError('absent', 'the board was taken away')
  }
  const board: Board = {
    ...inner,
    lines: {
      ...inner.lines,
      get(line) {
        there()
        return inner.lines.get(line)
      },
      set(line, value) {
        there()
        inner.lines.set(line, value)
        if (inner.lines.get(22) === 1 && inner.lines.get(23) === 1) violations.push('both valves are open')
      },
      mode(line, direction) {
        there()
        inner.lines.mode(line, direction)
      },
    },
    buses: {
      ...inner.buses,
      async transfer(bus, addr, write, read) {
        there()
        const chip = `${bus}:${addr}`
        // A look at a register that has limits, before anything is accepted: the driver puts it between two transactions.
        if (write.length === 1 && addr === 0x50) return inner.buses.transfer(bus, addr, write, read)
        if (inHand.has(chip)) violations.push(`two transactions on ${chip} at once`)
        inHand.add(chip)
        try {
          await (isStuck ? released.promise : new Promise((done) => setTimeout(done, TRANSFER_MS)))
          there()
          return await inner.buses.transfer(bus, addr, write, read)
        } finally {
          inHand.delete(chip)
        }
      },
    },
  }
  return {
    board,
    stick() {
      isStuck = true
    },
    release() {
      isStuck = false
      released.resolve()
      released = Promise.withResolvers<void>()
    },
    unplug() {
      isPlugged = false
    },
    plug() {
      isPlugged = true
    },
    isPlugged: () => isPlugged,
    violations,
    level: inner.lines.get,
  }
}
