// Pins of bytes: rows that expire, and a row lock per checksum, so no server removes bytes that another is about to refer to.
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
   * Runs `work` in a transaction while no other pin can be added to these bytes. Returns false if there is a pin other than `pin`. With `pin`,
   * it also returns false if another pin has ended: a document can refer to the bytes by now.
   */
  ifFree(checksum: Checksum, pin: Pin | null, work: (client: pg.PoolClient) => Promise<boolean>): Promise<boolean>
}

export function createPins(pool: pg.Pool): Pins {
  const held = new WeakMap<Pin, { readonly id: string; readonly isAlone: boolean }>()
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
      // A pin that cannot be removed now expires.
      const pin: Pin = { release: () => void pool.query(`DELETE FROM ${table} WHERE id = $1`, [id]).catch(() => undefined) }
      held.set(pin, { id, isAlone })
      return pin
    },
    ifFree: (checksum, pin, work) =>
      within(pool, async (client) => {
        const last = await lock(client, checksum)
        const mine = pin && held.get(pin)
        const isOnly = !mine || (mine.isAlone && last === mine.id)
        const done = isOnly && !(await isHeldBut(client, checksum, mine?.id ?? '')) && (await work(client))
        // Skip locked rows: they are in use, and waiting for them could take forever.
        const old = `SELECT id FROM ${table} WHERE until < now() FOR UPDATE SKIP LOCKED`
        await client.query(`DELETE FROM ${table} WHERE id IN (${old})`)
        return done
      }),
  }
}

async function isHeldBut(client: pg.PoolClient, checksum: Checksum, exceptId: string): Promise<boolean> {
  const text = `SELECT 1 FROM ${table} WHERE checksum = $1 AND until > now() AND id <> $2 LIMIT 1`
  return (await client.query(text, [checksum, exceptId])).rows.length > 0
}

/** Locks the checksum until the transaction ends. Records the pin `by` as its last one; without `by`, returns the last recorded pin. */
async function lock(client: pg.PoolClient, checksum: Checksum, by = ''): Promise<string> {
  const text = `INSERT INTO ${table} AS t (id, checksum, until) VALUES ($1, $2, now() + make_interval(mins => ${PIN_MINUTES}))
    ON CONFLICT (id) DO UPDATE SET until = excluded.until, checksum = coalesce(nullif(excluded.checksum, ''), t.checksum) RETURNING checksum`
  const { rows } = await client.query<{ checksum: string }>(text, [`lock ${checksum}`, by])
  return rows[0]!.checksum
}

/** Runs a transaction on a separate connection. */
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
    // Do not reuse a connection that failed.
    client.release(failed)
  }
}

export function blobPool(url: string, node: string): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: `countersign ${node} bytes`,
    max: 4,
    connectionTimeoutMillis: 4_000,
    // Each statement is short: a portion of bytes, or a few rows.
    query_timeout: 4_500,
    idleTimeoutMillis: 10_000,
    keepAlive: true,
    async onConnect(client) {
      // A connection lost in use rejects its query. Without this listener it would also end the process.
      client.on('error', () => undefined)
      // A stopped server must not block others that upload the same bytes.
      await client.query(`SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '4s'`)
    },
  })
  // The next use replaces a connection that was lost while idle.
  pool.on('error', () => undefined)
  return pool
}
