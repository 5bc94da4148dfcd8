// A second device: a link that signs this person in there, as text and as a QR code.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { ActButton } from '../parts/act-button.tsx'
import { call, signInWays } from '../server/client.ts'
import { useMe } from '../server/names.ts'
import { ShownOnce } from './parts.tsx'

/** The link of a token: at the public address, or at the address of this page. */
export const linkOf = ({ token, link }: { readonly token: string | null; readonly link: string | null }): string | null =>
  token === null ? null : `${link ?? `${location.origin}/login?token=${token}`}&ask=1`

const isHere = (url: string): boolean => ['127.0.0.1', 'localhost', '[::1]'].includes(new URL(url).hostname)

export function Phone() {
  const me = useMe().data?.id
  const [url, setUrl] = useState<string | null>(null)
  const hasLinks = useQuery({ queryKey: ['ways'], queryFn: signInWays, staleTime: Infinity }).data?.links !== false
  const make = async (): Promise<void> => setUrl(linkOf(await call('identity/login.issue', { user_id: me! })))
  if (!hasLinks) return null
  if (url === null)
    return (
      <section className="card form">
        <h3 className="h">Your phone</h3>
        <p className="note">Sign in on your phone with a QR code. The link in it works once, within 15 minutes.</p>
        <div className="row">
          <ActButton changes={[]} blocked={me === undefined ? 'Not signed in.' : undefined} act={make}>
            Show QR code
          </ActButton>
        </div>
      </section>
    )
  return (
    <ShownOnce what="Scan this with your phone" secret={url} isLink close={() => setUrl(null)}>
      {isHere(url) && (
        <p className="note">
          This address works on this machine only. Start the server with <code>--public-url</code>; docs/phone.md says how a phone reaches
          it.
        </p>
      )}
    </ShownOnce>
  )
}
