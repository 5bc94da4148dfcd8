// Groups of a project: whom an escalation calls in, and who approves; and the groups of an issuer that fill them.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { ActButton } from '../../parts/act-button.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Loaded } from '../../parts/states.tsx'
import { call } from '../../server/client.ts'
import { useNameOf, usePeople } from '../../server/names.ts'
import { AddForm } from '../parts.tsx'

export default function Groups() {
  const people = (usePeople().data ?? []).filter(({ disabled }) => !disabled)
  const nameOf = useNameOf()
  const [name, setName] = useState('')
  const [members, setMembers] = useState<readonly string[]>([])
  const groups = useQuery({ queryKey: ['groups'], queryFn: async () => (await call('execution/group.list', { all_projects: true })).items })
  const blocked = name.trim() === '' ? 'Enter a name.' : members.length === 0 ? 'Choose its members.' : undefined
  return (
    <div className="stack">
      <AddForm
        title="New group"
        about="One of the same name is replaced."
        button="Set group"
        changes="groups"
        blocked={blocked}
        act={() => call('execution/group.set', { name: name.trim(), members: [...members] })}
        done={() => setName('')}
      >
        <TextField label="Name" value={name} onChange={(event) => setName(event.target.value)} />
        <fieldset className="members">
          <legend className="lbl">Members</legend>
          {people.map((person) => (
            <label className="check" key={person.id}>
              <input
                type="checkbox"
                checked={members.includes(person.id)}
                onChange={() =>
                  setMembers(members.includes(person.id) ? members.filter((id) => id !== person.id) : [...members, person.id])
                }
              />
              {person.name}
            </label>
          ))}
        </fieldset>
      </AddForm>
      <Loaded from={groups} what="The list of groups">
        {(items) => (
          <ul className="card rows">
            {items.map(({ id, project_id, name: called, members: held, linked, by_sign_in: signed }) => (
              <li key={id}>
                <span className="two-lines">
                  <b>{called}</b>
                  <span className="note">{[...new Set([...held, ...signed])].map((one) => nameOf(one)).join(', ')}</span>
                  {linked.map(({ issuer, claim, role }) => (
                    <span className="note" key={`${issuer} ${claim}`}>
                      {claim} of {issuer}, as {role}
                    </span>
                  ))}
                </span>
                {held.length > 0 && (
                  <ActButton changes={['groups']} act={() => call('execution/group.remove', { project_id, name: called })}>
                    Remove
                  </ActButton>
                )}
              </li>
            ))}
            {items.length === 0 && <li className="muted">No groups yet.</li>}
          </ul>
        )}
      </Loaded>
    </div>
  )
}
