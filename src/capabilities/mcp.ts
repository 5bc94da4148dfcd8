// An MCP server as a source of tools: over stdio as a child process, or over Streamable HTTP. The client library is loaded when the
// first such source starts, so that a server without any stays small.
import { backoffMs } from '#kernel/codec/backoff.ts'
import type { Client, ClientOptions, Tool, Transport } from '@modelcontextprotocol/client'
import type { Clock } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import type { CapabilityManifest } from '#protocols/delegation/capabilities/manifest.ts'
import { StdioTransport } from './mcp-stdio.ts'
import { CapabilityFailure, type CapabilitySource, type Offer, type SourceLog } from './source.ts'

export type McpSettings = {
  readonly name: string
  readonly projects: readonly string[]
  /** The permissions that a grant must allow, by tool, or `*` for every tool. */
  readonly permissions: Readonly<Record<string, readonly string[]>>
  readonly server:
    | { readonly command: string; readonly args: readonly string[]; readonly env: Readonly<Record<string, string>>; readonly cwd?: string }
    | { readonly url: string; readonly headers: Readonly<Record<string, string>> }
}

/** Bounds that tests shrink. */
export type McpBounds = {
  readonly connectMs: number
  readonly backoffMs: number
  readonly backoffMsMax: number
  readonly refreshMs: number
}
const usualBounds: McpBounds = { connectMs: 15_000, backoffMs: 500, backoffMsMax: 60_000, refreshMs: 5 * 60_000 }

/** The bound of a whole answer over HTTP. Over stdio the client library has its own. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024
const PAGES_MAX = 1_000
/** The time to close: a child that does not end by itself is killed within it. */
const CLOSE_MS = 1_000
const SLEEP_MS_MAX = 60_000
const STDERR_CHARS_MAX = 500

type Link = {
  readonly client: Client
  readonly version: string
  /** Tools by the capability that they are offered as. */
  tools: ReadonlyMap<string, Tool>
  /** Marks the connection as unusable: the loop connects again. */
  fail(why: string): void
  close(): Promise<void>
}

export function mcpSource(settings: McpSettings, clock: Clock, log: SourceLog, changed: Partial<McpBounds> = {}): CapabilitySource {
  const { name } = settings
  const bounds = { ...usualBounds, ...changed }
  const stopping = new AbortController()
  let link: Link | null = null
  let running: Promise<void> = Promise.resolve()

  async function refresh(of: Link, offer: Offer): Promise<void> {
    const { tools } = await of.client.listTools({}, { cacheMode: 'refresh', signal: stopping.signal, timeout: bounds.connectMs })
    of.tools = new Map(tools.map((tool) => [capabilityIdOf(name, tool.name), tool]))
    offer(tools.map((tool) => manifestOf(settings, tool, of.version)))
  }

  /** Connects, offers, and stays until the link is lost. */
  async function serve(offer: Offer): Promise<string> {
    const lost = Promise.withResolvers<string>()
    const connected = await connect(
      settings,
      bounds,
      clock,
      log,
      lost.resolve,
      () => void refresh(connected, offer).catch((error: unknown) => connected.fail(mcpMessageOf(error))),
    )
    try {
      await refresh(connected, offer)
      link = connected
      for (;;) {
        const over = new AbortController()
        const why = await Promise.race([lost.promise, sleepFor(clock, bounds.refreshMs, AbortSignal.any([over.signal, stopping.signal]))])
        over.abort()
        if (why !== undefined || stopping.signal.aborted) return why ?? 'stopped'
        await refresh(connected, offer)
      }
    } finally {
      link = null
      await connected.close()
    }
  }

  async function loop(offer: Offer): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted;) {
      const began = clock.now()
      const why = await serve(offer).catch(mcpMessageOf)
      if (stopping.signal.aborted) return
      // After a longer connection the backoff starts again.
      failures = clock.now() - began > bounds.backoffMsMax ? 1 : failures + 1
      log.warn({ source: name, error: why }, 'cannot reach an MCP server; retrying')
      await clock.sleep(backoffMs(bounds.backoffMs, bounds.backoffMsMax, failures - 1), stopping.signal)
    }
  }

  return {
    name,
    projects: settings.projects,
    start(offer) {
      running = loop(offer)
    },
    async invoke({ capability_id }, input, signal) {
      const present = link
      const tool = present?.tools.get(capability_id)
      if (!present) throw new CapabilityFailure('unreachable', `the server behind ${name} cannot be reached at the moment`)
      if (!tool) throw new CapabilityFailure('unreachable', `${capability_id} is no longer offered`)
      return callTool(present, tool, input, signal)
    },
    async stop() {
      stopping.abort()
      await running
    },
  }
}

async function callTool(link: Link, tool: Tool, input: unknown, signal: AbortSignal): Promise<unknown> {
  const timeout = limits.invokeMsMax + SLEEP_MS_MAX
  let result: Awaited<ReturnType<Client['callTool']>>
  try {
    result = await link.client.callTool(
      { name: tool.name, arguments: input as Record<string, unknown> },
      { signal, timeout, toolDefinition: tool },
    )
  } catch (error) {
    // A ProtocolError is an answer of the server. Any other error means that the server might be gone.
    const { ProtocolError } = await import('@modelcontextprotocol/client')
    if (error instanceof ProtocolError) throw new CapabilityFailure('failed', error.message)
    if (!signal.aborted) link.fail(mcpMessageOf(error))
    throw new CapabilityFailure('unreachable', `the server did not answer: ${mcpMessageOf(error)}`)
  }
  const { content, structuredContent, isError } = result
  if (isError) throw new CapabilityFailure('failed', textIn(content) || 'the tool failed and did not say why')
  return structuredContent ?? { content }
}

const textIn = (content: readonly { type: string; text?: unknown }[]): string =>
  content
    .flatMap(({ type, text }) => (type === 'text' && typeof text === 'string' ? [text] : []))
    .join('\n')
    .slice(0, limits.textCharsMax)

// --- Manifests ---------------------------------------------------------------------------------------------------------------

/** Characters that an id cannot hold are percent-encoded. */
export const capabilityIdOf = (source: string, tool: string): string =>
  `cap:${source}/${encodeURIComponent(tool.toWellFormed()).replaceAll(/[!'()*~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)}`

function manifestOf({ name, permissions }: McpSettings, tool: Tool, version: string): CapabilityManifest {
  const required = Object.hasOwn(permissions, tool.name) ? permissions[tool.name] : permissions['*']
  return {
    capability_id: capabilityIdOf(name, tool.name),
    version,
    kind: 'tool',
    name: (tool.title ?? tool.annotations?.title ?? tool.name).slice(0, limits.nameCharsMax) || tool.name,
    description: (tool.description ?? '').slice(0, limits.textCharsMax),
    input_schema: tool.inputSchema,
    output_schema: tool.outputSchema ?? null,
    prompt_template: null,
    resources: [],
    required_permissions: [...(required ?? [])],
  }
}

/** The version of the server, if it is usable in an id. */
const versionOf = (client: Client): string => {
  const version = client.getServerVersion()?.version ?? ''
  return /^[0-9A-Za-z][0-9A-Za-z.+_-]{0,39}$/.test(version) ? version : '0.0.0'
}

// --- Connection --------------------------------------------------------------------------------------------------------------

/** The client library would run the server's patterns on the native engine. */
export const uncheckedOutput: NonNullable<ClientOptions['jsonSchemaValidator']> = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
}

async function connect(
  settings: McpSettings,
  bounds: McpBounds,
  clock: Clock,
  log: SourceLog,
  lost: (why: string) => void,
  onChanged: () => void,
): Promise<Link> {
  const mcp = await import('@modelcontextprotocol/client')
  const client = new mcp.Client(
    { name: 'countersign', version: '1' },
    {
      versionNegotiation: { mode: 'auto', probe: { timeoutMs: bounds.connectMs } },
      // The operation that records the output checks it, with patterns that cannot stall the process.
      jsonSchemaValidator: uncheckedOutput,
      listChanged: { tools: { autoRefresh: false, onChanged } },
      listMaxPages: PAGES_MAX,
    },
  )
  const transport = await mcpTransport(settings, log)
  const close = async (): Promise<void> => {
    const over = new AbortController()
    // A client that never connected does not close its transport.
    const closed = client.close().then(() => transport.close())
    await Promise.race([closed.catch(() => undefined), clock.sleep(CLOSE_MS, over.signal)])
    over.abort()
  }
  client.onclose = () => lost('the connection was closed')
  client.onerror = (error) => log.debug({ source: settings.name, error: mcpMessageOf(error) }, 'an MCP server reported an error')
  try {
    await client.connect(transport, { timeout: bounds.connectMs })
  } catch (error) {
    await close()
    throw error
  }
  return { client, version: versionOf(client), tools: new Map(), fail: lost, close }
}

export async function mcpTransport({ name, server }: Pick<McpSettings, 'name' | 'server'>, log: SourceLog): Promise<Transport> {
  const { StreamableHTTPClientTransport, ReadBuffer, serializeMessage } = await import('@modelcontextprotocol/client')
  if ('url' in server)
    return new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers }, fetch: boundedFetch })
  const { getDefaultEnvironment } = await import('@modelcontextprotocol/client/stdio')
  const { command, args, env, cwd } = server
  return new StdioTransport({
    command,
    args,
    // The child gets the operator's variables, and of this process's environment only basics such as PATH and HOME.
    env: { ...getDefaultEnvironment(), ...env },
    stderr: (part) => log.debug({ source: name, stderr: part.toString().slice(0, STDERR_CHARS_MAX) }, 'an MCP server wrote'),
    codec: { ReadBuffer, serializeMessage },
    ...(cwd === undefined ? {} : { cwd }),
  })
}

/** An answer without end must not fill the memory. */
const boundedFetch: typeof fetch = async (input, init) => {
  // The configured headers must reach only this server, so redirects are errors.
  const answer = await fetch(input, { ...init, redirect: 'error' })
  if (!answer.body) return answer
  let bytes = 0
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, controller) {
      bytes += part.byteLength
      if (bytes > ANSWER_BYTES_MAX) controller.error(new Error(`an answer has at most ${ANSWER_BYTES_MAX} bytes`))
      else controller.enqueue(part)
    },
  })
  const { status, statusText, headers } = answer
  return new Response(answer.body.pipeThrough(counting), { status, statusText, headers })
}

async function sleepFor(clock: Clock, ms: number, signal: AbortSignal): Promise<undefined> {
  for (let left = ms; left > 0 && !signal.aborted; left -= SLEEP_MS_MAX) await clock.sleep(Math.min(left, SLEEP_MS_MAX), signal)
}

/** fetch says "fetch failed" and hides the reason below. */
export function mcpMessageOf(error: unknown): string {
  const { message, cause } = (error ?? {}) as { message?: unknown; cause?: { code?: unknown; message?: unknown } }
  const below = typeof cause?.code === 'string' ? cause.code : typeof cause?.message === 'string' ? cause.message : null
  const text = typeof message === 'string' ? message : String(error)
  return (below === null ? text : `${text} (${below})`).slice(0, STDERR_CHARS_MAX)
}
