// The ledger: append-only state of a project or of the organisation. Last write wins; every write is kept and audited.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { type Actor, anyone, forAgentsToo, heldBy } from '#kernel/declare/access.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { ByRun, byRun } from '#kernel/declare/run-fence.ts'
import { fact } from '../events.ts'
import { executor, isFreeToChange, isInTime, principal } from '../access.ts'
import { Id, Ledger, LedgerEntry, LedgerHead, ledgerHeadId, LedgerKey, LedgerScope, Task } from '../schema.ts'
import { role } from '#kernel/declare/access.ts'

type Writing = { readonly task: Task; readonly head: { readonly version: number } | null }
const assignee = forAgentsToo(
  heldBy(
    "the task's assignee",
    role<Writing>('assignee', (actor, { task }) => actor.id === task.ownership.assignee),
  ),
)

const write = command({
  name: 'ledger.write',
  summary: 'Append a value under a key, in the name of a task; also after the task has ended.',
  draft: 'HACP 0.1.0, Ledger; Operations',
  input: t.Object({
    task_id: Id,
    scope: t.Optional(LedgerScope),
    key: LedgerKey,
    value: t.Unknown(),
    expected_version: t.Optional(t.Integer({ minimum: 0 })),
    ...ByRun,
  }),
  output: t.Object({ entry: LedgerEntry.schema }),
  callers: [executor, assignee, principal],
  requires: [
    isInTime,
    isFreeToChange,
    rule<Writing, { expected_version?: number }>(
      'CONFLICT',
      'expected_version is the current one',
      ({ head }, { expected_version }) => expected_version === undefined || expected_version === (head?.version ?? 0),
      'the entry has another version than expected_version: read it again, then write',
    ),
    rule<unknown, { value: unknown }>(
      'INVALID_SPEC',
      `a value is at most ${limits.ledgerValueBytesMax} bytes of JSON`,
      (_, { value }) => Buffer.byteLength(canonical(value)) <= limits.ledgerValueBytesMax,
      `value is larger than ${limits.ledgerValueBytesMax} bytes of JSON: keep large things as artifacts`,
    ),
  ],
  audit: 'ledger.written',
  besides: ['attempt'],
  async load(read, { task_id, scope, key }) {
    const task = await read(Task, task_id)
    const where = scope ?? `project:${task.project_id}`
    if (where !== 'org' && where !== `project:${task.project_id}`)
      throw new Refusal('UNAUTHORIZED', 'a task writes to the ledger of its own project or of the organisation')
    return { task, where, ledger: await read.maybe(Ledger, where), head: await read.maybe(LedgerHead, ledgerHeadId(where, key)) }
  },
  decide({ task, where, ledger, head }, { key, value, ...by }, { actor, now, newId }) {
    const version = (head?.version ?? 0) + 1
    const current = ledger ?? { id: where, ledger_id: newId('led'), scope: where }
    const entry: LedgerEntry = {
      id: `${current.ledger_id}/${String(version).padStart(12, '0')}/${key}`,
      ledger_id: current.ledger_id,
      scope: where,
      key,
      value,
      version,
      written_at: now,
      by: task.id,
      root_task_id: task.root_task_id,
      actor: actor.id,
    }
    const newest = { id: ledgerHeadId(where, key), scope: where, entry_id: entry.id, version }
    const images = [image(LedgerEntry, entry), image(LedgerHead, newest), ...(ledger ? [] : [image(Ledger, current)])] as const
    // The fact goes into the chain of the task's project, even for the `org` ledger.
    return { scope: task.project_id, facts: [fact('ledger.written', [...images], byRun(by))], output: { entry } }
  },
  example: { given: 'completed', as: 'devin', input: ({ task }) => ({ task_id: task.id, key: 'release', value: { version: '1.2.0' } }) },
})

/** The `org` ledger is for every registered actor, a project's ledger for actors of the project. */
function refuseForeign(scope: string, actor: Actor): void {
  if (scope !== 'org' && actor.projects !== 'all' && !actor.projects.has(scope.slice('project:'.length)))
    throw new Refusal('NOT_FOUND', `there is no ledger ${scope}`)
}

const DEFAULT_SCOPE = 'project:project_default'

async function newest(read: Read, scope: string, key: string): Promise<LedgerEntry> {
  const head = await read.maybe(LedgerHead, ledgerHeadId(scope, key))
  if (!head) throw new Refusal('NOT_FOUND', `nothing was written under ${key}`)
  return read(LedgerEntry, head.entry_id)
}

/** An entry as readers see it. Every actor can read the `org` ledger, but only readers of a task see its ids there. */
const ShownEntry = t.Object({
  ...LedgerEntry.schema.properties,
  by: nullable(Id),
  root_task_id: nullable(Id),
  actor: nullable(Id),
})
type ShownEntry = Static<typeof ShownEntry>

async function shownOf(read: Read, entry: LedgerEntry): Promise<ShownEntry> {
  if (entry.scope !== 'org' || (await read.maybe(Task, entry.by)) !== null) return entry
  return { ...entry, by: null, root_task_id: null, actor: null }
}

const readKey = query({
  name: 'ledger.read',
  summary: 'Read the current value of a key.',
  draft: 'HACP 0.1.0, Operations',
  input: t.Object({ scope: t.Optional(LedgerScope), key: LedgerKey }),
  output: t.Object({ entry: ShownEntry }),
  callers: [anyone],
  async load(read, { scope = DEFAULT_SCOPE, key }, { actor }) {
    refuseForeign(scope, actor)
    return { entry: await shownOf(read, await newest(read, scope, key)) }
  },
  view: ({ entry }) => ({ entry }),
  example: { given: 'written', as: 'bob', input: { key: 'release' } },
})

const history = query({
  name: 'ledger.history',
  summary: 'Read every value that a key ever had, oldest first.',
  draft: 'HACP 0.1.0, Operations',
  input: t.Object({ scope: t.Optional(LedgerScope), key: LedgerKey, ...pageInput }),
  output: t.Object({ items: t.Array(ShownEntry), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { scope = DEFAULT_SCOPE, key } = input
    refuseForeign(scope, actor)
    const { ledger_id } = await newest(read, scope, key)
    const listed = await read.list(LedgerEntry, 'history', [[ledger_id, key]], pageIn('ledger.history', input))
    const page = await readListed(read, LedgerEntry, listed)
    return { ...page, items: await Promise.all(page.items.map((entry) => shownOf(read, entry))) }
  },
  view: ({ listed, items, isCut }, input) => pageOf('ledger.history', input, listed, items, isCut),
  example: { given: 'written', as: 'bob', input: { key: 'release' } },
})

export const ledgerOperations = [readKey, write, history]
