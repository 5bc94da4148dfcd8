// Hints that others have committed: NOTIFY where it arrives, otherwise a look every few milliseconds. Both may be late or fail; whoever must
// know asks the feed.
import type { Client, Notification } from 'pg'
import { CHANNEL } from './feed.ts'
import { createLink, type LinkOptions } from './link.ts'

/** Where nothing can be listened to. */
const POLL_MS = 50
/** Where it can, and a connection may have been lost without a word. */
const WATCH_MS = 1_000
const PROBE_MS = 1_000
/** Many groups in a short time are one ring: the first rings at once, and a call that must know asks the feed. */
const REST_MS = 25

export type Hints = {
  watch(ring: () => void): void
  /** Whether notifications arrive. */
  isHeard(): boolean
  close(): Promise<void>
}

export type HintOptions = Pick<LinkOptions, 'url' | 'name' | 'queryMs'> & {
  /** Of this process alone: what it has done itself is no news. */
  readonly node: string
  /** Up to which group everything is known. */
  known(): number
  /** The number of the last group. */
  last(): Promise<number>
  readonly listens?: boolean
}

export function createHints({ node, known, last, listens = true, ...way }: HintOptions): Hints {
  let isHeard = false
  let isClosed = false
  let ring: (() => void) | null = null
  let rungAt = 0
  let resting: NodeJS.Timeout | undefined
  let polling: NodeJS.Timeout | undefined

  function rung(): void {
    if (!ring || resting) return
    const rest = rungAt + REST_MS - performance.now()
    if (rest <= 0) {
      rungAt = performance.now()
      ring()
      return
    }
    resting = setTimeout(() => {
      resting = undefined
      rungAt = performance.now()
      ring?.()
    }, rest)
    resting.unref()
  }

  function onNotification({ channel, payload = '' }: Notification): void {
    if (channel !== CHANNEL) return
    const [n, by] = payload.split(' ')
    if (by !== node && Number(n) > known()) rung()
  }

  const link = createLink({
    ...way,
    async opened(client) {
      isHeard = await hears(client, node)
      client.on('notification', onNotification)
      client.on('end', () => (isHeard = false))
      client.on('error', () => (isHeard = false))
      // Whatever came before it could listen.
      rung()
    },
  })

  async function look(): Promise<void> {
    if (listens) await link.get().catch(() => undefined)
    if ((await last()) > known()) rung()
  }
  function poll(): void {
    polling = setTimeout(
      () => {
        void look()
          .catch(() => undefined)
          .finally(() => !isClosed && poll())
      },
      isHeard ? WATCH_MS : POLL_MS,
    )
    polling.unref()
  }

  return {
    watch(given) {
      ring = given
      void look()
        .catch(() => undefined)
        .finally(() => !isClosed && poll())
    },
    isHeard: () => isHeard,
    async close() {
      isClosed = true
      clearTimeout(polling)
      clearTimeout(resting)
      await link.close()
    },
  }
}

/** Some engines take LISTEN and say nothing, and so do poolers that give each transaction another session. */
async function hears(client: Client, node: string): Promise<boolean> {
  const probe = `probe ${node}`
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const onProbe = ({ payload }: Notification): void => {
    if (payload === probe) resolve(true)
  }
  client.on('notification', onProbe)
  const late = setTimeout(() => resolve(false), PROBE_MS)
  try {
    await client.query(`LISTEN ${CHANNEL}`)
    await client.query('SELECT pg_notify($1, $2)', [CHANNEL, probe])
    return await promise
  } catch {
    return false
  } finally {
    clearTimeout(late)
    client.off('notification', onProbe)
  }
}
