// How the HTTP server ends: nothing new is accepted, what is under way is answered, and what does not end in time is let go.
import type { FastifyInstance } from 'fastify'
import type { Metrics } from './metrics.ts'

type Stopping = { readonly metrics: Metrics; readonly handshakes: { end(): void } | null }

export async function stop(app: FastifyInstance, state: Stopping, stopMs: number): Promise<void> {
  const closing = app.close()
  state.handshakes?.end()
  // A connection that is kept alive becomes idle only when its answer is out.
  const sweep = setInterval(() => app.server.closeIdleConnections(), 20)
  const deadline = setTimeout(() => app.server.closeAllConnections(), stopMs)
  await closing
  clearInterval(sweep)
  clearTimeout(deadline)
  state.metrics.close()
}
