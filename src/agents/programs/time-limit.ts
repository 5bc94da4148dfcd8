// The time limit of a child process.

/** A time limit that pauses while the program waits for a person. */
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
    /** A wait can end after the child: `goOn` must not start the timer again then. */
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
