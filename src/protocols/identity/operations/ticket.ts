// Tickets: a browser cannot put a key into the headers of a WebSocket, and a cookie alone would let any page open one.
import { sha256 } from '#kernel/log/hash-chain.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import { anyone, system, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command } from '#kernel/declare/operation.ts'
import { keyOf, nullable, t } from '#kernel/declare/schema.ts'
import { matches, partsOf, tokenOf } from '../authenticate.ts'
import { Key, Session, SubjectLink, Ticket, Timestamp } from '../schema.ts'

/** The credential's document, among the documents that prove the actor's identity. */
function credentialOf({ proof }: Actor): string | null {
  const isCredential = (key: string): boolean => [Key, Session, SubjectLink].some((doc) => key.startsWith(keyOf(doc, '')))
  return [...(proof?.keys() ?? [])].find(isCredential) ?? null
}

const issue = command({
  name: 'ticket.issue',
  summary: 'Make a ticket that opens one WebSocket, once, within 30 seconds. It is worth no more than the credential that asks for it.',
  draft: 'ours: identity',
  input: t.Object({}),
  output: t.Object({ ticket: nullable(t.String()), expires_at: Timestamp }),
  callers: [anyone],
  requires: [],
  audit: null,
  isForAuditors: true,
  once: ['ticket'],
  async load(read, _, { actor, now }) {
    const listed = await read.list(Ticket, 'subject', [[actor.id]], { limit: limits.ticketsOpenMax })
    const tickets = await Promise.all(listed.map(({ id }) => read(Ticket, id)))
    return { stale: tickets.filter(({ expires_at }) => expires_at <= now) }
  },
  decide({ stale }, _, { actor, now, newId, secret }) {
    const hidden = secret()
    const expires_at = timestampOf(Date.parse(now) + limits.ticketMs)
    const { id: subject, until = null, narrowed = false } = actor
    const credential = credentialOf(actor)
    const ticket = { id: newId('tick'), subject, credential, digest: sha256(hidden), expires_at, until, narrowed }
    const max = limits.ticketsOpenMax
    return {
      facts: [],
      // Unused tickets stay until the next ticket of the same subject deletes them.
      puts: [put(Ticket, ticket.id, ticket), ...stale.map(({ id }) => put(Ticket, id, null))],
      atMost: [{ doc: Ticket, index: 'subject', prefix: [actor.id], max, message: `at most ${max} tickets wait to be used at a time` }],
      output: { ticket: tokenOf(ticket.id, hidden), expires_at },
    }
  },
  example: { given: 'empty', as: 'alice', input: {} },
})

const redeem = command({
  name: 'ticket.redeem',
  summary: 'Redeem a ticket and return its identity.',
  draft: 'ours: identity',
  input: t.Object({ ticket: t.String({ maxLength: 200 }) }),
  output: t.Object({
    subject: t.String(),
    credential: nullable(t.String()),
    until: nullable(Timestamp),
    narrowed: t.Optional(t.Boolean()),
  }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, input, { now }) {
    const { id, secret } = partsOf(input.ticket)
    const ticket = await read.maybe(Ticket, `tick_${id}`)
    if (ticket === null || !matches(secret, ticket.digest) || ticket.expires_at <= now)
      throw new Refusal('UNAUTHENTICATED', 'this ticket was used before, has expired, or never existed')
    return { ticket }
  },
  // Using a ticket deletes it. Of two concurrent calls, the second conflicts on its read, and its retry finds no ticket.
  decide({ ticket: { id, subject, credential, until, narrowed = false } }) {
    return { facts: [], puts: [put(Ticket, id, null)], output: { subject, credential, until, narrowed } }
  },
  example: { given: 'withTicket', as: 'system', input: ({ ticket }) => ({ ticket }) },
})

export const ticketOperations = [issue, redeem]
