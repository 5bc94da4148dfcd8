// Tools of a hardware daemon as capabilities: `cap:gpio.set`, with the permission `hardware:gpio.set` from risk 2 on. The daemon's own policy
// still decides. This source lets agents of this server find the tools and use them in a run.
import { connect, type Socket } from 'node:net'
import type { Clock } from '#kernel/ports/clock.ts'
import type { CapabilityManifest } from '#protocols/delegation/capabilities/manifest.ts'
import { createHacpClient, HacpError, type HacpClient, type ListedTool } from '#protocols/hardware/client.ts'
import { CapabilityFailure, type CapabilitySource, type Offer, type SourceLog } from './source.ts'

export type DeviceSettings = { readonly name: string; readonly projects: readonly string[]; readonly socket: string }

/** From this risk on, the task needs a grant. */
const RISK_WITH_PERMISSION = 2
const RETRY_MS = 2_000
/** The pause between calls that keep the session alive: a daemon ends sessions after five idle minutes. */
const BEAT_MS = 60_000

const manifestOf = ({ name, version, description, risk_level, params_schema }: ListedTool): CapabilityManifest => ({
  capability_id: `cap:${name}`,
  version: `${version}.0.0`,
  kind: 'tool',
  name,
  description,
  input_schema: { ...params_schema, type: 'object' },
  output_schema: null,
  prompt_template: null,
  resources: [],
  required_permissions: risk_level >= RISK_WITH_PERMISSION ? [`hardware:${name}`] : [],
})

type Link = {
  readonly client: HacpClient
  readonly session_id: string
  readonly socket: Socket
  readonly tools: ReadonlyMap<string, ListedTool>
}

export function hacpSource(
  { name, projects, socket: path }: DeviceSettings,
  version: string,
  clock: Clock,
  log: SourceLog,
): CapabilitySource {
  const stopping = new AbortController()
  let link: Link | null = null
  let running = Promise.resolve()

  async function open(): Promise<{ readonly link: Link; readonly gone: Promise<void> }> {
    const socket = connect(path)
    const client = createHacpClient('countersign-server', version, (line) => void socket.write(line))
    const gone = new Promise<void>((done) => socket.once('close', () => done()))
    socket.on('data', (bytes: Uint8Array) => client.receive(bytes))
    socket.on('error', (error: NodeJS.ErrnoException) => client.ended(`the daemon cannot be reached (${error.code})`))
    void gone.then(() => client.ended('the daemon has closed the connection'))
    try {
      const { session_id } = await client.open()
      const tools = await client.tools(session_id)
      return { link: { client, session_id, socket, tools: new Map(tools.map((tool) => [tool.name, tool])) }, gone }
    } catch (error) {
      socket.destroy()
      throw error
    }
  }

  async function loop(offer: Offer): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const { link: opened, gone } = await open()
        link = opened
        offer([...opened.tools.values()].map(manifestOf))
        log.info({ source: name, capabilities: opened.tools.size }, 'the tools of a device are offered')
        const isGone = gone.then(() => true)
        while (!stopping.signal.aborted && !(await Promise.race([isGone, clock.sleep(BEAT_MS, stopping.signal).then(() => false)])))
          await opened.client.tools(opened.session_id).catch(() => opened.socket.destroy())
        opened.socket.destroy()
      } catch (error) {
        log.warn({ source: name, error: (error as Error).message }, 'cannot reach a device; retrying')
      }
      link = null
      await clock.sleep(RETRY_MS, stopping.signal)
    }
  }

  return {
    name,
    projects,
    start(offer) {
      running = loop(offer)
    },
    async invoke({ capability_id }, input, signal, { run_id, invocation_id }) {
      const tool = link?.tools.get(capability_id.replace(/^cap:/, ''))
      if (!link || !tool) throw new CapabilityFailure('unreachable', `the device ${name} cannot be reached, or has no ${capability_id}`)
      const { client, session_id } = link
      try {
        const { status, steps, code } = await client.run(session_id, tool.name, input as object, {
          intent: `capability ${capability_id}`,
          signal,
          // W46: `correlation_id` leads from the run to the audit lines of the device; with the key, a retry does not act twice.
          extra: { correlation_id: run_id, idempotency_key: invocation_id },
        })
        const [step] = steps
        if (status === 'SUCCESS') return step!.result ?? {}
        throw new CapabilityFailure('failed', `${step?.code ?? code ?? status}: ${step?.error ?? `the task is ${status}`}`)
      } catch (error) {
        if (error instanceof CapabilityFailure) throw error
        if (error instanceof HacpError) throw new CapabilityFailure('failed', error.message)
        throw new CapabilityFailure('unreachable', (error as Error).message)
      }
    },
    async stop() {
      stopping.abort()
      link?.socket.destroy()
      await running
    },
  }
}
