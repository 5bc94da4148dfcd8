// A gate over Streamable HTTP, inside of the server. Each agent has its own connection to the upstream.
import { randomBytes } from 'node:crypto'
import { limits } from '#kernel/limits.ts'
import { openHttpSessions, placesByActor, type Place as OpenPlace } from '#mcp/wire/http-sessions.ts'
import type { Gate } from './gate.ts'
import { closeGate, openGate, PASSED, type GateOptions } from './index.ts'
import { gatePort, type CallOperation } from './port.ts'
import { serverOf } from './server.ts'
import type { Era } from './upstream.ts'

export type GateCaller = { readonly agent: string; readonly call: CallOperation }

export type HttpGate = {
  readonly name: string
  /** The body is decoded already. */
  fetch(caller: GateCaller, request: Request, body: unknown): Promise<Response>
  close(): Promise<void>
}

type Options = Omit<GateOptions, 'port' | 'agent' | 'key'>
/** The gate of one agent. */
type Place = OpenPlace & {
  /** Calls operations with the agent's newest credential. */
  call: CallOperation
}

export function gateOverHttp(options: Options): HttpGate {
  const places = placesByActor<Place>(limits.gateAgentsMax)
  const key = randomBytes(32)
  return {
    name: options.settings.name,
    fetch: (caller, request, body) =>
      places.use(
        caller.agent,
        () => openPlace(options, key, caller),
        request,
        (place) => {
          place.call = caller.call
          return place.sessions.fetch(request, body)
        },
      ),
    close: places.close,
  }
}

function openPlace(options: Options, key: Uint8Array, { agent, call }: GateCaller): Place {
  const port = gatePort((operation, input, signal) => place.call(operation, input, signal))
  // The upstream gets the revisions that the client speaks.
  const gates = new Map<Era, Gate>()
  const gateOf = (era: Era): Gate => {
    const gate =
      gates.get(era) ??
      openGate({ ...options, port, agent, key }, era, (method, { _meta, ...params }) => {
        if (PASSED.test(method)) place.sessions.notify(method, params, era === 'modern')
      })
    gates.set(era, gate)
    return gate
  }
  const place: Place = {
    call,
    sessions: openHttpSessions({
      serverOf: (isModern) => serverOf(gateOf(isModern ? 'modern' : 'legacy'), isModern),
      sessionsMax: limits.gateSessionsMax,
      log: options.log,
    }),
    async close() {
      await place.sessions.close()
      await Promise.all([...gates.values()].map(closeGate))
    },
  }
  return place
}
