// A whole installation in one process, with a clock and a chance of its own: the cast is registered, scenes can be played.
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { contracts } from '#contracts/index.ts'
import type { Perform } from '#kernel/call/effects.ts'
import { SYSTEM, type Actor, type ProjectRole } from '#kernel/declare/access.ts'
import { createKernel, type Kernel, type KernelOptions } from '#kernel/kernel.ts'
import type { Operation, Protocol, Refs, Step } from '#kernel/declare/operation.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { END } from '#kernel/declare/schema.ts'
import type { Store, Versioned } from '#kernel/log/store.ts'
import { grants } from '#protocols/collaboration/task/grants.ts'
import { directory, people } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { memoryStore } from '#stores/memory.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { createPasskeys } from '#workers/keys/passkeys.ts'
import { createPresence } from '#workers/presence.ts'
import { testNotary } from './notary.ts'
import { worldLog } from '../log/world-log.ts'

export const START_MS = Date.UTC(2026, 0, 1)

export type World = {
  readonly kernel: Kernel
  readonly store: Store
  readonly cast: Record<string, Actor>
  advance(ms: number): void
  call(as: string, operation: string, input?: object, options?: { key?: string }): Promise<any>
  play(steps: readonly Step[], refs?: Refs): Promise<Refs>
  close(): Promise<void>
}

const inDefault = (role: ProjectRole): ReadonlyMap<string, ProjectRole> => new Map([['project_default', role]])

/** The actor that a credential of each of them would make. */
export const cast: Record<string, Actor> = {
  system: SYSTEM,
  admin: { id: 'service_admin', kind: 'service', projects: 'all' },
  owner: { id: 'user_owner', kind: 'human', projects: inDefault('owner'), owner: true },
  alice: { id: 'user_alice', kind: 'human', projects: inDefault('member') },
  rita: { id: 'user_rita', kind: 'human', projects: inDefault('member') },
  bob: { id: 'user_bob', kind: 'human', projects: inDefault('member') },
  // Bob while he is Alice's substitute.
  deputy: { id: 'user_bob', kind: 'human', projects: inDefault('member'), actsFor: new Set(['user_alice']) },
  // One for each role alone: `rolesSteps` registers them.
  chief: { id: 'user_carl', kind: 'human', projects: new Map(), owner: true },
  auditor: { id: 'user_otto', kind: 'human', projects: 'all', auditor: true },
  lead: { id: 'user_lena', kind: 'human', projects: inDefault('owner') },
  viewer: { id: 'user_vera', kind: 'human', projects: inDefault('viewer') },
  mallory: { id: 'user_mallory', kind: 'human', projects: new Map([['project_other', 'owner']]) },
  devin: { id: 'agent_devin', kind: 'agent', projects: inDefault('member') },
  robin: { id: 'agent_robin', kind: 'agent', projects: inDefault('member') },
  spy: { id: 'agent_spy', kind: 'agent', projects: new Map([['project_other', 'member']]) },
  project: { id: 'project_default', kind: 'service', projects: inDefault('owner') },
}

/** Seeded bytes, so that a run can be repeated. */
export function seededEntropy(seed = 1): (count: number) => Uint8Array {
  let state = seed >>> 0
  return (count) =>
    Uint8Array.from({ length: count }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return state >>> 24
    })
}

export type WorldOptions = {
  store?: Store
  seed?: number
  protocols?: readonly Protocol[]
  asksPerMinute?: number | null
  changesPerMinute?: number | null
  readsPerMinute?: number | null
  terms?: KernelOptions['terms']
  notary?: Notary
  populated?: boolean
  blobs?: KernelOptions['blobs']
  /** null: nothing does what commands want to be done outside. */
  perform?: Perform | null
  startMs?: number
  /** The real clock, for tests with real sockets and processes. */
  now?: () => number
  /** Lets calls wait. */
  sleep?: KernelOptions['sleep']
  /** Errands are done before the call that leaves them is answered, as a server does. */
  doesErrands?: boolean
  /** As on one of several servers. */
  timekeeper?: KernelOptions['timekeeper']
}

/** The installation as a harness among others. */
export const testHarness: NonNullable<NonNullable<KernelOptions['terms']>['harness']> = {
  id: 'lab-own',
  replyMs: 30_000,
  gapMs: 30_000,
  isPrivate: true,
  checksSenders: true,
  origin: () => 'http://127.0.0.1:3402',
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.values(value).forEach(frozen)
  return Object.freeze(value)
}

/** Freezes documents on read: they are shared, so code that changes one in place must fail here. */
function withFrozenDocuments(store: Store): Store {
  const { read, peek } = store
  const freeze = <F extends Versioned | null | undefined>(found: F): F => {
    if (found) frozen(found.value)
    return found
  }
  store.read = async (keys) => (await read.call(store, keys)).map(freeze)
  if (peek) store.peek = (key) => freeze(peek.call(store, key))
  return store
}

export async function createWorld(options: WorldOptions = {}): Promise<World> {
  const store = withFrozenDocuments(options.store ?? memoryStore())
  let now = options.startMs ?? START_MS
  const clock = options.now ?? (() => now)
  const recordLog = worldLog(store)
  const kernel = createKernel({
    store,
    recordLog: () => recordLog,
    blobs: options.blobs ?? { size: (checksum) => Promise.resolve(sentBytes.get(checksum) ?? null) },
    protocols: options.protocols ?? protocols,
    contracts,
    directory,
    people,
    grants,
    presence: createPresence(clock).presence,
    notary: options.notary ?? testNotary,
    passkeys: createPasskeys(() => ({ id: 'localhost', origins: ['http://localhost:3402'] })),
    terms: { harness: testHarness, ...options.terms },
    ...(options.perform === null ? {} : { perform: options.perform ?? usualOutcome }),
    // Each look at the clock is a little later, so that no two events share an instant by accident.
    now: options.now ?? (() => ++now),
    ...(options.sleep ? { sleep: options.sleep } : {}),
    doesErrands: options.doesErrands ?? false,
    ...(options.timekeeper ? { timekeeper: options.timekeeper } : {}),
    entropy: seededEntropy(options.seed),
    asksPerMinute: options.asksPerMinute ?? null,
    changesPerMinute: options.changesPerMinute ?? null,
    readsPerMinute: options.readsPerMinute ?? null,
  })
  const world: World = {
    kernel,
    store,
    cast,
    advance(ms) {
      now += ms
    },
    call: (as, operation, input = {}, more = {}) =>
      kernel.call(operation, input, cast[as]!, { ...receivedWith(kernel, operation, input), ...more }),
    async play(steps, refs = {}) {
      for (const step of steps) {
        if ('advanceMs' in step) world.advance(step.advanceMs)
        else Object.assign(refs, await world.call(step.as, step.call, typeof step.input === 'function' ? step.input(refs) : step.input))
      }
      return refs
    },
    close: () => store.close(),
  }
  if (options.populated ?? true) await populate(world)
  return world
}

/** The answer of the capability of the examples. */
const usualOutcome: Perform = (_, __, conclude) => conclude({ output: { hits: [] }, duration_ms: 1 })

/** Sizes of all bytes that were ever sent in this process: the same checksum is the same bytes everywhere. */
const sentBytes = new Map<string, number>()

/** The bytes that a binding would have received with an operation that takes bytes: just those announced. */
function receivedWith(kernel: Kernel, operation: string, input: object): { received?: { checksum: string; size: number } } {
  const { checksum, size } = input as { checksum?: string; size?: number }
  if (checksum === undefined || size === undefined) return {}
  const op = kernel.protocols.flatMap(({ name, operations }) => operations.filter((one) => `${name}/${one.name}` === operation))[0]
  if (op?.kind !== 'command' || !op.upload) return {}
  sentBytes.set(checksum, size)
  return { received: { checksum, size } }
}

export const castSteps: readonly Step[] = [
  { as: 'system', call: 'identity/project.add', input: { id: 'project_default', name: 'Default' } },
  { as: 'system', call: 'identity/project.add', input: { id: 'project_other', name: 'Other' } },
  { as: 'system', call: 'identity/user.add', input: { id: 'user_owner', name: 'Olga Owner', role: 'owner' } },
  { as: 'system', call: 'identity/project.join', input: { project_id: 'project_default', subject: 'user_owner', role: 'owner' } },
  { as: 'system', call: 'identity/user.add', input: { id: 'user_alice', name: 'Alice' } },
  { as: 'system', call: 'identity/user.add', input: { id: 'user_rita', name: 'Rita Reviewer' } },
  { as: 'system', call: 'identity/user.add', input: { id: 'user_bob', name: 'Bob' } },
  { as: 'system', call: 'identity/user.add', input: { id: 'user_mallory', name: 'Mallory', project_id: null } },
  { as: 'system', call: 'identity/project.join', input: { project_id: 'project_other', subject: 'user_mallory', role: 'owner' } },
  { as: 'system', call: 'identity/agent.add', input: { id: 'agent_devin', name: 'Devin', owner: 'user_alice' } },
  { as: 'system', call: 'identity/agent.add', input: { id: 'agent_robin', name: 'Robin', owner: 'user_alice' } },
  { as: 'system', call: 'identity/agent.add', input: { id: 'agent_spy', name: 'Spy', owner: 'user_mallory', project_id: 'project_other' } },
]

/** People with a single role: in the installation alone, or in the project alone. */
export const rolesSteps: readonly Step[] = [
  { as: 'system', call: 'identity/user.add', input: { id: 'user_carl', name: 'Carl Chief', role: 'owner', project_id: null } },
  { as: 'system', call: 'identity/user.add', input: { id: 'user_otto', name: 'Otto Auditor', role: 'auditor', project_id: null } },
  ...Object.entries({ user_lena: 'owner', user_vera: 'viewer' }).flatMap(([id, role]): Step[] => [
    { as: 'system', call: 'identity/user.add', input: { id, name: id.slice(5), project_id: null } },
    { as: 'system', call: 'identity/project.join', input: { project_id: 'project_default', subject: id, role } },
  ]),
]

async function populate(world: World): Promise<void> {
  await world.play(castSteps)
}

export type StoreMaker = { readonly name: string; open(): Store; dispose(): void }

/** Every store, each time a fresh one. */
export function storeMakers(): StoreMaker[] {
  const folders: string[] = []
  return [
    { name: 'memory', open: () => memoryStore(), dispose() {} },
    {
      name: 'sqlite',
      open() {
        const folder = mkdtempSync(join(tmpdir(), 'countersign-test-'))
        folders.push(folder)
        return sqliteStore(join(folder, 'countersign.db'))
      },
      dispose() {
        for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
      },
    },
  ]
}

/** A denial is written after its answer: from here on it can be read, on every store. */
export const settled = (): Promise<void> => new Promise((done) => setImmediate(done))

/** A hash over every document: a refusal must leave it as it was. Facts do not count, since a denial is written down. */
export async function stateHash(store: Store): Promise<string> {
  const hash = createHash('sha256')
  for (let after = ''; ;) {
    const keys = await store.keys(after, END, 500)
    const rows = await store.read(keys)
    for (const [i, key] of keys.entries()) hash.update(`${key} ${rows[i]!.version} ${canonical(rows[i]!.value)}\n`)
    if (keys.length < 500) return hash.digest('hex')
    after = keys.at(-1)!
  }
}

type Called = Exclude<Operation, { kind: 'stream' }>
/** Commands and queries; a stream is followed, not called. */
export function operationsOf(all: readonly Protocol[]): { protocol: Protocol; op: Called; name: string }[] {
  return all.flatMap((protocol) =>
    protocol.operations
      .filter((op): op is Called => op.kind !== 'stream')
      .map((op) => ({ protocol, op, name: `${protocol.name}/${op.name}` })),
  )
}
export { protocols }
