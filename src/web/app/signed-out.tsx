// Signed out: how to get a link, and where it leads back to. Text that was typed is kept in this tab.
import { useEffect, useRef } from 'react'
import { Seal } from '../parts/icon.tsx'

/** Over a page that is still there it is a dialog above all others: what was typed below it stays where it is. */
export function SignedOut({ isOver = false }: { readonly isOver?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    if (ref.current?.open === false) ref.current.showModal()
  }, [])
  if (!isOver)
    return (
      <div className="signed-out" data-testid="signed-out">
        <Ways />
      </div>
    )
  return (
    <dialog
      ref={ref}
      className="signed-out"
      data-testid="signed-out"
      aria-label="You are not signed in"
      onCancel={(event) => event.preventDefault()}
    >
      <Ways />
    </dialog>
  )
}

function Ways() {
  const back = location.pathname + location.search
  return (
    <main className="card">
      <div className="brand">
        <Seal />
        <span>Countersign</span>
      </div>
      <h1>You are not signed in</h1>
      <p>A link signs you in. It works once, and for 15 minutes. Nothing that you typed here is lost.</p>
      <ul>
        <li>
          <b>On the machine of the server</b>
          <span>
            it prints a link for its owner each time it starts; or run <code>countersign login --link</code>
          </span>
        </li>
        <li>
          <b>Anywhere else</b>
          <span>
            an owner makes one for you: <code>countersign login issue &lt;your user id&gt;</code>
          </span>
        </li>
      </ul>
      <p className="note">
        {back === '/' || back === '/inbox' ? (
          'Open the link in this browser, then come back to this tab.'
        ) : (
          <>
            Open the link in this browser, then come back to this tab. To land here again, add{' '}
            <code>&amp;next={encodeURIComponent(back)}</code> to it.
          </>
        )}
      </p>
      <button type="button" className="btn primary" onClick={() => location.reload()}>
        Try again
      </button>
    </main>
  )
}
