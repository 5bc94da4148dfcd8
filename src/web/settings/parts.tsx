// Shared pieces of the settings: a card with a form that adds an entry, and rows of entries.
import { lazy, Suspense, useState, type ReactNode } from 'react'
import { useMutation } from '@tanstack/react-query'
import { Dialog } from '../parts/dialog.tsx'
import { Refused } from '../parts/states.tsx'
import { Who, type Sort } from '../parts/who.tsx'
import { queries } from '../server/client.ts'

const QrCode = lazy(() => import('./qr-code.tsx'))

type Props = {
  readonly title: string
  readonly about?: ReactNode
  readonly button: string
  readonly changes: string
  readonly blocked?: string | undefined
  /** The question before it acts; undefined: none. */
  readonly confirm?: string | undefined
  readonly children: ReactNode
  act(): Promise<unknown>
  done?(): void
}
export function AddForm({ title, about, button, changes, blocked, confirm, children, act, done }: Props) {
  const [isAsking, setAsking] = useState(false)
  const send = useMutation({
    mutationFn: act,
    onSuccess() {
      void queries.invalidateQueries({ queryKey: [changes] })
      done?.()
    },
    onSettled: () => setAsking(false),
  })
  const isBlocked = send.isPending || blocked !== undefined
  return (
    <form
      className="card form"
      aria-label={title}
      onSubmit={(event) => {
        event.preventDefault()
        if (isBlocked) return
        if (confirm === undefined) send.mutate()
        else setAsking(true)
      }}
    >
      <h3 className="h">{title}</h3>
      {about !== undefined && <p className="note">{about}</p>}
      {children}
      <Refused error={send.error} />
      <div className="row">
        <span className="note grow">{blocked}</span>
        <button type="submit" className="btn primary sm" aria-disabled={isBlocked || undefined}>
          {button}
        </button>
      </div>
      {isAsking && (
        <Dialog
          name={`${button}?`}
          about={confirm}
          close={() => setAsking(false)}
          footer={
            <>
              <button type="button" className="btn" onClick={() => setAsking(false)}>
                Cancel
              </button>
              <button type="button" className="btn primary" onClick={() => send.mutate()}>
                {button}
              </button>
            </>
          }
        >
          {null}
        </Dialog>
      )}
    </form>
  )
}

type NamedProps = {
  readonly id: string
  readonly name: string
  readonly sort: Sort
  readonly note: string
  readonly disabled: boolean
  readonly children: ReactNode
}
/** A person or an agent of the installation, with the id and the available actions. */
export function NamedRow({ id, name, sort, note, disabled, children }: NamedProps) {
  return (
    <li>
      <Who name={name} sort={sort} large />
      <span className="two-lines">
        <b>
          <bdi>{name}</bdi> <code className="muted">{id}</code>
        </b>
        <span className="note">
          {note}
          {disabled && ', switched off'}
        </span>
      </span>
      {children}
    </li>
  )
}

/** Copies a text; if the browser does not allow it, the text itself can still be selected. */
export function CopyButton({ text }: { readonly text: string }) {
  const [state, setState] = useState<'Copy' | 'Copied' | 'Select it to copy'>('Copy')
  const copy = (): void =>
    void navigator.clipboard.writeText(text).then(
      () => setState('Copied'),
      () => setState('Select it to copy'),
    )
  return (
    <button type="button" className="btn sm" aria-live="polite" onClick={copy}>
      {state}
    </button>
  )
}

type Once = {
  readonly what: string
  readonly secret: string
  /** The secret is a link, which a phone can scan. */
  readonly isLink?: boolean
  readonly children?: ReactNode
  close(): void
}
/** A secret that is shown once, until the next action on the page. */
export function ShownOnce({ what, secret, isLink = false, children, close }: Once) {
  return (
    <div className="card once" role="status">
      <b>{what}</b>
      {isLink && (
        <Suspense>
          <QrCode text={secret} label={what} />
        </Suspense>
      )}
      <code>{secret}</code>
      {children}
      <p className="note">Copy it now: it is shown this once.</p>
      <div className="row">
        <CopyButton text={secret} />
        <button type="button" className="btn sm" onClick={close}>
          I have it
        </button>
      </div>
    </div>
  )
}
