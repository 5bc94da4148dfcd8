// Keys: what programs of this person sign in with. A new one is shown once.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { ActButton } from '../parts/act-button.tsx'
import { TextField } from '../parts/fields.tsx'
import { Loaded } from '../parts/states.tsx'
import { Ago, momentOf } from '../parts/time.tsx'
import { call } from '../server/client.ts'
import { useMe } from '../server/names.ts'
import { AddForm, ShownOnce } from './parts.tsx'

export function Keys() {
  const me = useMe().data
  const [label, setLabel] = useState('')
  const [secret, setSecret] = useState<string | null>(null)
  const subject = me?.id ?? ''
  const keys = useQuery({
    queryKey: ['keys', subject],
    queryFn: async () => (await call('identity/key.list', { subject, limit: 100 })).items,
    enabled: subject !== '' && me?.owner === true,
    retry: false,
  })
  if (me?.owner !== true)
    return (
      <p className="muted">
        An owner issues keys for people: `countersign key issue {subject}`. Keys of your agents are in the hands of those who registered
        them.
      </p>
    )
  return (
    <div className="stack">
      {secret !== null && <ShownOnce what="Your new key" secret={secret} close={() => setSecret(null)} />}
      <AddForm
        title="New key"
        button="Issue"
        changes="keys"
        act={async () =>
          setSecret((await call('identity/key.issue', { subject, ...(label.trim() === '' ? {} : { label: label.trim() }) })).key)
        }
        done={() => setLabel('')}
      >
        <TextField label="Label" value={label} onChange={(event) => setLabel(event.target.value)} />
      </AddForm>
      <Loaded from={keys} what="The list of keys">
        {(items) => (
          <ul className="card rows">
            {items.map(({ id, label: name, created_at, expires_at }) => (
              <li key={id}>
                <span className="two-lines">
                  <b>{name === '' ? id : name}</b>
                  <span className="note">
                    issued <Ago at={created_at} />
                    {expires_at !== null && `, until ${momentOf(expires_at)}`}
                  </span>
                </span>
                <ActButton changes={['keys']} act={() => call('identity/key.revoke', { key_id: id })}>
                  Revoke
                </ActButton>
              </li>
            ))}
            {items.length === 0 && <li className="muted">You have no keys.</li>}
          </ul>
        )}
      </Loaded>
    </div>
  )
}
