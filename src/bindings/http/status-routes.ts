// Status routes: /health, /metrics and the description of the API.
import type { Socket } from 'node:net'
import { administrator, installationOwner } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { openapiOf } from '../openapi.ts'
import { replyOf, transportFailure } from './responses.ts'
import type { GiveDocument } from './public-documents.ts'
import type { Route } from './router.ts'
import { isLocal, type BrowserGuard } from './browser/browser-guard.ts'
import type { Authenticate } from '../shared/credentials.ts'
import type { LiveOptions } from './live-routes.ts'
import type { CallMetrics } from '../shared/call-metrics.ts'

type Figures = {
  readonly kernel: Kernel
  readonly guard: BrowserGuard
  readonly metrics: CallMetrics
  readonly version: string
  readonly proxied: boolean
  readonly live?: LiveOptions | undefined
  readonly sockets: ReadonlySet<Socket>
  readonly stopping: boolean
  /** When a call was last refused because the store could not write; 0: it can. */
  readonly unwritableAt: number
  amiss?(): string | null
  health(): object
  /** Why a load balancer must not send requests here; null: it can. */
  unready?(): string | null
  readonly authenticate: Authenticate
}

/** What the state of the server follows from. */
type Reported = { readonly record?: string; readonly log?: { readonly witnesses: readonly { readonly state: string }[] } | null }

const HEALTH_MEMORY_MS = 10_000

/** `streams`: how many are open. */
export function statusRoutes(state: Figures, streams: () => number, giveDocument: GiveDocument): Route[] {
  const { kernel, metrics, guard } = state
  let description: Buffer | undefined
  /** Made for the first reader: most servers are never asked for it. */
  const describe = (): Buffer =>
    (description ??= Buffer.from(JSON.stringify(openapiOf(kernel.protocols, state.version, state.live?.aliases))))

  function health(): { readonly status: 'ok' | 'degraded'; readonly reason?: string } {
    const isRecent = state.unwritableAt !== 0 && performance.now() - state.unwritableAt <= HEALTH_MEMORY_MS
    if (state.stopping) return { status: 'degraded', reason: 'stopping' }
    if (isRecent || (state.amiss?.() ?? null) !== null) return { status: 'degraded', reason: 'the store cannot write' }
    const { record, log } = state.health() as Reported
    if (record === 'changed') return { status: 'degraded', reason: 'something differs from the record: see the log' }
    if (log?.witnesses.some((witness) => witness.state === 'refused'))
      return { status: 'degraded', reason: 'a witness refuses the log of the record: see the log of the server' }
    return { status: 'ok' }
  }

  return [
    { method: 'GET', path: '/openapi.json', answer: (exchange) => giveDocument(exchange, describe()) },
    {
      method: 'GET',
      path: '/health',
      answer() {
        const { status, ...why } = health()
        const body = JSON.stringify({ status, ...why, version: state.version, ...state.health() })
        return { status: status === 'ok' ? 200 : 503, body }
      },
    },
    // Whether a load balancer can send requests here.
    {
      method: 'GET',
      path: '/ready',
      answer() {
        const reason = state.stopping ? 'stopping' : (state.unready?.() ?? null)
        return reason === null
          ? { status: 200, body: JSON.stringify({ ready: true }) }
          : { status: 503, body: JSON.stringify({ ready: false, reason }) }
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      async answer({ request }) {
        if (!isLocal(request.socket.remoteAddress, request.headers, state.proxied)) {
          const actor = await state.authenticate(guard.credentialOf(request.headers))
          if (!administrator.is(actor, null) && !installationOwner.is(actor, null))
            return replyOf(transportFailure(403, 'UNAUTHORIZED', 'only an administrator or an owner can read the metrics'))
        }
        const body = await metrics.text(kernel, state.sockets.size, streams())
        return { status: 200, headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }, body }
      },
    },
  ]
}
