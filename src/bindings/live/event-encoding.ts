// Encoded events, cached: each event is encoded once for all subscribers at the end of the record, and for those that arrive shortly after.
import type { Stream } from '#kernel/declare/operation.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import type { Written } from './topic.ts'

export function createEventEncoding(bytesMax: number, counted: (name: string, position: number) => void) {
  const encoded = new Map<string, Written>()
  let bytes = 0
  return (name: string, op: Stream, fact: StoredFact, audience: string): Written => {
    const key = `${name} ${audience} ${fact.position}`
    const found = encoded.get(key)
    if (found) return found
    counted(name, fact.position)
    const { action } = JSON.parse(fact.line) as { action: string }
    const written = { action: action.slice(action.indexOf('/') + 1), json: Buffer.from(JSON.stringify(op.view(fact, audience))) }
    encoded.set(key, written)
    bytes += written.json.length
    for (const [oldest, { json }] of encoded) {
      if (bytes <= bytesMax) break
      encoded.delete(oldest)
      bytes -= json.length
    }
    return written
  }
}
