// Toasts for errors that happen elsewhere on the page. An error that a row or a form shows itself has none.
import { Icon } from '../parts/icon.tsx'
import { createStore } from '../parts/store.ts'
import { messageOf } from '../server/errors.ts'
import { announce } from './announce.ts'

type Toast = { readonly id: number; readonly message: string }
const toasts = createStore<readonly Toast[]>([])
let last = 0
/** Shows the error until the user dismisses it. */
export function tellError(error: unknown): void {
  const message = typeof error === 'string' ? error : messageOf(error)
  announce(message, 'assertive')
  toasts.set([...toasts.get().slice(-2), { id: ++last, message }])
}

export function ErrorToasts() {
  return (
    <div className="toasts">
      {toasts.use().map(({ id, message }) => (
        <div className="toast bad" key={id} data-testid="error-toast">
          <Icon name="alert" />
          <span className="grow">{message}</span>
          <button type="button" className="btn sm" onClick={() => toasts.set(toasts.get().filter((toast) => toast.id !== id))}>
            Close
          </button>
        </div>
      ))}
    </div>
  )
}
