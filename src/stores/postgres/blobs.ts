// Bytes in the database, in chunks, by their checksum. An upload gets its checksum when it is complete. Pins are rows that expire, so a
// crashed server does not hold bytes forever.
import { createHash, randomUUID } from 'node:crypto'
import type pg from 'pg'
import { Damaged } from '#kernel/declare/errors.ts'
import { isChecksum, type Announced, type Blobs, type ByteRange, type Checksum, type Held, type Received } from '#kernel/ports/blobs.ts'
import { countingOf } from '../blobs/announced-bytes.ts'
import { SCHEMA, unavailableFor } from './link.ts'
import { within, type Pins } from './pins.ts'

const CHUNK_BYTES = 256 * 1024
/** The age at which an unfinished upload is swept. */
const UNFINISHED_HOURS = 24
/** Checksums whose bytes matched; cleared when there are too many. */
const KNOWN_MAX = 10_000

const blobs = `${SCHEMA}.blobs`
const chunks = `${SCHEMA}.blob_chunks`

type Entry = { readonly id: string; readonly size: number }

export function postgresBlobs(pool: pg.Pool, pins: Pins): Blobs {
  const known = new Set<string>()

  async function find(checksum: Checksum): Promise<Entry | null> {
    if (!isChecksum(checksum)) return null
    const { rows } = await orUnavailable(
      pool.query<{ id: string; size: string }>(`SELECT id, size FROM ${blobs} WHERE checksum = $1`, [checksum]),
    )
    return rows[0] ? { id: rows[0].id, size: Number(rows[0].size) } : null
  }

  async function put(source: AsyncIterable<Uint8Array>, announced: Announced, bytesMax: number): Promise<Held> {
    const id = randomUUID()
    try {
      await pool.query(`INSERT INTO ${blobs} (id) VALUES ($1)`, [id])
      const received = await receive(pool, id, source, announced, bytesMax)
      const pin = await pins.hold(received.checksum)
      try {
        return heldBy(received, await adopt(id, received), pin)
      } catch (error) {
        pin.release()
        throw error
      }
    } catch (error) {
      // Bytes that cannot be removed here are swept by age.
      await drop(pool, id).catch(() => undefined)
      throw unavailableFor(error) ?? error
    }
  }

  /** Returns whether the bytes are new. */
  async function adopt(id: string, { checksum, size }: Received): Promise<boolean> {
    for (;;) {
      const found = await find(checksum)
      const isSound = found?.size === size && (await isWhole(found, checksum))
      try {
        const isNew = await within(pool, async (client) => {
          const { rows } = await client.query<{ id: string }>(`UPDATE ${blobs} SET at = now() WHERE checksum = $1 RETURNING id`, [checksum])
          // Another server has finished the same bytes meanwhile: check those first.
          if (rows[0] !== undefined && rows[0].id !== found?.id) return null
          if (rows[0] !== undefined && isSound) {
            await drop(client, id)
            return false
          }
          // The stored bytes do not match their checksum: replace them.
          if (rows[0] !== undefined) await setAside(client, checksum)
          await client.query(`UPDATE ${blobs} SET checksum = $2, size = $3, at = now() WHERE id = $1`, [id, checksum, size])
          return true
        })
        if (isNew !== null) return isNew
      } catch (error) {
        // Another server finished the same bytes concurrently.
        if ((error as { code?: string }).code !== UNIQUE) throw error
      }
    }
  }

  function heldBy(received: Received, created: boolean, pin: Awaited<ReturnType<Pins['hold']>>): Held {
    const { checksum } = received
    return {
      ...received,
      release: pin.release,
      async discard() {
        // Bytes that cannot be removed now are collected later. The caller gets the refusal either way.
        if (created) await pins.ifFree(checksum, pin, (client) => removeIn(client, checksum)).catch(() => undefined)
        pin.release()
      },
    }
  }

  async function removeIn(client: pg.PoolClient, checksum: Checksum): Promise<boolean> {
    const { rows } = await client.query<{ id: string }>(`SELECT id FROM ${blobs} WHERE checksum = $1 FOR UPDATE`, [checksum])
    if (rows[0]) await drop(client, rows[0].id)
    return rows[0] !== undefined
  }

  async function* read({ id }: Entry, first = 0, last = Number.MAX_SAFE_INTEGER): AsyncGenerator<Buffer> {
    for (let n = Math.floor(first / CHUNK_BYTES); n * CHUNK_BYTES <= last; n++) {
      const { rows } = await orUnavailable(pool.query<{ bytes: Buffer }>(`SELECT bytes FROM ${chunks} WHERE blob = $1 AND n = $2`, [id, n]))
      if (!rows[0]) return
      const from = Math.max(0, first - n * CHUNK_BYTES)
      yield rows[0].bytes.subarray(from, Math.min(CHUNK_BYTES, last - n * CHUNK_BYTES + 1))
    }
  }

  async function isWhole(entry: Entry, checksum: Checksum): Promise<boolean> {
    if (known.has(entry.id)) return true
    const hash = createHash('sha256')
    for await (const chunk of read(entry)) hash.update(chunk)
    if (`sha256:${hash.digest('hex')}` !== checksum) return false
    if (known.size >= KNOWN_MAX) known.clear()
    known.add(entry.id)
    return true
  }

  /** Holds back the last portion until the hash matches: a reader that reaches the end has read the uploaded bytes. */
  async function* whole(entry: Entry, checksum: Checksum): AsyncGenerator<Buffer> {
    const hash = createHash('sha256')
    let held: Buffer | null = null
    for await (const chunk of read(entry)) {
      hash.update(chunk)
      if (held) yield held
      held = chunk
    }
    if (`sha256:${hash.digest('hex')}` !== checksum) await refuseDamaged(checksum)
    if (held) yield held
  }

  async function refuseDamaged(checksum: Checksum): Promise<never> {
    await setAside(pool, checksum)
    throw new Damaged(checksum, 'its bytes do not match its checksum; they were set aside')
  }

  return {
    put,
    async open(checksum, range?: ByteRange) {
      const entry = await find(checksum)
      if (!entry) return null
      if (!range) return whole(entry, checksum)
      if (!(await isWhole(entry, checksum))) await refuseDamaged(checksum)
      return read(entry, range.first, range.last)
    },
    size: async (checksum) => (await find(checksum))?.size ?? null,
    async check(checksum) {
      const entry = await find(checksum)
      if (!entry) return 'missing'
      known.delete(entry.id)
      return (await isWhole(entry, checksum)) ? 'sound' : 'changed'
    },
    async list(after, limit) {
      if (after === null) await orUnavailable(sweep(pool))
      const text = `SELECT checksum, size, extract(epoch FROM at) * 1000 AS at FROM ${blobs}
        WHERE checksum > $1 AND checksum LIKE 'sha256:%' ORDER BY checksum LIMIT $2`
      const { rows } = await orUnavailable(pool.query<{ checksum: string; size: string; at: string }>(text, [after ?? '', limit]))
      return rows.map(({ checksum, size, at }) => ({ checksum, size: Number(size), at: Number(at) }))
    },
    remove: (checksum, isUnused) =>
      orUnavailable(pins.ifFree(checksum, null, async (client) => (await isUnused()) && removeIn(client, checksum))),
  }
}

const UNIQUE = '23505'

async function orUnavailable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw unavailableFor(error) ?? error
  }
}

/** Removes unfinished uploads by age: another server can be writing them. */
async function sweep(pool: pg.Pool): Promise<void> {
  const old = `SELECT id FROM ${blobs} WHERE checksum IS NULL AND at < now() - make_interval(hours => ${UNFINISHED_HOURS}) LIMIT 100`
  // One at a time: each can be large.
  for (const { id } of (await pool.query<{ id: string }>(old)).rows) await drop(pool, id)
}

async function drop(client: pg.Pool | pg.PoolClient, id: string): Promise<void> {
  await client.query(`DELETE FROM ${chunks} WHERE blob = $1`, [id])
  await client.query(`DELETE FROM ${blobs} WHERE id = $1`, [id])
}

/** Renamed, so no server uses the bytes, and an operator can still examine them. */
async function setAside(client: pg.Pool | pg.PoolClient, checksum: Checksum): Promise<void> {
  await client.query(`UPDATE ${blobs} SET checksum = 'changed ' || id || ' ' || checksum WHERE checksum = $1`, [checksum])
}

/** Writes, counts and hashes. Stops at the first byte over the limit. */
async function receive(
  pool: pg.Pool,
  id: string,
  source: AsyncIterable<Uint8Array>,
  announced: Announced,
  bytesMax: number,
): Promise<Received> {
  const counting = countingOf(announced, bytesMax)
  const hash = createHash('sha256')
  const filling = Buffer.allocUnsafe(CHUNK_BYTES)
  let [bytes, n] = [0, 0]
  async function flush(): Promise<void> {
    if (bytes === 0) return
    hash.update(filling.subarray(0, bytes))
    await pool.query(`INSERT INTO ${chunks} (blob, n, bytes) VALUES ($1, $2, $3)`, [id, n, filling.subarray(0, bytes)])
    n++
    bytes = 0
  }
  for await (const chunk of source) {
    counting.add(chunk.length)
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + CHUNK_BYTES - bytes)
      filling.set(part, bytes)
      bytes += part.length
      at += part.length
      if (bytes === CHUNK_BYTES) await flush()
    }
  }
  await flush()
  return counting.whole(hash.digest('hex'))
}
