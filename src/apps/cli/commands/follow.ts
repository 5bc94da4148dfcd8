// Commands that follow a stream, one line per event. They reconnect when the connection is lost; Ctrl-C ends them.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import type { AuditEvent } from '#protocols/collaboration/record/audit-view.ts'
import { cloudEventOf } from '#protocols/collaboration/record/cloud-event.ts'
import { exits, usage, type Exit } from '../exit-codes.ts'
import { derivedSpec, inputOf } from '../derive/from-operation.ts'
import { flag } from '../derive/flags.ts'
import type { AnyOutput } from '../remote/remote.ts'
import { styleOf, writeJson } from '../output/render.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { columnsOf, type Paint } from '../terminal.ts'
import { cutToWidth, escapeControl, padToWidth, widthOf } from '../output/safe-text.ts'

const afterFlag = flag('after', 'cursor', 'start after this cursor; `latest` shows new events alone')

type Event = {
  readonly at: string
  readonly action: string
  readonly actor: string
  readonly subject: { readonly kind: string; readonly id: string }
  readonly behalf: string | null
  readonly detail: AnyOutput | null
  readonly changes: readonly { readonly kind: string; readonly id: string; readonly after: AnyOutput | null }[]
}

/** AAP's own shape of an event. */
type RunEvent = {
  readonly at: string
  readonly type: string
  readonly run_id: string
  readonly agent_id: string | null
  readonly payload: AnyOutput
}
/** An event of a session with another harness. */
type SessionEvent = { readonly at: string; readonly sequence: number; readonly event_type: string; readonly data: AnyOutput }
type AnyEvent = Event | RunEvent | SessionEvent
const isOfSession = (event: AnyEvent): event is SessionEvent => 'event_type' in event
const isOfRun = (event: AnyEvent): event is RunEvent => 'run_id' in event

/** A program that reads so many lines would have to close the pipe, which is noticed with the next event only. */
const countFlag = flag('count', 'number', 'end after so many events', { kind: 'integer' })

const RECORD = 'audit.follow'
const formatFlag = flag('format', 'format', 'each event as one line of another format: cloudevents', { choices: ['cloudevents'] })

export function streamSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const commandSpec: Spec = {
    ...derived,
    flags: [...derived.flags, afterFlag, countFlag, ...(op.name === RECORD ? [formatFlag] : [])],
    run: async (context, given) => {
      const input = await inputOf(context, op, commandSpec, given)
      const after = (given.get('after') as string | undefined) ?? null
      // A follower of one run has seen all of it when it ends.
      const ofOne = (input as { run_id?: unknown }).run_id !== undefined
      const count = (given.get('count') as number | undefined) ?? Infinity
      if (count < 1) throw usage('--count is at least 1')
      let seen = 0
      const isOver = (event: AnyEvent): boolean => ++seen >= count || hasEnded(event)
      const hasEnded = (event: AnyEvent): boolean =>
        isOfSession(event) ? event.event_type === 'session_closed' : ofOne && isOfRun(event) && endings.includes(event.type)
      return follow(context, derived.operation!, input, { after, isOver, asCloudEvents: given.get('format') === 'cloudevents' })
    },
  }
  return commandSpec
}

export const taskFollow = spec('task follow', 'Watch a task live, from its first event until it ends.', {
  positionals: [{ ...flag('task-id', 'id', 'the task'), path: ['task_id'], required: true }],
  flags: [afterFlag, flag('keep', null, 'keep following after the task has ended')],
  examples: [
    'countersign task follow task_1',
    'countersign task follow task_1 --after latest',
    'countersign task follow task_1 --json | jq .event.action',
  ],
  run: (context, given) => {
    const task_id = given.get('task-id') as string
    const isOver = (event: AnyEvent): boolean =>
      given.get('keep') !== true && !isOfRun(event) && !isOfSession(event) && event.changes.some((change) => endedIn(change, task_id))
    const after = (given.get('after') as string | undefined) ?? null
    return follow(context, 'collaboration/audit.follow', { task_id }, { after, isOver })
  },
})

const endedIn = ({ kind, id, after }: Event['changes'][number], task_id: string): boolean =>
  kind === 'task' && id === task_id && (after?.['state'] === 'completed' || after?.['state'] === 'rejected')

type Following = { readonly after: string | null; isOver(event: AnyEvent): boolean; readonly asCloudEvents?: boolean }

async function follow(
  context: Context,
  operation: string,
  input: object,
  { after, isOver, asCloudEvents = false }: Following,
): Promise<Exit> {
  const remote = await context.remote()
  const leaving = new AbortController()
  const leave = (): void => leaving.abort()
  process.once('SIGINT', leave)
  process.once('SIGTERM', leave)
  try {
    for await (const { cursor, item } of remote.follow(operation, input, { after, signal: leaving.signal })) {
      const event = (item['event'] ?? item) as AnyEvent
      if (asCloudEvents) writeJson(context, cloudEventOf(item['event'] as AuditEvent, remote.where), 0)
      else if (context.json) writeJson(context, { cursor, ...item }, 0)
      else context.io.out.write(`${shownLine(event, context)}\n`)
      if (isOver(event)) return exits.ok
    }
  } finally {
    process.off('SIGINT', leave)
    process.off('SIGTERM', leave)
  }
  return exits.interrupted
}

type Style = Parameters<Paint>[0]
type Part = {
  readonly text: string
  readonly style?: Style | null
  /** Padded to this width if another part follows. */ readonly width?: number
}
const INDENT = '    '

const shownLine = (event: AnyEvent, context: Context): string =>
  layOut(
    (isOfSession(event) ? sessionParts(event) : isOfRun(event) ? runParts(event) : recordParts(event)).filter(({ text }) => text !== ''),
    context,
  )

/** One line; on a narrower terminal the parts that do not fit go on indented lines, and a part longer than a line is cut. */
function layOut(parts: readonly Part[], { io, paint }: Context): string {
  const room = io.out.isTTY === true ? columnsOf(io.out) : Infinity
  const lines: { text: string; width: number }[] = []
  for (const { text, style = null, width = 0 } of parts) {
    const last = lines.at(-1)
    const isFitting = last !== undefined && last.width + 2 + widthOf(text) <= room
    const before = isFitting ? `${last.text}  ` : last === undefined ? '' : INDENT
    const used = isFitting ? last.width + 2 : before.length
    const shown = padToWidth(cutToWidth(text, room - used), Math.min(width, room - used))
    const line = { text: before + (style === null ? shown : paint(style, shown)), width: used + widthOf(shown) }
    lines.splice(isFitting ? -1 : lines.length, 1, line)
  }
  return lines.map(({ text }) => text.trimEnd()).join('\n')
}

function recordParts({ at, action, actor, subject, behalf, changes, detail }: Event): Part[] {
  const state = changes.find(({ kind }) => kind === 'task')?.after?.['state']
  const prompt = changes.find(({ kind, after }) => kind === 'checkpoint' && after?.['state'] === 'pending')?.after?.['prompt']
  return [
    { text: escapeControl(at), style: 'dim' },
    { text: escapeControl(action), width: 26 },
    { text: behalf === null ? escapeControl(actor) : `${escapeControl(actor)} for ${escapeControl(behalf)}`, width: 16 },
    { text: escapeControl(subject.id) },
    typeof state === 'string' ? { text: state, style: styleOf(state) } : { text: '' },
    { text: typeof prompt === 'string' ? `"${escapeControl(prompt)}"` : detail === null ? '' : escapeControl(JSON.stringify(detail)) },
  ]
}

const endings = ['run.completed', 'run.failed']
const BAR = 20

const runParts = ({ at, type, run_id, agent_id, payload }: RunEvent): Part[] => [
  { text: escapeControl(at), style: 'dim' },
  { text: escapeControl(type), width: 14, style: type === 'run.failed' ? 'red' : null },
  { text: escapeControl(agent_id ?? '-'), width: 16 },
  { text: escapeControl(run_id) },
  { text: describeEvent(type, payload) },
]

const eventStyles: Readonly<Record<string, Style>> = { error: 'red', warning: 'yellow' }
const sessionParts = ({ at, sequence, event_type, data }: SessionEvent): Part[] => [
  { text: escapeControl(at), style: 'dim' },
  { text: String(sequence).padStart(5) },
  { text: escapeControl(event_type), width: 20, style: eventStyles[event_type] ?? null },
  { text: describeSessionEvent(event_type, data) },
]
function describeSessionEvent(event_type: string, data: AnyOutput): string {
  const { stage, percent, message, from_state, to_state, final_state, reason, level, code } = data
  const joinTexts = (...all: unknown[]): string =>
    all
      .filter((word) => typeof word === 'string' && word !== '')
      .map((word) => escapeControl(word as string))
      .join('  ')
  if (event_type === 'checkpoint_created') return joinTexts(data['description'], data['checkpoint_id'])
  if (event_type === 'progress') return `${barOf(percent)}${joinTexts(stage, message)}`
  if (event_type === 'state_changed') return joinTexts(`${String(from_state)} to ${String(to_state)}`, reason)
  if (event_type === 'session_closed') return joinTexts(final_state, reason)
  if (event_type === 'log' || event_type === 'warning' || event_type === 'error') return joinTexts(level, code, message)
  return Object.keys(data).length === 0 ? '' : escapeControl(JSON.stringify(data))
}

function barOf(percent: unknown): string {
  if (typeof percent !== 'number') return ''
  const done = Math.round((percent / 100) * BAR)
  return `[${'#'.repeat(done)}${'-'.repeat(BAR - done)}] ${Math.round(percent)} %  `
}

function describeEvent(type: string, payload: AnyOutput): string {
  const { message, percent, checkpoint_id, reason, error } = payload
  if (type === 'run.progress') {
    return `${barOf(percent)}${typeof message === 'string' ? escapeControl(message) : ''}`.trimEnd()
  }
  const parts = [reason, error, checkpoint_id].filter((word) => typeof word === 'string').map((word) => escapeControl(word))
  if (parts.length > 0) return parts.join('  ')
  return Object.keys(payload).length === 0 || payload['result'] === null ? '' : escapeControl(JSON.stringify(payload['result'] ?? payload))
}
