// The keys of an installation whose servers share a database. The first server creates them; the database stores them wrapped under the secret.
import type { Found } from '#kernel/log/store.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { sealDatabase } from '#stores/postgres/baseline.ts'
import { OtherSecret, type WrappedValues } from '#stores/postgres/wrapped-values.ts'
import { newRing, ringFrom, rotateRing, type KeyRing } from '#workers/keys/key-ring.ts'
import { taggerOf } from '#workers/keys/notary.ts'
import { newPushRing, pushRingFrom, rotatePushRing, type PushRing } from '#workers/keys/push-keys.ts'
import type { MarkerFile } from '#workers/upkeep/record-verifier.ts'
import type { Anchor } from '../folder/anchor.ts'
import { markerFrom, textOfMarker } from '../folder/data-folder.ts'
import { SERVER_KEY_BYTES, type KeyMaker, type Keys } from '../folder/key-files.ts'
import { textOfPushRing } from '../folder/push-key-file.ts'
import { StartError } from '../start-error.ts'

/** Their names in the database. */
export const SERVER_KEY_NAME = 'server key'
export const RING_NAME = 'signing keys'
export const PUSH_NAME = 'push keys'
const MARKER_NAME = 'verified'
/** There while a move into the database is under way. */
export const MOVE_NAME = 'move'

/** Appended to the server key when the record is sealed: with it, a database without seals has lost them. */
const SEALED = ' sealed'
export const sealedKeyText = (key: string): string => (isSealedKey(key) ? key : key + SEALED)
export const serverKeyIn = (text: string): string => text.replace(SEALED, '')
export const isSealedKey = (text: string): boolean => text.endsWith(SEALED)

/** `isForced`: the operator wants a start in spite of differences. `anchor`: null if this folder has none. */
export type SealWish = { readonly isForced: boolean; readonly anchor: Anchor | null }

/**
 * Seals a record that was written before there were seals. To be called before anything is read from the record or written to it.
 * Returns the differences if the start was forced.
 */
export async function sealShared(
  url: string,
  values: WrappedValues,
  wish: () => Promise<SealWish> = () => Promise.resolve({ isForced: false, anchor: null }),
  signal?: AbortSignal,
): Promise<readonly Found[]> {
  const found = await values.read(SERVER_KEY_NAME)
  if (!found) throw new StartError('there are no keys in the database: start a server first')
  const tag = taggerOf(Buffer.from(serverKeyIn(found.text), 'base64url'))
  const wasSealed = isSealedKey(found.text)
  let isForced = false
  const differences = await sealDatabase(url, signal, async () => {
    const { anchor, ...wished } = await wish()
    isForced = wished.isForced
    // A restored backup of the database brings an old mark back with it. An anchor proves that a seal existed.
    return { tag, isForced, wasSealed: (wasSealed || anchor !== null) && anchor?.accepted !== true }
  })
  const [first] = differences
  if (first && !isForced)
    throw new StartError(
      `RECORD_CHANGED: the record in the database was not sealed: ${first.what}: ${first.how}. Restore a backup, or look at it with --skip-verify. If you restored a backup from before there were seals, run \`countersign audit accept\` with this data folder, and start again`,
    )
  // Another server may have been faster.
  if (!wasSealed) await values.write(SERVER_KEY_NAME, sealedKeyText(found.text), found.version)
  return differences
}

/** `secretName`: the option that gave the secret, for the message about a wrong one. */
export async function openSharedKeys(values: WrappedValues, secretName: string, { now, entropy }: KeyMaker): Promise<Keys> {
  if (await orOther(secretName, () => values.read(MOVE_NAME)))
    throw new StartError('a move into this database is not finished: run `countersign migrate` again, it continues where it stopped')
  const stored = await orOther(secretName, async () => ({
    server: await readOrMake(values, SERVER_KEY_NAME, () => sealedKeyText(Buffer.from(entropy(SERVER_KEY_BYTES)).toString('base64url'))),
    ring: await readOrMake(values, RING_NAME, () => JSON.stringify(newRing(timestampOf(now())))),
  }))
  const server = Buffer.from(serverKeyIn(stored.server.text), 'base64url')
  if (server.length !== SERVER_KEY_BYTES) throw new StartError('the server key in the database is broken: restore a backup')
  let { version } = stored.ring
  let ring = ringFrom(stored.ring.text)
  return {
    server,
    ring: () => ring,
    async refresh() {
      const next = await values.read(RING_NAME)
      if (!next || next.version === version) return false
      const found = ringFrom(next.text)
      if (![found.current, ...found.retired].some(({ kid }) => kid === ring.current.kid))
        throw new StartError(`the database has another key ring: it does not hold the key ${ring.current.kid}, which is in use`)
      ring = found
      version = next.version
      return true
    },
  }
}

async function readOrMake(values: WrappedValues, name: string, make: () => string): Promise<{ version: number; text: string }> {
  const found = await values.read(name)
  if (found) return found
  // Several servers can start concurrently: one of them writes the value, and all of them use it.
  await values.write(name, make(), 0)
  return (await values.read(name))!
}

export async function orOther<T>(secretName: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof OtherSecret)) throw error
    throw new StartError(
      `${secretName} is not the secret that the keys in this database were wrapped under: give every server the same one, or check --database`,
    )
  }
}

/** A new key to sign with; running servers take it within seconds. */
export async function rotateSharedKeys(values: WrappedValues, secretName: string, now: number): Promise<KeyRing> {
  return orOther(secretName, async () => {
    for (;;) {
      const found = await values.read(RING_NAME)
      if (!found) throw new StartError('there are no keys in the database: start a server first')
      const ring = rotateRing(ringFrom(found.text), timestampOf(now))
      if (await values.write(RING_NAME, JSON.stringify(ring), found.version)) return ring
    }
  })
}

/** How often the server checks whether the keys were rotated. */
const LOOK_MS = 5_000

/** As they are now, at most some seconds late. */
export async function openSharedPushKeys(values: WrappedValues, now: () => number): Promise<() => PushRing> {
  const stored = await readOrMake(values, PUSH_NAME, () => textOfPushRing(newPushRing(timestampOf(now()))))
  let ring = pushRingFrom(stored.text)
  let looked = now()
  async function look(): Promise<void> {
    const found = await values.read(PUSH_NAME)
    if (found) ring = pushRingFrom(found.text)
  }
  return () => {
    if (Math.abs(now() - looked) >= LOOK_MS) {
      looked = now()
      // Keep the current ring if the read fails.
      look().catch(() => undefined)
    }
    return ring
  }
}

export async function rotateSharedPushKeys(values: WrappedValues, secretName: string, now: number): Promise<PushRing> {
  return orOther(secretName, async () => {
    for (;;) {
      const found = await values.read(PUSH_NAME)
      const ring = found ? rotatePushRing(pushRingFrom(found.text), timestampOf(now)) : newPushRing(timestampOf(now))
      if (await values.write(PUSH_NAME, textOfPushRing(ring), found?.version ?? 0)) return ring
    }
  })
}

/** The verified position of the record, shared by all servers. */
export function sharedMarker(values: WrappedValues): MarkerFile {
  return {
    async read() {
      const found = await values.read(MARKER_NAME)
      return found && markerFrom(found.text)
    },
    async write(marker) {
      const found = await values.read(MARKER_NAME)
      // Another server might have verified further.
      if (found && (markerFrom(found.text)?.position ?? 0) >= marker.position) return
      await values.write(MARKER_NAME, textOfMarker(marker), found?.version ?? 0)
    },
  }
}
