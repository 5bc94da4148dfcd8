// Questions of pure code: a computation that asks its caller for hashes, tiles or the validity of signatures, so that the same code runs
// synchronously in a server and with WebCrypto, which answers later, in a browser.

/** A computation with the result `R` that asks for `Q` and is answered `A`. */
export type Asking<Q, A, R> = Generator<Q, R, A>
/** A computation that needs SHA-256. */
export type Hashing<R> = Asking<Uint8Array, Uint8Array, R>

export function answerNow<Q, A, R>(asking: Asking<Q, A, R>, answer: (question: Q) => A): R {
  let step = asking.next()
  while (step.done !== true) step = asking.next(answer(step.value))
  return step.value
}

export async function answerLater<Q, A, R>(asking: Asking<Q, A, R>, answer: (question: Q) => A | Promise<A>): Promise<R> {
  let step = asking.next()
  while (step.done !== true) step = asking.next(await answer(step.value))
  return step.value
}
