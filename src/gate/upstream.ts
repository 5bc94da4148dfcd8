// The upstream of a gate: one connection to the MCP server behind it, of either family of revisions, made again after a crash.
import type {
  Client,
  CreateMessageResult,
  ElicitResult,
  ListRootsResult,
  RequestOptions,
  StandardSchemaV1,
  Tool,
} from '@modelcontextprotocol/client'
import { mcpMessageOf, mcpTransport, uncheckedOutput, type McpSettings } from '#capabilities/mcp.ts'
import type { SourceLog } from '#capabilities/source.ts'

export type Result = Record<string, unknown>
/** The two families of revisions: 2026-07-28, and revisions with `initialize`. */
export type Era = 'modern' | 'legacy'
/** Answers a question that the server asks its client while a call runs. */
export type Asked = (method: string, params: Result) => Promise<Result>

export type UpstreamOptions = {
  readonly settings: Pick<McpSettings, 'name' | 'server'>
  readonly log: SourceLog
  readonly version: string
  /** The revisions that the client speaks; the server gets the same if it can. */
  readonly era: Era
  /** A notification of the server, to be passed on. */
  onNotification(method: string, params: Result): void
  readonly onAsk: Asked
  /** Requests of the server that are answered, in addition to elicitation. */
  readonly passes: readonly ('sampling/createMessage' | 'roots/list')[]
}

export type Upstream = {
  link(): Promise<Link>
  close(): Promise<void>
}
export type Link = {
  readonly client: Client
  readonly isModern: boolean
  tools(): Promise<readonly Tool[]>
  request(method: string, params: Result, options: Pick<RequestOptions, 'signal' | 'onprogress' | 'headers'>): Promise<Result>
}

/** A tool can take days; the timeout of the MCP client must not end it. */
const CALL_MS_MAX = 2 ** 31 - 1
const CONNECT_MS = 30_000
const PAGES_MAX = 1_000
const LISTS = ['tools', 'prompts', 'resources'] as const

const anything: StandardSchemaV1<Result, Result> = {
  '~standard': { version: 1, vendor: 'countersign', validate: (value) => ({ value: value as Result }) },
}

export function upstreamOf(options: UpstreamOptions): Upstream {
  let present: Promise<Link> | null = null
  let isClosed = false
  const forget = (link: Promise<Link>): void => {
    if (present === link) present = null
  }
  return {
    link() {
      if (isClosed) return Promise.reject(new Error('the gate is closed'))
      if (present) return present
      const onLost = (): void => forget(connecting)
      const { era } = options
      const connecting: Promise<Link> =
        era === 'modern' ? connect(options, 'auto', onLost) : connect(options, era, onLost).catch(() => connect(options, 'auto', onLost))
      present = connecting
      connecting.catch(() => forget(connecting))
      return connecting
    },
    async close() {
      isClosed = true
      const link = await present?.catch(() => null)
      await link?.client.close().catch(() => undefined)
    },
  }
}

async function connect(options: UpstreamOptions, mode: 'auto' | 'legacy', onLost: () => void): Promise<Link> {
  const { settings, log, version, passes, onAsk, onNotification } = options
  const mcp = await import('@modelcontextprotocol/client')
  const client = new mcp.Client(
    { name: 'countersign-gate', version },
    {
      capabilities: {
        elicitation: { form: {}, url: {} },
        ...(passes.includes('sampling/createMessage') ? { sampling: {} } : {}),
        ...(passes.includes('roots/list') ? { roots: {} } : {}),
      },
      versionNegotiation: mode === 'auto' ? { mode, probe: { timeoutMs: CONNECT_MS } } : { mode },
      inputRequired: { autoFulfill: false },
      // The client of the gate checks results against the tool's schema; patterns of others are not run here.
      jsonSchemaValidator: uncheckedOutput,
      listMaxPages: PAGES_MAX,
    },
  )
  client.setRequestHandler('elicitation/create', ({ params }) => onAsk('elicitation/create', params as Result) as Promise<ElicitResult>)
  if (passes.includes('sampling/createMessage'))
    client.setRequestHandler(
      'sampling/createMessage',
      ({ params }) => onAsk('sampling/createMessage', params as Result) as Promise<CreateMessageResult>,
    )
  if (passes.includes('roots/list')) client.setRequestHandler('roots/list', () => onAsk('roots/list', {}) as Promise<ListRootsResult>)
  client.fallbackNotificationHandler = async ({ method, params }) => onNotification(method, params ?? {})
  client.onclose = onLost
  client.onerror = (error) => log.debug({ source: settings.name, error: mcpMessageOf(error) }, 'an MCP server reported an error')
  const transport = await mcpTransport(settings, log)
  try {
    await client.connect(transport, { timeout: CONNECT_MS })
  } catch (error) {
    await transport.close().catch(() => undefined)
    throw error
  }
  await follow(client, log, settings.name)
  return {
    client,
    isModern: client.getProtocolEra() === 'modern',
    tools: async () => (await client.listTools({}, { cacheMode: 'refresh', timeout: CONNECT_MS })).tools,
    request: (method, params, more) =>
      client.request({ method, params }, anything, { ...more, timeout: CALL_MS_MAX, allowInputRequired: true }),
  }
}

/** A server of 2026-07-28 sends notifications of changes only to subscribed clients. */
async function follow(client: Client, log: SourceLog, source: string): Promise<void> {
  if (client.getProtocolEra() !== 'modern') return
  const can = client.getServerCapabilities() ?? {}
  const wanted = LISTS.filter((list) => can[list]?.listChanged === true)
  if (wanted.length === 0) return
  const filter = Object.fromEntries(wanted.map((list) => [`${list}ListChanged`, true]))
  await client
    .listen(filter)
    .catch((error: unknown) => log.debug({ source, error: mcpMessageOf(error) }, 'an MCP server takes no subscription'))
}
