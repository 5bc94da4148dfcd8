// Events of devices at the server: each line of a device's audit follows the one before it, and becomes a fact with the device, its agent, the
// approval and the task that it belongs to.
import { Refusal } from '#kernel/declare/errors.ts'
import { anyone, forAgentsToo, heldBy, role } from '#kernel/declare/access.ts'
import { image } from '#kernel/declare/facts.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, type Made, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import type { Value } from '#kernel/log/store.ts'
import { fact } from '../events.ts'
import { Device, DeviceEvent, DeviceLog, eventId, NamedDevice } from '../schema.ts'

type Line = { readonly text: string; readonly seq: number; readonly prev: string; readonly fields: Value }
type Chained = { readonly task_id: string; readonly root_task_id: string }
type Recording = {
  readonly device: Device
  readonly log: DeviceLog
  /** The lines that are not recorded yet. */
  readonly fresh: readonly Line[]
  readonly chains: ReadonlyMap<string, Chained>
}

const itsAgent = forAgentsToo(
  heldBy(
    "the device's own agent",
    role<{ device: Device }>("the device's agent", (actor, { device }) => actor.kind === 'agent' && actor.id === device.agent_id),
  ),
)

const invalid = (i: number, message: string): Refusal => new Refusal('INVALID_REQUEST', `lines.${i} ${message}`, { field: `lines.${i}` })

function lineOf(text: string, i: number, device_id: string): Line {
  let fields: unknown
  try {
    fields = decodeText(text)
  } catch {
    throw invalid(i, 'is not JSON')
  }
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) throw invalid(i, 'is not an object')
  const { seq, prev, event, device_id: whose } = fields as Value
  if (!Number.isSafeInteger(seq) || Number(seq) < 1 || typeof prev !== 'string' || typeof event !== 'string')
    throw invalid(i, 'is not a line of an audit: it has no seq, prev or event')
  if (whose !== device_id) throw invalid(i, 'is of another device')
  return { text, seq: Number(seq), prev, fields: fields as Value }
}

const hashOf = (text: string): string => `sha256:${sha256Hex(text)}`
const outOfOrder = (expected_seq: number, message: string): Refusal => new Refusal('OUT_OF_ORDER', message, { expected_seq })

/** The lines that follow the last one. A repeated line is accepted if it is the same. */
async function freshIn(read: Read, log: DeviceLog, lines: readonly Line[]): Promise<Line[]> {
  const fresh: Line[] = []
  let { next_seq, last_hash } = log
  for (const line of lines) {
    if (line.seq < next_seq) {
      const there = fresh.find(({ seq }) => seq === line.seq)?.text ?? (await read.raw(DeviceEvent, eventId(log.id, line.seq)))?.line
      if (there !== line.text) throw outOfOrder(next_seq, `line ${line.seq} is recorded already, and says something else`)
      continue
    }
    if (line.seq > next_seq) throw outOfOrder(next_seq, `line ${line.seq} comes too early: ${next_seq} is missing`)
    if (line.prev !== last_hash) throw outOfOrder(next_seq, `line ${line.seq} does not follow the line before it`)
    fresh.push(line)
    next_seq++
    last_hash = hashOf(line.text)
  }
  return fresh
}

/** W46: only a task or run whose chain includes the device's agent. Any other id stays text in the line. */
async function chainOf(read: Read, id: unknown, { agent_id, project_id }: Device): Promise<Chained | null> {
  if (typeof id !== 'string' || id.length > limits.idCharsMax) return null
  if (id.startsWith('run_')) {
    const run = await read.ports.runs.run(read, id)
    return run?.agent_id === agent_id && run.project_id === project_id
      ? { task_id: run.correlation_id, root_task_id: run.root_task_id ?? run.correlation_id }
      : null
  }
  const task = await read.ports.tasks.task(read, id)
  return task?.project_id === project_id && task.executors.includes(agent_id) ? { task_id: id, root_task_id: task.root_task_id } : null
}

const TEXTS = ['event', 'task_id', 'session_id', 'tool', 'status', 'code', 'receipt_id', 'request_id', 'correlation_id'] as const
/** Codes of the line, for readers of the record who do not have the line. */
const detailOf = ({ seq, fields }: Line, device: Device): Value => ({
  device_id: device.id,
  device_seq: seq,
  ...Object.fromEntries(
    TEXTS.flatMap((name) => {
      const held = fields[name]
      return typeof held === 'string' && held.length <= limits.idCharsMax ? [[name === 'task_id' ? 'device_task_id' : name, held]] : []
    }),
  ),
})

const record = command({
  name: 'event.record',
  summary: "Record lines of a device's audit, in order; each becomes a fact.",
  draft: 'ours: Z4, one record with native views',
  input: t.Object({
    device_id: NamedDevice,
    lines: t.Array(t.String({ minLength: 2, maxLength: limits.deviceLineCharsMax }), {
      minItems: 1,
      maxItems: limits.deviceLinesMax,
      description: 'lines of the audit file without their ends, in order',
    }),
  }),
  output: t.Object({ next_seq: t.Integer() }),
  callers: [itsAgent],
  requires: [],
  audit: 'event.recorded',
  async load(read, { device_id, lines }): Promise<Recording> {
    const device = await read(Device, device_id)
    if (device.state === 'revoked') throw new Refusal('DEVICE_REVOKED', 'the device was revoked: its reports are no longer recorded')
    const log = (await read.raw(DeviceLog, device_id)) ?? { id: device_id, project_id: device.project_id, next_seq: 1, last_hash: '' }
    const fresh = await freshIn(
      read,
      log,
      lines.map((text, i) => lineOf(text, i, device_id)),
    )
    const chains = new Map<string, Chained>()
    for (const { fields } of fresh) {
      const id = fields['correlation_id']
      const chain = typeof id === 'string' && !chains.has(id) ? await chainOf(read, id, device) : null
      if (chain) chains.set(id as string, chain)
    }
    return { device, log, fresh, chains }
  },
  decide({ device, log, fresh, chains }, _, { newId }) {
    const facts: Made[] = []
    let next = log
    for (const line of fresh) {
      const chain = chains.get(String(line.fields['correlation_id']))
      const id = newId('aud')
      const event: DeviceEvent = {
        id: eventId(device.id, line.seq),
        device_id: device.id,
        project_id: device.project_id,
        agent_id: device.agent_id,
        seq: line.seq,
        line: line.text,
        fact_id: id,
        task_id: chain?.task_id ?? null,
        root_task_id: chain?.root_task_id ?? null,
      }
      next = { ...log, next_seq: line.seq + 1, last_hash: hashOf(line.text) }
      facts.push(fact('event.recorded', [image(DeviceEvent, event), image(DeviceLog, next)], { id, detail: detailOf(line, device) }))
    }
    return { facts, output: { next_seq: next.next_seq } }
  },
  example: {
    given: 'registered',
    as: 'devin',
    input: ({ device }) => ({
      device_id: device.id,
      lines: [
        `{"board":"simulated","device_id":"${device.id}","event":"daemon.start","prev":"","seq":1,"ts":"2026-11-17T00:00:00.000Z","v":1,"version":"0.1.0"}`,
      ],
    }),
  },
})

const list = query({
  name: 'event.list',
  summary: "List the lines of a device's audit that are recorded, each with its fact.",
  draft: 'ours: Z4, one record with native views',
  input: t.Object({
    device_id: NamedDevice,
    after_seq: t.Optional(t.Integer({ minimum: 0, description: 'the last line that you have' })),
    limit: t.Optional(t.Integer({ minimum: 1, maximum: limits.pageMax, description: `items a page, ${limits.pageDefault} by default` })),
    cursor: t.Optional(t.String({ maxLength: 1_000, description: 'next_cursor of the page before' })),
  }),
  output: t.Object({
    items: t.Array(t.Object({ seq: t.Integer(), line: t.String(), fact_id: t.String() })),
    next_cursor: nextCursor,
  }),
  callers: [anyone],
  async load(read, { device_id, after_seq = 0, limit = limits.pageDefault, cursor }) {
    await read(Device, device_id)
    const from = cursor === undefined ? after_seq : seqIn(cursor, device_id)
    const items: DeviceEvent[] = []
    for (let seq = from + 1; items.length < limit && !read.isFull(); seq++) {
      const event = await read.raw(DeviceEvent, eventId(device_id, seq))
      if (!event) return { items, more: false }
      items.push(event)
    }
    return { items, more: true }
  },
  view({ items, more }, { device_id }) {
    const last = more ? items.at(-1) : undefined
    return {
      items: items.map(({ seq, line, fact_id }) => ({ seq, line, fact_id })),
      next_cursor: last ? cursorOf('event.list', { device_id }, String(last.seq)) : null,
    }
  },
  example: { given: 'recorded', as: 'alice', input: ({ device }) => ({ device_id: device.id }) },
})

function seqIn(cursor: string, device_id: string): number {
  const text = Buffer.from(cursor, 'base64url').toString()
  const mark = Buffer.from(cursorOf('event.list', { device_id }, ''), 'base64url').toString()
  const seq = text.startsWith(mark) ? Number(text.slice(mark.length)) : Number.NaN
  if (!Number.isSafeInteger(seq)) throw new Refusal('INVALID_REQUEST', 'the cursor belongs to another device', { field: 'cursor' })
  return seq
}

export const eventOperations = [record, list]
