// The leases of this server: the worker that takes and keeps them, and says at any moment which ones it holds. A store that one process alone
// has open gives all of them at once and for good; nothing is written down and nothing is waited for.
import { timekeeperAlone } from '#kernel/call/due-on-read.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { END, keyOf } from '#kernel/declare/schema.ts'
import { Lease, nodeLease } from '#kernel/log/leases.ts'
import type { Caller } from '#kernel/log/streams.ts'
import { readSound } from './upkeep/sound-documents.ts'
import type { Worker, WorkerLog } from './worker.ts'

/** The right to do something that one server at a time may do; a worker asks it first. */
export type Duty = {
  holds(): boolean
  /** The system, for as long as it holds the lease: what it writes is refused as soon as another server has taken it. */
  as(more?: Partial<Actor>): Caller
  /** Told when it may have been won or lost. */
  onChange(listener: () => void): () => void
}

/** For a process that shares its store with no other. */
export const ALONE: Duty = { ...timekeeperAlone, onChange: () => () => undefined }

export type Leases = Worker & {
  readonly node: string
  readonly epoch: number
  readonly names: readonly string[]
  duty(name: string): Duty
  /** Why this server takes part no more; null: it does. */
  amiss(): string | null
  /** Whether a process is known to be over: it ended its lease, another one has its name, or it did not move for long enough. */
  isEnded(node: string, epoch: number): boolean
  /** The system, for as long as that process stays over: what is written is refused where it has moved again meanwhile. */
  asEnded(node: string, epoch: number, more?: Partial<Actor>): Caller
}

export type LeaseOptions = {
  readonly node: string
  readonly names: readonly string[]
  /** Milliseconds that never step. */
  monotonic(): number
}

/** A server that did not move for so long has ended. */
export const LEASE_MS = 3_000
const BEAT_MS = LEASE_MS / 6
/** A server that could not renew stops before another may begin. */
const SURE_MS = (LEASE_MS * 2) / 3
/** Servers that ended so long ago are forgotten: by then nothing speaks of them any more. */
const FORGET_MS = 600_000
const AT_ONCE = 64

type Seen = { readonly epoch: number; readonly term: number; readonly holder: string | null; readonly at: number }

/** No other can take anything from a process that alone has the store open: nothing is written down, and nothing is renewed. */
const leasesAlone = (node: string): Leases => ({
  node,
  epoch: 0,
  names: [],
  duty: () => ALONE,
  amiss: () => null,
  isEnded: () => true,
  asEnded: (_, __, more) => ({ ...SYSTEM, ...more }),
  stop: () => Promise.resolve(),
})

/** A server that acts on nothing holds no lease. */
export const leasesOfNone = (node: string): Leases => ({ ...leasesAlone(node), duty: () => ({ ...ALONE, holds: () => false }) })

export async function openLeases(kernel: Kernel, options: LeaseOptions, clock: Clock, log: WorkerLog): Promise<Leases> {
  const { store } = kernel
  if (!store.isShared) return leasesAlone(options.node)
  const { node, names, monotonic } = options
  const call = (name: string, input: object): Promise<unknown> => kernel.call(`kernel/lease.${name}`, input, SYSTEM)
  const stopping = new AbortController()
  const listeners = new Set<() => void>()
  const nodes = new Map<string, Seen>()
  /** Servers that something speaks of and that are not there, and since when that is known. */
  const strangers = new Map<string, number>()
  let kept = monotonic()
  const { epoch, taken } = await begun(kernel, options, clock, log)
  const held = new Set(taken)
  let amiss: string | null = null

  const isSure = (): boolean => monotonic() - kept < SURE_MS
  const change = (): void => {
    for (const listener of listeners) listener()
  }

  function duty(name: string): Duty {
    const key = keyOf(Lease, name)
    return {
      holds: () => held.has(name) && isSure(),
      as: (more) => async () => {
        const [found] = await store.read([key])
        const lease = found?.value as Lease | undefined
        if (lease?.holder !== node || lease.term !== epoch) {
          held.delete(name)
          throw new Refusal('CONFLICT', `this server does not hold the lease ${name} any more`)
        }
        return { ...SYSTEM, ...more, proof: new Map([[key, found!.version]]) }
      },
      onChange(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
    }
  }

  const isStill = (seen: Seen): boolean => monotonic() - seen.at > LEASE_MS
  function isEnded(other: string, its: number): boolean {
    if (other === node) return its !== epoch
    const seen = nodes.get(other)
    if (seen !== undefined) return seen.holder === null || seen.epoch !== its || isStill(seen)
    // It may have begun a moment ago, or is forgotten already.
    const since = strangers.get(other) ?? monotonic()
    strangers.set(other, since)
    return monotonic() - since > LEASE_MS
  }

  const asEnded =
    (other: string, its: number, more?: Partial<Actor>): Caller =>
    async () => {
      const key = keyOf(Lease, nodeLease(other))
      const [found] = await store.read([key])
      const lease = found?.value as Lease | undefined
      const isOver = lease === undefined || lease.holder === null || lease.epoch !== its || nodes.get(other)?.term === lease.term
      if (!isOver || !isEnded(other, its)) throw new Refusal('CONFLICT', `the server ${other} is there again`)
      return { ...SYSTEM, ...more, proof: new Map([[key, found?.version ?? 0]]) }
    }

  /** When a server was last seen to move, by the own clock alone. */
  async function look(): Promise<void> {
    await store.fresh()
    const keys = await store.keys(keyOf(Lease, nodeLease('')), keyOf(Lease, nodeLease(END)), 1_000)
    const there = await readSound(store, keys)
    // After reading: a server that was held up in between must not take a lease for older than it is.
    const at = monotonic()
    const known = new Set(there.map(({ value }) => String(value['id']).slice(nodeLease('').length)))
    for (const name of nodes.keys()) if (!known.has(name)) nodes.delete(name)
    for (const name of known) strangers.delete(name)
    for (const { value } of there) {
      const { id, holder, epoch: its, term } = value as Lease
      const name = id.slice(nodeLease('').length)
      const seen = nodes.get(name)
      if (seen?.epoch !== its || seen.term !== term || seen.holder !== holder) nodes.set(name, { epoch: its, term, holder, at })
    }
  }

  const stillFor = (ms: number): { node: string; epoch: number; term: number }[] =>
    [...nodes]
      .filter(([other, { at }]) => other !== node && monotonic() - at > ms)
      // Those that hold something came last.
      .toSorted(([, one], [, two]) => two.at - one.at)
      .slice(0, AT_ONCE)
      .map(([other, { epoch: its, term }]) => ({ node: other, epoch: its, term }))

  async function takeMissing(): Promise<void> {
    const missing = names.filter((name) => !held.has(name))
    // One of them is enough to do it.
    const forget = missing.length < names.length ? stillFor(FORGET_MS) : []
    if (missing.length === 0 && forget.length === 0) return
    const answer = (await call('take', { node, epoch, names: missing, ended: stillFor(LEASE_MS), forget })) as { taken: string[] }
    for (const name of answer.taken) held.add(name)
    if (answer.taken.length > 0) {
      log.info({ leases: answer.taken }, 'took leases')
      change()
    }
  }

  async function turn(): Promise<void> {
    const began = monotonic()
    await call('keep', { node, epoch }).catch((error: unknown) => {
      if (error instanceof Refusal && error.code === 'PRECONDITION_FAILED') amiss = `another server is called ${node}`
      throw error
    })
    // Leases that others took while this server was held up are theirs: seen before it is sure again.
    for (const name of names) {
      const lease = store.peek?.(keyOf(Lease, name))?.value ?? (await store.read([keyOf(Lease, name)]))[0]?.value
      if (lease?.['holder'] !== node || lease['term'] !== epoch) held.delete(name)
    }
    kept = began
    await look()
    await takeMissing()
  }

  async function loop(): Promise<void> {
    let wasSure = true
    let said = ''
    const tell = (): void => {
      if (wasSure === isSure()) return
      wasSure = isSure()
      change()
    }
    while (!stopping.signal.aborted) {
      // Before the turn as well: a worker that looked while the lease had lapsed rests, and must hear that it goes on.
      tell()
      const message = await turn().then(
        () => '',
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      )
      // Once for each reason, not with every beat.
      if (message !== '' && message !== said) log.warn({ node, error: message }, 'leases could not be renewed; trying again')
      said = message
      tell()
      await clock.sleep(BEAT_MS, stopping.signal)
    }
  }

  // A first look that fails is no end: the loop looks again.
  const running = look()
    .catch((error: unknown) => log.warn({ node, error: String(error) }, 'other servers could not be looked for; trying again'))
    .then(loop)
  return {
    node,
    epoch,
    names,
    duty,
    amiss: () => amiss,
    isEnded,
    asEnded,
    async stop() {
      stopping.abort()
      await running
      await call('end', { node, epoch, names: [...held] }).catch(() => undefined)
    },
  }
}

type Begun = { readonly epoch: number; readonly taken: string[] }

/** A name that is taken is given once its lease does not move any more: its server was killed. One that moves is alive, and keeps it. */
async function begun(kernel: Kernel, { node, names, monotonic }: LeaseOptions, clock: Clock, log: WorkerLog): Promise<Begun> {
  const begin = (still?: { epoch: number; term: number }): Promise<Begun | null> =>
    (kernel.call('kernel/lease.begin', { node, names, ...(still ? { still } : {}) }, SYSTEM) as Promise<Begun>).catch((error: unknown) => {
      if (error instanceof Refusal && error.code === 'PRECONDITION_FAILED') return null
      throw error
    })
  const first = await begin()
  if (first) return first
  log.info({ called: node }, 'a server of this name was there: waiting to see whether it still is')
  const look = async (): Promise<Lease> => {
    await kernel.store.fresh()
    return (await kernel.store.read([keyOf(Lease, nodeLease(node))]))[0]!.value as Lease
  }
  const seen = await look()
  for (const since = monotonic(); monotonic() - since <= LEASE_MS;) await clock.sleep(BEAT_MS, new AbortController().signal)
  const now = await look()
  const isStill = now.epoch === seen.epoch && now.term === seen.term
  const next = isStill || now.holder === null ? await begin({ epoch: now.epoch, term: now.term }) : null
  if (next) return next
  throw new Refusal('PRECONDITION_FAILED', `a server called ${node} is running: give each server a name of its own (COUNTERSIGN_NODE)`)
}
