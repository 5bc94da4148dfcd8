// People of the installation: who there is, in which role, and a link that signs one in.
import { useState } from 'react'
import { ActButton } from '../../parts/act-button.tsx'
import { Select, TextField } from '../../parts/fields.tsx'
import { Loaded } from '../../parts/states.tsx'
import { call } from '../../server/client.ts'
import { useMe, usePeople } from '../../server/names.ts'
import { ConfirmButton } from '../confirm-button.tsx'
import { AddForm, NamedRow, ShownOnce } from '../parts.tsx'
import { linkOf } from '../phone.tsx'

type Role = 'owner' | 'member'
export default function People() {
  const people = usePeople()
  const me = useMe().data?.id
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('member')
  const [link, setLink] = useState<{ readonly of: string; readonly url: string } | null>(null)
  const linkFor = async (user_id: string, of: string): Promise<void> => {
    const url = linkOf(await call('identity/login.issue', { user_id }))
    if (url !== null) setLink({ of, url })
  }
  return (
    <div className="stack">
      {link !== null && (
        <ShownOnce what={`A link that signs ${link.of} in, once, within 15 minutes`} secret={link.url} isLink close={() => setLink(null)} />
      )}
      <AddForm
        title="New person"
        button="Add person"
        changes="people"
        blocked={name.trim() === '' ? 'Enter a name.' : undefined}
        act={() => call('identity/user.add', { name: name.trim(), role })}
        done={() => setName('')}
      >
        <div className="pair">
          <TextField label="Name" value={name} onChange={(event) => setName(event.target.value)} />
          <Select
            label="Role"
            value={role}
            onValue={(value) => setRole(value as Role)}
            options={[
              ['member', 'Member'],
              ['owner', 'Owner'],
            ]}
          />
        </div>
      </AddForm>
      <Loaded from={people} what="The list of people">
        {(items) => (
          <ul className="card rows">
            {items.map((one) => (
              <NamedRow key={one.id} {...one} sort="person" note={one.role}>
                <ActButton changes={[]} blocked={one.disabled ? 'Switched off.' : undefined} act={() => linkFor(one.id, one.name)}>
                  Sign-in link
                </ActButton>
                {one.id !== me &&
                  (one.disabled ? (
                    <ActButton changes={['people']} act={() => call('identity/user.update', { user_id: one.id, disabled: false })}>
                      Switch on
                    </ActButton>
                  ) : (
                    <ConfirmButton
                      name="Switch off"
                      about={`${one.name} is signed out everywhere, their keys stop working, and what waits for them goes to others.`}
                      danger
                      changes={['people']}
                      act={() => call('identity/user.update', { user_id: one.id, disabled: true })}
                    />
                  ))}
              </NamedRow>
            ))}
          </ul>
        )}
      </Loaded>
    </div>
  )
}
