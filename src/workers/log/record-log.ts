// The log of the record: it grows with durable facts, signs checkpoints, and has them cosigned. It works beside the commits, so no call waits for
// it; what it signs can always be made again from the facts, so a crash at any moment leads to the same root.
import { isAway, Refusal } from '#kernel/declare/errors.ts'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Store } from '#kernel/log/store.ts'
import type { Tail } from '#kernel/log/tail.ts'
import { isSameBytes } from '#kernel/log/tree/base64.ts'
import { checkpointText, type OpenCheckpoint } from '#kernel/log/tree/checkpoint.ts'
import type { VerifierKey } from '#kernel/log/tree/note.ts'
import type { Policy } from '#kernel/log/tree/policy.ts'
import type { Tile } from '#kernel/log/tree/tiles.ts'
import { setBounded } from '#kernel/codec/bounded-map.ts'
import { limits } from '#kernel/limits.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { RecordLog, SignedHead } from '#kernel/log/record-log.ts'
import { nodeCheckpointIn, type LogKey } from '../keys/log-key.ts'
import type { Duty } from '../leases.ts'
import { runLoop } from '../loop.ts'
import { SLEEP_MS_MAX, workersAsOne, type Worker, type WorkerLog } from '../worker.ts'
import { openLogTree, RecordDiffers, type LogTree, type TileFiles } from './log-tree.ts'
import { createWitnesses, type WitnessHealth, type Witnesses } from './witnesses.ts'

/** Where the last checkpoints are, shared by all servers of one record. */
export type Checkpoints = {
  read(which: 'signed' | 'witnessed'): Promise<string | null>
  write(which: 'signed' | 'witnessed', note: string): Promise<void>
  /** Another log begins. */
  clear(): Promise<void>
  /** Keeps a cosigned one beside earlier ones. */
  keep(note: string, at: number): Promise<void>
}

export type LogHealth = {
  readonly origin: string
  /** Facts in the tree, under the last signature, and under enough cosignatures. */
  readonly size: number
  readonly signed: number
  readonly witnessed: number
  readonly witnesses: readonly WitnessHealth[]
}

export type OpenLog = RecordLog & {
  readonly worker: Worker
  /** The newest checkpoint; null before the first. */
  checkpoint(): Promise<string | null>
  tile(tile: Tile): Promise<Uint8Array | null>
  health(): LogHealth
  /** Signs what is not signed yet, after all other work has ended. */
  finish(): Promise<void>
}

export type LogOptions = {
  readonly store: Store
  readonly tail: Tail
  readonly origin: string
  /** Another one after a rotation. */
  key(): LogKey
  /** Keys that signed earlier, by the record. */
  readonly earlier: readonly VerifierKey[]
  /** The witnesses to ask. */
  readonly policy: Policy
  readonly everyMs: number
  readonly files: TileFiles
  readonly checkpoints: Checkpoints
  readonly clock: Clock
  readonly log: WorkerLog
  readonly duty: Duty
  /** The record was changed: from now on nothing is signed. */
  changed(difference: Difference): void
}

/** Full tiles that a start compares with the record; the others are compared while the server runs. */
const TILES_AT_START = 80
const TILES_PER_TURN = 4
const TILES_REST_MS = 500
const ROUND_REST_MS = 3_600_000
/** How long a proof waits for the server that signs. */
const OTHER_MS = 3_000
const LOOK_MS = 100
/** How soon a witness that did not cosign is asked again, even if no fact arrives. */
const ASK_AGAIN_MS = 10_000
/** A server with nothing to do looks again after this, for facts of other servers that are proven durable only later. */
const BEHIND_MS = 500

type State = LogOptions & {
  readonly tree: LogTree
  readonly witnesses: Witnesses
  readonly cosigners: readonly VerifierKey[]
  /** By size. */
  readonly heads: Map<number, SignedHead>
  readonly stopping: AbortController
  signed: SignedHead | null
  witnessed: SignedHead | null
  asking: Promise<void> | null
  /** Signs one after the other. */
  signing: Promise<unknown>
  broken: Difference | null
}

/** Throws RecordDiffers if the record does not continue the last checkpoint. */
export async function openRecordLog(options: LogOptions): Promise<OpenLog> {
  const { checkpoints, policy, log } = options
  const cosigners = policy.witnesses.map(({ key }) => key)
  const openNote = (note: string | null): OpenCheckpoint | null =>
    note === null ? null : nodeCheckpointIn(note, [...options.key().keys, ...options.earlier, ...cosigners])
  const [signedNote, witnessedNote] = [await checkpoints.read('signed'), await checkpoints.read('witnessed')]
  const last = openNote(signedNote)
  const tree = await openCompared(options, last)
  const state: State = {
    ...options,
    tree,
    witnesses: createWitnesses(policy, log),
    cosigners,
    heads: new Map(),
    stopping: new AbortController(),
    signed: last && { size: last.size, note: signedNote! },
    witnessed: null,
    asking: null,
    signing: Promise.resolve(),
    broken: null,
  }
  const witnessed = openNote(witnessedNote)
  if (witnessed && witnessed.size <= (last?.size ?? 0)) state.witnessed = { size: witnessed.size, note: witnessedNote! }
  for (const head of [state.signed, state.witnessed]) if (head) state.heads.set(head.size, head)
  return logOf(state)
}

async function openCompared(options: LogOptions, last: OpenCheckpoint | null): Promise<LogTree> {
  const { store, files, log, origin } = options
  const noteRepair = (path: string): void => log.warn({ tile: path }, 'a tile of the log was missing or changed, and was made again')
  const open = (size: number): Promise<LogTree> => openLogTree({ store, files, repaired: noteRepair }, size)
  if (last === null) return open(0)
  if (last.origin !== origin || !last.signed.some(({ time }) => time === null))
    throw new RecordDiffers(last.size, `the last checkpoint is not one of the log ${origin} under its key`)
  await store.fresh()
  const position = await store.position()
  if (position < last.size)
    throw new RecordDiffers(
      position,
      `it ends at position ${position}, and the log has signed ${last.size} facts: it was put back to an earlier state`,
    )
  const tree = await open(last.size)
  await tree.growTo(last.size)
  if (!isSameBytes(tree.root(), last.root)) return openAgain(open, last)
  const full = Math.floor(last.size / 256)
  for (let n = Math.max(0, full - TILES_AT_START); n < full; n++) await tree.compare(n)
  return tree
}

/** Tiles were changed, or the record: made again from the record alone, the tree tells which. */
async function openAgain(open: (size: number) => Promise<LogTree>, last: OpenCheckpoint): Promise<LogTree> {
  const tree = await open(0)
  await tree.growTo(last.size)
  if (isSameBytes(tree.root(), last.root)) return tree
  throw new RecordDiffers(last.size, `its first ${last.size} facts are not those that the log has signed`)
}

function logOf(state: State): OpenLog {
  const { origin, tree } = state
  const worker = workersAsOne(signingLoop(state), comparingLoop(state))
  return {
    origin,
    worker: {
      ...worker,
      async stop() {
        state.stopping.abort()
        await worker.stop()
        await state.asking
      },
    },
    covering: (position) => coverPosition(state, position),
    at: (size) => headAt(state, size),
    inclusion: (index, size) => tree.inclusion(index, size),
    async checkpoint() {
      if (!state.duty.holds()) await learn(state)
      // While witnesses are asked about the newest, the one before has their cosignatures.
      const isAsking = state.asking !== null && state.witnessed !== null && state.cosigners.length > 0
      return (isAsking ? state.witnessed : state.signed)?.note ?? null
    },
    tile: (tile) => tree.tile(tile),
    health: () => ({
      origin,
      size: tree.size(),
      signed: state.signed?.size ?? 0,
      witnessed: (state.cosigners.length === 0 ? state.signed : state.witnessed)?.size ?? 0,
      witnesses: state.witnesses.health(),
    }),
    async finish() {
      if (state.broken || !state.duty.holds()) return
      // Without it the next start has more to read, and one check less.
      const warn = (error: unknown): void => state.log.warn({ error: String(error) }, 'the last checkpoint of the log could not be signed')
      await grown(state)
        .then(() => sign(state))
        .catch(warn)
    },
  }
}

// --- Growing and signing ---------------------------------------------------------------------------------------------------

function signingLoop(state: State): Worker {
  const { clock, log, tail, everyMs, duty, store } = state
  return runLoop({
    name: 'log',
    clock,
    log,
    tail,
    restMs: everyMs,
    failed: 'the log could not be continued; trying again',
    async turn() {
      if (state.broken) return SLEEP_MS_MAX
      await grown(state)
      if (duty.holds()) {
        const { size } = await sign(state)
        if (!state.witnesses.isCosigned(size)) {
          askSoon(state)
          return ASK_AGAIN_MS
        }
      }
      return store.isShared && store.stats().position > state.tree.size() ? BEHIND_MS : SLEEP_MS_MAX
    },
  })
}

/** Appends what cannot be lost any more. */
async function grown(state: State): Promise<void> {
  const { position } = state.store.sealed()
  if (position > state.tree.size()) await orBroken(state, () => state.tree.growTo(position))
}

async function orBroken<T>(state: State, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof RecordDiffers && state.broken === null) {
      state.broken = error.difference
      state.changed(error.difference)
    }
    throw error
  }
}

function sign(state: State): Promise<SignedHead> {
  const next = state.signing.catch(() => undefined).then(() => signNow(state))
  state.signing = next
  return next
}

async function signNow(state: State): Promise<SignedHead> {
  const { tree, origin, key, checkpoints } = state
  const size = tree.size()
  if (state.signed && state.signed.size >= size) return state.signed
  const text = checkpointText({ origin, size, root: tree.root() })
  const head = { size, note: `${text}\n${key().sign(text)}` }
  // On disk first: the next start compares the record with everything that was ever shown.
  await checkpoints.write('signed', head.note)
  remember(state, head)
  state.signed = head
  askSoon(state)
  return head
}

const remember = ({ heads }: State, head: SignedHead): void => setBounded(heads, head.size, head, limits.logHeadsKeptMax)

/** Calls do not wait for it. While witnesses are asked, further checkpoints wait for the next round, which takes the newest. */
function askSoon(state: State): void {
  if (state.asking !== null || state.cosigners.length === 0) return
  const asked = state.signed!
  state.asking = ask(state, asked)
    .catch((error: unknown) => void (isAway(error) || state.log.error({ err: error }, 'the witnesses could not be asked')))
    .finally(() => {
      state.asking = null
      if (state.signed !== null && state.signed.size > asked.size && !state.stopping.signal.aborted) askSoon(state)
    })
}

async function ask(state: State, { size, note }: SignedHead): Promise<void> {
  const { tree, policy, checkpoints, clock, cosigners, key, stopping } = state
  const { text, signed } = nodeCheckpointIn(note, [...key().keys, ...state.earlier, ...cosigners])
  const bare = `${text}\n${signed.flatMap(({ time, line }) => (time === null ? [line] : [])).join('')}`
  const consistency = (old: number): Promise<readonly Uint8Array[]> => tree.consistency(old, size)
  const lines = await state.witnesses.ask({ size, text, note: bare, consistency }, stopping.signal)
  if (lines.length === 0) return
  const answered = lines.map((line) => line.split(' ')[1])
  const before = signed.flatMap(({ time, line, key: { name } }) => (time === null || answered.includes(name) ? [] : [line]))
  const head = { size, note: bare + [...before, ...lines].join('') }
  remember(state, head)
  if (state.signed?.size === size) {
    state.signed = head
    await checkpoints.write('signed', head.note)
  }
  const seen = nodeCheckpointIn(head.note, cosigners).signed
  if (!policy.isMet(seen.map(({ key: cosigner }) => cosigner))) return
  state.witnessed = head
  await checkpoints.write('witnessed', head.note)
  await checkpoints.keep(head.note, clock.now())
}

// --- Checkpoints for proofs ------------------------------------------------------------------------------------------------

/** Another server signs: its checkpoints are shared. */
async function learn(state: State): Promise<void> {
  for (const which of ['signed', 'witnessed'] as const) {
    const note = await state.checkpoints.read(which)
    if (note === null || note === state[which]?.note) continue
    const { size } = nodeCheckpointIn(note, [...state.key().keys, ...state.earlier])
    if (size < (state[which]?.size ?? 0)) continue
    state[which] = { size, note }
    remember(state, { size, note })
  }
}

async function coverPosition(state: State, position: number): Promise<SignedHead> {
  const { duty, clock, stopping } = state
  for (let waited = 0; ; waited += LOOK_MS) {
    refuseBroken(state)
    if (!duty.holds()) await learn(state)
    const { signed, witnessed } = state
    if (witnessed && witnessed.size >= position) return growToHead(state, witnessed)
    if (signed && signed.size >= position) return growToHead(state, signed)
    await grown(state)
    if (duty.holds() && state.tree.size() >= position) await sign(state)
    else if (waited >= OTHER_MS)
      throw new Refusal('UNAVAILABLE', 'the log does not cover this fact yet: repeat the call', { retry_after: 1 })
    else await clock.sleep(LOOK_MS, stopping.signal)
  }
}

/** A proof needs the tree on this server to have the size of the checkpoint. */
async function growToHead(state: State, head: SignedHead): Promise<SignedHead> {
  if (state.tree.size() < head.size) await orBroken(state, () => state.tree.growTo(head.size))
  return head
}

function refuseBroken({ broken }: State): void {
  if (broken) throw new Refusal('UNAVAILABLE', `the log has stopped, because the record was changed: ${broken.what}`, { retry_after: 60 })
}

async function headAt(state: State, size: number): Promise<SignedHead> {
  refuseBroken(state)
  const { heads, tree, origin, key, duty } = state
  const known = heads.get(size)
  if (known) return known
  if (!duty.holds() || size > tree.size())
    throw new Refusal('UNAVAILABLE', 'this server does not have that checkpoint any more: begin again without the cursor', {
      retry_after: 1,
    })
  // A restart forgets them; the same size always has the same root.
  const text = checkpointText({ origin, size, root: await tree.rootAt(size) })
  const head = { size, note: `${text}\n${key().sign(text)}` }
  remember(state, head)
  return head
}

// --- Tiles against the record ----------------------------------------------------------------------------------------------

/** All full tiles in rounds, a few at a time. */
function comparingLoop(state: State): Worker {
  const { clock, log, tree } = state
  let next = 0
  return runLoop({
    name: 'log tiles',
    clock,
    log,
    firstMs: TILES_REST_MS,
    failed: 'the tiles of the log could not be compared with the record; trying again',
    failedMs: SLEEP_MS_MAX,
    async turn() {
      if (state.broken) return SLEEP_MS_MAX
      const end = Math.min(Math.floor(tree.size() / 256), next + TILES_PER_TURN)
      for (; next < end; next++) await orBroken(state, () => tree.compare(next))
      if (next < Math.floor(tree.size() / 256)) return TILES_REST_MS
      next = 0
      return ROUND_REST_MS
    },
  })
}
