// Few calls of the server at a time: a client that calls a thousand tools would open a thousand connections, 50 KB each. Long polls wait
// beside the queue. Without this file, calls go out as they come.
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
