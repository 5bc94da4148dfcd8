// The time limit of a child process.

/** A limit that does not count the time in which a person has the next word. */
export function createTimeLimit(ms: number, reached: () => void): { pause(): void; goOn(): void } {
  let left = ms
  let since = performance.now()
  let timer: NodeJS.Timeout | undefined = setTimeout(reached, left)
  return {
    pause() {
      if (timer) left -= performance.now() - since
      clearTimeout(timer)
      timer = undefined
    },
    goOn() {
      if (timer) return
      since = performance.now()
      timer = setTimeout(reached, Math.max(0, left))
    },
  }
}
