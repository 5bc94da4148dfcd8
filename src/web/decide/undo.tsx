// Undo: a decision is held for five seconds, and one key takes it back.
import { useEffect, useState } from 'react'
import { Icon } from '../parts/icon.tsx'
import { undo, useAllOutgoing, type Outgoing } from './outgoing.ts'

/** Such as "Approving in 4 s", counting down. */
export function HeldMessage({ one }: { readonly one: Outgoing }) {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 250)
    return () => clearInterval(timer)
  }, [])
  return (
    <>
      {one.verb} in {Math.max(1, Math.ceil((one.dueAt - now) / 1_000))} s
    </>
  )
}

export function UndoToast() {
  const all = useAllOutgoing()
  const held = [...all.values()].filter(({ phase }) => phase === 'held').toSorted((one, other) => one.dueAt - other.dueAt)
  const last = held.at(-1)
  if (!last) return null
  return (
    <div className="toast" data-testid="undo-toast">
      <Icon name="clock" />
      <span role="status" aria-label={`${last.verb}. Undo is possible for five seconds.`}>
        <HeldMessage one={last} />
        {held.length > 1 && ` (and ${held.length - 1} more)`}
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
