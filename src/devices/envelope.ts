// The envelope: values that outputs never have, alone or together, for any client and any approval. Lines are read from
// the board; a step is checked against the state that the steps before it would leave.
import type { Value } from '#kernel/log/store.ts'
import { numberOf } from './file-reader.ts'
import { firstLevel, type Board } from './port.ts'
import type { ChipProfile } from './profile.ts'

export type Aimed = { readonly tool: { readonly name: string }; readonly args: Value }

/** The writes of a step: lines with their values, or registers of a chip. */
type Effect = {
  readonly lines: ReadonlyMap<number, number>
  readonly chip: ChipProfile | null
  readonly bus: number
  readonly registers: ReadonlyMap<number, number>
}
const NONE: Effect = { lines: new Map(), chip: null, bus: 0, registers: new Map() }

/** Whether a running step holds a chip. Then no other step accesses it, and its value is checked when the waiting step's turn comes. */
export type Busy = (bus: number, addr: number) => boolean

export type Envelope = {
  /** Why the last of these steps would leave the envelope, or null. Throws if it needs a value that cannot be read. */
  objectionTo(steps: readonly Aimed[], isBusy?: Busy): Promise<string | null>
  /** The objection to one change of a line. It is synchronous, so nothing can come between the check and the act. */
  lineObjection(line: number, value: number): string | null
  /** Announces that a line will return to this value, as at the end of a pulse. Checks assume it until the returned function is called. */
  promise(line: number, value: number): () => void
  /** The lines that an interlock joins with this one. */
  joinedWith(line: number): ReadonlySet<number>
}

export function createEnvelope(board: Board, lineOf: (name: unknown) => number): Envelope {
  const { profile, lines } = board
  const isFree = profile.interlocks.length === 0

  function effectOf({ tool: { name }, args }: Aimed): Effect {
    if (name === 'gpio.set' || name === 'gpio.pulse') return { ...NONE, lines: new Map([[lineOf(args['line']), Number(args['value'])]]) }
    if (name === 'gpio.mode') {
      const line = lineOf(args['line'])
      return args['direction'] === 'out' && lines.direction(line) === 'in'
        ? { ...NONE, lines: new Map([[line, firstLevel(profile, line)]]) }
        : NONE
    }
    if (name !== 'i2c.write' && name !== 'i2c.transfer') return NONE
    const bus = numberOf(args['bus'])
    const chip = profile.i2c.get(bus)?.chips.get(numberOf(args['addr'])) ?? null
    if (chip === null || chip.limits.size === 0) return NONE
    const data = Buffer.from(String(args['data']), 'base64')
    const [first, bytes] = args['reg'] === undefined ? [data[0] ?? 0, data.subarray(1)] : [numberOf(args['reg']), data]
    const size = chip.registers ?? 256
    return { ...NONE, chip, bus, registers: new Map(Array.from(bytes, (byte, i) => [(first + i) % size, byte])) }
  }

  function interlockObjection(changed: ReadonlyMap<number, number>): string | null {
    for (const { never, message } of profile.interlocks) {
      if (![...never.keys()].some((line) => changed.has(line))) continue
      if ([...never].every(([line, value]) => (changed.has(line) ? changed.get(line) === value : mayBe(line, value))))
        return `the interlock forbids it: ${message}`
    }
    return null
  }
  const promised = new Map<number, number>()
  const mayBe = (line: number, value: number): boolean => levelOf(line) === value || promised.get(line) === value
  const levelOf = (line: number): number | null => (lines.isHeld(line) ? null : lines.get(line))

  async function limitObjection(effect: Effect, before: readonly Effect[], isBusy: Busy): Promise<string | null> {
    const { chip, bus, registers } = effect
    if (chip === null) return null
    for (const [register, value] of registers) {
      const limit = chip.limits.get(register)
      if (!limit) continue
      const place = `register 0x${register.toString(16)} of ${chip.name ?? `0x${chip.addr.toString(16)}`}`
      if (value < limit.min || value > limit.max) return `${place} must be ${limit.min} to ${limit.max}, not ${value}`
      if (limit.slew === null) continue
      const planned = before.findLast((step) => step.chip === chip && step.registers.has(register))?.registers.get(register)
      if (planned === undefined && isBusy(bus, chip.addr)) continue
      const present = planned ?? (await board.buses.transfer(bus, chip.addr, Uint8Array.of(register), 1))[0]!
      if (Math.abs(value - present) > limit.slew)
        return `${place} may change by ${limit.slew} at a time: it is ${present}, not to be ${value}`
    }
    return null
  }

  return {
    async objectionTo(steps, isBusy = () => false) {
      const last = effectOf(steps.at(-1)!)
      if (last === NONE) return null
      const before = steps.slice(0, -1).map(effectOf)
      if (last.lines.size > 0) {
        if (isFree) return null
        const changed = new Map<number, number>()
        // A pulse is over when the next step begins.
        for (const [i, step] of before.entries())
          if (steps[i]!.tool.name !== 'gpio.pulse') for (const [line, value] of step.lines) changed.set(line, value)
        for (const [line, value] of last.lines) changed.set(line, value)
        return interlockObjection(changed)
      }
      return limitObjection(last, before, isBusy)
    },
    lineObjection: (line, value) => (isFree ? null : interlockObjection(new Map([[line, value]]))),
    promise(line, value) {
      promised.set(line, value)
      return () => void promised.delete(line)
    },
    joinedWith: (line) => new Set(profile.interlocks.flatMap(({ never }) => (never.has(line) ? [...never.keys()] : []))),
  }
}
