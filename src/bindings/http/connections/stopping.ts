// The stop of the HTTP server: no new requests are accepted, requests in flight are answered, and connections that do not end in time are closed.
import type { Server } from 'node:http'
import type { CallMetrics } from '../../shared/call-metrics.ts'

type Stopping = { readonly metrics: CallMetrics; readonly handshakes: { end(): void } | null; readonly sockets: ReadonlySet<unknown> }
/** How long requests are answered with 503: closing their connections now would make clients see a reset. */
const TELLING_MS = 500

export async function stop(server: Server, state: Stopping, stopMs: number): Promise<void> {
  const deadline = setTimeout(() => server.closeAllConnections(), stopMs)
  const until = performance.now() + Math.min(TELLING_MS, stopMs / 4)
  while (state.sockets.size > 0 && performance.now() < until) await new Promise((done) => setTimeout(done, 10))
  const closing = new Promise((closed) => server.close(closed))
  state.handshakes?.end()
  // A keep-alive connection becomes idle only once its response is sent.
  const sweep = setInterval(() => server.closeIdleConnections(), 20)
  await closing
  clearInterval(sweep)
  clearTimeout(deadline)
  state.metrics.close()
}
