// The tools, resources and prompts that the conformance suite of MCP expects of a server, each by the name that the suite fixes.
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  createRequestStateCodec,
  fromJsonSchema,
  inputRequired,
  McpServer,
  ResourceTemplate,
  type CallToolResult,
  type ElicitRequestFormParams,
  type InputRequiredResult,
  type ServerContext,
} from '@modelcontextprotocol/server'

type Answer = CallToolResult | InputRequiredResult
type Content = CallToolResult['content']
type Args = Record<string, unknown>

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const SOUND = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA='
const text = (words: string): { content: Content } => ({ content: [{ type: 'text', text: words }] })
const pause = (): Promise<void> => new Promise((done) => setTimeout(done, 50))

export const states = createRequestStateCodec<Record<string, unknown>>({ key: crypto.getRandomValues(new Uint8Array(32)) })

const objectOf = (
  properties: Record<string, object>,
  required: string[] = [],
): { type: 'object'; properties: Record<string, object>; required: string[] } => ({
  type: 'object',
  properties,
  required,
})
const form = (message: string, name: string) =>
  inputRequired.elicit({ message, requestedSchema: { type: 'object', properties: { [name]: { type: 'string' } }, required: [name] } })
const sample = (words: string) =>
  inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: words } }], maxTokens: 50 })

const choices = {
  untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
  titledSingle: {
    type: 'string',
    oneOf: [
      { const: 'value1', title: 'First Option' },
      { const: 'value2', title: 'Second Option' },
      { const: 'value3', title: 'Third Option' },
    ],
  },
  legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
  untitledMulti: { type: 'array', minItems: 1, maxItems: 3, items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
  titledMulti: {
    type: 'array',
    minItems: 1,
    maxItems: 3,
    items: {
      anyOf: [
        { const: 'value1', title: 'First Choice' },
        { const: 'value2', title: 'Second Choice' },
        { const: 'value3', title: 'Third Choice' },
      ],
    },
  },
}
const usual = {
  name: { type: 'string', default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
}

/** Asks the client as servers before 2026-07-28 did: by a request of its own. */
async function ask(
  { mcpReq }: ServerContext,
  message: string,
  properties: Record<string, object>,
  required: string[] = [],
): Promise<Answer> {
  const params = { message, requestedSchema: objectOf(properties, required) } as ElicitRequestFormParams
  const { action, content } = (await mcpReq.send({ method: 'elicitation/create', params })) as { action: string; content?: object }
  return text(`User response: action=${action}, content=${JSON.stringify(content ?? {})}`)
}
async function askModel(args: Args, { mcpReq }: ServerContext): Promise<Answer> {
  const content = { type: 'text' as const, text: String(args['prompt']) }
  const answer = await mcpReq.send({ method: 'sampling/createMessage', params: { messages: [{ role: 'user', content }], maxTokens: 100 } })
  return text(`LLM response: ${(answer as { content?: { text?: string } }).content?.text ?? 'none'}`)
}

async function logged(_: Args, { mcpReq }: ServerContext): Promise<Answer> {
  for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
    await mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } })
    await pause()
  }
  return text('logged')
}
async function progressing(_: Args, { mcpReq }: ServerContext): Promise<Answer> {
  const { progressToken } = mcpReq._meta ?? {}
  for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
    await mcpReq.notify({ method: 'notifications/progress', params: { progressToken: progressToken!, progress, total: 100 } })
    await pause()
  }
  return text(String(progressToken ?? 'no-progress-token'))
}

async function severalInputs(_: Args, { mcpReq: { inputResponses: given } }: ServerContext): Promise<Answer> {
  const name = acceptedContent<{ name: string }>(given, 'user_name')?.name
  const { greeting, client_roots: roots } = (given ?? {}) as Record<string, { content?: { text?: string }; roots?: unknown[] }>
  if (name === undefined || greeting?.content?.text === undefined || !Array.isArray(roots?.roots))
    return inputRequired({
      inputRequests: { user_name: form('What is your name?', 'name'), greeting: sample('Greet'), client_roots: inputRequired.listRoots() },
      requestState: await states.mint({ tool: 'several' }),
    })
  return text(`${greeting.content.text} ${name}, ${roots.roots.length} roots`)
}
async function severalRounds(_: Args, { mcpReq }: ServerContext): Promise<Answer> {
  const round = Number(mcpReq.requestState<Record<string, unknown>>()?.['round'] ?? 0)
  if (round === 2) return text(`done: ${JSON.stringify(acceptedContent(mcpReq.inputResponses, 'step2'))}`)
  const inputRequests = round === 0 ? { step1: form('Your name?', 'name') } : { step2: form('Your color?', 'color') }
  return inputRequired({ inputRequests, requestState: await states.mint({ round: round + 1, at: Date.now() }) })
}
async function confirmed(_: Args, { mcpReq }: ServerContext): Promise<Answer> {
  const isConfirmed = acceptedContent(mcpReq.inputResponses, 'confirm') !== undefined
  if (isConfirmed && mcpReq.requestState() !== undefined) return text('state-ok: requestState verified')
  return inputRequired({ inputRequests: { confirm: form('Please confirm', 'ok') }, requestState: await states.mint({ at: Date.now() }) })
}
async function declaredInputs(_: Args, { mcpReq }: ServerContext): Promise<Answer> {
  if (mcpReq.inputResponses !== undefined) return text('fulfilled')
  const declared = (mcpReq.envelope ?? {}) as Record<string, Record<string, unknown> | undefined>
  const { elicitation, sampling, roots } = declared[CLIENT_CAPABILITIES_META_KEY] ?? {}
  const inputRequests = {
    ...(elicitation === undefined ? {} : { user_name: form('What is your name?', 'name') }),
    ...(sampling === undefined ? {} : { greeting: sample('Greet') }),
    ...(roots === undefined ? {} : { client_roots: inputRequired.listRoots() }),
  }
  return Object.keys(inputRequests).length === 0 ? text('nothing is declared') : inputRequired({ inputRequests })
}

type Notifier = { toolsChanged(): void; promptsChanged(): void }
type Run = (args: Args, context: ServerContext) => Promise<Answer> | Answer
const onceAsked =
  (key: string, request: ReturnType<typeof form>, answerOf: (given: Args) => Answer | null): Run =>
  (_, { mcpReq }) => {
    const given = mcpReq.inputResponses?.[key]
    const answer = given === undefined ? null : answerOf(given as Args)
    return answer ?? inputRequired({ inputRequests: { [key]: request } })
  }
const greeted = onceAsked('user_name', form('What is your name?', 'name'), (given) => {
  const name = (given['content'] as { name?: unknown } | undefined)?.name
  return given['action'] === 'accept' && typeof name === 'string' ? text(`Hello, ${name}!`) : null
})

const tools: Readonly<Record<string, Run>> = {
  test_simple_text: () => text('This is a simple text response for testing.'),
  test_image_content: () => ({ content: [{ type: 'image', data: PIXEL, mimeType: 'image/png' }] }),
  test_audio_content: () => ({ content: [{ type: 'audio', data: SOUND, mimeType: 'audio/wav' }] }),
  test_embedded_resource: () => ({
    content: [{ type: 'resource', resource: { uri: 'test://embedded', mimeType: 'text/plain', text: 'embedded' } }],
  }),
  test_multiple_content_types: () => ({
    content: [
      { type: 'text', text: 'Multiple content types test:' },
      { type: 'image', data: PIXEL, mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'test://mixed', mimeType: 'application/json', text: '{"test":"data"}' } },
    ],
  }),
  test_tool_with_logging: logged,
  test_logging_tool: async (_, { mcpReq }) => (await mcpReq.log('info', 'only where it is asked for'), text('logged')),
  test_tool_with_progress: progressing,
  test_error_handling: () => ({ ...text('This tool intentionally returns an error for testing'), isError: true }),
  test_streaming_elicitation: () => text('only results'),
  test_reconnection: () => text('answered'),
  test_sampling: askModel,
  test_elicitation: (args, context) => ask(context, String(args['message']), { response: { type: 'string' } }, ['response']),
  test_elicitation_sep1034_defaults: (_, context) => ask(context, 'Please review the defaults', usual),
  test_elicitation_sep1330_enums: (_, context) => ask(context, 'Please select', choices),
  test_missing_capability: onceAsked('llm_answer', sample('pong'), () => text('sampled')),
  test_input_required_result_elicitation: greeted,
  test_input_required_result_sampling: onceAsked('capital_question', sample('What is the capital of France?'), (given) =>
    text(JSON.stringify(given)),
  ),
  test_input_required_result_list_roots: onceAsked('client_roots', inputRequired.listRoots(), (given) => text(JSON.stringify(given))),
  test_input_required_result_request_state: confirmed,
  test_input_required_result_tampered_state: confirmed,
  test_input_required_result_multiple_inputs: severalInputs,
  test_input_required_result_multi_round: severalRounds,
  test_input_required_result_capabilities: declaredInputs,
}

const schema2020 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object' as const,
  $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}
const marked = { type: 'object' as const, properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } }

/** A server as the suite wants it. `notifier` tells listeners of changes. */
export function fixtureServer(notifier: () => Notifier): McpServer {
  const server = new McpServer(
    { name: 'fixture', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
      requestState: { verify: states.verify },
    },
  )
  const add = (name: string, schema: object, run: Run): void => {
    const inputSchema = fromJsonSchema<Args>({ type: 'object', ...schema })
    server.registerTool(name, { description: name, inputSchema }, (args, context) => run(args, context))
  }
  for (const [name, run] of Object.entries(tools)) add(name, {}, run)
  add('json_schema_2020_12_tool', schema2020, (args) => text(JSON.stringify(args)))
  add('test_x_mcp_header', marked, ({ region }) => text(`region ${String(region)}`))
  add('test_trigger_tool_change', {}, () => (notifier().toolsChanged(), text('told')))
  add('test_trigger_prompt_change', {}, () => (notifier().promptsChanged(), text('told')))
  addResources(server)
  addPrompts(server)
  return server
}

function addResources(server: McpServer): void {
  const fixed = {
    'test://static-text': { text: 'static' },
    'test://watched-resource': { text: 'watched' },
    'test://static-binary': { blob: PIXEL },
  }
  for (const [uri, body] of Object.entries(fixed)) {
    const mimeType = 'blob' in body ? 'image/png' : 'text/plain'
    server.registerResource(uri.slice(7), uri, { mimeType }, async () => ({ contents: [{ uri, mimeType, ...body }] }))
  }
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined })
  server.registerResource('template', template, { mimeType: 'application/json' }, async ({ href }, { id }) => ({
    contents: [{ uri: href, mimeType: 'application/json', text: JSON.stringify({ id, data: `Data for ID: ${String(id)}` }) }],
  }))
  server.server.setRequestHandler('resources/subscribe', () => ({}))
  server.server.setRequestHandler('resources/unsubscribe', () => ({}))
  server.server.setRequestHandler('logging/setLevel', () => ({}))
  server.server.setRequestHandler('completion/complete', () => ({ completion: { values: ['paris', 'park'], total: 2, hasMore: false } }))
}

function addPrompts(server: McpServer): void {
  const say = (content: Content[number]) => ({ messages: [{ role: 'user' as const, content }] })
  const named = (...names: string[]) =>
    fromJsonSchema<Record<string, string>>(objectOf(Object.fromEntries(names.map((name) => [name, { type: 'string' }])), names))
  server.registerPrompt('test_simple_prompt', { description: 'simple' }, () => say({ type: 'text', text: 'This is a simple prompt.' }))
  server.registerPrompt('test_prompt_with_image', { description: 'image' }, () =>
    say({ type: 'image', data: PIXEL, mimeType: 'image/png' }),
  )
  server.registerPrompt('test_prompt_with_arguments', { description: 'arguments', argsSchema: named('arg1', 'arg2') }, ({ arg1, arg2 }) =>
    say({ type: 'text', text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` }),
  )
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'resource', argsSchema: named('resourceUri') },
    ({ resourceUri = '' }) => say({ type: 'resource', resource: { uri: resourceUri, mimeType: 'text/plain', text: 'embedded' } }),
  )
  server.registerPrompt('test_input_required_result_prompt', { description: 'asks', argsSchema: named() }, (_, { mcpReq }) => {
    const context = acceptedContent<{ context: string }>(mcpReq.inputResponses, 'user_context')?.context
    if (context !== undefined) return say({ type: 'text', text: `Use the following context: ${context}` })
    return inputRequired({ inputRequests: { user_context: form('What context should the prompt use?', 'context') } })
  })
}
