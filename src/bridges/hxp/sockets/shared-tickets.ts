// Tickets that work on every server of a shared store. The credential is encrypted into the ticket under a key that all servers have, so
// issuing one costs no commit. The first use is recorded, so a ticket works once on all servers together.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { Credential } from '#bindings/shared/credentials.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Tickets } from './tickets.ts'

type Sealed = { readonly request_id: string; readonly credential: Credential; readonly until: number }
type Opened = Sealed & {
  /** The name under which its use is recorded. Every encoding of the same ticket has the same name. */
  readonly name: string
}

const IV_BYTES = 12
const TAG_BYTES = 16
const TICKET_CHARS_MAX = 8_000

export function createSharedTickets(kernel: Kernel, secret: Uint8Array): Tickets {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'countersign/1 socket tickets', 32))

  function openTicket(ticket: string): Opened | null {
    if (ticket.length > TICKET_CHARS_MAX) return null
    const bytes = Buffer.from(ticket, 'base64url')
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
      const text = decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
      return { ...(JSON.parse(text) as Sealed), name: bytes.toString('base64url').slice(0, 2 * IV_BYTES) }
    } catch {
      return null
    }
  }

  /** Each use sends a different body under the same idempotency key, so the second use is refused. */
  async function isFirstUse({ name }: Opened): Promise<boolean> {
    const use = randomBytes(IV_BYTES).toString('base64url')
    try {
      await kernel.call('kernel/fan.begin', { asked: use }, SYSTEM, { key: `socket ${name}` })
      return true
    } catch (error) {
      if (error instanceof Refusal && error.code === 'CONFLICT') return false
      throw error
    }
  }

  return {
    issue(request_id, credential) {
      const iv = randomBytes(IV_BYTES)
      const cipher = createCipheriv('aes-256-gcm', key, iv)
      const sealed: Sealed = { request_id, credential, until: kernel.now() + limits.bridgeTicketMs }
      const text = Buffer.concat([cipher.update(JSON.stringify(sealed), 'utf8'), cipher.final()])
      return Buffer.concat([iv, text, cipher.getAuthTag()]).toString('base64url')
    },
    async redeem(ticket, request_id) {
      const sealed = openTicket(ticket)
      // It can be a ticket of the other kind.
      if (!sealed) return null
      const isGood = sealed.until > kernel.now() && sealed.request_id === request_id && (await isFirstUse(sealed))
      if (!isGood) throw new Refusal('UNAUTHENTICATED', 'this ticket was used before, has expired, or is for another request')
      return sealed.credential
    },
  }
}
