// API keys for programs of this person. A new key is shown once.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { TextField } from '../../parts/fields.tsx'
import { Loaded } from '../../parts/states.tsx'
import { Ago, momentOf } from '../../parts/time.tsx'
import { call } from '../../server/client.ts'
import { useMe, useNameOf } from '../../server/names.ts'
import { ConfirmButton } from '../confirm-button.tsx'
import { AddForm, ShownOnce } from '../parts.tsx'

type Listed = { readonly subject: string; readonly none: string }
/** The keys of a person or an agent that work, each of which can be revoked. */
export function KeyList({ subject, none }: Listed) {
  const keys = useQuery({
    queryKey: ['keys', subject],
    queryFn: async () => (await call('identity/key.list', { subject, limit: 100 })).items,
    retry: false,
  })
  const nameOf = useNameOf()
  return (
    <Loaded from={keys} what="The list of keys">
      {(items) => (
        <ul className="card rows" data-testid="key-list">
          {items.map(({ id, label: name, created_at, expires_at, issued_by, last_used_at }) => (
            <li key={id}>
              <span className="two-lines">
                <b>{name === '' ? id : name}</b>
                <span className="note">
                  Issued <Ago at={created_at} /> by {nameOf(issued_by)},{' '}
                  {expires_at === null ? 'never expires' : `expires ${momentOf(expires_at)}`}.{' '}
                  {last_used_at === null ? (
                    'No use is known.'
                  ) : (
                    <>
                      Last used <Ago at={last_used_at} />.
                    </>
                  )}
                </span>
              </span>
              <ConfirmButton
                name="Revoke"
                about="Programs that use this key are refused from their next call on. This cannot be undone."
                danger
                changes={['keys']}
                act={() => call('identity/key.revoke', { key_id: id })}
              />
            </li>
          ))}
          {items.length === 0 && <li className="muted">{none}</li>}
        </ul>
      )}
    </Loaded>
  )
}

export function Keys() {
  const me = useMe().data
  const [label, setLabel] = useState('')
  const [secret, setSecret] = useState<string | null>(null)
  const subject = me?.id ?? ''
  if (me?.owner !== true)
    return (
      <p className="muted">
        An owner issues keys for people: <code>countersign key issue {subject}</code>.
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
      <KeyList subject={subject} none="You have no keys." />
    </div>
  )
}
