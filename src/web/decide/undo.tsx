// Undo: for five seconds what was decided is still here, and one key takes it back.
import { useEffect, useState } from 'react'
import { Icon } from '../parts/icon.tsx'
import { undo, useAllOutgoing } from './outgoing.ts'

export function UndoToast() {
  const all = useAllOutgoing()
  const held = [...all.values()].filter(({ phase }) => phase === 'held').toSorted((one, other) => one.dueAt - other.dueAt)
  const last = held.at(-1)
  const [, tick] = useState(0)
  useEffect(() => {
    if (!last) return undefined
    const timer = setInterval(() => tick((n) => n + 1), 250)
    return () => clearInterval(timer)
  }, [last?.request_id])
  if (!last) return null
  const left = Math.max(1, Math.ceil((last.dueAt - Date.now()) / 1_000))
  return (
    <div className="toast" data-testid="undo-toast">
      <Icon name="clock" />
      <span role="status" aria-label={`${last.verb}. Undo is possible for five seconds.`}>
        {last.verb} in {left} s{held.length > 1 && ` (and ${held.length - 1} more)`}
      </span>
      <button type="button" className="btn sm" onClick={() => undo(last.request_id)}>
        Undo
        <span className="kbd" aria-hidden="true">
          Z
        </span>
      </button>
    </div>
  )
}
