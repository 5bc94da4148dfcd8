// The barrier of a shared store: before it answers, a server asks the database what other servers have committed. One query serves every
// call that arrived before it was sent.

export type Barrier = {
  /** Undefined if a query that was sent after `since` has been answered already. */
  pass(since?: number): Promise<void> | undefined
  /** The number of queries so far. */
  sent(): number
}

/** `ask` evicts what other servers have written. `defer` runs later in this turn. */
export function createBarrier(ask: () => Promise<void>, defer: (run: () => void) => void): Barrier {
  let asking: Promise<void> | null = null
  /** Not sent yet: calls that arrive join it. */
  let next: Promise<void> | null = null
  let sent = 0
  let answered = 0

  function send(): Promise<void> {
    next = null
    const number = ++sent
    asking = ask()
      .then(() => void (answered = number))
      .finally(() => (asking = null))
    return asking
  }
  function fail(error: unknown): never {
    next = null
    throw error
  }

  return {
    // A question must be sent after the call came: later in this turn for all calls of a turn, or once the one in flight is answered. Where
    // that one failed, another would only let its callers wait for as long again.
    pass: (since) =>
      since !== undefined && answered > since ? undefined : (next ??= (asking ?? new Promise<void>(defer)).then(send, fail)),
    sent: () => sent,
  }
}
