// A button that decides: it does nothing for a moment after it appeared, moved or the window got the focus, and says why when it cannot.
import { useEffect, useState, type ReactNode } from 'react'
import { isSettled, noteMove, onMove, QUIET_MS } from '../app/commands.ts'

/** Whether nothing has moved for a moment, since the last change of `about`. Until then buttons are shown as inactive, and keys do nothing. */
export function useSettled(about: string): boolean {
  const [settled, setSettled] = useState(false)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>
    const leave = onMove(() => {
      setSettled(false)
      clearTimeout(timer)
      timer = setTimeout(() => setSettled(true), QUIET_MS)
    })
    noteMove()
    return () => {
      leave()
      clearTimeout(timer)
    }
  }, [about])
  return settled
}

type Props = {
  readonly className: string
  /** Why it cannot be pressed; undefined: it can. */
  readonly blocked?: string | undefined
  readonly settled: boolean
  readonly children: ReactNode
  readonly keyHint?: string
  press(): void
}
export function Guarded({ className, blocked, settled, children, keyHint, press }: Props) {
  const isBlocked = blocked !== undefined
  return (
    <button
      type="button"
      className={className}
      aria-disabled={isBlocked || !settled || undefined}
      data-settling={!isBlocked && !settled ? '' : undefined}
      title={blocked}
      onClick={() => {
        if (!isBlocked && settled && isSettled()) press()
      }}
    >
      {children}
      {keyHint !== undefined && (
        <span className="kbd" aria-hidden="true">
          {keyHint}
        </span>
      )}
    </button>
  )
}
