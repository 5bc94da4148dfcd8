// Signing in on the page: a link by e-mail, a key, or a link of an owner. Over a page that is still there it is a dialog above all others:
// text that was typed below it stays where it is.
import { useEffect, useId, useRef, useState, type FormEvent } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Seal } from '../parts/icon.tsx'
import { Refused } from '../parts/states.tsx'
import { postSignIn, session, signInWays } from '../server/client.ts'

type Props = {
  /** Somebody was signed in, and the page is still there below. */
  readonly isOver?: boolean
  /** They are signed in, on a remembered device, and what they did needs a fresh sign-in. */
  readonly isProof?: boolean
}

export function SignedOut({ isOver = false, isProof = false }: Props) {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    if (ref.current?.open === false) ref.current.showModal()
  }, [])
  if (!isOver)
    return (
      <div className="signed-out" data-testid="signed-out">
        <Ways isProof={false} />
      </div>
    )
  return (
    <dialog
      ref={ref}
      className="signed-out"
      data-testid={isProof ? 'proof-required' : 'signed-out'}
      aria-label={isProof ? 'Sign in again' : 'You are not signed in'}
      onCancel={(event) => {
        event.preventDefault()
        if (isProof) session.needProof(false)
      }}
    >
      <Ways isProof={isProof} />
    </dialog>
  )
}

function Ways({ isProof }: { readonly isProof: boolean }) {
  const ways = useQuery({ queryKey: ['ways'], queryFn: signInWays, staleTime: Infinity }).data
  const [remember, setRemember] = useState(false)
  return (
    <main className="card">
      <div className="brand">
        <Seal />
        <span>Countersign</span>
      </div>
      <h1>{isProof ? 'Sign in again to do this' : 'You are not signed in'}</h1>
      {isProof ? (
        <p>This device is remembered. From R4 on, decisions need a sign-in of the last 15 minutes. Your text is kept.</p>
      ) : (
        <p>Text that you typed on this page is kept.</p>
      )}
      {ways?.mail === true && <ByMail />}
      <ByKey remember={remember} />
      {!isProof && (
        <label className="check">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.target.checked)} />
          <span>
            Remember this device for 30 days
            <span className="note"> For your own device. From R4 on you sign in again.</span>
          </span>
        </label>
      )}
      <p className="note">
        Or open a sign-in link in this browser, then come back to this tab. An owner makes one in Settings, People, or with{' '}
        <code>countersign login issue &lt;your user id&gt;</code>; on the server's own machine <code>countersign login --link</code> does.
      </p>
      <div className="row wrap">
        <button type="button" className="btn" onClick={() => location.reload()}>
          Try again
        </button>
        {isProof && (
          <button type="button" className="btn" onClick={() => session.needProof(false)}>
            Not now
          </button>
        )}
      </div>
    </main>
  )
}

function ByMail() {
  const [address, setAddress] = useState('')
  const id = useId()
  const ask = useMutation({ mutationFn: () => postSignIn('mail', { address: address.trim(), next: location.pathname }) })
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (address.trim() !== '' && !ask.isPending) ask.mutate()
  }
  return (
    <form className="way" onSubmit={submit}>
      <label htmlFor={id}>E-mail me a link</label>
      <div className="row">
        <input
          id={id}
          className="text grow"
          type="email"
          autoComplete="email"
          placeholder="you@example.com"
          value={address}
          onChange={(event) => setAddress(event.target.value)}
        />
        <button type="submit" className="btn primary" aria-disabled={address.trim() === '' || undefined}>
          Send link
        </button>
      </div>
      {ask.isSuccess && (
        <p className="note" role="status">
          If this is a confirmed address, a link is on its way. It works once, within 15 minutes.
        </p>
      )}
      <Refused error={ask.error} />
    </form>
  )
}

function ByKey({ remember }: { readonly remember: boolean }) {
  const [key, setKey] = useState('')
  const id = useId()
  const open = useMutation({ mutationFn: () => postSignIn('key', { key: key.trim(), remember }), onSuccess: () => session.entered() })
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (key.trim() !== '' && !open.isPending) open.mutate()
  }
  return (
    <form className="way" onSubmit={submit}>
      <label htmlFor={id}>Your key</label>
      <div className="row">
        <input
          id={id}
          className="text grow"
          type="password"
          autoComplete="current-password"
          placeholder="cs_…"
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
        <button type="submit" className="btn primary" aria-disabled={key.trim() === '' || undefined}>
          Sign in
        </button>
      </div>
      <Refused error={open.error} />
    </form>
  )
}
