// Pins of bytes: rows with an end, and one row lock for each checksum, by which no server removes what another is about to refer to.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { Checksum } from '#kernel/ports/blobs.ts'
import { SCHEMA } from './link.ts'

/** A call that refers to received bytes ends long before this. */
const PIN_MINUTES = 60
const table = `${SCHEMA}.blob_pins`

export type Pin = { release(): void }
export type Pins = {
  hold(checksum: Checksum): Promise<Pin>
  /**
   * Runs `work` in a transaction while nothing else can come to hold these bytes; false where another pin does, `own` aside. With `own`, also
   * where another held them beside it and does not any more: a document may refer to them by now.
   */
  ifFree(checksum: Checksum, own: Pin | null, work: (client: pg.PoolClient) => Promise<boolean>): Promise<boolean>
}

export function createPins(pool: pg.Pool): Pins {
  const made = new WeakMap<Pin, { readonly id: string; readonly isAlone: boolean }>()
  return {
    async hold(checksum) {
      const id = randomUUID()
      const isAlone = await within(pool, async (client) => {
        await lock(client, checksum, id)
        const isHeld = await isHeldBut(client, checksum, '')
        const text = `INSERT INTO ${table} (id, checksum, until) VALUES ($1, $2, now() + make_interval(mins => ${PIN_MINUTES}))`
        await client.query(text, [id, checksum])
        return !isHeld
      })
      // One that cannot be taken away now ends by itself.
      const pin: Pin = { release: () => void pool.query(`DELETE FROM ${table} WHERE id = $1`, [id]).catch(() => undefined) }
      made.set(pin, { id, isAlone })
      return pin
    },
    ifFree: (checksum, own, work) =>
      within(pool, async (client) => {
        const last = await lock(client, checksum)
        const mine = own && made.get(own)
        const isOnly = !mine || (mine.isAlone && last === mine.id)
        const done = isOnly && !(await isHeldBut(client, checksum, mine?.id ?? '')) && (await work(client))
        // Locked ones are in use; waiting for them here could wait for ever.
        const old = `SELECT id FROM ${table} WHERE until < now() FOR UPDATE SKIP LOCKED`
        await client.query(`DELETE FROM ${table} WHERE id IN (${old})`)
        return done
      }),
  }
}

async function isHeldBut(client: pg.PoolClient, checksum: Checksum, own: string): Promise<boolean> {
  const text = `SELECT 1 FROM ${table} WHERE checksum = $1 AND until > now() AND id <> $2 LIMIT 1`
  return (await client.query(text, [checksum, own])).rows.length > 0
}

/** Held until the transaction ends. Its row names the last pin that was made, which is answered; `by`: the one that is made now. */
async function lock(client: pg.PoolClient, checksum: Checksum, by = ''): Promise<string> {
  const text = `INSERT INTO ${table} AS t (id, checksum, until) VALUES ($1, $2, now() + make_interval(mins => ${PIN_MINUTES}))
    ON CONFLICT (id) DO UPDATE SET until = excluded.until, checksum = coalesce(nullif(excluded.checksum, ''), t.checksum) RETURNING checksum`
  const { rows } = await client.query<{ checksum: string }>(text, [`lock ${checksum}`, by])
  return rows[0]!.checksum
}

/** A transaction on a connection of its own. */
export async function within<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  let failed: Error | undefined
  try {
    await client.query('BEGIN')
    const done = await work(client)
    const { command } = await client.query('COMMIT')
    if (command !== 'COMMIT') throw new Error(`a change of bytes was rolled back (${command})`)
    return done
  } catch (error) {
    failed = error as Error
    await client.query('ROLLBACK').catch(() => undefined)
    throw error
  } finally {
    // A connection that failed is not used again.
    client.release(failed)
  }
}

export function blobPool(url: string, node: string): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: `countersign ${node} bytes`,
    max: 4,
    connectionTimeoutMillis: 4_000,
    // A portion of bytes, or a few rows.
    query_timeout: 4_500,
    idleTimeoutMillis: 10_000,
    keepAlive: true,
    async onConnect(client) {
      // One that ends in use fails what is on it; without a listener the process would end as well.
      client.on('error', () => undefined)
      // A server that is stopped in between must not hold up those who send the same bytes.
      await client.query(`SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '4s'`)
    },
  })
  // A connection that ends while it is idle is replaced with the next use.
  pool.on('error', () => undefined)
  return pool
}
