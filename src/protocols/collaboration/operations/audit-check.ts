// Audit: checking the record. A task is rebuilt from its events and compared with the store, and the chain of a project is verified.
import { differenceIn, type Difference } from '#kernel/log/hash-chain.ts'
import { Damaged } from '#kernel/declare/errors.ts'
import { administrator, anyone, installationOwner, system, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, placeOf } from '#kernel/declare/paging.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import type { Found, StoredFact } from '#kernel/log/store.ts'
import { chainOf, numberIn, PORTION, recordKeeper } from '../record/readers.ts'
import { audienceOf, AuditEvent, withNames, namesBy, subjectIn } from '../record/audit-view.ts'
import { againstStored, createFolding, createPage } from '../record/replay.ts'
import { Id, Task } from '../schema.ts'

const FoundDifference = nullable(t.Object({ project_id: t.String(), seq: t.Integer(), what: t.String() }))
const differenceView = (difference: Difference | null): Static<typeof FoundDifference> =>
  difference && { project_id: difference.scope, seq: difference.seq, what: difference.what }

const REPLAYED_MAX = 20_000

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
      // Only an actor who sees every project can see the difference: a damaged task does not reliably name its project.
      if (!(error instanceof Damaged) || actor.projects !== 'all') throw error
    }
    return null
  },
  async view(_, input, { actor }, read) {
    const { task_id } = input
    const folding = createFolding(task_id)
    const shownPage = createPage(numberIn(placeOf('audit.replay', input) ?? '0'), audienceOf(actor))
    let after: number | null = null
    for (let replayed = 0; replayed < REPLAYED_MAX; replayed += PORTION) {
      const page: StoredFact[] = await read.facts({ by: 'task', task: task_id }, { after, limit: PORTION, asStored: true })
      const faults = await read.sealFaults(page)
      for (const [i, stored] of page.entries()) {
        folding.take(stored, faults[i]!)
        shownPage.take(stored)
      }
      if (page.length < PORTION) break
      after = page.at(-1)!.position
    }
    const { images, task } = folding
    const last = shownPage.goesOnAfter()
    const difference = folding.difference() ?? (await againstStored(read, images))
    const nameOf = namesBy(read)
    const events: AuditEvent[] = []
    for (const event of shownPage.events) events.push(await withNames(event, nameOf))
    return {
      task: task(),
      events,
      next_cursor: last === null ? null : cursorOf('audit.replay', input, String(last)),
      replayed: folding.taken(),
      documents: [...images].map(([key, { version }]) => ({ ...subjectIn(key), version })),
      matches: difference === null,
      difference: differenceView(difference),
    }
  },
  example: { given: 'completed', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

const FINDINGS_MAX = 100

/** Findings name documents of every project, so only actors who administer every project see them. */
function findingsFor(actor: Actor, read: Read): { findings: Found[]; findings_total: number | null } {
  const seesAll = actor.projects === 'all' || (installationOwner.is(actor, null) && !actor.narrowed)
  const all = seesAll ? read.findings() : []
  return { findings: all.slice(0, FINDINGS_MAX), findings_total: seesAll ? all.length : null }
}

const verify = query({
  name: 'audit.verify',
  summary: 'Verify the hash chain of a project, a bounded stretch a call; continue with the cursor.',
  draft: 'ours: HACP 0.1.0, Audit ("MUST NEVER be deleted or modified") made checkable',
  input: t.Object({ project_id: t.Optional(Id), cursor: pageInput.cursor }),
  output: t.Object({
    verified: t.Integer(),
    from_seq: t.Integer(),
    to_seq: t.Integer(),
    head: t.Object({ seq: t.Integer(), hash: t.String() }),
    valid: t.Boolean(),
    difference: FoundDifference,
    findings: t.Array(t.Object({ what: t.String(), how: t.String() }), {
      description: 'the first differences that the server has found in what it stores, of any project',
    }),
    findings_total: nullable(
      t.Integer({ description: 'all differences found; null: only administrators and owners of the installation see them' }),
    ),
    next_cursor: nextCursor,
  }),
  callers: [system, administrator, recordKeeper],
  load: chainOf,
  async view({ project_id, head }, input, { actor }, read) {
    const start = numberIn(placeOf('audit.verify', input) ?? '0')
    // The first fact of the range must follow the fact before it.
    const anchor =
      start === 0 ? undefined : (await read.facts({ by: 'scope', scope: project_id }, { after: start - 1, limit: 1, asStored: true }))[0]
    let previous = anchor?.hash ?? ''
    let seq = start
    let difference: Difference | null = null
    while (!difference && seq < head.seq && seq - start < limits.verifiedMax) {
      const page = await read.facts({ by: 'scope', scope: project_id }, { after: seq, limit: PORTION, asStored: true })
      if (page.length === 0) difference = { scope: project_id, seq: seq + 1, what: 'the record ends before its head' }
      const faults = await read.sealFaults(page)
      for (const [i, stored] of page.entries()) {
        if (stored.seq !== seq + 1) difference = { scope: project_id, seq: seq + 1, what: 'an event is missing' }
        difference ??= differenceIn(stored, previous)
        if (faults[i]) difference ??= { scope: project_id, seq: stored.seq, what: faults[i] }
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
      difference: differenceView(difference),
      ...findingsFor(actor, read),
      next_cursor,
    }
  },
  example: { given: 'completed', as: 'admin', input: {} },
})

export const auditCheckOperations = [replay, verify]
