// The envelope and the safe state on a simulated board: what never happens together does not happen by a pulse, a mode or an end of a session.
import { deepEqual, equal, match, rejects } from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createDevice, type Device } from '#devices/device.ts'
import { Cancelled, DeviceError, type Board } from '#devices/port.ts'
import { readProfile } from '#devices/profile.ts'
import { simulatedBoard } from '#devices/simulated/index.ts'
import { policyDefaults } from '#protocols/hardware/daemon/policy.ts'
import type { Value } from '#kernel/log/store.ts'

const policy = { ...policyDefaults, name: 'default', tools: ['gpio.*', 'i2c.*'] }
const profile = (interlocks: object[], safe: Record<string, 0 | 1> = {}): object => ({
  gpio: {
    '1': { name: 'A', direction: 'out', safe: safe['1'] ?? 0 },
    '2': { name: 'B', direction: 'out', safe: safe['2'] ?? 0 },
    '3': { name: 'IN', direction: 'in' },
  },
  interlocks,
  i2c: {
    '1': {
      '0x50': { name: 'dac', registers: 256, limits: { '0x10': { min: 0, max: 100, slew: 10 } } },
      '0x51': { name: 'taken', held: 'kernel', limits: { '0x10': { slew: 1 } } },
    },
  },
})
const BOTH = [{ never: { '1': 1, '2': 1 }, message: 'never both' }]

type Made = {
  readonly board: Board
  readonly device: Device
  act(session_id: string, tool: string, args: Value, signal?: AbortSignal): Promise<unknown>
}
function made(given: object): Made {
  const board = simulatedBoard(readProfile(given))
  const options = { device_id: 'dev', dataFolder: '/', startedAt: 0, programs: new Map(), plugins: [], policies: [policy] }
  const device = createDevice({ board, ...options })
  device.makeSafe(null)
  return {
    board,
    device,
    act: async (session_id, tool, args, signal = new AbortController().signal) => device.act(tool, { args, session_id, policy, signal }),
  }
}
const isOutside = (error: unknown): boolean => error instanceof DeviceError && error.code === 'envelope'
const set = (line: number, value: number): ['gpio.set', Value] => ['gpio.set', { line, value }]

describe('the envelope', () => {
  it('holds over sessions', async () => {
    const { act } = made(profile(BOTH))
    await act('one', ...set(1, 1))
    await rejects(act('two', ...set(2, 1)), isOutside)
    await act('one', ...set(1, 0))
    await act('two', ...set(2, 1))
  })

  it('reckons with the value that a pulse will bring back', async () => {
    const { act, board } = made(profile(BOTH))
    await act('one', ...set(1, 1))
    const ending = new AbortController()
    const pulse = act('one', 'gpio.pulse', { line: 1, value: 0, ms: 10_000 }, ending.signal)
    await rejects(act('two', ...set(2, 1)), isOutside)
    ending.abort()
    await rejects(pulse, Cancelled)
    deepEqual([board.lines.get(1), board.lines.get(2)], [1, 0])
    await act('one', ...set(1, 0))
    await act('two', ...set(2, 1))
  })

  it('lets no line become an output into what is forbidden', async () => {
    const { act, board } = made(profile([{ never: { '1': 0, '2': 1 }, message: 'no B without A' }], { '1': 0 }))
    await act('one', ...set(1, 1))
    await act('one', ...set(2, 1))
    await act('one', 'gpio.mode', { line: 1, direction: 'in' })
    await rejects(act('one', 'gpio.mode', { line: 1, direction: 'out' }), isOutside)
    equal(board.lines.direction(1), 'in')
  })

  it('brings the whole interlock to its safe state if one line of it alone would leave the envelope', async () => {
    const { act, board, device } = made(profile([{ never: { '1': 0, '2': 1 }, message: 'no pump on a closed valve' }]))
    await act('valve', ...set(1, 1))
    await act('pump', ...set(2, 1))
    const seen: string[] = []
    board.lines.watch(1, () => seen.push(`A with B ${board.lines.get(2)}`))
    device.makeSafe('valve')
    deepEqual([board.lines.get(1), board.lines.get(2)], [0, 0])
    deepEqual(seen, ['A with B 0'], 'the pump first')
  })

  it('gives a line its direction back when the session that turned it ends', async () => {
    const { act, board, device } = made(profile([]))
    await act('one', 'gpio.mode', { line: 3, direction: 'out' })
    await act('one', ...set(3, 1))
    await act('one', 'gpio.mode', { line: 1, direction: 'in' })
    device.makeSafe('two')
    deepEqual([board.lines.direction(3), board.lines.direction(1)], ['out', 'in'])
    device.makeSafe('one')
    deepEqual([board.lines.direction(3), board.lines.direction(1), board.lines.get(1)], ['in', 'out', 0])
  })

  it('looks at limits and slew when it acts, and leaves a chip that cannot be read to the step', async () => {
    const { act, device } = made(profile([]))
    const tools = device.tools
    const objection = (addr: number, data: number): Promise<string | null> => {
      const args = { bus: 1, addr, reg: 16, data: Buffer.of(data).toString('base64') }
      const tool = tools.get('i2c.write')!
      return device.objectionTo([{ tool, args, ...device.targetOf(tool, args) }], () => false)
    }
    match((await objection(0x50, 101))!, /0 to 100/)
    match((await objection(0x50, 11))!, /change by 10/)
    equal(await objection(0x50, 10), null)
    equal(await objection(0x51, 200), null)
    await rejects(act('one', 'i2c.write', { bus: 1, addr: 0x51, reg: 16, data: 'yA==' }), (error: DeviceError) => error.code === 'busy')
    await rejects(act('one', 'i2c.write', { bus: 1, addr: 0x50, reg: 15, data: 'AP8=' }), isOutside)
    await rejects(act('one', 'i2c.transfer', { bus: 1, addr: 0x50, data: 'EP8=', len: 1 }), isOutside)
  })
})
