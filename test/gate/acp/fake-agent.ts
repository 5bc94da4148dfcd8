// An ACP agent for tests, on lines alone. Each prompt is a list of orders; an allowed call leaves a line in the file EFFECTS, and so does each
// answer to a question that it did not ask.
import { appendFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

type Message = { id?: string | number; method?: string; params?: any; result?: any; error?: any }
type Order = {
  /** Asks permission for a call with these fields, and runs it if it is allowed. */
  ask?: Record<string, unknown>
  options?: unknown
  session?: string
  /** Does not wait for the answer before the next order. */
  go?: boolean
  /** Written as it is. */
  raw?: string
  /** Written so many times, on one line. */
  long?: number
  withdraw?: string
  id?: string | number
  update?: Record<string, unknown>
  exit?: number
  env?: boolean
}

const effects = process.env['EFFECTS']!
const note = (text: string): void => appendFileSync(effects, `${text}\n`)
const say = (message: Message): void => void process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const waiting = new Map<string | number, (message: Message) => void>()
let ids = 0
const CANCEL_MS = 500
let isCancelled = false
const usual = ['allow_once', 'allow_always', 'reject_once'].map((kind) => ({ kind, optionId: kind, name: kind }))
const modes = JSON.parse(process.env['MODES'] ?? 'null') as { currentModeId: string } | null

async function follow(order: Order, sessionId: string): Promise<void> {
  if (order.raw !== undefined) process.stdout.write(`${order.raw}\n`)
  if (order.long !== undefined) process.stdout.write(`"${'x'.repeat(order.long)}"\n`)
  if (order.withdraw !== undefined) say({ method: '$/cancel_request', params: { requestId: order.withdraw } })
  if (order.update) say({ method: 'session/update', params: { sessionId, update: order.update } })
  if (order.env)
    note(
      `env ${Object.keys(process.env)
        .filter((name) => name.startsWith('COUNTERSIGN') && name !== 'COUNTERSIGN_TEST_GUARD')
        .sort()
        .join(',')} ${process.env['COUNTERSIGN_AGENT']}`,
    )
  if (order.exit !== undefined) process.exit(order.exit)
  if (!order.ask) return
  const id = order.id ?? `p${++ids}`
  const toolCall = { toolCallId: `call-${id}`, ...order.ask }
  const { promise: run, resolve } = Promise.withResolvers<void>()
  waiting.set(id, ({ result, error }) => {
    const outcome = error ? `error ${error.message}` : (result?.outcome?.optionId ?? result?.outcome?.outcome)
    note(`${id} ${outcome}`)
    if (outcome === 'allow_once')
      say({
        method: 'session/update',
        params: {
          sessionId,
          update: { sessionUpdate: 'tool_call_update', toolCallId: toolCall.toolCallId, status: 'completed', rawOutput: 'ok' },
        },
      })
    // A cancel of the turn follows its questions: an agent that ends immediately would not have read it.
    if (outcome === 'cancelled') setTimeout(resolve, CANCEL_MS)
    else resolve()
  })
  say({
    id,
    method: 'session/request_permission',
    params: { sessionId: order.session ?? sessionId, toolCall, options: order.options ?? usual },
  })
  if (!order.go) await run
}

async function handle({ id, method, params, result, error }: Message): Promise<void> {
  if (method === undefined) {
    const done = waiting.get(id!)
    if (!done) return note(`stray ${id}`)
    waiting.delete(id!)
    return done({ result, error })
  }
  if (method === 'initialize')
    return say({ id: id!, result: { protocolVersion: 1, agentCapabilities: {}, agentInfo: { name: 'fake', version: '7' } } })
  if (method === 'session/new')
    return say({ id: id!, result: { sessionId: 's1', ...(modes ? { modes } : {}), ...JSON.parse(process.env['OPTIONS'] ?? '{}') } })
  if (method === 'session/set_mode') {
    note(`mode ${params.modeId}`)
    return say({ id: id!, result: {} })
  }
  if (method === 'session/set_config_option') {
    note(`option ${params.configId} ${params.value}`)
    return say({ id: id!, result: { configOptions: [] } })
  }
  if (method === 'session/cancel') {
    note('cancel')
    isCancelled = true
    return
  }
  if (method !== 'session/prompt')
    return id === undefined ? undefined : say({ id, error: { code: -32_601, message: `no method ${method}` } })
  isCancelled = false
  for (const order of JSON.parse(params.prompt[0].text) as Order[]) if (!isCancelled) await follow(order, params.sessionId)
  say({ id: id!, result: { stopReason: isCancelled ? 'cancelled' : 'end_turn' } })
}

createInterface({ input: process.stdin })
  .on('line', (line) => void handle(JSON.parse(line) as Message))
  .on('close', () => process.exit(0))
