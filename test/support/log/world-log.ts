// The log of a world: the real tree over the world's store with its tiles in memory, signed with a key of the tests. It works when it is asked.
import { generateKeyPairSync } from 'node:crypto'
import { checkpointText } from '#kernel/log/tree/checkpoint.ts'
import type { Store } from '#kernel/log/store.ts'
import type { RecordLog, SignedHead } from '#kernel/log/record-log.ts'
import { logKeyOf, type LogKey } from '#workers/keys/log-key.ts'
import { openLogTree, type LogTree } from '#workers/log/log-tree.ts'

export const worldOrigin = 'world.example/log'

let key: LogKey | undefined
/** Made for the first test that asks for a proof. */
export const worldLogKey = (): LogKey => (key ??= newKey())

function newKey(): LogKey {
  const { x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: x!, d: d! } as const
  return logKeyOf({ v: 1, current: { kid: '', created_at: '', jwk }, retired: [] }, worldOrigin)
}

export function worldLog(store: Store): RecordLog {
  const tiles = new Map<string, Uint8Array>()
  const files = {
    read: (path: string): Uint8Array | null => tiles.get(path) ?? null,
    write: (path: string, bytes: Uint8Array): void => void tiles.set(path, bytes),
  }
  let tree: Promise<LogTree> | undefined
  const grown = async (): Promise<LogTree> => {
    const found = await (tree ??= openLogTree({ store, files, repaired: () => undefined }, 0))
    await found.growTo(store.sealed().position)
    return found
  }
  async function at(size: number): Promise<SignedHead> {
    const text = checkpointText({ origin: worldOrigin, size, root: await (await grown()).rootAt(size) })
    return { size, note: `${text}\n${worldLogKey().sign(text)}` }
  }
  return {
    origin: worldOrigin,
    covering: async () => at((await grown()).size()),
    at,
    inclusion: async (index, size) => (await grown()).inclusion(index, size),
  }
}
