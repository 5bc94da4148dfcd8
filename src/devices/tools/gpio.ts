// GPIO tools. No other code runs between the check of the envelope and the act that it allows.
import type { Value } from '#kernel/log/store.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Cancelled, DeviceError, firstLevel, type Direction, type Level } from '../port.ts'
import { builtIn, invalidArgument, pause, type Bench, type DeviceTool, type Execute, type Target } from './tool.ts'

function drive({ board, envelope, setBy }: Bench, line: number, value: Level, session_id: string | null): void {
  const objection = envelope.lineObjection(line, value)
  if (objection !== null) throw new DeviceError('envelope', objection)
  board.lines.set(line, value)
  if (session_id !== null) setBy.set(line, session_id)
}

const set: Execute = (bench, { args, session_id }) => {
  const line = bench.lineOf(args['line'])
  const value = args['value'] as Level
  const before = bench.board.lines.get(line)
  drive(bench, line, value, session_id)
  return { result: { line, value }, undo: () => drive(bench, line, before, null) }
}

const get: Execute = ({ board, lineOf }, { args }) => {
  const line = lineOf(args['line'])
  return { result: { line, value: board.lines.get(line) } }
}

function turn({ board, envelope, setBy }: Bench, line: number, direction: Direction, session_id: string | null): void {
  const { lines, profile } = board
  const objection = direction === 'in' || lines.direction(line) === 'out' ? null : envelope.lineObjection(line, firstLevel(profile, line))
  if (objection !== null) throw new DeviceError('envelope', objection)
  lines.mode(line, direction)
  if (session_id !== null) setBy.set(line, session_id)
}

const mode: Execute = (bench, { args, session_id }) => {
  const { lines } = bench.board
  const line = bench.lineOf(args['line'])
  const direction = args['direction'] as Direction
  const [before, value] = [lines.direction(line), lines.get(line)]
  turn(bench, line, direction, session_id)
  const undo = (): void => {
    turn(bench, line, before, null)
    if (before === 'out') drive(bench, line, value, null)
  }
  return { result: { line, direction }, undo }
}

const pulse: Execute = async (bench, { args, session_id, signal }) => {
  const line = bench.lineOf(args['line'])
  const value = args['value'] as Level
  const ms = Number(args['ms'])
  const before = bench.board.lines.get(line)
  drive(bench, line, value, session_id)
  const release = bench.envelope.promise(line, before)
  const isWhole = await pause(ms, signal)
  release()
  bench.board.lines.set(line, before)
  if (!isWhole) throw new Cancelled('the pulse was ended early, and the former value is back')
  return { result: { line, value, ms } }
}

const WATCH_MS = 1_000
const watch: Execute = async ({ board, lineOf }, { args, signal }) => {
  const line = lineOf(args['line'])
  const wanted = (args['edge'] as string | undefined) ?? 'both'
  const eventsMax = (args['max_events'] as number | undefined) ?? 1
  const events: { edge: string; ts: string }[] = []
  const enough = new AbortController()
  const leave = board.lines.watch(line, (edge) => {
    if (events.length >= eventsMax || (wanted !== 'both' && wanted !== edge)) return
    events.push({ edge, ts: timestampOf(Date.now()) })
    if (events.length >= eventsMax) enough.abort()
  })
  const timed_out = await pause((args['timeout_ms'] as number | undefined) ?? WATCH_MS, AbortSignal.any([signal, enough.signal]))
  leave()
  if (signal.aborted) throw new Cancelled('the watch was ended')
  return { result: { events, timed_out } }
}

const list: Execute = ({ board }) => ({
  result: {
    lines: [...board.profile.gpio.values()].map(({ line, name }) => {
      const held = board.lines.isHeld(line)
      return { line, name, direction: board.lines.direction(line), value: held ? null : board.lines.get(line), held }
    }),
  },
})

function lineTarget({ line: name }: Value, { board, lineOf }: Bench): Target {
  const found = board.profile.gpio.get(lineOf(name))
  if (!found) throw invalidArgument('line', `line: this board has no line ${JSON.stringify(name)}`)
  const { line, name: label, risk_level } = found
  return { resource: `gpio:${line}`, target: `line ${line}${label === null ? '' : ` ${label}`}`, raised: risk_level ?? 0 }
}
const sharedLine = (args: Value, bench: Bench): Target => ({ ...lineTarget(args, bench), resource: null })
const level = ({ line }: Value, { board, lineOf }: Bench): Level => board.lines.get(lineOf(line))

export const gpioTools: readonly DeviceTool[] = [
  builtIn('gpio.get', { target: sharedLine, execute: get }),
  builtIn('gpio.set', { target: lineTarget, before: level, execute: set }),
  builtIn('gpio.mode', { target: lineTarget, before: ({ line }, { board, lineOf }) => board.lines.direction(lineOf(line)), execute: mode }),
  builtIn('gpio.pulse', { target: lineTarget, before: level, execute: pulse }),
  builtIn('gpio.watch', { target: sharedLine, execute: watch }),
  builtIn('hw.gpio.list', list),
]
