// One call, as every binding makes it: the seven steps from a credential to a response, each once and in this order. A binding implements
// the steps for its wire; this module makes sure that no step is skipped and that each call is counted exactly once.
import type { Actor } from '#kernel/declare/access.ts'
import type { Caller, CallOptions } from '#kernel/kernel.ts'
import { callerOf, type Credential } from './credentials.ts'

/** A call that is ready for its operation. */
export type Ask<Input = unknown> = {
  readonly credential: Credential
  readonly actor: Actor
  readonly input: Input
  /** With the idempotency key, if there is one. */
  readonly options: CallOptions
  /** Returns the actor for the first attempt; called again for each retry. */
  readonly caller: Caller
}

/** One answered call, for metrics and the log. */
export type Answered<Request> = { readonly request: Request; readonly actor?: string | undefined; readonly error?: unknown }
/** Called for every response with its code and the start of its call. */
export type Done<Request = unknown> = (code: string, began: number, call: Answered<Request>) => void

/** A failure in the format of the wire; `code` is for metrics. */
export type Failed<Answer> = { readonly code: string; readonly answer: Answer }

export type Steps<Request, Answer, Input = unknown> = {
  /** 1. The credential of the request. Refuses a missing credential, or one that is not allowed here. */
  credential(request: Request): Credential | Promise<Credential>
  /** 2. The actor of the credential. */
  authenticate(credential: Credential, request: Request, since?: number): Actor | Promise<Actor>
  /** 3. The input, decoded: nothing is read without a valid credential. */
  input(request: Request, actor: Actor): Input
  /** 4. The idempotency key, and the signal that ends a wait. */
  options(request: Request): CallOptions
  /** 6. The operation, and its response in the format of the wire. (5 is the caller.) */
  call(ask: Ask<Input>, request: Request): Promise<Answer>
  /** 7. Any exception as a response; unexpected errors are logged. */
  failed(error: unknown, request: Request): Failed<Answer>
  readonly done: Done<Request>
  /** The number of the store's barriers so far. With it, a call uses one barrier for both its credential and its operation. */
  since?(): number
}

/** Never rejects, except for a bug in `failed` or `done`. */
export function handlerOf<Request, Answer, Input>(steps: Steps<Request, Answer, Input>): (request: Request) => Promise<Answer> {
  return async (request) => {
    const began = performance.now()
    let actorId: string | undefined
    try {
      const since = steps.since?.()
      const presented = steps.credential(request)
      const credential = presented instanceof Promise ? await presented : presented
      const asked = steps.authenticate(credential, request, since)
      const actor = asked instanceof Promise ? await asked : asked
      actorId = actor.id
      const input = steps.input(request, actor)
      const options = since === undefined ? steps.options(request) : { ...steps.options(request), since }
      const caller = callerOf(() => steps.authenticate(credential, request, since), actor)
      const answer = await steps.call({ credential, actor, input, options, caller }, request)
      steps.done('OK', began, { request, actor: actorId })
      return answer
    } catch (error) {
      const { code, answer } = steps.failed(error, request)
      steps.done(code, began, { request, actor: actorId, error })
      return answer
    }
  }
}
