// The id of an installation: the hash of the first event of its record. Rotated keys, a new address and a restored backup leave it as it
// is; two data folders never share it.
import { SYSTEM_SCOPE } from '#kernel/declare/access.ts'
import type { Store } from '#kernel/log/store.ts'

/** Of a store that was set up: it has a first event. */
export async function installationOf(store: Pick<Store, 'facts'>): Promise<string> {
  // Read without verification: a changed first event must not make the second event the first.
  const [first] = await store.facts({ by: 'scope', scope: SYSTEM_SCOPE }, { after: null, limit: 1, asStored: true })
  if (!first?.line.includes('"seq":1,')) throw new Error('the record has no first event: restore a backup of the data folder')
  return `inst_${first.hash.slice(0, ID_CHARS)}`
}

/** 132 bits of the hash. */
const ID_CHARS = 22
