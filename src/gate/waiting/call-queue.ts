// A queue in front of the server: it bounds the concurrent calls, because a client with a thousand calls would open a thousand connections of
// 50 KB each. Long polls bypass the queue. Without this file, every call is sent immediately.
import type { CallOperation } from '../port.ts'

const CALLS_MAX = 16

export function queueCalls(call: CallOperation): CallOperation {
  const queue: (() => void)[] = []
  let running = 0
  async function callInTurn(operation: string, input: object, signal?: AbortSignal): Promise<unknown> {
    if (running >= CALLS_MAX) await new Promise<void>((go) => queue.push(go))
    else running++
    try {
      signal?.throwIfAborted()
      return await call(operation, input, signal)
    } finally {
      const next = queue.shift()
      if (next) next()
      else running--
    }
  }
  return (operation, input, signal) => ('wait_seconds' in input ? call(operation, input, signal) : callInTurn(operation, input, signal))
}
