// Audit: the record queried, replayed and verified. Reading it changes nothing and hides nothing from who may see it.
import { differenceIn, type Difference } from '#kernel/chain.ts'
import { timestampOf } from '#kernel/clock.ts'
import { Damaged, Refusal } from '#kernel/errors.ts'
import { administrator, anyone, heldBy, ownsProject, role, system, SYSTEM_SCOPE, type Actor } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import { query, stream, type Read } from '#kernel/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/paging.ts'
import { either, idOf, nullable, t, type Static } from '#kernel/schema.ts'
import { parseTimestamp } from '#kernel/time.ts'
import type { FactsOf, StoredFact } from '#kernel/store.ts'
import { actionIn, AuditEvent, bytesOf, eventOf, lineIn, subjectIn } from '../record.ts'
import { againstStored, createFolding, createPage } from '../replay.ts'
import { Id, Task, Timestamp } from '../schema.ts'

type OfProject = { readonly project_id: string | null }
/** The whole record of a project is for its owners; identity facts are for owners of the installation. */
const recordKeeper = heldBy(
  'an owner of the project',
  role<OfProject>('project owner', (actor, { project_id }) => {
    if (project_id === null) return true
    return project_id === SYSTEM_SCOPE ? actor.kind === 'human' && actor.owner === true : ownsProject(actor, project_id)
  }),
)

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
  summary: 'Query audit events of a task, of a task with all its descendants, or of a project, with filters.',
  draft: 'HACP 0.1.0, Audit; Operations',
  input: QueryInput,
  output: t.Object({ items: t.Array(AuditEvent), next_cursor: nextCursor }),
  callers: [system, administrator, recordKeeper],
  async load(read, input, { actor }) {
    const named = [input.task_id, input.root_task_id].filter((id) => id !== undefined)
    const tasks = await Promise.all(named.map((id) => read(Task, id)))
    const { project_id = tasks[0]?.project_id ?? 'project_default' } = input
    // Who may read a task knows its project, also without being in it.
    if (!tasks.some((task) => task.project_id === project_id)) refuseForeignProject(project_id, actor)
    return { project_id: tasks.length === 0 ? project_id : null }
  },
  async view({ project_id }, input, _, read) {
    const of = factsOf(project_id, input)
    const { from, to } = { from: timeIn(input, 'from'), to: timeIn(input, 'to') }
    const reverse = input.order === 'newest'
    const place = placeOf('audit.query', input)
    let after = place === undefined ? await startOf(read, of, reverse ? null : from, reverse ? to : null) : numberIn(place)
    const items: AuditEvent[] = []
    let bytes = 0
    const mayRead = taskGate(read)
    for (let examined = 0; examined < limits.examinedMax;) {
      const page = await read.facts(of, { after, limit: PORTION, reverse })
      for (const stored of page) {
        after = of.by === 'scope' || of.by === 'actor' ? stored.seq : stored.position
        const line = lineIn(stored)
        if (reverse ? from !== null && line.at < from : to !== null && line.at > to) return { items, next_cursor: null }
        if (fits(stored, line, input, from, to) && (project_id !== null || (await mayRead(line.task)))) items.push(eventOf(stored))
        // Images may be large: a page also ends when it has enough of them.
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

/** Times never decrease along a chain, so a time is a place in it. */
async function startOf(read: Read, of: FactsOf, from: string | null, to: string | null): Promise<number | null> {
  if (of.by !== 'scope' && of.by !== 'actor') return null
  if (from !== null) return (await read.seek(of.scope, from)) - 1
  return to === null ? null : read.seek(of.scope, timestampOf(Date.parse(to) + 1))
}

type Line = ReturnType<typeof lineIn>
/** Of the task itself or of what descends from it; without a root everything is. */
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

/** A reader of the root need not be a reader of every descendant. */
function taskGate(read: Read): (task: string | null) => Promise<boolean> {
  const known = new Map<string, boolean>()
  return async (task) => {
    if (task === null) return true
    if (!known.has(task)) known.set(task, (await read.maybe(Task, task)) !== null)
    return known.get(task)!
  }
}

const FoundDifference = nullable(t.Object({ project_id: t.String(), seq: t.Integer(), what: t.String() }))
const shown = (difference: Difference | null): Static<typeof FoundDifference> =>
  difference && { project_id: difference.scope, seq: difference.seq, what: difference.what }

/** Facts that are read at a time: few, because each brings its images along. */
const PORTION = 25
const REPLAYED_MAX = 20_000

/** A place in the record, out of a cursor. */
function numberIn(place: string): number {
  const found = Number(place)
  if (!Number.isSafeInteger(found) || found < 0) throw new Refusal('INVALID_REQUEST', 'the cursor is damaged', { field: 'cursor' })
  return found
}

const replay = query({
  name: 'audit.replay',
  summary:
    'Rebuild a task from all its events and compare it with what is stored; names the first event that differs. Events come in pages.',
  draft: 'HACP 0.1.0, Operations; Reference Flow',
  input: t.Object({ task_id: Id, cursor: pageInput.cursor }),
  output: t.Object({
    task: nullable(Task.schema),
    events: t.Array(AuditEvent),
    next_cursor: nextCursor,
    replayed: t.Integer({ description: 'all events that it was rebuilt from' }),
    documents: t.Array(t.Object({ kind: t.String(), id: t.String(), version: t.Integer() })),
    matches: t.Boolean(),
    difference: FoundDifference,
  }),
  callers: [anyone],
  async load(read, { task_id }, { actor }) {
    try {
      await read(Task, task_id)
    } catch (error) {
      // Whoever sees everything may also see how a task differs from the record; for others nobody can tell whether it is theirs.
      if (!(error instanceof Damaged) || actor.projects !== 'all') throw error
    }
    return null
  },
  async view(_, input, __, read) {
    const { task_id } = input
    const folding = createFolding(task_id)
    const shownPage = createPage(numberIn(placeOf('audit.replay', input) ?? '0'))
    let after: number | null = null
    for (let replayed = 0; replayed < REPLAYED_MAX; replayed += PORTION) {
      const page: StoredFact[] = await read.facts({ by: 'task', task: task_id }, { after, limit: PORTION, asStored: true })
      for (const stored of page) {
        folding.take(stored)
        shownPage.take(stored)
      }
      if (page.length < PORTION) break
      after = page.at(-1)!.position
    }
    const { images, task } = folding
    const last = shownPage.goesOnAfter()
    const difference = folding.difference() ?? (await againstStored(read, images))
    return {
      task: task(),
      events: shownPage.events,
      next_cursor: last === null ? null : cursorOf('audit.replay', input, String(last)),
      replayed: folding.taken(),
      documents: [...images].map(([key, { version }]) => ({ ...subjectIn(key), version })),
      matches: difference === null,
      difference: shown(difference),
    }
  },
  example: { given: 'completed', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

const verify = query({
  name: 'audit.verify',
  summary: 'Verify the hash chain of a project, a bounded stretch a call; go on with the cursor.',
  draft: 'ours: HACP 0.1.0, Audit ("MUST NEVER be deleted or modified") made checkable',
  input: t.Object({ project_id: t.Optional(Id), cursor: pageInput.cursor }),
  output: t.Object({
    verified: t.Integer(),
    from_seq: t.Integer(),
    to_seq: t.Integer(),
    head: t.Object({ seq: t.Integer(), hash: t.String() }),
    valid: t.Boolean(),
    difference: FoundDifference,
    next_cursor: nextCursor,
  }),
  callers: [system, administrator, recordKeeper],
  async load(read, { project_id = 'project_default' }, { actor }) {
    refuseForeignProject(project_id, actor)
    const { seq, hash } = await read.head(project_id)
    return { project_id, head: { seq, hash } }
  },
  async view({ project_id, head }, input, _, read) {
    const start = numberIn(placeOf('audit.verify', input) ?? '0')
    // The fact before the stretch is the one that its first fact must follow.
    const anchor =
      start === 0 ? undefined : (await read.facts({ by: 'scope', scope: project_id }, { after: start - 1, limit: 1, asStored: true }))[0]
    let previous = anchor?.hash ?? ''
    let seq = start
    let difference: Difference | null = null
    while (!difference && seq < head.seq && seq - start < limits.verifiedMax) {
      const page = await read.facts({ by: 'scope', scope: project_id }, { after: seq, limit: PORTION, asStored: true })
      if (page.length === 0) difference = { scope: project_id, seq: seq + 1, what: 'the record ends before its head' }
      for (const stored of page) {
        if (stored.seq !== seq + 1) difference = { scope: project_id, seq: seq + 1, what: 'an event is missing' }
        difference ??= differenceIn(stored, previous)
        if (difference) break
        previous = stored.hash
        seq = stored.seq
      }
    }
    const more = !difference && seq < head.seq
    const next_cursor = more ? cursorOf('audit.verify', input, String(seq)) : null
    return {
      verified: seq - start,
      from_seq: start + 1,
      to_seq: seq,
      head,
      valid: difference === null,
      difference: shown(difference),
      next_cursor,
    }
  },
  example: { given: 'completed', as: 'admin', input: {} },
})

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
  callers: [system, administrator, recordKeeper],
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
  view: (stored) => ({ event: eventOf(stored) }),
  example: { given: 'created', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

/** What is not yours does not exist; identity facts are everybody's scope and guarded by role. */
function refuseForeignProject(project_id: string, actor: Actor): void {
  if (project_id !== SYSTEM_SCOPE && actor.projects !== 'all' && !actor.projects.has(project_id)) {
    throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
  }
}

export const auditOperations = [auditQuery, replay, verify, follow]
