// People of the installation: their roles, and login links.
import { useState } from 'react'
import { ActButton } from '../../parts/act-button.tsx'
import { Select, TextField } from '../../parts/fields.tsx'
import { Loaded } from '../../parts/states.tsx'
import { call } from '../../server/client.ts'
import { useMe, usePeople } from '../../server/names.ts'
import type { User } from '../../server/types.ts'
import { ConfirmButton } from '../confirm-button.tsx'
import { AddForm, NamedRow, ShownOnce } from '../parts.tsx'
import { linkOf } from '../phone.tsx'

type Role = 'owner' | 'auditor' | 'member'
const ROLES = [
  ['member', 'Member'],
  ['auditor', 'Auditor'],
  ['owner', 'Owner'],
] as const
const abouts: Readonly<Record<Role, string>> = {
  member: 'A member sees and changes what their projects allow.',
  auditor: 'An auditor reads, verifies and exports everything of every project, and changes nothing. What waits for them goes to others.',
  owner: 'An owner administers this installation and sees every project.',
}
function ChangeRole({ person }: { readonly person: User }) {
  return ROLES.filter(([role]) => role !== person.role).map(([role, title]) => (
    <ConfirmButton
      key={role}
      name={`Make ${title.toLowerCase()}`}
      about={`${person.name}: ${abouts[role]}`}
      changes={['people']}
      act={() => call('identity/user.update', { user_id: person.id, role })}
    />
  ))
}
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
          <Select label="Role" value={role} onValue={(value) => setRole(value as Role)} options={ROLES} note={abouts[role]} />
        </div>
      </AddForm>
      <Loaded from={people} what="The list of people">
        {(items) => (
          <ul className="card rows">
            {items.map((person) => (
              <NamedRow key={person.id} {...person} sort="person" note={person.role}>
                <ActButton changes={[]} blocked={person.disabled ? 'Switched off.' : undefined} act={() => linkFor(person.id, person.name)}>
                  Sign-in link
                </ActButton>
                {person.id !== me && !person.disabled && <ChangeRole person={person} />}
                {person.id !== me &&
                  (person.disabled ? (
                    <ActButton changes={['people']} act={() => call('identity/user.update', { user_id: person.id, disabled: false })}>
                      Switch on
                    </ActButton>
                  ) : (
                    <ConfirmButton
                      name="Switch off"
                      about={`${person.name} is signed out everywhere, their keys stop working, and what waits for them goes to others.`}
                      danger
                      changes={['people']}
                      act={() => call('identity/user.update', { user_id: person.id, disabled: true })}
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
