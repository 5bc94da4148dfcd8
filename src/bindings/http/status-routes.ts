// Status routes: /health, /metrics and the description of the API.
import type { FastifyInstance } from 'fastify'
import type { Socket } from 'node:net'
import { administrator, installationOwner, type Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { openapiOf } from '../openapi.ts'
import { prepare, transportFailure } from './responses.ts'
import type { SendDocument } from './public-documents.ts'
import { isLocal, type Credential, type Guard } from './browser/browser-guard.ts'
import type { Live, LiveOptions } from './live-routes.ts'
import type { Metrics } from '../shared/call-metrics.ts'

type Figures = {
  readonly kernel: Kernel
  readonly guard: Guard
  readonly metrics: Metrics
  readonly version: string
  readonly proxied: boolean
  readonly live?: LiveOptions | undefined
  readonly sockets: ReadonlySet<Socket>
  readonly stopping: boolean
  /** When a call was last refused because the store could not write; 0: it can. */
  readonly unwritableAt: number
  amiss?(): string | null
  health(): object
  authenticate(credential: Credential): Actor | Promise<Actor>
}

const HEALTH_MEMORY_MS = 10_000

export function registerFigures(app: FastifyInstance, state: Figures, live: Pick<Live, 'size'>, sendDocument: SendDocument): void {
  const { kernel, metrics, guard } = state
  const description = Buffer.from(JSON.stringify(openapiOf(kernel.protocols, state.version, state.live?.aliases)))
  app.get('/openapi.json', (request, reply) => sendDocument(request, reply, description))

  app.get('/health', (_, reply) => {
    const isRecent = state.unwritableAt !== 0 && performance.now() - state.unwritableAt <= HEALTH_MEMORY_MS
    const writes = !isRecent && (state.amiss?.() ?? null) === null
    const told = state.health() as { readonly record?: string }
    const isChanged = told.record === 'changed'
    const status = state.stopping || !writes || isChanged ? 'degraded' : 'ok'
    const why = state.stopping
      ? { reason: 'stopping' }
      : !writes
        ? { reason: 'the store cannot write' }
        : isChanged
          ? { reason: 'something differs from the record: see the log' }
          : {}
    return reply.code(status === 'ok' ? 200 : 503).send(JSON.stringify({ status, ...why, version: state.version, ...told }))
  })

  app.get('/metrics', async ({ raw }, reply) => {
    if (!isLocal(raw.socket.remoteAddress, raw.headers, state.proxied)) {
      const actor = await state.authenticate(guard.credentialOf(raw.headers))
      if (!administrator.is(actor, null) && !installationOwner.is(actor, null)) {
        return prepare(reply, transportFailure(403, 'UNAUTHORIZED', 'only an administrator or an owner can read the metrics'))
      }
    }
    reply.header('content-type', 'text/plain; version=0.0.4; charset=utf-8')
    return metrics.text(kernel, state.sockets.size, live.size())
  })
}
