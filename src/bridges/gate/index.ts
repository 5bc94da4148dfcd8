// `/gate/<name>/mcp`: MCP servers behind the policy. The agent has its own key and no credential of the upstream.
import { TransportRefusal } from '#bindings/http/responses.ts'
import type { MakeBridge } from '#bindings/http/mount.ts'
import { isIn } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { mcpDoor } from '../mcp/door.ts'

/** A gate as this bridge needs it; `src/gate` has them. */
export type ServedGate = {
  readonly name: string
  /** Agents of other projects do not find it. */
  readonly projects: readonly string[]
  fetch(caller: GateCaller, request: Request, body: unknown): Promise<Response>
  close(): Promise<void>
}
type GateCaller = {
  readonly agent: string
  call(operation: string, input: object, signal?: AbortSignal): Promise<unknown>
}

const PATH = '/gate'
const ADDRESS = /^\/gate\/([a-z0-9][a-z0-9._-]{0,62})\/mcp$/
const NO_GATE = `gates are at ${PATH}/<name>/mcp, and you have none of this name`

export const gates = (served: readonly ServedGate[]): MakeBridge =>
  mcpDoor<ServedGate>({
    path: PATH,
    bytesMax: limits.mcpLineBytesMax,
    metered: 'gate/call.propose',
    absent: NO_GATE,
    find: (path) => served.find(({ name }) => name === ADDRESS.exec(path)?.[1]) ?? null,
    admit(actor, gate) {
      if (actor.kind !== 'agent') throw new Refusal('UNAUTHORIZED', 'a gate takes the key of an agent alone')
      if (!gate.projects.some((id) => isIn(actor, id))) throw new TransportRefusal(404, 'NOT_FOUND', NO_GATE)
    },
    serve: ({ actor, call, at: gate }, request, body) =>
      gate.fetch({ agent: actor.id, call: (operation, input, signal) => call(operation, input, { signal }) }, request, body),
    close: async () => void (await Promise.all(served.map((gate) => gate.close()))),
  })
