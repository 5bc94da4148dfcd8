// The notice that another person has signed in with this browser: the page of the first person sends nothing and says so above everything else.
import { useEffect, useRef } from 'react'
import { Seal } from '../parts/icon.tsx'
import { dropDrafts } from '../server/drafts.ts'
import { useMyName } from '../server/names.ts'

export function OtherPerson({ name }: { readonly name: string }) {
  const ref = useRef<HTMLDialogElement>(null)
  const mine = useMyName()
  useEffect(() => {
    if (ref.current?.open === false) ref.current.showModal()
  }, [])
  const load = (): void => {
    // Text that one person typed is not for the next.
    dropDrafts()
    location.reload()
  }
  return (
    <dialog
      ref={ref}
      className="signed-out"
      data-testid="other-person"
      aria-labelledby="other-person"
      onCancel={(event) => event.preventDefault()}
    >
      <main className="card">
        <div className="brand">
          <Seal />
          <span>Countersign</span>
        </div>
        <h1 id="other-person">
          You are signed in as <bdi>{name}</bdi> now
        </h1>
        <p>
          This page was opened for <bdi>{mine}</bdi>. It no longer sends anything, so that no decision is made in another person's name.
        </p>
        <button type="button" className="btn primary" onClick={load}>
          <span>
            Load this page as <bdi>{name}</bdi>
          </span>
        </button>
        <p className="note">
          To go on as <bdi>{mine}</bdi>, sign in again in this browser; this page then works as before.
        </p>
      </main>
    </dialog>
  )
}
