// Signing in on the page: a link by e-mail, a key, or a link from an owner. On an open page it is a dialog above all others, so that text
// typed below it is kept.
import { useEffect, useId, useRef, useState, type FormEvent } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Seal } from '../parts/icon.tsx'
import { Refused } from '../parts/states.tsx'
import { issuerPath, postSignIn, session, signInWays } from '../server/client.ts'

type Props = {
  /** The session has ended, and the page is still there below the dialog. */
  readonly isOver?: boolean
  /** The user is signed in on a remembered device, and the action needs a fresh sign-in. */
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
        <Ways isProof={false} isOpen={false} />
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
      <Ways isProof={isProof} isOpen />
    </dialog>
  )
}

/** `isOpen`: below is a page with text that its person has typed. */
function Ways({ isProof, isOpen }: { readonly isProof: boolean; readonly isOpen: boolean }) {
  const ways = useQuery({ queryKey: ['ways'], queryFn: signInWays, staleTime: Infinity }).data
  const [remember, setRemember] = useState(false)
  const hasLinks = ways?.links !== false
  const issuer = ways?.issuer ?? null
  const days = ways?.remember_days === undefined ? 30 : ways.remember_days
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
      {issuer !== null && <ByIssuer host={issuer} fresh={isProof} isOpen={isOpen} remember={remember} />}
      {ways?.mail === true && <ByMail />}
      {hasLinks && <ByKey remember={remember} />}
      {!isProof && days !== null && (
        <label className="check">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.target.checked)} />
          <span>
            Remember this device for {days === 1 ? '1 day' : `${days} days`}
            <span className="note"> For your own device. From R4 on you sign in again.</span>
          </span>
        </label>
      )}
      {hasLinks && (
        <p className="note">
          Or open a sign-in link in this browser, then come back to this tab. An owner makes one in Settings, People, or with{' '}
          <code>countersign login issue &lt;your user id&gt;</code>; on the server's own machine <code>countersign login --link</code> does.
        </p>
      )}
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

type IssuerProps = { readonly host: string; readonly fresh: boolean; readonly remember: boolean; readonly isOpen: boolean }
/** An open page stays: its person signs in in a second tab. */
const ByIssuer = ({ host, isOpen, ...wish }: IssuerProps) => (
  <a className="btn primary" href={issuerPath(wish)} {...(isOpen ? { target: '_blank' } : {})}>
    Sign in with {host}
  </a>
)

type WayProps = {
  readonly label: string
  readonly button: string
  readonly input: { readonly type: 'email' | 'password'; readonly autoComplete: string; readonly placeholder: string }
  /** Shown once the value was sent. */
  readonly sent?: string
  send(value: string): Promise<unknown>
  done?(): void
}
/** One way to sign in: a field and its button. */
function Way({ label, button, input, sent, send, done }: WayProps) {
  const [value, setValue] = useState('')
  const id = useId()
  const way = useMutation({ mutationFn: () => send(value.trim()), onSuccess: () => done?.() })
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (value.trim() !== '' && !way.isPending) way.mutate()
  }
  return (
    <form className="way" onSubmit={submit}>
      <label htmlFor={id}>{label}</label>
      <div className="row">
        <input id={id} className="text grow" {...input} value={value} onChange={(event) => setValue(event.target.value)} />
        <button type="submit" className="btn primary" aria-disabled={value.trim() === '' || undefined}>
          {button}
        </button>
      </div>
      {way.isSuccess && sent !== undefined && (
        <p className="note" role="status">
          {sent}
        </p>
      )}
      <Refused error={way.error} />
    </form>
  )
}

const ByMail = () => (
  <Way
    label="E-mail me a link"
    button="Send link"
    input={{ type: 'email', autoComplete: 'email', placeholder: 'you@example.com' }}
    sent="If this is a confirmed address, a link is on its way. It works once, within 15 minutes."
    send={(address) => postSignIn('mail', { address, next: location.pathname })}
  />
)

const ByKey = ({ remember }: { readonly remember: boolean }) => (
  <Way
    label="Your key"
    button="Sign in"
    input={{ type: 'password', autoComplete: 'current-password', placeholder: 'cs_…' }}
    send={(key) => postSignIn('key', { key, remember })}
    done={() => session.entered()}
  />
)
