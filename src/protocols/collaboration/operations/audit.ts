// Audit: the record queried and followed. Reading it changes nothing.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { administrator, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, stream, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { either, idOf, t, type Static } from '#kernel/declare/schema.ts'
import { parseTimestamp } from '#kernel/codec/timestamps.ts'
import type { FactsOf, StoredFact } from '#kernel/log/store.ts'
import { numberIn, PORTION, recordKeeper, refuseForeignProject, taskReader } from '../record/readers.ts'
import {
  actionIn,
  audienceOf,
  AuditEvent,
  bytesOf,
  eventOf,
  lineIn,
  withNames,
  namesBy,
  subjectIn,
  type Audience,
} from '../record/audit-view.ts'
import { Id, Task, Timestamp } from '../schema.ts'

const QueryInput = t.Object({
  project_id: t.Optional(Id),
  task_id: t.Optional(Id),
  root_task_id: t.Optional(Id),
  actor: t.Optional(Id),
  action: t.Optional(t.String({ maxLength: 100 })),
  subject_id: t.Optional(t.String({ maxLength: 400 })),
  from: t.Optional(Timestamp),
  to: t.Optional(Timestamp),
  order: t.Optional(either('oldest', 'newest')),
  ...pageInput,
})
type QueryInput = Static<typeof QueryInput>

const auditQuery = query({
  name: 'audit.query',
  summary: 'Query audit events of a task, of a task with all its descendants, or of a project, oldest first, with filters.',
  draft: 'HACP 0.1.0, Audit; Operations',
  input: QueryInput,
  output: t.Object({ items: t.Array(AuditEvent), next_cursor: nextCursor }),
  callers: [system, administrator, recordKeeper, taskReader],
  async load(read, input, { actor }) {
    const taskIds = [input.task_id, input.root_task_id].filter((id) => id !== undefined)
    const tasks = await Promise.all(taskIds.map((id) => read(Task, id)))
    const { project_id = tasks[0]?.project_id ?? 'project_default' } = input
    // A reader of a task can know its project without being a member.
    if (!tasks.some((task) => task.project_id === project_id)) refuseForeignProject(project_id, actor)
    return { project_id: tasks.length === 0 ? project_id : null }
  },
  async view({ project_id }, input, { actor }, read) {
    const of = factsOf(project_id, input)
    const { from, to } = { from: timeIn(input, 'from'), to: timeIn(input, 'to') }
    const reverse = input.order === 'newest'
    const place = placeOf('audit.query', input)
    let after = place === undefined ? await startOf(read, of, reverse ? null : from, reverse ? to : null) : numberIn(place)
    const items: AuditEvent[] = []
    let bytes = 0
    const mayRead = taskGate(read)
    const nameOf = namesBy(read)
    for (let examined = 0; examined < limits.examinedMax;) {
      const page = await read.facts(of, { after, limit: PORTION, reverse })
      for (const stored of page) {
        after = of.by === 'scope' || of.by === 'actor' ? stored.seq : stored.position
        const line = lineIn(stored)
        if (reverse ? from !== null && line.at < from : to !== null && line.at > to) return { items, next_cursor: null }
        if (fits(stored, line, input, from, to) && (project_id !== null || (await mayRead(line.task))))
          items.push(await withNames(eventOf(stored, audienceOf(actor)), nameOf))
        // Images can be large, so a page is also limited by bytes.
        if (items.at(-1)?.seq === stored.seq) bytes += bytesOf(stored)
        if (items.length === pageSize(input) || bytes > limits.pageBytesMax)
          return { items, next_cursor: cursorOf('audit.query', input, String(after)) }
      }
      examined += page.length
      if (page.length < PORTION) return { items, next_cursor: null }
    }
    return { items, next_cursor: cursorOf('audit.query', input, String(after)) }
  },
  example: { given: 'completed', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

type Asked = Pick<QueryInput, 'task_id' | 'root_task_id' | 'actor'>
function factsOf(project_id: string | null, { task_id, root_task_id, actor }: Asked): FactsOf {
  if (task_id !== undefined) return { by: 'task', task: task_id }
  if (root_task_id !== undefined) return { by: 'root', root: root_task_id }
  return actor === undefined ? { by: 'scope', scope: project_id! } : { by: 'actor', scope: project_id!, actor }
}

function timeIn(input: QueryInput, field: 'from' | 'to'): string | null {
  const text = input[field]
  if (text === undefined) return null
  const ms = parseTimestamp(text)
  if (ms === null) throw new Refusal('INVALID_REQUEST', `${field} must be an RFC 3339 time`, { field })
  return timestampOf(ms)
}

/** Times never decrease along a chain, so a time maps to a position in it. */
async function startOf(read: Read, of: FactsOf, from: string | null, to: string | null): Promise<number | null> {
  if (of.by !== 'scope' && of.by !== 'actor') return null
  if (from !== null) return (await read.seek(of.scope, from)) - 1
  return to === null ? null : read.seek(of.scope, timestampOf(Date.parse(to) + 1))
}

type Line = ReturnType<typeof lineIn>
/** Whether a fact is of the root task or its descendants; without a root, every fact is. */
const isBelow = (line: Line, root: string | undefined): boolean => root === undefined || line.task === root || line.root === root

function fits(
  stored: StoredFact,
  line: Line,
  { project_id, task_id, root_task_id, actor, action, subject_id }: QueryInput,
  from: string | null,
  to: string | null,
): boolean {
  return (
    (project_id === undefined || stored.scope === project_id) &&
    (task_id === undefined || line.task === task_id) &&
    isBelow(line, root_task_id) &&
    (actor === undefined || line.actor === actor) &&
    (action === undefined || actionIn(line) === action) &&
    (subject_id === undefined ||
      subjectIn(line.subject).id === subject_id ||
      stored.images.some((image) => idOf(image.key) === subject_id)) &&
    (from === null || line.at >= from) &&
    (to === null || line.at <= to)
  )
}

/** A reader of the root might not be a reader of every descendant. */
function taskGate(read: Read): (task: string | null) => Promise<boolean> {
  const known = new Map<string, boolean>()
  return async (task) => {
    if (task === null) return true
    if (!known.has(task)) known.set(task, (await read.maybe(Task, task)) !== null)
    return known.get(task)!
  }
}

const FollowInput = t.Object({
  task_id: t.Optional(Id),
  root_task_id: t.Optional(Id),
  project_id: t.Optional(Id),
  action: t.Optional(t.String({ maxLength: 100 })),
})

const follow = stream({
  name: 'audit.follow',
  summary: 'Follow the audit events of a task, of a task with all its descendants, or of a project, as they become durable.',
  draft: 'ours: HACP leaves notification to the host',
  input: FollowInput,
  output: t.Object({ event: AuditEvent }),
  callers: [system, administrator, recordKeeper, taskReader],
  async load(read, input, { actor }) {
    const tasks = [input.task_id, input.root_task_id].filter((id) => id !== undefined)
    for (const id of tasks) await read(Task, id)
    const { project_id = 'project_default' } = input
    if (tasks.length === 0) refuseForeignProject(project_id, actor)
    return { project_id: tasks.length === 0 ? project_id : null, of: factsOf(project_id, input), mayRead: taskGate(read) }
  },
  of: ({ of }) => of,
  wants({ task_id, root_task_id, project_id, action }, stored) {
    if (project_id !== undefined && stored.scope !== project_id) return false
    if (action === undefined && (task_id === undefined || root_task_id === undefined)) return true
    const line = lineIn(stored)
    return isBelow(line, root_task_id) && (action === undefined || actionIn(line) === action)
  },
  sees: ({ of, mayRead }) => (of.by === 'root' ? (stored) => mayRead(lineIn(stored).task) : null),
  audience: audienceOf,
  view: (stored, audience) => ({ event: eventOf(stored, audience as Audience) }),
  example: { given: 'created', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

export const auditOperations = [auditQuery, follow]
