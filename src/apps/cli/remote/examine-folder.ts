// The examination of a data folder against its record, for `audit verify --all` and `doctor`.
import { join } from 'node:path'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Found, Store } from '#kernel/log/store.ts'
import { checksOf } from '#stores/blobs/reading.ts'
import { createExamination } from '#workers/upkeep/examination.ts'
import { serverKeyId } from '#workers/keys/notary.ts'
import { differenceAt } from '#workers/upkeep/record-verifier.ts'
import { keysBeside } from '../../server/folder/record-check.ts'
import { realClock } from '../../server/clock.ts'
import { anchorIn, differenceFromAnchor } from '../../server/folder/anchor.ts'
import { markerFile, markerIn } from '../../server/folder/data-folder.ts'
import { keysIn, readRing, serverKeyOrNull } from '../../server/folder/key-files.ts'
import { openStore } from './folder.ts'

const PORTION_MS = 200

async function againstMarker(store: Store, folder: string): Promise<Difference | null> {
  const marker = await markerFile(markerIn(folder)).read()
  return marker && marker.position > 0 ? differenceAt(store, marker) : null
}

/** Null also if the folder has no anchor, or one that the operator set aside. */
async function againstAnchor(store: Store, folder: string, server: Uint8Array | null): Promise<Difference | null> {
  const anchor = await anchorIn(folder).read()
  return anchor && !anchor.accepted && server ? differenceFromAnchor(store, anchor, serverKeyId(server)) : null
}

/** How the record differs from what was verified before. */
export async function markerDifference(folder: string): Promise<Difference | null> {
  const store = openStore(folder)
  try {
    return await againstMarker(store, folder)
  } finally {
    await store.close()
  }
}

const namedIn = ({ scope, seq, what }: Difference): Found => ({
  what: scope === 'all' ? 'record' : `project ${scope}, number ${seq}`,
  how: what,
})

export async function examineFolder(
  folder: string,
  say: (message: string) => void,
): Promise<{ readonly facts: number; readonly found: readonly Found[] }> {
  const store = openStore(folder)
  async function beside(): Promise<Found[]> {
    const ring = await readRing(keysIn(folder)).catch(() => null)
    const server = serverKeyOrNull(keysIn(folder))
    // Missing keys are reported elsewhere.
    const keys = ring && server ? await keysBeside(store, { server, ring: () => ring }) : []
    const differences = [await againstMarker(store, folder), await againstAnchor(store, folder, server)]
    return [...differences.flatMap((difference) => (difference ? [namedIn(difference)] : [])), ...keys]
  }
  try {
    const examination = createExamination({ store, blobs: checksOf(join(folder, 'blobs')), beside })
    while (!(await examination.next(PORTION_MS, realClock))) say(`examining ${examination.message()}`)
    return { facts: store.stats().position, found: examination.found() }
  } finally {
    await store.close()
  }
}
