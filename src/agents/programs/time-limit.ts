// The time limit of a child process.

/** A limit that does not count the time in which a person has the next word. */
export function createTimeLimit(ms: number, reached: () => void): { pause(): void; goOn(): void; end(): void } {
  let left = ms
  let since = performance.now()
  let timer: NodeJS.Timeout | undefined = setTimeout(reached, left)
  let isOver = false
  function pause(): void {
    if (timer) left -= performance.now() - since
    clearTimeout(timer)
    timer = undefined
  }
  return {
    pause,
    /** A wait that ends after the child must not start it again. */
    end() {
      isOver = true
      pause()
    },
    goOn() {
      if (timer || isOver) return
      since = performance.now()
      timer = setTimeout(reached, Math.max(0, left))
    },
  }
}
