// Toasts for what went wrong away from where one looks. An error that a row or a form shows by itself has none.
import { useSyncExternalStore } from 'react'
import { Icon } from '../parts/icon.tsx'
import { messageOf } from '../server/errors.ts'
import { announce } from './announce.ts'

type Toast = { readonly id: number; readonly message: string }
let toasts: readonly Toast[] = []
let last = 0
const listeners = new Set<() => void>()
function set(next: readonly Toast[]): void {
  toasts = next
  for (const listener of listeners) listener()
}
/** Shows the error until the user dismisses it. */
export function tellError(error: unknown): void {
  const message = typeof error === 'string' ? error : messageOf(error)
  announce(message, 'assertive')
  set([...toasts.slice(-2), { id: ++last, message }])
}
const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function ErrorToasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts)
  return (
    <div className="toasts">
      {shown.map(({ id, message }) => (
        <div className="toast bad" key={id} data-testid="error-toast">
          <Icon name="alert" />
          <span className="grow">{message}</span>
          <button type="button" className="btn sm" onClick={() => set(toasts.filter((one) => one.id !== id))}>
            Close
          </button>
        </div>
      ))}
    </div>
  )
}
