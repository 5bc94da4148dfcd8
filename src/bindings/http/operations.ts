// Routes of the operations: every command and query is a POST with a JSON body.
import type { IncomingMessage } from 'node:http'
import { decode } from '#kernel/codec/strict-json.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Operation } from '#kernel/declare/operation.ts'
import { abortOnClose, optionsOf } from '../shared/call-options.ts'
import type { Authenticate } from '../shared/credentials.ts'
import { handlerOf, type Done, type Failed } from '../shared/handle.ts'
import { idempotencyKeyIn, PERSON_HEADER, type BrowserGuard } from './browser/browser-guard.ts'
import { patiently } from './connections/body-deadline.ts'
import { setActor } from './connections/ending.ts'
import type { Reply } from './responses.ts'
import type { Exchange, Route } from './router.ts'

export type Serving = {
  readonly kernel: Kernel
  readonly guard: BrowserGuard
  readonly authenticate: Authenticate
  /** Any exception at a path as a response. */
  failing(path: string): (error: unknown) => Failed<Reply>
  /** Called for every response of the operation. */
  meter(operation: string, changes: boolean): Done<{ readonly request: IncomingMessage }>
  /** A connection that is silent for this long is closed, unless the server is working for it. */
  readonly stuckMs: number
}

export function operationRoutes(serving: Serving): Route[] {
  return serving.kernel.protocols.flatMap((protocol) =>
    protocol.operations.flatMap((op) => (op.kind === 'stream' ? [] : [routeOf(`${protocol.name}/${op.name}`, op, serving)])),
  )
}

function routeOf(name: string, op: Operation, { kernel, guard, authenticate, failing, meter, stuckMs }: Serving): Route {
  const path = `/v1/${name}`
  const changes = op.kind === 'command'
  const waits = op.kind === 'command' && op.waits !== undefined
  const acts = op.kind === 'command' && op.effect !== undefined
  const handle = handlerOf<Exchange, Reply, unknown>({
    credential: ({ request }) => guard.credentialOf(request.headers, changes),
    since: kernel.store.barriers,
    authenticate: (credential, _, since) => authenticate(credential, since),
    input({ response, body }, actor) {
      setActor(response, actor.id)
      return body === undefined || body.length === 0 ? {} : decode(body)
    },
    options: ({ request, response }) => optionsOf(idempotencyKeyIn(request.headers), waits ? abortOnClose(response) : undefined),
    async call({ credential, actor, input, caller, options }, { request }) {
      const call = (): Promise<unknown> => kernel.call(name, input, caller, options)
      const body = JSON.stringify(acts ? await patiently(request, stuckMs, call) : await call())
      return credential.kind === 'bearer' ? { status: 200, body } : { status: 200, body, headers: { [PERSON_HEADER]: actor.id } }
    },
    failed: failing(path),
    done: meter(name, changes),
  })
  const bytesMax = op.kind === 'command' ? op.bodyBytesMax : undefined
  return { method: 'POST', path, body: 'json', ...(bytesMax === undefined ? {} : { bytesMax }), answer: handle }
}
