// A dialog by the browser's own element: focus moves in and back by itself, Esc closes and changes nothing.
import { useEffect, useId, useRef, type FormEvent, type ReactNode } from 'react'
import { Refused } from './states.tsx'

type Props = {
  readonly name: string
  readonly about?: ReactNode
  readonly children: ReactNode
  readonly footer?: ReactNode
  readonly wide?: boolean
  readonly bare?: boolean
  /** The dialog keeps its position while its content grows and shrinks. */
  readonly atTop?: boolean
  close(): void
}

export function Dialog({ name, about, children, footer, wide = false, bare = false, atTop = false, close }: Props) {
  const ref = useRef<HTMLDialogElement>(null)
  const title = useId()
  useEffect(() => {
    const dialog = ref.current!
    if (!dialog.open) dialog.showModal()
    // Never on the button that decides: on the first field, or on the dialog itself.
    const first =
      dialog.querySelector<HTMLElement>('[data-first]') ??
      dialog.querySelector<HTMLElement>('input[type=radio]:checked') ??
      dialog.querySelector<HTMLElement>('input:not([type=hidden]), textarea, select')
    ;(first ?? dialog).focus()
    return () => dialog.close()
  }, [])
  return (
    <dialog
      ref={ref}
      className={`dlg${wide ? ' wide' : ''}${atTop ? ' at-top' : ''}`}
      aria-labelledby={bare ? undefined : title}
      aria-label={bare ? name : undefined}
      tabIndex={-1}
      onCancel={(event) => {
        event.preventDefault()
        close()
      }}
      onClick={(event) => {
        if (event.target === ref.current) close()
      }}
    >
      {!bare && (
        <header>
          <h2 id={title}>{name}</h2>
          {about !== undefined && <p className="muted">{about}</p>}
        </header>
      )}
      {bare ? children : <div className="bd">{children}</div>}
      {footer !== undefined && <footer>{footer}</footer>}
    </dialog>
  )
}

type FormProps = Omit<Props, 'footer' | 'bare'> & {
  /** The label of its button, if it differs from the name. */
  readonly button?: string
  readonly danger?: boolean
  /** Enter in a field does not send it: only its button does, or Ctrl-Enter. */
  readonly deliberate?: boolean
  readonly busy: boolean
  readonly error: unknown
  readonly blocked?: string | undefined
  send(): void
}
/** A dialog with a form: its button has the dialog's name, Ctrl-Enter sends, Cancel closes. */
export function FormDialog({ button, danger = false, deliberate = false, busy, error, blocked, send, children, ...rest }: FormProps) {
  const press = (): void => {
    if (!busy && blocked === undefined) send()
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (!deliberate) press()
  }
  const isBlocked = busy || blocked !== undefined
  return (
    <Dialog {...rest}>
      <form
        onSubmit={submit}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
          event.preventDefault()
          if (!event.repeat) press()
        }}
      >
        {children}
        <Refused error={error} />
        <div className="dlg-foot">
          {blocked !== undefined && <span className="note grow">{blocked}</span>}
          <button type="button" className="btn" onClick={rest.close}>
            Cancel
          </button>
          <button
            type={deliberate ? 'button' : 'submit'}
            className={`btn ${danger ? 'danger' : 'primary'}`}
            aria-disabled={isBlocked || undefined}
            onClick={deliberate ? press : undefined}
          >
            {button ?? rest.name}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
