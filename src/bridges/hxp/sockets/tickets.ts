// Tickets: `ws_url` is an address that works once, for its caller and one request. A commit for each would be half the cost of
// asking, so they live in memory: after a restart a key in the header still opens the socket.
import { randomBytes } from 'node:crypto'
import type { Credential } from '#bindings/shared/credentials.ts'
import { limits } from '#kernel/limits.ts'
import { createCache } from '#kernel/log/cache/document-cache.ts'

type Ticket = { readonly request_id: string; readonly credential: Credential; readonly until: number }

export type Tickets = {
  issue(request_id: string, credential: Credential): string
  /** Uses it up. */
  redeem(ticket: string, request_id: string): Credential | null | Promise<Credential | null>
}

const BYTES = 18
/** Chance is cheaper by the page. */
const PAGE = BYTES * 256

export function createTickets(now: () => number): Tickets {
  // Each counts for one. The oldest go first, used or not: there is always a key to come with instead.
  const tickets = createCache<Ticket>(limits.bridgeTicketsMax)
  let page = Buffer.alloc(0)
  let used = 0

  function next(): string {
    if (used + BYTES > page.length) {
      page = randomBytes(PAGE)
      used = 0
    }
    used += BYTES
    return page.toString('base64url', used - BYTES, used)
  }

  return {
    issue(request_id, credential) {
      const ticket = next()
      tickets.set(ticket, { request_id, credential, until: now() + limits.bridgeTicketMs }, 1)
      return ticket
    },
    redeem(ticket, request_id) {
      const found = tickets.get(ticket)
      if (!found) return null
      tickets.delete(ticket)
      return found.until > now() && found.request_id === request_id ? found.credential : null
    },
  }
}
