// Passkeys: the keys of this person's devices. From a risk that a policy names, answers count only with a signature by one of these.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { CountersignError } from '#sdk/index.ts'
import { TextField } from '../../parts/fields.tsx'
import { Loaded } from '../../parts/states.tsx'
import { Ago, momentOf } from '../../parts/time.tsx'
import { call, client } from '../../server/client.ts'
import { useMe, useMyName } from '../../server/names.ts'
import { newCredential, signatureOver, siteOf } from '../../server/passkeys.ts'
import { ConfirmButton } from '../confirm-button.tsx'
import { AddForm } from '../parts.tsx'

type Person = { readonly id: string; readonly name: string }
/** An enrolled passkey vouches for the new one, which then counts immediately. A person who has lost it goes on without, and waits a day. */
async function addPasskey(person: Person, label: string, hasOthers: boolean): Promise<void> {
  const input = { credential: await newCredential(client, person), ...(label.trim() === '' ? {} : { label: label.trim() }) }
  const signature = hasOthers ? await signatureOver(client, 'identity/passkey.add', input).catch(orUnsigned) : undefined
  await call('identity/passkey.add', signature === undefined ? input : { ...input, assertion: signature })
}
function orUnsigned(error: unknown): undefined {
  if (!(error instanceof CountersignError) || error.code !== 'NOT_SIGNED') throw error
}

const stateOf = (counts: boolean, removed: string | null, from: string): string => {
  if (counts) return ''
  return removed === null ? `, counts from ${momentOf(from)}` : `, removed ${momentOf(removed)}`
}

export function Passkeys() {
  const me = useMe().data
  const name = useMyName()
  const [label, setLabel] = useState('')
  const passkeys = useQuery({ queryKey: ['passkeys'], queryFn: () => call('identity/passkey.list', {}) })
  return (
    <Loaded from={passkeys} what="The list of passkeys">
      {({ items, rp_id }) => {
        const site = siteOf(rp_id)
        return (
          <div className="stack">
            {site === null ? (
              <AddForm
                title="New passkey"
                about="Your device makes a key and keeps it. With it you sign what counts only with your own signature."
                button="Add a passkey"
                changes="passkeys"
                act={() =>
                  addPasskey(
                    { id: me?.id ?? '', name: name ?? '' },
                    label,
                    items.some(({ counts }) => counts),
                  )
                }
                done={() => setLabel('')}
              >
                <TextField label="Label" value={label} onChange={(event) => setLabel(event.target.value)} />
              </AddForm>
            ) : (
              <p className="card form" data-testid="passkey-site">
                Browsers have no passkeys for this address. Open <a href={site}>{site}</a> and sign in there.
              </p>
            )}
            <ul className="card rows" data-testid="passkey-list">
              {items.map(({ id, label: named, created_at, counted_from, counts, removed_at }) => (
                <li key={id}>
                  <span className="two-lines">
                    <b>{named === '' ? 'Passkey' : named}</b>
                    <span className="note">
                      Added <Ago at={created_at} />
                      {stateOf(counts, removed_at, counted_from)}
                    </span>
                  </span>
                  {removed_at === null && (
                    <ConfirmButton
                      name="Remove"
                      about="Its signatures do not count from now on. A passkey that you add without another one to sign for it counts after a day."
                      danger
                      changes={['passkeys']}
                      act={() => call('identity/passkey.remove', { passkey_id: id })}
                    />
                  )}
                </li>
              ))}
              {items.length === 0 && <li className="muted">You have no passkeys.</li>}
            </ul>
          </div>
        )
      }}
    </Loaded>
  )
}
