// The device: a board with its guards, its envelope and its tools. The runner makes it act; decisions ask it for objections.
import type { Value } from '#kernel/log/store.ts'
import type { ParsedStep } from '#protocols/hardware/daemon/ports.ts'
import type { Policy } from '#protocols/hardware/daemon/policy.ts'
import { boardTools, procTools, type Tool } from '#protocols/hardware/daemon/tools.ts'
import { createEnvelope } from './envelope.ts'
import { createPathGuard, type PathGuard } from './path-guard.ts'
import { DeviceError, type Board } from './port.ts'
import { busTools, chipResource } from './tools/buses.ts'
import { fileTools } from './tools/files.ts'
import { gpioTools } from './tools/gpio.ts'
import { systemTools } from './tools/system.ts'
import type { Acting, Bench, DeviceTool, Done, Program } from './tools/tool.ts'

export type DeviceOptions = {
  readonly board: Board
  readonly device_id: string
  readonly dataFolder: string
  readonly startedAt: number
  readonly programs: ReadonlyMap<string, Program>
  readonly plugins: readonly DeviceTool[]
  readonly policies: readonly Policy[]
}

export type Device = {
  readonly tools: ReadonlyMap<string, Tool>
  targetOf(tool: Tool, args: Value): Pick<ParsedStep, 'risk_level' | 'resource' | 'target'>
  /** The resource that a step of a plug-in locks, which only the plug-in knows. */
  resourceOf(tool: Tool, args: Value): Promise<string | null>
  /** `isHeld`: a resource held by a running step is not accessed. */
  objectionTo(steps: readonly ParsedStep[], isHeld: (resource: string) => boolean): Promise<string | null>
  /** The value that a step would change; null if it changes none, or if it cannot be read. */
  valueBefore(step: Pick<ParsedStep, 'tool' | 'args'>, policy: Policy | null): Promise<unknown>
  act(tool: string, acting: Acting): Promise<Done> | Done
  /** Sets the outputs of a session, or all outputs, to their safe state. */
  makeSafe(session_id: string | null): void
  close(): void
}

const builtIns: readonly DeviceTool[] = [...gpioTools, ...busTools, ...fileTools, ...systemTools]

export function createDevice(options: DeviceOptions): Device {
  const { board, programs, plugins } = options
  const { profile } = board
  const names = new Map([...profile.gpio.values()].flatMap(({ line, name }) => (name === null ? [] : [[name, line] as const])))
  const lineOf = (name: unknown): number =>
    typeof name === 'number' ? name : (names.get(String(name)) ?? (/^\d+$/.test(String(name)) ? Number(name) : -1))
  // Created at the start, so that a folder replaced later leads nowhere else.
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
  const tools = [...boardTools, ...(programs.size > 0 ? procTools : []), ...plugins.map(({ tool }) => tool)]
  const deviceTools = new Map([...builtIns, ...plugins].map((deviceTool) => [deviceTool.tool.name, deviceTool]))
  const deviceTool = ({ name }: { readonly name: string }): DeviceTool => deviceTools.get(name)!

  return {
    // Fixed from here on: no tool is added to a running daemon.
    tools: new Map(tools.map((tool) => [tool.name, Object.freeze(tool)])),
    targetOf(tool, args) {
      const { resource, target, raised = 0 } = deviceTool(tool).target(args, bench)
      return { resource, target, risk_level: Math.max(tool.risk_level, isActing(tool) ? raised : 0) }
    },
    resourceOf: async (tool, args) => (await deviceTool(tool).resource?.(args)) ?? null,
    async objectionTo(steps, isHeld) {
      try {
        return await bench.envelope.objectionTo(steps, (bus, addr) => isHeld(chipResource(bus, addr)))
      } catch (error) {
        // An unreadable value is read again when the step acts, and then the step fails with the reason.
        if (error instanceof DeviceError) return null
        throw error
      }
    },
    async valueBefore({ tool, args }, policy) {
      try {
        return (await deviceTool(tool).before?.(args, bench, policy)) ?? null
      } catch {
        // It cannot be read: it is held or absent.
        return null
      }
    },
    act: (tool, acting) => deviceTool({ name: tool }).execute(bench, acting),
    makeSafe(session_id) {
      const ownLines = [...profile.gpio.keys()].filter((line) => session_id === null || bench.setBy.get(line) === session_id)
      makeSafe(bench, ownLines)
    },
    close() {
      for (const guard of guards.values()) guard.close()
      board.close()
    },
  }
}

/**
 * Sets lines to their safe level and their own direction. If that would leave the envelope, the lines that an interlock joins with them go
 * first, no matter which session set them.
 */
function makeSafe({ board: { profile, lines }, envelope, setBy }: Bench, ownLines: readonly number[]): void {
  const begun = new Set<number>()
  const settle = (line: number): void => {
    if (begun.has(line)) return
    begun.add(line)
    if (!lines.isHeld(line)) toSafe(line)
    // Delete only now: a line that does not answer still belongs to its session, and is tried again.
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
  // A line that does not answer must not keep the others from becoming safe.
  const failures: unknown[] = []
  for (const line of ownLines) {
    try {
      settle(line)
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}

/** Reading tools have risk level 0, no matter what they read. */
const isActing = ({ risk_level }: Tool): boolean => risk_level >= 1
