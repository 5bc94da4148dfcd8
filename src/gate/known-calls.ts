// The arguments of calls that wait, as long as this process knows them. Beyond their bounds the oldest are forgotten: their clients call
// again with the arguments.
import { limits } from '#kernel/limits.ts'
import type { Result } from './upstream.ts'

export type Known = {
  readonly kind: 'tool' | 'resource' | 'prompt'
  /** Its name, or the address of the resource. */
  readonly tool: string
  readonly args: Result
  done?: Promise<Result>
  result?: Result
}

export type KnownCalls = {
  get(call_id: string): Known | undefined
  keep(call_id: string, known: Known): void
  drop(call_id: string): void
}

const bytesOf = ({ args, result }: Known): number => Buffer.byteLength(JSON.stringify([args, result ?? null]))

export function knownCalls(): KnownCalls {
  const calls = new Map<string, { readonly known: Known; readonly bytes: number }>()
  let total = 0
  const drop = (call_id: string): void => {
    total -= calls.get(call_id)?.bytes ?? 0
    calls.delete(call_id)
  }
  return {
    get: (call_id) => calls.get(call_id)?.known,
    keep(call_id, known) {
      drop(call_id)
      const bytes = bytesOf(known)
      calls.set(call_id, { known, bytes })
      total += bytes
      for (const oldest of calls.keys()) {
        if (calls.size === 1 || (calls.size <= limits.gateCallsKnownMax && total <= limits.gateCallsBytesMax)) return
        drop(oldest)
      }
    },
    drop,
  }
}
