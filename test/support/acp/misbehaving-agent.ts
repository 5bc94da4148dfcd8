// A fake ACP agent without the SDK: it does what its prompt says, one word after another, and behaves as real agents were seen to. What it runs
// is a line in EFFECTS; what it hears is a line in HEARD.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { mutated, numbers } from '../laws/mutations.ts'

type Fields = Record<string, any>
const { EFFECTS = '/dev/null', HEARD = '/dev/null', SESSIONS = '', STEPS = '', ABILITIES = 'resume', MODES = '' } = process.env
const say = (message: Fields): boolean => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const heard = (what: string): void => appendFileSync(HEARD, `${what}\n`)
const waiting = new Map<string, (answer: Fields) => void>()
let ids = 0
let isCancelled = false
let session = ''

const ask = (method: string, params: Fields): Promise<Fields> =>
  new Promise((done) => {
    const id = `p${++ids}`
    waiting.set(id, done)
    say({ id, method, params })
  })
const update = (fields: Fields, sessionId = session): boolean => say({ method: 'session/update', params: { sessionId, update: fields } })
const text = (words: string): boolean => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: words } })
const options = ['allow_always', 'allow_once', 'reject_once', 'reject_always'].map((kind) => ({ kind, optionId: `o_${kind}`, name: kind }))
const memory = (): string[] => (existsSync(SESSIONS) ? readFileSync(SESSIONS, 'utf8').split('\n').filter(Boolean) : [])

async function permit(what: string, over: Fields = {}): Promise<boolean> {
  const toolCallId = `t${++ids}`
  update({ sessionUpdate: 'tool_call', toolCallId, title: what, kind: 'execute', status: 'pending', rawInput: { command: what } })
  const { result, error } = await ask('session/request_permission', {
    sessionId: session,
    toolCall: { toolCallId, title: what },
    options,
    ...over,
  })
  heard(`${what} ${result?.outcome?.optionId ?? result?.outcome?.outcome ?? `error ${error?.code}`}`)
  if (result?.outcome?.optionId !== 'o_allow_once') return false
  appendFileSync(EFFECTS, `${what}\n`)
  update({ sessionUpdate: 'tool_call_update', toolCallId, status: 'completed' })
  return true
}

/** Messages with a part out of place, each on one line. */
function fuzz(seed: number, count: number): void {
  const pick = numbers(seed)
  const toolCall = { toolCallId: 'fuzzed', title: 'rm', kind: 'execute', rawInput: { command: 'rm' } }
  const shapes: ((id: string) => Fields)[] = [
    (id) => ({ id, method: 'session/request_permission', params: { sessionId: session, toolCall, options } }),
    (id) => ({ id, method: 'fs/read_text_file', params: { sessionId: session, path: '/etc/hostname' } }),
    () => ({ method: 'session/update', params: { sessionId: session, update: { sessionUpdate: 'tool_call', ...toolCall } } }),
    () => ({ method: 'session/update', params: { sessionId: session, update: { sessionUpdate: 'plan', entries: [] } } }),
    (id) => ({ method: '$/cancel_request', params: { requestId: id } }),
    (id) => ({ id, result: { outcome: { outcome: 'selected', optionId: 'o_allow_once' } } }),
  ]
  for (let i = 0; i < count; i++) {
    const text = JSON.stringify({ jsonrpc: '2.0', ...shapes[pick(shapes.length)]!(`f${i}`) })
    process.stdout.write(
      `${mutated(text, pick)
        .toString()
        .replaceAll(/[\r\n]/g, ' ')}\n`,
    )
  }
}

/** The steps of the n-th prompt of all processes are the n-th line of STEPS; the last line counts for the rest. */
const acts: Record<string, (argument: string) => unknown> = {
  say: text,
  fuzz: (words) => fuzz(Number(words.split(' ')[0]), Number(words.split(' ')[1])),
  run: (what) => permit(what),
  // Ends its turn with a refusal, as most agents do.
  runOrEnd: async (what) => (await permit(what)) || 'end_turn',
  runOrCancelled: async (what) => (await permit(what)) || 'cancelled',
  both: (what) => Promise.all(what.split('+').map((one) => permit(one))),
  write: (path) => writeFileSync(path, `written by ${session}\n`),
  outside: (path) => permit('edit', { toolCall: { toolCallId: 't_out', title: 'edit', content: [{ type: 'diff', path, newText: 'x' }] } }),
  bare: (what) => permit(what, { toolCall: { toolCallId: 'bare', title: what } }),
  noId: () => permit('noId', { options: [{ kind: 'allow_once', name: 'x' }] }),
  twice: () => permit('twice', { options: [options[1], { ...options[2], optionId: 'o_allow_once' }] }),
  foreign: () => permit('foreign', { sessionId: 'nobody' }),
  large: (bytes) => permit('large', { toolCall: { toolCallId: 'large', title: 'large', rawInput: { x: 'x'.repeat(Number(bytes)) } } }),
  onlyAlways: () => permit('onlyAlways', { options: [options[0], options[3]] }),
  stray: () => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'not mine' } }, 'nobody'),
  junk: () => process.stdout.write('Warning: not a message\n[]\n{"id":"p999","result":{}}\n'),
  long: () => process.stdout.write(`"${'x'.repeat(9 * 1024 * 1024)}"\n`),
  plan: (what) => update({ sessionUpdate: 'plan', entries: [{ content: what, priority: 'high', status: 'in_progress' }] }),
  recall: () => text(memory().join(',')),
  die: () => process.kill(process.pid, 'SIGKILL'),
  stop: (reason) => reason,
  read: async (path) => {
    const { result, error } = await ask('fs/read_text_file', { sessionId: session, path })
    heard(`read ${result ? JSON.stringify(result.content) : `error ${error?.code}`}`)
  },
  fill: async (path) => {
    const { error } = await ask('fs/write_text_file', { sessionId: session, path, content: 'x'.repeat(1_000_000) })
    heard(`fill ${error ? `error ${error.code}` : 'ok'}`)
  },
  put: async (path) => {
    const { error } = await ask('fs/write_text_file', { sessionId: session, path, content: `put by ${session}` })
    heard(`put ${error ? `error ${error.code}` : 'ok'}`)
  },
  rest: (ms) => new Promise<void>((done) => setTimeout(done, Number(ms))),
  idle: async () => {
    while (!isCancelled) await new Promise((done) => setTimeout(done, 20))
  },
}

async function prompt(id: unknown, words: string): Promise<void> {
  isCancelled = false
  appendFileSync(`${STEPS}.prompts`, `${JSON.stringify(words)}\n`)
  if (SESSIONS !== '') appendFileSync(SESSIONS, `${/codeword (\w+)/.exec(words)?.[1] ?? ''}\n`)
  const lines = readFileSync(STEPS, 'utf8').trim().split('\n')
  const number = readFileSync(`${STEPS}.prompts`, 'utf8').trim().split('\n').length
  let stopReason = 'end_turn'
  for (const step of (lines[number - 1] ?? lines.at(-1)!).split(';')) {
    const [name = '', ...rest] = step.trim().split(' ')
    const end = await acts[name]!(rest.join(' '))
    if (typeof end === 'string') stopReason = end
    if (typeof end === 'string' || isCancelled) break
  }
  say({ id, result: { stopReason: isCancelled ? 'cancelled' : stopReason } })
}

const modes =
  MODES === '' ? {} : { modes: { currentModeId: 'auto', availableModes: MODES.split(',').map((mode) => ({ id: mode, name: mode })) } }
const methods: Record<string, (params: Fields, id: unknown) => unknown> = {
  initialize: () => ({
    protocolVersion: ABILITIES.includes('future') ? 99 : 1,
    agentInfo: { name: 'fake', version: '1' },
    agentCapabilities: {
      loadSession: ABILITIES.includes('load'),
      sessionCapabilities: ABILITIES.includes('resume') ? { resume: {} } : {},
      _meta: ABILITIES.includes('steer') ? { steering: { supported: true } } : {},
    },
  }),
  'session/new': () => {
    session = `s_${process.pid}`
    return { sessionId: session, ...modes }
  },
  'session/resume': ({ sessionId }) => {
    session = sessionId
    return modes
  },
  'session/load': ({ sessionId }) => {
    session = sessionId
    text('an old delivery')
    setTimeout(() => text('a late part of the old delivery'), 300)
    return modes
  },
  'session/set_mode': ({ modeId }) => {
    heard(`mode ${modeId}`)
    return {}
  },
  '_session/steering': ({ prompt: [{ text: words }] }) => {
    heard(`steering ${words}`)
    return {}
  },
}

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const message = JSON.parse(line) as Fields
    if (message['method'] === undefined) {
      if (!waiting.has(message['id'])) return heard(`stray ${line}`)
      waiting.get(message['id'])!(message)
      return void waiting.delete(message['id'])
    }
    if (message['method'] === 'session/prompt') return void prompt(message['id'], message['params'].prompt[0].text)
    if (message['method'] === 'session/cancel') {
      heard(`cancel with ${waiting.size} open`)
      return void (isCancelled = true)
    }
    const answer = methods[message['method']]
    if (answer) say({ id: message['id'], result: answer(message['params'], message['id']) })
    else if (message['id'] !== undefined) say({ id: message['id'], error: { code: -32601, message: 'unknown' } })
  })
  .on('close', () => process.exit(0))
