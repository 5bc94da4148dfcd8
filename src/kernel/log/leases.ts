// Leases: documents for work that only one server at a time does. Each server renews a lease of its own; every other lease names the
// server that holds it. No two clocks are compared: a server has ended when its lease stood still for a while by the observer's clock.
import { Refusal } from '../declare/errors.ts'
import { put } from '../declare/facts.ts'
import { system, SYSTEM_SCOPE } from '../declare/access.ts'
import { command, type Read } from '../declare/operation.ts'
import { doc, nullable, t, type Static } from '../declare/schema.ts'

export const Lease = doc(
  'kernel.lease',
  t.Object({
    id: t.String(), // its name, or `node/${node}`
    holder: nullable(t.String()), // null: it was given back
    epoch: t.Integer(), // another one each time that it is taken
    term: t.Integer(), // the epoch of the holder's own lease; in that one, how often it was renewed
    time: t.Optional(t.String()), // of a server's own lease: its wall clock at that moment
  }),
  { scopeOf: () => SYSTEM_SCOPE },
)
export type Lease = Static<typeof Lease.schema>

export const nodeLease = (node: string): string => `node/${node}`

const NAMES_MAX = 64
const Name = t.String({ minLength: 1, maxLength: 200 })
const Names = t.Array(Name, { maxItems: NAMES_MAX })
/** A server's lease as of its last observed renewal. */
const Still = t.Object({ epoch: t.Integer(), term: t.Integer() })
const StillNode = t.Object({ node: Name, epoch: t.Integer(), term: t.Integer() })

/** A server begins, and the leases of an earlier process of this name end. If that process did not free them, it must be known to have stopped. */
const begin = command({
  name: 'lease.begin',
  summary: 'Give a server that starts a lease of its own, and those of the given names that are free.',
  draft: 'ours: leases',
  input: t.Object({ node: Name, names: Names, still: t.Optional(Still) }),
  output: t.Object({ epoch: t.Integer(), taken: Names }),
  callers: [system],
  requires: [],
  audit: null,
  load: async (read, { node, names }) => ({ before: await read.raw(Lease, nodeLease(node)), all: await heldUnder(read, names) }),
  decide({ before, all }, { node, still }, { now }) {
    if (before !== null && before.holder !== null && !isAsSeen(before, still))
      throw new Refusal('PRECONDITION_FAILED', `another server has the name ${node} already: choose another one`)
    const epoch = (before?.epoch ?? 0) + 1
    const free = all.filter(({ lease }) => isFree(lease) || lease!.holder === node)
    return {
      facts: [],
      puts: [put(Lease, nodeLease(node), { id: nodeLease(node), holder: node, epoch, term: 0, time: now }), ...takenBy(free, node, epoch)],
      output: { epoch, taken: free.map(({ name }) => name) },
    }
  },
  example: { given: 'empty', as: 'system', input: { node: 'host-1', names: ['timers'] } },
})

const keep = command({
  name: 'lease.keep',
  summary: 'Renew the lease of a server, which keeps all that it holds.',
  draft: 'ours: leases',
  input: t.Object({ node: Name, epoch: t.Integer() }),
  output: t.Object({}),
  callers: [system],
  requires: [],
  audit: null,
  load: (read, { node }) => read.raw(Lease, nodeLease(node)),
  decide(before, { node, epoch }, { now }) {
    const lease = currentLease(before, node, epoch)
    return { facts: [], puts: [put(Lease, lease.id, { ...lease, term: lease.term + 1, time: now })], output: {} }
  },
  example: { given: 'empty', as: 'system', input: { node: 'host-1', epoch: 1 } },
})

/**
 * `ended`: servers whose leases stood still, as last seen. A server that has renewed its lease since keeps its leases. `forget`: servers
 * that ended so long ago that nothing refers to them.
 */
const take = command({
  name: 'lease.take',
  summary: 'Take leases that are free, or whose holder has ended.',
  draft: 'ours: leases',
  input: t.Object({
    node: Name,
    epoch: t.Integer(),
    names: Names,
    ended: t.Array(StillNode, { maxItems: NAMES_MAX }),
    forget: t.Optional(t.Array(StillNode, { maxItems: NAMES_MAX })),
  }),
  output: t.Object({ taken: Names }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { node, names, ended, forget = [] }) {
    const asSeen = async (seen: Static<typeof StillNode>) => ({ seen, lease: await read.raw(Lease, nodeLease(seen.node)) })
    const others = await Promise.all(ended.map(asSeen))
    const old = await Promise.all(forget.map(asSeen))
    const all = await heldUnder(read, names)
    // Read, so that the batch is refused if a holder renews its lease meanwhile.
    const holders = await Promise.all(all.map(async ({ lease }) => (isFree(lease) ? null : read.raw(Lease, nodeLease(lease!.holder!)))))
    return { before: await read.raw(Lease, nodeLease(node)), others, old, all, holders }
  },
  decide({ before, others, old, all, holders }, { node, epoch }) {
    currentLease(before, node, epoch)
    const isStill = ({ seen, lease }: (typeof others)[number]): boolean => isAsSeen(lease, seen)
    const gone = new Set(others.filter(isStill).map(({ seen }) => seen.node))
    const forgotten = old
      .filter((ended) => isStill(ended) && ended.seen.node !== node)
      .map(({ seen }) => put(Lease, nodeLease(seen.node), null))
    const free = all.filter(({ lease }, i) => {
      if (isFree(lease)) return true
      const holder = holders[i]
      return !holder || holder.holder === null || holder.epoch !== lease!.term || gone.has(lease!.holder!)
    })
    return { facts: [], puts: [...takenBy(free, node, epoch), ...forgotten], output: { taken: free.map(({ name }) => name) } }
  },
  example: { given: 'empty', as: 'system', input: { node: 'host-1', epoch: 1, names: [], ended: [] } },
})

const end = command({
  name: 'lease.end',
  summary: 'Free the lease of a server that stops, and all that it holds.',
  draft: 'ours: leases',
  input: t.Object({ node: Name, epoch: t.Integer(), names: Names }),
  output: t.Object({}),
  callers: [system],
  requires: [],
  audit: null,
  load: async (read, { node, names }) => ({ before: await read.raw(Lease, nodeLease(node)), all: await heldUnder(read, names) }),
  decide({ before, all }, { node, epoch }, { now }) {
    const lease = { ...currentLease(before, node, epoch), time: now }
    const held = all.flatMap(({ lease: other }) => (other?.holder === node && other.term === epoch ? [other] : []))
    return { facts: [], puts: [lease, ...held].map((other) => put(Lease, other.id, { ...other, holder: null })), output: {} }
  },
  example: { given: 'empty', as: 'system', input: { node: 'host-1', epoch: 1, names: [] } },
})

export const leaseOperations = [begin, keep, take, end]

type Named = { readonly name: string; readonly lease: Lease | null }
const heldUnder = (read: Read, names: readonly string[]): Promise<Named[]> =>
  Promise.all(names.map(async (name) => ({ name, lease: await read.raw(Lease, name) })))
const isAsSeen = (lease: Lease | null, seen: Static<typeof Still> | undefined): boolean =>
  lease !== null && lease.epoch === seen?.epoch && lease.term === seen.term
const isFree = (lease: Lease | null): boolean => lease === null || lease.holder === null
const takenBy = (free: readonly Named[], node: string, term: number) =>
  free.map(({ name, lease }) => put(Lease, name, { id: name, holder: node, epoch: (lease?.epoch ?? 0) + 1, term }))

function currentLease(lease: Lease | null, node: string, epoch: number): Lease {
  if (lease?.epoch === epoch && lease.holder === node) return lease
  throw new Refusal('PRECONDITION_FAILED', `the lease of ${node} has ended, or another process of that name has begun`)
}
