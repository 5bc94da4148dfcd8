// The device: a board with its guards, its envelope and its tools. The runner asks it to act; decisions ask it what would happen.
import { createHash } from 'node:crypto'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Value } from '#kernel/log/store.ts'
import type { ParsedStep } from '#protocols/hardware/daemon/ports.ts'
import type { Policy } from '#protocols/hardware/daemon/policy.ts'
import { boardTools, procTools, type Tool } from '#protocols/hardware/daemon/tools.ts'
import { createEnvelope } from './envelope.ts'
import { numberOf } from './file-reader.ts'
import { createPathGuard, type PathGuard } from './path-guard.ts'
import { DeviceError, type Board } from './port.ts'
import { busTools } from './tools/buses.ts'
import { fileTools } from './tools/files.ts'
import { gpioTools } from './tools/gpio.ts'
import { refuseProgram, systemTools } from './tools/system.ts'
import type { Acting, Bench, Done, Execute, Program } from './tools/tool.ts'

/** A tool of the operator's own, from a folder that is read once. */
export type Plugin = {
  readonly tool: Tool
  execute(args: Value, context: { readonly signal: AbortSignal }): Promise<Value> | Value
  resource(args: Value): Promise<string | null>
}

export type DeviceOptions = {
  readonly board: Board
  readonly device_id: string
  readonly dataFolder: string
  readonly startedAt: number
  readonly programs: ReadonlyMap<string, Program>
  readonly plugins: readonly Plugin[]
  readonly policies: readonly Policy[]
}

type Target = Pick<ParsedStep, 'risk_level' | 'resource' | 'target'>

export type Device = {
  readonly tools: ReadonlyMap<string, Tool>
  targetOf(tool: Tool, args: Value): Target
  /** The resource that a step of a plug-in locks, which only the plug-in knows. */
  resourceOf(tool: Tool, args: Value): Promise<string | null>
  /** `isHeld`: what a step has in its hands is not spoken to. */
  objectionTo(steps: readonly ParsedStep[], isHeld: (resource: string) => boolean): Promise<string | null>
  valueBefore(step: Pick<ParsedStep, 'tool' | 'args'>, policy: Policy | null): Promise<unknown>
  act(tool: string, acting: Acting): Promise<Done> | Done
  /** Outputs go to their safe state: those of a session, or all. */
  makeSafe(session_id: string | null): void
  close(): void
}

export function createDevice(options: DeviceOptions): Device {
  const { board, programs, plugins } = options
  const { profile } = board
  const names = new Map([...profile.gpio.values()].flatMap(({ line, name }) => (name === null ? [] : [[name, line] as const])))
  const lineOf = (name: unknown): number =>
    typeof name === 'number' ? name : (names.get(String(name)) ?? (/^\d+$/.test(String(name)) ? Number(name) : -1))
  // From the start: what becomes of a listed folder later leads nowhere else.
  const guards = new Map(options.policies.map((policy) => [policy, createPathGuard(policy)]))
  const guardOf = (policy: Policy): PathGuard => guards.get(policy)!
  const bench: Bench = {
    board,
    envelope: createEnvelope(board, lineOf),
    device_id: options.device_id,
    dataFolder: options.dataFolder,
    startedAt: options.startedAt,
    lineOf,
    guardOf,
    setBy: new Map(),
    programs,
  }
  const executes: Record<string, Execute> = { ...gpioTools, ...busTools, ...fileTools, ...systemTools }
  for (const { tool, execute } of plugins)
    executes[tool.name] = async (_, { args, signal }) => ({ result: await execute(args, { signal }) })
  const tools = [...boardTools, ...(programs.size > 0 ? procTools : []), ...plugins.map(({ tool }) => tool)]

  return {
    // Fixed from here on: no tool is added to a running daemon.
    tools: new Map(tools.map((tool) => [tool.name, Object.freeze(tool)])),
    targetOf(tool, args) {
      if (plugins.some((one) => one.tool === tool)) return { risk_level: tool.risk_level, resource: null, target: tool.name }
      if (tool.name === 'proc.exec') refuseProgram(programs, args)
      const { resource, target, raised } = targetIn(board, lineOf, tool, args)
      return { resource, target, risk_level: Math.max(tool.risk_level, isActing(tool) ? raised : 0) }
    },
    resourceOf: (tool, args) => plugins.find((one) => one.tool === tool)?.resource(args) ?? Promise.resolve(null),
    async objectionTo(steps, isHeld) {
      try {
        return await bench.envelope.objectionTo(steps, (bus, addr) => isHeld(chipResource(bus, addr)))
      } catch (error) {
        // A value that cannot be read is looked for again when the step acts, and then the step fails and says why.
        if (error instanceof DeviceError) return null
        throw error
      }
    },
    valueBefore: (step, policy) => valueBefore(bench, step, policy),
    act: (tool, acting) => executes[tool]!(bench, acting),
    makeSafe(session_id) {
      const own = [...profile.gpio.keys()].filter((line) => session_id === null || bench.setBy.get(line) === session_id)
      makeSafe(bench, own)
    },
    close() {
      for (const guard of guards.values()) guard.close()
      board.close()
    },
  }
}

/**
 * Lines go to their safe level and their own direction. Where that would leave the envelope, the lines that the interlock joins with them go first,
 * whoever has set those.
 */
function makeSafe({ board: { profile, lines }, envelope, setBy }: Bench, own: readonly number[]): void {
  const begun = new Set<number>()
  const settle = (line: number): void => {
    if (begun.has(line)) return
    begun.add(line)
    if (!lines.isHeld(line)) toSafe(line)
    // Only now: a line that does not answer still belongs to its session, and is tried again.
    setBy.delete(line)
  }
  const toSafe = (line: number): void => {
    const { safe, direction } = profile.gpio.get(line)!
    if (direction === 'in' || safe === null) {
      if (lines.direction(line) !== direction) lines.mode(line, direction)
      return
    }
    if (lines.direction(line) === 'out' && lines.get(line) === safe) return
    if (envelope.lineObjection(line, safe) !== null) for (const other of envelope.joinedWith(line)) settle(other)
    lines.mode(line, 'out')
    lines.set(line, safe)
  }
  // One line that does not answer keeps none of the others from it.
  const failures: unknown[] = []
  for (const line of own) {
    try {
      settle(line)
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}

/** A reading is as safe as the tool says, whatever it reads. */
const isActing = ({ risk_level }: Tool): boolean => risk_level >= 1

type Found = { readonly resource: string | null; readonly target: string; readonly raised: number }
const invalid = (field: string, message: string): Refusal => new Refusal('INVALID_PARAMS', message, { field })
const chipResource = (bus: number, addr: number): string => `i2c:${bus}:${hex(addr)}`
const hex = (value: number): string => `0x${value.toString(16).padStart(2, '0')}`

/** W16: readings of a line are shared; everything else on a bus, a port or a line is one at a time. */
function targetIn({ profile }: Board, lineOf: (name: unknown) => number, { name, path }: Tool, args: Value): Found {
  if (path) {
    const where = String(args[path.argument])
    return { resource: path.use === 'write' ? `file:${where}` : null, target: where, raised: 0 }
  }
  if (args['line'] !== undefined && name.startsWith('gpio.')) {
    const line = profile.gpio.get(lineOf(args['line']))
    if (!line) throw invalid('line', `line: this board has no line ${JSON.stringify(args['line'])}`)
    const isReading = name === 'gpio.get' || name === 'gpio.watch'
    return {
      resource: isReading ? null : `gpio:${line.line}`,
      target: `line ${line.line}${line.name === null ? '' : ` ${line.name}`}`,
      raised: line.risk_level ?? 0,
    }
  }
  if (name.startsWith('i2c.')) {
    const bus = numberOf(args['bus'])
    const found = profile.i2c.get(bus)
    if (!found) throw invalid('bus', `bus: this board has no bus ${bus}`)
    if (args['addr'] === undefined) return { resource: `i2c:${bus}`, target: `bus ${bus}`, raised: 0 }
    const addr = numberOf(args['addr'])
    const chip = found.chips.get(addr)
    return {
      resource: chipResource(bus, addr),
      target: `chip ${hex(addr)}${chip?.name ? ` ${chip.name}` : ''} of bus ${bus}`,
      raised: chip?.risk_level ?? 0,
    }
  }
  if (name.startsWith('uart.')) {
    const port = profile.uart.get(String(args['port']))
    if (!port) throw invalid('port', `port: this board has no serial port ${String(args['port']).slice(0, 100)}`)
    return { resource: `uart:${port.port}`, target: `port ${port.port}`, raised: port.risk_level ?? 0 }
  }
  if (name === 'sensor.read') {
    const sensor = profile.sensors.get(String(args['name']))
    if (!sensor) throw invalid('name', `name: this board has no sensor ${String(args['name']).slice(0, 100)}`)
    return { resource: chipResource(sensor.bus, sensor.addr), target: `sensor ${sensor.name}`, raised: 0 }
  }
  return { resource: null, target: name === 'proc.exec' ? `program ${String(args['program'])}` : name, raised: 0 }
}

const SHOWN_BYTES_MAX = 64

/** For the people who approve it, and read again before acting. */
async function valueBefore(
  { board, lineOf, guardOf }: Bench,
  { tool, args }: Pick<ParsedStep, 'tool' | 'args'>,
  policy: Policy | null,
): Promise<unknown> {
  const { name } = tool
  // A reading changes nothing.
  if (!isActing(tool)) return null
  try {
    if (name.startsWith('gpio.'))
      return name === 'gpio.mode' ? board.lines.direction(lineOf(args['line'])) : board.lines.get(lineOf(args['line']))
    if (name === 'i2c.write' && args['reg'] !== undefined) {
      const length = Math.min(SHOWN_BYTES_MAX, Buffer.from(String(args['data']), 'base64').length)
      const bytes = await board.buses.transfer(numberOf(args['bus']), numberOf(args['addr']), Uint8Array.of(numberOf(args['reg'])), length)
      return Buffer.from(bytes).toString('base64')
    }
    if (name === 'file.write' && policy) {
      const { data, size } = guardOf(policy).read(String(args['path']), 0, policy.file_bytes_max)
      return { sha256: createHash('sha256').update(data).digest('hex'), size }
    }
    return null
  } catch {
    // It cannot be read: it is held, or not there.
    return null
  }
}
