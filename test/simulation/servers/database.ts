// A simulated PostgreSQL for several servers: sessions that take statements by name, the lock of the one head row, COMMIT that is answered
// late, never, or as ROLLBACK, connections that break on either way, and notifications that are late, lost or come twice. The code of the
// PostgreSQL store that writes runs on it as it is.
import type { Group } from '#kernel/log/backend.ts'
import { applyGroup, headIn, memoryReads, onwardIn, type MemoryDisk, type MemoryReads } from '#stores/memory.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { FeedRow } from '#stores/postgres/feed.ts'
import type { Link } from '#stores/postgres/link.ts'
import { fromDb } from '#stores/postgres/text.ts'
import type { Hint } from '#kernel/log/store.ts'
import type { Random } from '../random.ts'
import type { Life, Scheduler } from './scheduler.ts'

/** As the store sets them on its writing session. */
const IDLE_MS = 3_000
const LOCK_MS = 4_000

type GroupRow = { readonly n: number; readonly id: string; readonly node: string; readonly hint: string }
type Answer = { readonly command: string; readonly rows: object[] }
type Statement = { readonly name: string; readonly values: any[]; ok(answer: Answer): void; no(error: Error): void }
type Outcome = { readonly answer?: Answer; readonly error?: Error }
type Session = { readonly owner: object; end(): void }

export type Database = {
  readonly disk: MemoryDisk
  /** Reads as a server makes them: answered late at times, and not at all while it is cut off. */
  readsFor(life: Life): MemoryReads
  feed(life: Life, since: number, sealed: number): Promise<FeedRow[]>
  linkFor(life: Life): Link
  /** Rung when others may have committed. */
  watch(life: Life, ring: () => void): void
  groups(): number
  /** Nothing of this server comes through from now on, or everything again. */
  cut(life: Life, isCut: boolean): void
}

export type DatabaseOptions = {
  readonly disk: MemoryDisk
  readonly random: Random
  readonly scheduler: Scheduler
  readonly isFaulty: () => boolean
  readonly happened: (what: string) => void
  /** Around a commit: the process that wrote it, by the name that its store has. */
  readonly onApplied: (group: Group, node: string, apply: () => void) => void
}

const coded = (code: string, message: string): Error => Object.assign(new Error(message), { code })
const ended = (): Error => new Error('the connection ended')

export function createDatabase({ disk, random, scheduler, isFaulty, happened, onApplied }: DatabaseOptions): Database {
  // In one history of four the way to the database is bad: outcomes that nobody knows meet one another there.
  const losses = random.chance(0.25) ? 6 : 1
  const rows: GroupRow[] = []
  const reads = memoryReads(disk)
  const cuts = new Set<Life>()
  const watching = new Map<Life, () => void>()
  let holder: Session | null = null
  let waiting: { readonly session: Session; resume(): void }[] = []
  const isCut = (life: Life): boolean => cuts.has(life)
  const sometimes = (probability: number, what: string): boolean => {
    if (!isFaulty() || !random.chance(probability)) return false
    happened(what)
    return true
  }

  function release(session: Session): void {
    waiting = waiting.filter((other) => other.session !== session)
    if (holder !== session) return
    holder = waiting[0]?.session ?? null
    waiting.shift()?.resume()
  }

  function feedRows(since: number, sealed: number): FeedRow[] {
    const head = { groups: rows.length, position: disk.facts.length, image: disk.images.length }
    const { at, since: seals } = onwardIn(disk, sealed)
    const onward = { ...head, n: 0, hint: JSON.stringify(seals), hash: at }
    const news = rows.filter(({ n }) => n > since)
    if (news.length === 0) return [{ ...head, n: null, hint: null, hash: null }, onward]
    return [...news.map(({ n, hint }) => ({ ...head, n, hint, hash: null })), onward]
  }

  function apply(writes: readonly Statement[]): void {
    const group = groupIn(writes)
    const [n, id, node, hint] = partsIn(writes).get('group') as [number, string, string, string]
    onApplied({ ...group, hint: JSON.parse(hint) as Hint }, node, () => {
      applyGroup(disk, { ...group, hint: JSON.parse(hint) as Hint })
      rows.push({ n, id, node, hint })
      disk.groups.push({ by: {}, hint: JSON.parse(hint) as Hint })
    })
    for (const [life, ring] of watching) {
      if (isCut(life) || sometimes(0.2, 'hint lost')) continue
      scheduler.park('hint', ring, life)
      if (sometimes(0.1, 'hint twice')) scheduler.park('hint', ring, life)
    }
  }

  /** The result of one statement, outside of the order of locks. */
  function said({ name, values }: Statement): object[] {
    if (name === 'find') return rows.filter(({ id }) => id === values[0])
    if (name !== 'state') return []
    const [keys, scopes, prefixes] = values.slice(2).map(columnOf) as [string[], string[], string[]]
    return [
      ...feedRows(values[0] as number, values[1] as number).map(({ position: number, ...row }) => ({ of: 'feed', number, ...row })),
      ...keys.flatMap((name) => {
        const doc = disk.docs.get(fromDb(name))
        return doc ? [{ of: 'docs', name, number: doc.version, image: doc.image }] : []
      }),
      ...scopes.flatMap((name) => {
        const head = headIn(disk, name)
        return head ? [{ of: 'chains', name, number: head.seq, hash: head.hash, at: head.at }] : []
      }),
      ...prefixes.map((name) => ({ of: 'counts', name, number: disk.counts.get(fromDb(name)) ?? 0 })),
    ]
  }

  function open(life: Life) {
    let writes: Statement[] | null = null
    let failed = false
    let isEnded = false
    let isSevered = false
    let corked = false
    let gathered: Statement[] = []
    const pending = new Set<Statement>()
    let idle: (() => void) | null = null
    const session: Session = { owner: life, end }

    /** The session is over: what was not committed never will be. */
    function end(): void {
      if (isEnded) return
      isEnded = true
      idle?.()
      writes = null
      release(session)
      scheduler.park('connection ended', sever, life)
    }
    /** The process hears no more of it. The database notices some time later. */
    function sever(): void {
      if (isSevered) return
      isSevered = true
      for (const { no } of pending) no(ended())
      pending.clear()
      scheduler.park('the database notices', end)
    }

    function send(): void {
      const trip = gathered
      gathered = []
      if (trip.length === 0) return
      for (const one of trip) pending.add(one)
      if (isCut(life) || sometimes(0.015 * losses, 'lost on the way')) return scheduler.park('connection broke', sever, life)
      scheduler.park('to the database', () => execute(trip, []))
    }

    function execute(trip: readonly Statement[], outcomes: Outcome[]): void {
      idle?.()
      idle = null
      while (outcomes.length < trip.length) {
        if (isEnded) return
        const one = trip[outcomes.length]!
        if (one.name === 'lock' && !failed && holder !== session) {
          if (holder !== null) return wait(trip, outcomes)
          holder = session
        }
        outcomes.push(done(one))
      }
      if (writes !== null) idle = scheduler.later(IDLE_MS, end)
      if (isCut(life) || sometimes(0.03 * losses, 'answer of the database lost')) {
        scheduler.park('connection broke', sever, life)
        return
      }
      scheduler.park('from the database', () => answer(trip, outcomes), life)
    }

    function wait(trip: readonly Statement[], outcomes: Outcome[]): void {
      const resume = (): void => {
        callOff()
        scheduler.park('lock', () => execute(trip, outcomes))
      }
      const callOff = scheduler.later(LOCK_MS, () => {
        if (holder === session || isEnded) return
        waiting = waiting.filter((other) => other.session !== session)
        failed = true
        outcomes.push({ error: coded('55P03', 'canceling statement due to lock timeout') })
        execute(trip, outcomes)
      })
      waiting.push({ session, resume })
    }

    function done(one: Statement): Outcome {
      if (one.name === 'begin') {
        writes = []
        failed = false
        return { answer: { command: 'BEGIN', rows: [] } }
      }
      if (one.name === 'commit' || one.name === 'rollback') return { answer: { command: close(one.name === 'commit'), rows: [] } }
      if (failed) return { error: coded('25P02', 'current transaction is aborted') }
      if (one.name.startsWith('w ')) {
        const made = columnOf(partsIn([one]).get('create')?.[0]) as string[]
        const taken = made.some((key) => disk.docs.has(fromDb(key)))
        const code = taken ? '23505' : sometimes(0.02, 'statement refused') ? random.pick(['53100', '40001']) : null
        failed = code !== null
        if (code !== null) return { error: coded(code, 'the statement was refused') }
        writes!.push(one)
      }
      return { answer: { command: 'SELECT', rows: said(one) } }
    }

    function close(wanted: boolean): string {
      const isCommitted = wanted && !failed && writes !== null
      if (isCommitted && writes!.length > 0) apply(writes!)
      writes = null
      failed = false
      release(session)
      return isCommitted ? 'COMMIT' : 'ROLLBACK'
    }

    function answer(trip: readonly Statement[], outcomes: readonly Outcome[]): void {
      for (const [i, one] of trip.entries()) {
        if (!pending.delete(one)) continue
        const { answer: good, error } = outcomes[i]!
        if (error) one.no(error)
        else one.ok(good!)
      }
    }

    const client = {
      query: ({ name, values }: { name: string; values: any[] }) =>
        new Promise<Answer>((ok, no) => {
          if (isSevered) return no(ended())
          gathered.push({ name, values, ok, no })
          if (!corked) send()
        }),
      connection: {
        stream: {
          cork: () => void (corked = true),
          uncork() {
            corked = false
            send()
          },
        },
      },
    }
    return { client, sever }
  }

  function linkFor(life: Life): Link {
    let current: Promise<ReturnType<typeof open>> | null = null
    return {
      async get() {
        const connecting = (current ??= new Promise((ok, no) =>
          scheduler.park(
            'connect',
            () => {
              if (isCut(life)) {
                current = null
                no(ended())
              } else ok(open(life))
            },
            life,
          ),
        ))
        return (await connecting).client as unknown as Awaited<ReturnType<Link['get']>>
      },
      drop() {
        const was = current
        current = null
        was?.then(
          ({ sever }) => sever(),
          () => undefined,
        )
      },
      close: () => Promise.resolve(),
    }
  }

  /** Both the question and the answer may take their time; what is answered is of one moment in between. */
  function asked<T>(life: Life, question: () => Promise<T>, late: number): Promise<T> {
    return new Promise((ok, no) => {
      const refuse = (): void => no(new Refusal('UNAVAILABLE', 'the database cannot be reached', { retry_after: 1 }))
      const tell = (): void => {
        if (isCut(life)) return scheduler.park('no answer', refuse, life)
        const answer = question()
        if (isFaulty() && random.chance(late)) scheduler.park('answer', () => ok(answer), life)
        else ok(answer)
      }
      if (isCut(life) || (isFaulty() && random.chance(late))) scheduler.park('question', tell)
      else tell()
    })
  }

  function readsFor(life: Life): MemoryReads {
    const slow = Object.entries(reads).map(([name, question]) => [
      name,
      (...given: never[]) => asked(life, () => (question as (...all: never[]) => Promise<unknown>)(...given), 0.25),
    ])
    return Object.fromEntries(slow)
  }

  return {
    disk,
    readsFor,
    feed: (life, since, sealed) => asked(life, () => Promise.resolve(feedRows(since, sealed)), 0.7),
    linkFor,
    watch: (life, ring) => void watching.set(life, ring),
    groups: () => rows.length,
    cut(life, isOff) {
      if (isOff) cuts.add(life)
      else cuts.delete(life)
    },
  }
}

/** How many parameters each part of a writing statement has; its name says which parts it has. */
const PARAMETERS: Readonly<Record<string, number>> = {
  facts: 9,
  chains: 4,
  seals: 5,
  images: 7,
  remove: 1,
  update: 5,
  create: 5,
  drop: 1,
  add: 1,
  counts: 2,
  group: 4,
  head: 6,
}

const columnOf = (given: unknown): any[] => (given as { values: any[] } | undefined)?.values ?? []

/** The parameters of each part that statements write. */
function partsIn(writes: readonly Statement[]): Map<string, any[]> {
  const parts = new Map<string, any[]>()
  for (const { name, values } of writes) {
    const left = [...values]
    for (const part of name.split(' ').slice(1)) parts.set(part, left.splice(0, PARAMETERS[part]))
  }
  return parts
}

/** The rows of a group as the statements of one transaction carry them, a column each. */
function groupIn(writes: readonly Statement[]): Omit<Group, 'hint'> {
  const parts = partsIn(writes)
  const columns = (name: string): any[][] => (parts.get(name) ?? []).map(columnOf)
  const rowsOf = (name: string, ...fields: string[]): any[] => {
    const all = columns(name)
    return (all[0] ?? []).map((_, i) => Object.fromEntries(fields.map((field, column) => [field, all[column]![i]])))
  }
  const keyed = (list: any[]): any[] => list.map((row) => ({ ...row, key: fromDb(row.key) }))
  const texts = (name: string): string[] => ((columns(name)[0] ?? []) as string[]).map(fromDb)
  const docs = (name: string): any[] => keyed(rowsOf(name, 'key', 'version', 'image', 'text', 'tag'))
  const [dropped, added] = [texts('drop'), texts('add')]
  const [last, first, before, hashes, tag] = (parts.get('seals') ?? []) as [number, number, string, string, string]
  return {
    seal: parts.has('seals') ? { last, first, before, hashes, tag } : null,
    facts: rowsOf('facts', 'position', 'scope', 'seq', 'at', 'actor', 'task', 'root', 'hash', 'line'),
    images: keyed(rowsOf('images', 'id', 'position', 'key', 'version', 'previous', 'salt', 'text')),
    remove: texts('remove'),
    create: docs('create'),
    update: docs('update'),
    entries: [...dropped, ...added],
    present: [...dropped.map(() => false), ...added.map(() => true)],
    counts: rowsOf('counts', 'prefix', 'count').map(({ prefix, count }) => [fromDb(prefix), count]),
  }
}
