// The leases of this server: the worker that takes and keeps them, and knows at any moment which ones it holds. A store that only one
// process has open grants all of them immediately and permanently, without a write or a wait.
import { messageOf } from '#kernel/codec/cut-text.ts'
import { timekeeperAlone } from '#kernel/call/due-on-read.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { END, keyOf } from '#kernel/declare/schema.ts'
import { Lease, nodeLease } from '#kernel/log/leases.ts'
import type { Value } from '#kernel/log/store.ts'
import type { Caller } from '#kernel/log/streams.ts'
import { readSound } from './upkeep/sound-documents.ts'
import type { Worker, WorkerLog } from './worker.ts'

/** The right to work that only one server at a time does. A worker checks it first. */
export type Duty = {
  holds(): boolean
  /** The system, while it holds the lease: its writes are refused as soon as another server has taken the lease. */
  as(more?: Partial<Actor>): Caller
  /** The holder's last known clock, advanced by the monotonic clock; null: this server's own clock decides. */
  time(): number | null
  /** Calls the listener when the lease might have been won or lost. */
  onChange(listener: () => void): () => void
}

/** For a process that shares its store with no other. */
export const ALONE: Duty = { ...timekeeperAlone, onChange: () => () => undefined }

export type Leases = Worker & {
  readonly node: string
  readonly epoch: number
  readonly names: readonly string[]
  duty(name: string): Duty
  /** Why this server no longer takes part; null: it does. */
  amiss(): string | null
  /** Whether a process is known to have ended: it ended its lease, another process has its name, or its lease stood still for long enough. */
  isEnded(node: string, epoch: number): boolean
  /** The system, while that process stays ended: writes are refused if it has renewed its lease since. */
  asEnded(node: string, epoch: number, more?: Partial<Actor>): Caller
}

export type LeaseOptions = {
  readonly node: string
  readonly names: readonly string[]
  /** Milliseconds that never step. */
  monotonic(): number
}

/** A server that did not renew its lease for this long has ended. */
export const LEASE_MS = 3_000
const BEAT_MS = LEASE_MS / 6
/** A server that cannot renew stops before another server can take over. */
const SURE_MS = (LEASE_MS * 2) / 3
/** Servers that ended this long ago are forgotten: by then nothing refers to them. */
const FORGET_MS = 600_000
const AT_ONCE = 64

/** The lease of a server as of its last observed change. */
type Seen = {
  readonly epoch: number
  readonly term: number
  readonly holder: string | null
  /** By the monotonic clock of this server. */
  readonly at: number
  /** The wall clock of that server; null: no renewal was observed, so it might have ended long ago. */
  readonly time: number | null
}

/** Identifies this server among the servers that share the store. */
type Membership = LeaseOptions & {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: WorkerLog
  readonly epoch: number
  readonly held: Set<string>
  readonly nodes: Map<string, Seen>
  /** Servers that are referred to but have no lease, and since when that is known. */
  readonly strangers: Map<string, number>
  readonly holders: Map<string, string>
  readonly listeners: Set<() => void>
  readonly stopping: AbortController
  /** When this server last renewed its lease. */
  kept: number
  hasLooked: boolean
  amiss: string | null
}

/** The leases of a process that alone has the store open: it holds all of them, without a write or a renewal. */
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

/** The leases of a server that only serves calls: it holds none. */
export const leasesOfNone = (node: string): Leases => ({ ...leasesAlone(node), duty: () => ({ ...ALONE, holds: () => false }) })

export async function openLeases(kernel: Kernel, options: LeaseOptions, clock: Clock, log: WorkerLog): Promise<Leases> {
  if (!kernel.store.isShared) return leasesAlone(options.node)
  const kept = options.monotonic()
  const { epoch, taken } = await beginNode(kernel, options, clock, log)
  const self: Membership = {
    ...options,
    kernel,
    clock,
    log,
    epoch,
    held: new Set(taken),
    nodes: new Map(),
    strangers: new Map(),
    holders: new Map(),
    listeners: new Set(),
    stopping: new AbortController(),
    kept,
    hasLooked: false,
    amiss: null,
  }
  const { node, names } = options
  // If the first look fails, the loop looks again.
  const running = look(self)
    .catch((error: unknown) => log.warn({ node, error: String(error) }, 'could not look for other servers; trying again'))
    .then(() => keepLeases(self))
  return {
    node,
    epoch,
    names,
    duty: (name) => dutyOf(self, name),
    amiss: () => self.amiss,
    isEnded: (other, its) => isEnded(self, other, its),
    asEnded: (other, its, more) => asEnded(self, other, its, more),
    async stop() {
      self.stopping.abort()
      await running
      await call(self, 'end', { names: [...self.held] }).catch(() => undefined)
    },
  }
}

const call = ({ kernel, node, epoch }: Membership, name: 'keep' | 'take' | 'end', input: object = {}): Promise<unknown> =>
  kernel.call(`kernel/lease.${name}`, { node, epoch, ...input }, SYSTEM)

const isSure = ({ monotonic, kept }: Membership): boolean => monotonic() - kept < SURE_MS
const notify = ({ listeners }: Membership): void => {
  for (const listener of listeners) listener()
}
const isHeldBy = ({ node, epoch }: Membership, lease: Value | undefined): boolean => lease?.['holder'] === node && lease['term'] === epoch

function dutyOf(self: Membership, name: string): Duty {
  const { kernel, held, listeners } = self
  const key = keyOf(Lease, name)
  const holds = (): boolean => held.has(name) && isSure(self)
  return {
    holds,
    time: () => (holds() ? null : timeOfHolder(self, name)),
    as: (more) => async () => {
      const [found] = await kernel.store.read([key])
      if (!isHeldBy(self, found?.value)) {
        held.delete(name)
        throw new Refusal('CONFLICT', `this server no longer holds the lease ${name}`)
      }
      return { ...SYSTEM, ...more, proof: new Map([[key, found!.version]]) }
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

/** The holder's clock, at most one beat late. It continues after the holder has ended, until another server takes over. */
function timeOfHolder({ nodes, holders, monotonic }: Membership, name: string): number | null {
  const seen = nodes.get(holders.get(name) ?? '')
  return seen === undefined || seen.time === null ? null : seen.time + monotonic() - seen.at
}

function isEnded({ node, epoch, nodes, strangers, monotonic }: Membership, other: string, its: number): boolean {
  if (other === node) return its !== epoch
  const seen = nodes.get(other)
  if (seen !== undefined) return seen.holder === null || seen.epoch !== its || monotonic() - seen.at > LEASE_MS
  // The server might have just begun, or be forgotten already.
  const since = strangers.get(other) ?? monotonic()
  strangers.set(other, since)
  return monotonic() - since > LEASE_MS
}

function asEnded(self: Membership, other: string, its: number, more?: Partial<Actor>): Caller {
  return async () => {
    const key = keyOf(Lease, nodeLease(other))
    const [found] = await self.kernel.store.read([key])
    const lease = found?.value as Lease | undefined
    const isOver = lease === undefined || lease.holder === null || lease.epoch !== its || self.nodes.get(other)?.term === lease.term
    if (!isOver || !isEnded(self, other, its)) throw new Refusal('CONFLICT', `the server ${other} is back`)
    return { ...SYSTEM, ...more, proof: new Map([[key, found?.version ?? 0]]) }
  }
}

/** Records when each lease last changed, by the monotonic clock of this server. */
async function look(self: Membership): Promise<void> {
  const { kernel, nodes, strangers, monotonic } = self
  const { store } = kernel
  await store.fresh()
  const keys = await store.keys(keyOf(Lease, nodeLease('')), keyOf(Lease, nodeLease(END)), 1_000)
  const there = await readSound(store, keys)
  // Taken after reading: a pause in between must not make a lease look older than it is.
  const at = monotonic()
  const known = new Set(there.map(({ value }) => String(value['id']).slice(nodeLease('').length)))
  for (const name of nodes.keys()) if (!known.has(name)) nodes.delete(name)
  for (const name of known) strangers.delete(name)
  for (const { value } of there) {
    const { id, holder, epoch, term, time } = value as Lease
    const name = id.slice(nodeLease('').length)
    const seen = nodes.get(name)
    if (seen?.epoch === epoch && seen.term === term && seen.holder === holder) continue
    nodes.set(name, { epoch, term, holder, at, time: self.hasLooked && time !== undefined ? Date.parse(time) : null })
  }
  self.hasLooked = true
}

const stillFor = ({ node, nodes, monotonic }: Membership, ms: number): { node: string; epoch: number; term: number }[] =>
  [...nodes]
    .filter(([other, { at }]) => other !== node && monotonic() - at > ms)
    // The most recent first: they are likely to hold leases.
    .toSorted(([, one], [, two]) => two.at - one.at)
    .slice(0, AT_ONCE)
    .map(([other, { epoch, term }]) => ({ node: other, epoch, term }))

async function takeMissing(self: Membership): Promise<void> {
  const { names, held, log } = self
  const missing = names.filter((name) => !held.has(name))
  // One server with a lease is enough to forget others.
  const forget = missing.length < names.length ? stillFor(self, FORGET_MS) : []
  if (missing.length === 0 && forget.length === 0) return
  const { taken } = (await call(self, 'take', { names: missing, ended: stillFor(self, LEASE_MS), forget })) as { taken: string[] }
  for (const name of taken) held.add(name)
  if (taken.length === 0) return
  log.info({ leases: taken }, 'took leases')
  notify(self)
}

async function renew(self: Membership): Promise<void> {
  const { kernel, node, names, held, holders, monotonic } = self
  const began = monotonic()
  await call(self, 'keep').catch((error: unknown) => {
    if (error instanceof Refusal && error.code === 'PRECONDITION_FAILED') self.amiss = `another server has the name ${node} too`
    throw error
  })
  // Gives up leases that other servers took while this one was paused, before it trusts its leases again.
  for (const name of names) {
    const lease = kernel.store.peek?.(keyOf(Lease, name))?.value ?? (await kernel.store.read([keyOf(Lease, name)]))[0]?.value
    if (!isHeldBy(self, lease)) held.delete(name)
    if (typeof lease?.['holder'] === 'string') holders.set(name, lease['holder'])
  }
  self.kept = began
  await look(self)
  await takeMissing(self)
}

async function keepLeases(self: Membership): Promise<void> {
  const { clock, log, node, stopping } = self
  let wasSure = true
  let lastError = ''
  const notifyOfChange = (): void => {
    if (wasSure === isSure(self)) return
    wasSure = isSure(self)
    notify(self)
  }
  while (!stopping.signal.aborted) {
    // Also notify before the turn: a worker that checked while the lease had lapsed rests, and must be notified to continue.
    notifyOfChange()
    const error = await renew(self).then(
      () => '',
      (reason: unknown) => messageOf(reason),
    )
    // Logs each reason once, not with every beat.
    if (error !== '' && error !== lastError) log.warn({ node, error }, 'could not renew the leases; trying again')
    lastError = error
    notifyOfChange()
    await clock.sleep(BEAT_MS, stopping.signal)
  }
}

type Begun = { readonly epoch: number; readonly taken: string[] }

/** Takes over a used name once its lease is no longer renewed: its server was killed. A server that renews its lease is alive and keeps its name. */
async function beginNode(kernel: Kernel, { node, names, monotonic }: LeaseOptions, clock: Clock, log: WorkerLog): Promise<Begun> {
  const begin = (still?: { epoch: number; term: number }): Promise<Begun | null> =>
    (kernel.call('kernel/lease.begin', { node, names, ...(still ? { still } : {}) }, SYSTEM) as Promise<Begun>).catch((error: unknown) => {
      if (error instanceof Refusal && error.code === 'PRECONDITION_FAILED') return null
      throw error
    })
  const first = await begin()
  if (first) return first
  log.info({ called: node }, 'a server of this name was running: waiting to see whether it still is')
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
