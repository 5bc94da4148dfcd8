// The order of one connection: a message that changes something begins when all before it have taken effect, and all after it wait for its own
// effect. Messages that only read run beside each other.
export type Order = {
  /** `begin` calls `applied` once its effect is there, which may be before its answer. */
  add(changes: boolean, begin: (applied: () => void) => void): void
}

export function createOrder(): Order {
  const waiting: { readonly changes: boolean; begin(applied: () => void): void }[] = []
  let reading = 0
  let isChanging = false

  function next(): void {
    while (waiting.length > 0 && !isChanging && !(waiting[0]!.changes && reading > 0)) {
      const { changes, begin } = waiting.shift()!
      if (changes) isChanging = true
      else reading++
      let isApplied = false
      begin(() => {
        if (isApplied) return
        isApplied = true
        if (changes) isChanging = false
        else reading--
        next()
      })
    }
  }

  return {
    add(changes, begin) {
      waiting.push({ changes, begin })
      next()
    },
  }
}
