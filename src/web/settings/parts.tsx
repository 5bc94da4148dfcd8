// Shared pieces of the settings: a card with a form that adds something, and rows of what there is.
import type { ReactNode } from 'react'
import { useMutation } from '@tanstack/react-query'
import { Refused } from '../parts/states.tsx'
import { Who, type Sort } from '../parts/who.tsx'
import { queries } from '../server/client.ts'

type Props = {
  readonly title: string
  readonly about?: ReactNode
  readonly button: string
  readonly changes: string
  readonly blocked?: string | undefined
  readonly children: ReactNode
  act(): Promise<unknown>
  done?(): void
}
export function AddForm({ title, about, button, changes, blocked, children, act, done }: Props) {
  const send = useMutation({
    mutationFn: act,
    onSuccess() {
      void queries.invalidateQueries({ queryKey: [changes] })
      done?.()
    },
  })
  const isBlocked = send.isPending || blocked !== undefined
  return (
    <form
      className="card form"
      aria-label={title}
      onSubmit={(event) => {
        event.preventDefault()
        if (!isBlocked) send.mutate()
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
/** Somebody of the installation, with their id and what can be done about them. */
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

/** A secret that is shown once: it is gone from the page with the next step. */
export function ShownOnce({ what, secret, close }: { readonly what: string; readonly secret: string; close(): void }) {
  return (
    <div className="card once" role="status">
      <b>{what}</b>
      <code>{secret}</code>
      <p className="note">Copy it now: it is shown this once.</p>
      <button type="button" className="btn sm" onClick={close}>
        I have it
      </button>
    </div>
  )
}
