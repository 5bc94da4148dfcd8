// The examination of everything that is stored against the record: facts, documents, index entries, counts, bytes, and whatever else the
// server keeps. In portions, so that calls are served in between.
import type { Blobs } from '#kernel/ports/blobs.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { END, idIn, keyOf, prefixOf, type AnyDoc } from '#kernel/declare/schema.ts'
import type { Found, Store } from '#kernel/log/store.ts'
import { Upload } from '#protocols/collaboration/artifact/uploads.ts'
import { File } from '#protocols/execution/answering/file.ts'
import { createVerification, NOTHING_VERIFIED, type Chains } from './record-verifier.ts'
import { readSound } from './sound-documents.ts'

export type Examination = {
  /** Continues for about this long; true: the examination is complete. */
  next(ms: number, clock: Pick<Clock, 'now'>): Promise<boolean>
  found(): readonly Found[]
  chains(): Chains
  /** Its current subject and progress, for waiting people. */
  message(): string
}

export type Examined = {
  readonly store: Store
  readonly blobs?: Pick<Blobs, 'check'>
  /** Files beside the store: keys, and the marker of the verified record. */
  readonly beside?: () => Promise<readonly Found[]>
}

const PORTION = 20
const FOUND_MAX = 1_000

export function createExamination(examined: Examined): Examination {
  const found: Found[] = []
  const progress = { message: 'facts' }
  const chains: Record<string, Chains[string]> = {}
  const taking = {
    take: (some: readonly Found[]) => void found.push(...some.slice(0, FOUND_MAX - found.length)),
    say: (message: string) => void (progress.message = message),
    learn: (some: Chains) => void Object.assign(chains, some),
  }
  const steps = stepsOf(examined, taking)
  return {
    async next(ms, clock) {
      const until = clock.now() + ms
      do if ((await steps.next()).done) return true
      while (clock.now() < until)
      return false
    },
    found: () => found,
    chains: () => chains,
    message: () => progress.message,
  }
}

type Taking = { take(found: readonly Found[]): void; say(message: string): void; learn(chains: Chains): void }

async function* stepsOf({ store, blobs, beside }: Examined, taking: Taking) {
  const { take, say } = taking
  if (beside) take(await beside())
  yield* factsIn(store, taking)
  const { atRest } = store
  for (let keys = await atRest.keys('', PORTION); keys.length > 0; keys = await atRest.keys(keys.at(-1)!, PORTION)) {
    for (const key of keys) take(await atRest.document(key))
    say(`documents: ${keys.at(-1)!}`)
    yield
  }
  for (let entries = await store.scan('', END, PORTION); entries.length > 0; entries = await store.scan(entries.at(-1)!, END, PORTION)) {
    for (const entry of entries) take(await atRest.entry(entry))
    say(`index entries: ${entries.at(-1)!.replaceAll('\0', ' ')}`)
    yield
  }
  for (
    let prefixes = await atRest.prefixes('', PORTION);
    prefixes.length > 0;
    prefixes = await atRest.prefixes(prefixes.at(-1)!, PORTION)
  ) {
    for (const prefix of prefixes) take(await atRest.count(prefix))
    yield
  }
  for await (const differing of atRest.recount()) {
    take(differing)
    say('counts')
    yield
  }
  if (blobs) for (const kind of [Upload, File]) yield* bytesOf(store, blobs, kind, take)
}

/** Checks every fact from the first on, and continues after a difference. */
async function* factsIn(store: Store, { take, say, learn }: Taking) {
  const how = await store.recheck()
  if (how !== null) take([{ what: 'record', how }])
  const [first] = await store.facts({ by: 'position' }, { after: -Number.MAX_SAFE_INTEGER, limit: 1, asStored: true })
  if (first && first.position < 1)
    take([{ what: `project ${first.scope}, number ${first.seq}`, how: `it is at position ${first.position}, before the first` }])
  let verification = createVerification(store, NOTHING_VERIFIED)
  for (;;) {
    const { marker, difference, facts, stoppedAt } = await verification.next()
    learn(verification.chains())
    if (difference) take([{ what: `project ${difference.scope}, number ${difference.seq}`, how: difference.what }])
    if (stoppedAt) verification = createVerification(store, stoppedAt)
    else if (facts === 0) return
    say(`facts: ${marker.position} of ${await store.position()}`)
    yield
  }
}

/** Checks the bytes that documents refer to: they exist and have their checksum. */
async function* bytesOf(store: Store, blobs: Pick<Blobs, 'check'>, kind: AnyDoc, take: Taking['take']) {
  const prefix = prefixOf(kind, 'held', [])
  for (let after = prefix; ;) {
    const entries = await store.scan(after, prefix + END, PORTION)
    for (const { value } of await readSound(
      store,
      entries.map((entry) => keyOf(kind, idIn(entry))),
    )) {
      const { id, checksum, state } = value as { id: string; checksum: string; state: string }
      const bytes = state === 'expired' ? 'sound' : await blobs.check(checksum)
      if (bytes !== 'sound')
        take([{ what: keyOf(kind, id), how: `the bytes of ${checksum} are ${bytes === 'missing' ? 'not there' : 'others'}` }])
      yield
    }
    if (entries.length === 0) return
    after = entries.at(-1)!
  }
}
