// A `requestState` passes through the client, so it is sealed with a key of the server and bound to its agent.
import { createHmac, timingSafeEqual } from 'node:crypto'

export type StateSeal<Held> = { seal(held: Held): string; open(text: string): Held | null }

export function stateSeal<Held>(key: Uint8Array, agent: string): StateSeal<Held> {
  const tagOf = (body: string): Buffer => createHmac('sha256', key).update(`gate state\n${agent}\n${body}`).digest()
  return {
    seal(held) {
      const body = Buffer.from(JSON.stringify(held)).toString('base64url')
      return `${body}.${tagOf(body).toString('base64url')}`
    },
    open(text) {
      const [body, tag, ...more] = text.split('.')
      if (!body || !tag || more.length > 0) return null
      const given = Buffer.from(tag, 'base64url')
      const right = tagOf(body)
      if (given.length !== right.length || !timingSafeEqual(given, right)) return null
      return JSON.parse(Buffer.from(body, 'base64url').toString()) as Held
    },
  }
}
