// A button that decides: it does nothing for a moment after it appeared, moved or the window got the focus, and says why when it cannot.
import { useEffect, useState, type ReactNode } from 'react'
import { isSettled } from '../app/commands.ts'

const QUIET_MS = 300
/** Whether nothing has moved for a moment, since the last change of `about`. */
export function useSettled(about: string): boolean {
  const [settled, setSettled] = useState(false)
  useEffect(() => {
    setSettled(false)
    let timer = setTimeout(() => setSettled(true), QUIET_MS)
    const again = (): void => {
      setSettled(false)
      clearTimeout(timer)
      timer = setTimeout(() => setSettled(true), QUIET_MS)
    }
    addEventListener('focus', again)
    addEventListener('resize', again)
    return () => {
      clearTimeout(timer)
      removeEventListener('focus', again)
      removeEventListener('resize', again)
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
