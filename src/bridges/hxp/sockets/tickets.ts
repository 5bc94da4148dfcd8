// Tickets: `ws_url` is an address that works once, for who asked and for this one request. A commit for each would be half the cost of
// asking, so they live in memory: after a restart a key in the header opens the socket all the same.
import { randomBytes } from 'node:crypto'
import type { Credential } from '#bindings/shared/credentials.ts'
import { limits } from '#kernel/limits.ts'

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
  // Two generations: the older one goes as a whole. A map that loses its first entry again and again is slow to find the next one.
  let young = new Map<string, Ticket>()
  let old = new Map<string, Ticket>()
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
      // The oldest go first, used or not: there is always a key to come with instead.
      if (young.size >= limits.bridgeTicketsMax / 2) {
        old = young
        young = new Map()
      }
      young.set(ticket, { request_id, credential, until: now() + limits.bridgeTicketMs })
      return ticket
    },
    redeem(ticket, request_id) {
      const found = young.get(ticket) ?? old.get(ticket)
      if (!found) return null
      young.delete(ticket)
      old.delete(ticket)
      return found.until > now() && found.request_id === request_id ? found.credential : null
    },
  }
}
