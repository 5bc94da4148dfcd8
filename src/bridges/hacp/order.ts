// The order of one connection: a mutating message begins when all messages before it have taken effect, and all later messages wait for its
// effect. Read-only messages run concurrently.
export type Order = {
  /** `begin` calls `applied` once its effect is applied, possibly before the response. */
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
