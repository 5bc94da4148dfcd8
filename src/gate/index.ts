// A gate: its state while it runs, and its transports.
import type { SourceLog } from '#capabilities/source.ts'
import type { McpSettings } from '#capabilities/mcp.ts'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { Readable } from 'node:stream'
import { LineTransport } from '#mcp/wire/line-transport.ts'
import { stateSeal } from '#mcp/wire/request-state.ts'
import type { Gate, GateSettings } from './gate.ts'
import { knownCalls } from './known-calls.ts'
import type { GatePort } from './port.ts'
import { askUser } from './run.ts'
import { sharedWait } from './waiting/shared-wait.ts'
import { serverOf } from './server.ts'
import { upstreamOf, type Era } from './upstream.ts'

export type GateOptions = {
  readonly settings: GateSettings
  readonly server: McpSettings['server']
  readonly port: GatePort
  readonly log: SourceLog
  readonly version: string
  /** Seals states that pass through the client. */
  readonly key: Uint8Array
  /** The owner of these states. */
  readonly agent: string
}

type Notified = (method: string, params: Record<string, unknown>) => void

/** A gate for clients of one family. `notified` gets each notification of the upstream that is passed on to them. */
export function openGate(options: GateOptions, era: Era, notified: Notified): Gate {
  const { settings, port, log, server, version, key, agent } = options
  const gate: Gate = {
    settings,
    port,
    log,
    upstream: upstreamOf({
      settings: { name: settings.name, server },
      log,
      version,
      era,
      passes: settings.passes,
      onAsk: (method, params) => askUser(gate, method, params),
      onNotification(method, params) {
        if (method === 'notifications/tools/list_changed') delete gate.listed.sorted
        notified(method, params)
      },
    }),
    seal: stateSeal(key, agent),
    waits: sharedWait(port.awaitAny),
    known: knownCalls(),
    turns: new Map(),
    running: new Set(),
    recording: new Set(),
    listed: { at: 0 },
  }
  return gate
}

/** Notifications that concern no single request. Progress is passed on with its call. */
export const PASSED = /^notifications\/(?:tools\/list_changed|prompts\/list_changed|resources\/list_changed|resources\/updated|message)$/

/** Resolves when the client has disconnected. */
export async function serveGate(options: GateOptions, input: Readable, output: { write(text: string): unknown }): Promise<void> {
  const servers = new Set<Awaited<ReturnType<typeof serverOf>>>()
  const gates = new Map<Era, Gate>()
  const gateOf = (era: Era): Gate => {
    const gate =
      gates.get(era) ??
      openGate(options, era, (method, { _meta, ...params }) => {
        if (PASSED.test(method)) for (const server of servers) void server.notification({ method, params }).catch(() => undefined)
      })
    gates.set(era, gate)
    return gate
  }
  const serving = serveStdio(
    async ({ era }) => {
      const server = await serverOf(gateOf(era), era === 'modern')
      servers.add(server)
      server.onclose = () => servers.delete(server)
      return server
    },
    {
      transport: new LineTransport(input, output),
      onerror: (error) => options.log.debug({ error: error.message }, 'a client sent what the gate cannot take'),
    },
  )
  await new Promise<void>((done) => input.once('end', done).once('close', done))
  await serving.close()
  await Promise.all([...gates.values()].map(closeGate))
}

/** The time for outcomes of calls to reach the record after the client has disconnected. */
const RECORD_MS = 10_000

/** The upstream ends first: a server that does not answer must not keep its program alive. */
export async function closeGate({ recording, upstream }: Gate): Promise<void> {
  await upstream.close()
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(late.resolve, RECORD_MS)
  await Promise.race([Promise.all(recording), late.promise])
  clearTimeout(timer)
}
