// Counters with a bound for each name and one for all together: uploads, streams, sockets of an actor or an address.

export type Counter = {
  of(name: string): number
  total(): number
  /** Takes one; the returned function gives it back, once. */
  enter(name: string): () => void
}

export function createPerActorCounter(): Counter {
  const counts = new Map<string, number>()
  let total = 0
  const of = (name: string): number => counts.get(name) ?? 0
  return {
    of,
    total: () => total,
    enter(name) {
      counts.set(name, of(name) + 1)
      total++
      let isIn = true
      return () => {
        if (!isIn) return
        isIn = false
        total--
        const left = of(name) - 1
        if (left === 0) counts.delete(name)
        else counts.set(name, left)
      }
    },
  }
}
