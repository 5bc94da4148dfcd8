// The notice planner: it creates notices from new facts. It delays neither questions nor answers: while it keeps up, it gets facts as
// they become durable, and after a stop, a crash or a jam it reads them from its last place. One batch holds its notices and its place
// batch, so no notice is lost or sent twice.
import type { Clock } from '#kernel/ports/clock.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { END, idIn, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import type { Sealed, StoredFact, Value } from '#kernel/log/store.ts'
import { Channel, CURSOR, NoticeCursor, type Event } from '#protocols/execution/notices/notice.ts'
import { inboxesOf, isOpen, poolOf, type Request } from '#protocols/execution/schema.ts'
import { User } from '#protocols/identity/schema.ts'
import { readSound } from '../upkeep/sound-documents.ts'
import { ALONE, type Duty } from '../leases.ts'
import { runLoop } from '../loop.ts'
import type { Worker, WorkerLog } from '../worker.ts'

type Planned = {
  readonly position: number
  readonly event: Event
  readonly request_id: string | null
  readonly person?: string
  readonly callback?: string
}

/** Facts after which the people who have the item in their inbox are notified. */
const events: Readonly<Record<string, Event>> = {
  'execution/request.created': 'created',
  'execution/request.assigned': 'assigned',
  'execution/request.rerouted': 'assigned',
  'execution/request.escalated': 'escalated',
  'execution/request.reminded': 'reminded',
  'execution/request.expired': 'overdue',
  'execution/request.released': 'released',
}
/** Facts after which a person is told about their own account. */
const ofAccount: Readonly<Record<string, Event>> = {
  'identity/passkey.added': 'passkey_added',
  'identity/passkey.removed': 'passkey_removed',
  'identity/passkey.reset': 'passkey_reset',
}
const ends: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled', 'declined'].map((status) => `execution/request.${status}`))
const ADDED = 'execution/channel.added'
const SUBSTITUTED = 'identity/substitute.added'

const PAGE = 200
/** How often its place is stored when it has no notices to store. */
const NOTED_MS = 30_000
const PAUSE_MS = 1_000

export function createPlanner(kernel: Kernel, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  const { store, tail } = kernel
  /** People who have a channel. Other people cost nothing. */
  const watched = new Set<string>()
  /** Present and past substitutes among them, by the absent person. Whether they still substitute is checked when a notice is written. */
  const standIns = new Map<string, Set<string>>()
  /** People whose substitutions are not read yet. They are planned for every request. */
  const unread = new Set<string>()
  let waiting: Planned[] = []
  let seen = 0
  let noted = { position: 0, at: 0 }
  let hasBegun = false
  let isLive = false

  function look(position: number, action: string, value: () => Value): void {
    seen = position
    const event = events[action]
    if (event !== undefined) {
      if (watched.size > 0) waiting.push(...toldOf(value() as Request, event, position))
    } else if (ends.has(action)) {
      const { id, callback } = value() as Request
      if (callback !== undefined) waiting.push({ position, event: 'receipt', request_id: id, callback })
    } else if (ofAccount[action] !== undefined) {
      const { id, user_id: person = id } = value() as { readonly id: string; readonly user_id?: string }
      if (watched.has(person)) waiting.push({ position, event: ofAccount[action], request_id: null, person })
    } else if (action === ADDED) watch((value() as Partial<Channel>).person)
    else if (action === SUBSTITUTED) {
      const user = value() as User
      if (watched.has(user.id)) remember(user)
    }
  }

  /** Agents and projects have channels too. */
  function watch(person: string | undefined): void {
    if (person === undefined || watched.has(person)) return
    watched.add(person)
    unread.add(person)
  }

  function remember({ id, acts_for }: User): void {
    for (const { user_id } of acts_for) standIns.set(user_id, (standIns.get(user_id) ?? new Set()).add(id))
  }

  async function readUp(): Promise<void> {
    for (const person of unread) {
      const [found] = await readSound(store, [keyOf(User, person)])
      if (found) remember(found.value as User)
      unread.delete(person)
    }
  }

  function toldOf(request: Request, event: Event, position: number): Planned[] {
    if (!isOpen(request)) return []
    const { id, assigned_to, project_id } = request
    const inboxes = inboxesOf(request)
    const noticesFor = (people: Iterable<string>): Planned[] =>
      [...people].filter((who) => watched.has(who)).map((person) => ({ position, event, request_id: id, person }))
    // An assignment notifies only the new assignee; the others already have the request in their inbox.
    const given = event === 'assigned' ? assigned_to : null
    if (given === null && inboxes.includes(poolOf(project_id))) return noticesFor(watched)
    const people = given === null ? inboxes : [given]
    return noticesFor(new Set([...people, ...people.flatMap((who) => [...(standIns.get(who) ?? [])]), ...unread]))
  }

  const onFact = ({ position, fact }: Sealed): void =>
    look(position, fact.action, () => fact.images.find(({ key }) => key === fact.subject)!.value)

  function onStoredFact({ position, line, images }: StoredFact): void {
    const { action, subject } = JSON.parse(line) as { action: string; subject: string }
    const text = images.find(({ key }) => key === subject)?.text ?? null
    // An erased fact gets no notice.
    if (text === null) seen = position
    else look(position, action, () => JSON.parse(text) as Value)
  }

  function listen(facts: readonly Sealed[]): void {
    if (!isLive) return
    // Another server continues from here. This one reads what that server did when it is on duty again.
    if (!duty.holds()) hasBegun = isLive = false
    // A planner that cannot keep up reads later from the store: its queue stays bounded.
    else if (facts[0]!.position !== seen + 1 || waiting.length > limits.noticesWaitingMax) isLive = false
    else for (const fact of facts) onFact(fact)
    if (!isLive || waiting.length > 0 || unread.size > 0) loop.wake()
  }

  async function note(cursor: number, items: readonly Planned[]): Promise<void> {
    await kernel.call('execution/notice.plan', { cursor, items }, duty.as())
    noted = { position: cursor, at: clock.now() }
  }

  async function flush(): Promise<void> {
    while (waiting.length > 0) {
      const next = waiting.slice(0, limits.noticesPlannedMax)
      // One fact can concern more people than fit in a batch: it counts as seen when notices for all of them are written.
      const behind = waiting[next.length]
      await note(behind === undefined ? seen : Math.min(seen, behind.position - 1), next)
      waiting = waiting.slice(next.length)
    }
    if (seen > noted.position && clock.now() - noted.at >= NOTED_MS) await note(seen, [])
  }

  async function catchUp(): Promise<void> {
    while (!loop.signal.aborted) {
      const position = await store.position()
      const page = await store.facts({ by: 'position' }, { after: seen, limit: PAGE })
      for (const stored of page) onStoredFact(stored)
      // The last facts of a page can be left out because they differ from the record.
      if (page.length < PAGE) seen = Math.max(seen, position)
      await flush()
      if (page.length > 0) continue
      // Listen first, then check for facts that arrived before: otherwise facts in between would be missed.
      isLive = true
      if ((await store.position()) <= seen) return
      isLive = false
    }
  }

  /** Resumes at the stored position. A planner without one skips all earlier facts. */
  async function begin(): Promise<void> {
    const prefix = prefixOf(Channel, 'person', [])
    for (let after = prefix; ;) {
      const entries = await store.scan(after, prefix + END, PAGE)
      const found = await readSound(
        store,
        entries.map((entry) => keyOf(Channel, idIn(entry))),
      )
      for (const { value } of found) watch((value as Channel).person)
      if (entries.length < PAGE) break
      after = entries.at(-1)!
    }
    const [row] = await readSound(store, [keyOf(NoticeCursor, CURSOR)])
    const last = await store.position()
    seen = Math.min(last, (row?.value as { position: number } | undefined)?.position ?? last)
    waiting = []
    await note(seen, [])
    await readUp()
  }

  const loop = runLoop({
    name: 'notices',
    clock,
    log,
    duty,
    failed: 'could not record notices; trying again',
    failedMs: PAUSE_MS,
    async turn() {
      if (!hasBegun) await begin()
      hasBegun = true
      if (!isLive) await catchUp()
      await flush()
      await readUp()
      return NOTED_MS
    },
  })
  const leave = tail.follow(listen, () => isLive)
  return {
    ...loop,
    async stop() {
      leave()
      await loop.stop()
      // Less to read at the next start.
      if (hasBegun && duty.holds() && seen > noted.position)
        await flush()
          .then(() => note(seen, []))
          .catch(() => undefined)
    },
  }
}
