// Single sign-on: links between people and subjects of an issuer.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { Pick, TextField } from '../../parts/fields.tsx'
import { Loaded } from '../../parts/states.tsx'
import { call } from '../../server/client.ts'
import { useNameOf, usePeople } from '../../server/names.ts'
import { ConfirmButton } from '../confirm-button.tsx'
import { AddForm } from '../parts.tsx'

export default function Links() {
  const people = (usePeople().data ?? []).filter(({ disabled }) => !disabled)
  const nameOf = useNameOf()
  const [person, setPerson] = useState('')
  const [issuer, setIssuer] = useState('')
  const [sub, setSub] = useState('')
  const links = useQuery({ queryKey: ['links'], queryFn: async () => (await call('identity/subject.list', { limit: 100 })).items })
  const blocked =
    person === '' ? 'Choose a person.' : issuer.trim() === '' || sub.trim() === '' ? 'Name the issuer and the subject.' : undefined
  return (
    <div className="stack">
      <AddForm
        title="Connect an account"
        about="Single sign-on: connect a person to their account at your identity provider."
        button="Connect"
        changes="links"
        blocked={blocked}
        act={() => call('identity/subject.link', { user_id: person, issuer: issuer.trim(), sub: sub.trim() })}
        done={() => setSub('')}
      >
        <Pick label="Person" value={person} onValue={setPerson} choices={people} />
        <div className="pair">
          <TextField label="Issuer" placeholder="https://" value={issuer} onChange={(event) => setIssuer(event.target.value)} />
          <TextField label="Subject" value={sub} onChange={(event) => setSub(event.target.value)} />
        </div>
      </AddForm>
      <Loaded from={links} what="The list of accounts">
        {(items) => (
          <ul className="card rows">
            {items.map(({ id, user_id, issuer: of, sub: as }) => (
              <li key={id}>
                <span className="two-lines">
                  <b>{nameOf(user_id)}</b>
                  <span className="note mono">
                    {as} at {of}
                  </span>
                </span>
                <ConfirmButton
                  name="Disconnect"
                  about={`Tokens of this account stop working for ${nameOf(user_id)} at once.`}
                  danger
                  changes={['links']}
                  act={() => call('identity/subject.unlink', { issuer: of, sub: as })}
                />
              </li>
            ))}
            {items.length === 0 && <li className="muted">No SSO accounts connected yet.</li>}
          </ul>
        )}
      </Loaded>
    </div>
  )
}
