// The record verifier: unverified facts are checked at the start, within the time of a start, and the rest gradually while
// the server runs. A marker stores its progress; a full verification of the history is a separate command.
import { differenceIn, GENESIS, type Difference } from '#kernel/log/hash-chain.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { faultUnder, SEAL_CHANGED, UNSEALED, type Seal } from '#kernel/log/seals/seals.ts'
import type { Store, StoredFact } from '#kernel/log/store.ts'
import type { Examination } from './examination.ts'
import type { Findings } from './findings.ts'
import { ALONE, type Duty } from '../leases.ts'
import { runLoop } from '../loop.ts'
import { SLEEP_MS_MAX, workersAsOne, type Worker, type WorkerLog } from '../worker.ts'

/** The last verified fact. Its hash reveals a record that was exchanged as a whole. */
export type Marker = { readonly position: number; readonly hash: string; readonly chains?: Chains }
/** The last verified fact of each chain: reveals a missing chain, or one whose end was exchanged. */
export type Chains = Readonly<Record<string, { readonly seq: number; readonly hash: string }>>
export type MarkerFile = { read(): Promise<Marker | null>; write(marker: Marker): Promise<void> }
export const NOTHING_VERIFIED: Marker = { position: 0, hash: GENESIS.hash }

type Tip = { readonly seq: number; readonly hash: string }
export type Checked = { readonly marker: Marker; readonly difference: Difference | null }

/** A few milliseconds of work: the server answers in between. */
const SLICE = 200
const TIPS_MAX = 10_000
/** Beyond this many projects only some are remembered by name. In the others, a gap is noticed but not an exchanged last fact. */
const CHAINS_MAX = 2_000
/**
 * Bounds on what a start waits for. A server is ready within two seconds, however long its record is; the time bounds facts with large
 * images.
 */
const AT_START = { factsMax: 20_000, msMax: 500 }
/** A stop continues verifying for this long, so that the next start finds little to do. */
const AT_STOP = { factsMax: 20_000, msMax: 200 }
type Bounds = typeof AT_START
/** Verifying takes one in this many parts of the time: while writers or readers keep the process busy, and while it is idle. */
const DUTY = 100
const DUTY_IDLE = 10
const REST_MS_MIN = 50
const CAUGHT_UP_MS = 5_000
const SLICES_PER_MARKER = 50

type Slice = Checked & { readonly facts: number; readonly stoppedAt: Marker | null }
export type Verification = {
  next(): Promise<Slice>
  chains(): Chains
  /** Of chains in which it has not seen a fact itself. */
  learn(chains: Chains): void
}

/**
 * Facts in the order of their positions, each against its own hash, its images, its seal and the one before it in its chain. Without a
 * marker it begins at the first fact; what was verified before is only compared with the marker.
 */
export function createVerification(store: Store, from: Marker): Verification {
  const tips = new Map<string, Tip>()
  const chains = new Map<string, Tip>(Object.entries(from.chains ?? {}))
  let marker: Marker = { position: from.position, hash: from.hash }
  let compared = from.position === 0

  async function next(): Promise<Slice> {
    if (!compared) {
      const difference = await differenceAt(store, from)
      if (difference) return { marker, difference, facts: 0, stoppedAt: null }
      compared = true
    }
    const facts = await store.facts({ by: 'position' }, { after: marker.position, limit: SLICE, asStored: true })
    for (const fact of facts) {
      const difference = await differenceOf(fact)
      if (difference) return { marker, difference, facts: facts.length, stoppedAt: { position: fact.position, hash: fact.hash } }
      marker = { position: fact.position, hash: fact.hash }
      if (chains.size < CHAINS_MAX || chains.has(fact.scope)) chains.set(fact.scope, { seq: fact.seq, hash: fact.hash })
    }
    return { marker, difference: null, facts: facts.length, stoppedAt: null }
  }

  async function differenceOf(fact: StoredFact): Promise<Difference | null> {
    const wrong = (what: string): Difference => ({ scope: fact.scope, seq: fact.seq, what })
    // Positions are given without gaps, so the last fact of a chain cannot be taken away unseen.
    if (fact.position !== marker.position + 1)
      return wrong(`the facts at positions ${marker.position + 1} to ${fact.position - 1} are missing`)
    const tip = tips.get(fact.scope) ?? (await tipBefore(store, fact))
    if (tip === null || tip.seq !== fact.seq - 1) return wrong(`it does not follow number ${fact.seq - 1} of its project`)
    if (tips.size >= TIPS_MAX) tips.clear()
    tips.set(fact.scope, { seq: fact.seq, hash: fact.hash })
    let difference: Difference | null
    try {
      difference = differenceIn(fact, tip.hash)
    } catch {
      return wrong('the line cannot be read')
    }
    const fault = difference ? null : await sealFault(fact)
    return fault === null ? difference : wrong(fault)
  }

  /** The seal of the last fact, and the seals that were read after it. */
  let seal: Seal | undefined
  let ahead: Seal[] = []
  async function sealFault(fact: StoredFact): Promise<string | null> {
    while (!seal || seal.last < fact.position) {
      if (ahead.length === 0) ahead = await store.seals(seal?.last ?? marker.position, SLICE)
      const next = ahead.shift()
      if (!next) return UNSEALED
      if (!store.isSeal(next)) return SEAL_CHANGED
      // Behind a marker in the midst of the record there is no seal yet that it must follow.
      const before = seal ?? (marker.position === 0 ? { last: 0, tag: '' } : null)
      if (before && (next.before !== before.tag || next.first !== before.last + 1))
        return 'the seal of its group does not follow the one before it'
      seal = next
    }
    return faultUnder(seal, fact)
  }

  return {
    next,
    chains: () => Object.fromEntries(chains),
    learn(others) {
      for (const [scope, tip] of Object.entries(others)) if (!chains.has(scope) && chains.size < CHAINS_MAX) chains.set(scope, tip)
    },
  }
}

/** Facts that were verified before are still there: the last one of all, and the last one of each chain. */
export async function differenceAt(store: Store, { position, hash, chains = {} }: Marker): Promise<Difference | null> {
  const [found] = await store.facts({ by: 'position' }, { after: position - 1, limit: 1, asStored: true })
  if (found?.position !== position)
    return { scope: 'all', seq: position, what: `the record ends before position ${position}, which was verified before` }
  if (found.hash !== hash) return { scope: found.scope, seq: found.seq, what: 'it is not the fact that was verified before' }
  for (const [scope, tip] of Object.entries(chains)) {
    const [last, next] = await store.facts({ by: 'scope', scope }, { after: tip.seq - 1, limit: 2, asStored: true })
    const wrong = (what: string): Difference => ({ scope, seq: tip.seq, what })
    if (last?.seq !== tip.seq) return wrong('the record of this project ends before this number, which was verified before')
    if (last.hash !== tip.hash) return wrong('it is not the fact that was verified before')
    if (next && next.position <= position) return wrong('a fact was put behind it')
  }
  return null
}

async function tipBefore(store: Store, { scope, seq }: StoredFact): Promise<Tip | null> {
  if (seq === 1) return GENESIS
  const [before] = await store.facts({ by: 'scope', scope }, { after: seq - 2, limit: 1, asStored: true })
  return before?.seq === seq - 1 ? before : null
}

/**
 * Verifies the facts after the marker, before the server answers anybody. Behind a long backlog the newest facts are verified now and the
 * marker stays, so that the other facts are verified while the server runs.
 */
export async function verifyNow(
  store: Store,
  from: Marker,
  clock: Clock,
  signal: AbortSignal,
  bounds: Partial<Bounds> = {},
): Promise<Checked> {
  const { factsMax, msMax } = { ...AT_START, ...bounds }
  const last = await store.position()
  const [skipped] =
    last - from.position > factsMax ? await store.facts({ by: 'position' }, { after: last - factsMax - 1, limit: 1, asStored: true }) : []
  const difference = skipped && from.position > 0 ? await differenceAt(store, from) : null
  if (difference) return { marker: from, difference }
  const verification = createVerification(store, skipped ?? from)
  const found = await advance(verification, { factsMax, msMax }, clock, () => signal.aborted)
  const marker = skipped || !found ? from : { ...found.marker, chains: verification.chains() }
  return { marker, difference: found?.difference ?? (await putBack(store)) }
}

/** The difference if the record no longer follows from the seals that this process knows. */
async function putBack(store: Store): Promise<Difference | null> {
  const what = await store.recheck()
  return what === null ? null : { scope: 'all', seq: store.sealed().position, what }
}

/** Verifies slice after slice until the end, a difference or the bound; null: no slice was verified. */
async function advance(
  verification: Verification,
  { factsMax, msMax }: Bounds,
  clock: Clock,
  isEnough: () => boolean,
): Promise<Checked | null> {
  const began = clock.now()
  let found: Checked | null = null
  for (let facts = 0; facts < factsMax && clock.now() - began < msMax && !isEnough();) {
    const slice = await verification.next()
    found = slice
    facts += slice.facts
    if (slice.difference || slice.facts < SLICE) break
  }
  return found
}

/** Whether the process was busy most of the time since it was last asked. */
export type IsBusy = () => boolean

/** Answers how long to rest after work that began at a time. Shared, the look of one loop would hide from the other that facts were written. */
function pacedBy(store: Store, clock: Clock, isBusy: IsBusy): (began: number) => Promise<number> {
  let seen = store.stats().position
  return async (began) => {
    // A clock that steps must not make it sleep for a day, nor never.
    const tookMs = Math.min(1_000, Math.max(0, clock.now() - began))
    const position = await store.position()
    const isQuiet = !isBusy() && position === seen
    seen = position
    return Math.min(SLEEP_MS_MAX, Math.max(REST_MS_MIN, tookMs * (isQuiet ? DUTY_IDLE : DUTY)))
  }
}

/** `verifying`: facts that were there before it ran are not verified yet. */
export type RecordState = 'verified' | 'verifying' | 'changed'
export type Verifier = Worker & { state(): Checked; record(): RecordState }

/** Repeated examinations of everything else: the findings of each round replace the former ones. */
export type Rounds = { readonly findings: Findings; begin(): Examination; readonly restMs?: number }
const ROUND_REST_MS = 300_000
const EXAMINED_MS = 5

/** `busyness`: creates a load meter for each loop. Without it only written facts show other work. */
export function runVerifier(
  store: Store,
  from: Marker,
  file: MarkerFile,
  clock: Clock,
  log: WorkerLog,
  rounds?: Rounds,
  duty: Duty = ALONE,
  busyness: () => IsBusy = () => () => false,
): Verifier {
  const verification = createVerification(store, from)
  const before = store.stats().position
  let state: Checked = { marker: from, difference: null }
  let saved = from.position

  async function save(): Promise<void> {
    if (state.marker.position === saved) return
    await file.write({ ...state.marker, chains: verification.chains() })
    saved = state.marker.position
  }

  function note({ marker, difference }: Checked): void {
    state = { marker, difference }
    if (difference) log.error({ project: difference.scope, seq: difference.seq }, `the record was changed: ${difference.what}`)
  }

  const restAfterFacts = pacedBy(store, clock, busyness())
  async function step(count: number): Promise<number> {
    const began = clock.now()
    const slice = await verification.next()
    const caughtUp = slice.facts < SLICE
    note(caughtUp && !slice.difference ? { ...slice, difference: await putBack(store) } : slice)
    if (caughtUp || count % SLICES_PER_MARKER === 0) await save()
    return caughtUp ? CAUGHT_UP_MS : restAfterFacts(began)
  }

  let count = 0
  const verifying = runLoop({
    name: 'verifier',
    clock,
    log,
    duty,
    failed: 'could not verify the record; trying again',
    failedMs: SLEEP_MS_MAX,
    turn: () => (state.difference ? Promise.resolve(SLEEP_MS_MAX) : step(++count)),
  })

  /** One round, in portions of a few milliseconds. */
  async function round({ findings, begin }: Rounds, signal: AbortSignal): Promise<void> {
    const examination = begin()
    const restAfter = pacedBy(store, clock, busyness())
    for (let done = false; !done && !signal.aborted;) {
      const began = clock.now()
      done = await examination.next(EXAMINED_MS, clock)
      for (const difference of examination.found()) findings.add(difference)
      await clock.sleep(await restAfter(began), signal)
    }
    if (signal.aborted) return
    verification.learn(examination.chains())
    await findings.replace(examination.found())
  }

  const examine = (some: Rounds): Worker =>
    runLoop({
      name: 'examiner',
      clock,
      log,
      duty,
      failed: 'could not examine the store; trying again',
      failedMs: some.restMs ?? ROUND_REST_MS,
      async turn(signal) {
        await round(some, signal)
        return some.restMs ?? ROUND_REST_MS
      },
    })

  async function finish(): Promise<void> {
    const last = state.difference ? null : await advance(verification, AT_STOP, clock, () => false)
    if (last) note(last)
    await save()
    await rounds?.findings.save()
  }

  const running = workersAsOne(verifying, ...(rounds ? [examine(rounds)] : []))
  const isChanged = (): boolean => state.difference !== null || (rounds?.findings.all().length ?? 0) > 0
  return {
    ...running,
    state: () => state,
    record: () => (isChanged() ? 'changed' : state.marker.position < before ? 'verifying' : 'verified'),
    async stop() {
      await running.stop()
      await finish().catch((error: unknown) => log.warn({ error: String(error) }, 'could not save how far the record is verified'))
    },
  }
}
