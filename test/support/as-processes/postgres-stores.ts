// The PostgreSQL store for laws that hold on every store: one database, emptied for each world, or filled with a copy of an in-memory disk;
// and the sample of a law that `npm test` runs on it.
import pg from 'pg'
import type { Group } from '#kernel/log/backend.ts'
import type { Store } from '#kernel/log/store.ts'
import type { MemoryDisk } from '#stores/memory.ts'
import { postgresStore } from '#stores/postgres/index.ts'
import { migrate } from '#stores/postgres/schema.ts'
import { rowsOf } from '#stores/postgres/statements.ts'
import { chosenBy, VARIABLE } from '../../simulation/choice.ts'
import { createRandom } from '../../simulation/random.ts'
import { newDatabase } from './postgres.ts'

export type PostgresMaker = {
  readonly name: string
  /** The one before it is closed. */
  open(disk?: MemoryDisk): Promise<Store>
  dispose(): Promise<void>
}

export function postgresMaker(): PostgresMaker {
  let database: Awaited<ReturnType<typeof newDatabase>> | undefined
  let client: pg.Client | undefined
  let store: Store | undefined
  return {
    name: 'postgres',
    async open(disk) {
      await store?.close()
      if (!database) {
        database = await newDatabase()
        await migrate(database.url)
        client = new pg.Client({ connectionString: database.url, options: '-c search_path=countersign' })
        await client.connect()
      }
      await client!.query('TRUNCATE facts, images, docs, entries, counts, chains, seals, delegated_groups')
      await client!.query(`UPDATE head SET groups = 0, position = 0, image = 0, seal = ''`)
      if (disk) await fill(client!, disk)
      store = await postgresStore(database.url)
      return store
    },
    async dispose() {
      await store?.close()
      await client?.end()
      await database?.drop()
    },
  }
}

async function fill(client: pg.Client, { facts, seals, images, docs, entries, counts }: MemoryDisk): Promise<void> {
  const group: Group = {
    facts,
    seal: null,
    images,
    create: [...docs].map(([key, { version, image, text, tag }]) => ({ key, version, image, text: image === null ? text : null, tag })),
    update: [],
    remove: [],
    entries: [...entries],
    present: [...entries].map(() => true),
    counts: [...counts],
    hint: { position: facts.length, keys: [], wakes: [] },
  }
  for (const [, text, values] of rowsOf(group)) await client.query(text, values)
  for (const { last, first, before, hashes, tag } of seals)
    await client.query('INSERT INTO seals (last, first, before, hashes, tag) VALUES ($1, $2, $3, $4, $5)', [
      last,
      first,
      before,
      hashes,
      tag,
    ])
  await client.query('UPDATE head SET position = $1, image = $2, seal = $3', [facts.length, images.length, seals.at(-1)?.tag ?? ''])
}

/** A sample of `count` items, different in each run; all items in `npm run test:long`. */
export function sampleOf<T>(all: readonly T[], count: number): readonly T[] {
  const { isAll, name } = chosenBy(process.env[VARIABLE])
  if (isAll) return all
  const random = createRandom(Number(name))
  const left = [...all]
  return Array.from({ length: Math.min(count, all.length) }, () => left.splice(random.below(left.length), 1)[0]!)
}
