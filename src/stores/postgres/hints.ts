// Hints about commits of other servers: NOTIFY if it arrives, otherwise a poll every few milliseconds. Both can be late or fail; a call
// that must know reads the feed.
import type { Client, Notification } from 'pg'
import { CHANNEL } from './feed.ts'
import { createLink, type LinkOptions } from './link.ts'

/** The poll interval if notifications do not arrive. */
const POLL_MS = 50
/** The poll interval if they do, in case the connection was lost silently. */
const WATCH_MS = 1_000
const PROBE_MS = 1_000
/** Many groups in a short time ring once: the first rings immediately, and a call that must know reads the feed. */
const REST_MS = 25

export type Hints = {
  watch(ring: () => void): void
  isHeard(): boolean
  close(): Promise<void>
}

export type HintOptions = Pick<LinkOptions, 'url' | 'name' | 'queryMs'> & {
  /** Identifies this process, so that its own commits are ignored. */
  readonly node: string
  /** The last group up to which everything is known. */
  known(): number
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
      // Read the commits from before it listened.
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

/** Some engines accept LISTEN and never notify, and so do poolers that give each transaction another session. */
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
