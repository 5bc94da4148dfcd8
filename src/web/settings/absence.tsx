// Absence: substitutes of the person, each between two dates.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { ActButton } from '../parts/act-button.tsx'
import { Pick, TextField } from '../parts/fields.tsx'
import { Loaded } from '../parts/states.tsx'
import { momentOf } from '../parts/time.tsx'
import { call } from '../server/client.ts'
import { capital, useMe, useNameOf, usePeople } from '../server/names.ts'
import { AddForm } from './parts.tsx'

const iso = (local: string): string => new Date(local).toISOString()
export function Absence() {
  const me = useMe().data?.id ?? ''
  const people = usePeople().data ?? []
  const [substitute, setSubstitute] = useState('')
  const [from, setFrom] = useState('')
  const [until, setUntil] = useState('')
  const blocked = me === '' || substitute === '' ? 'Choose a person.' : until === '' ? 'Say until when.' : undefined
  return (
    <div className="stack">
      <AddForm
        title="New absence"
        about="Until then this person sees and decides what waits for you; the record says in whose place."
        button="Add absence"
        changes="absence"
        blocked={blocked}
        act={() =>
          call('identity/substitute.add', { person: me, substitute, until: iso(until), ...(from === '' ? {} : { from: iso(from) }) })
        }
        done={() => setSubstitute('')}
      >
        <Pick
          label="Person"
          value={substitute}
          onValue={setSubstitute}
          choices={people.filter(({ id, disabled }) => id !== me && !disabled)}
        />
        <div className="pair">
          <TextField
            label="From"
            type="datetime-local"
            value={from}
            onChange={(event) => setFrom(event.target.value)}
            note="Left empty: from now on."
          />
          <TextField label="Until" type="datetime-local" value={until} onChange={(event) => setUntil(event.target.value)} />
        </div>
      </AddForm>
      <Absences me={me} />
    </div>
  )
}

function Absences({ me }: { readonly me: string }) {
  const nameOf = useNameOf()
  const absences = useQuery({ queryKey: ['absence'], queryFn: async () => (await call('identity/substitute.list', {})).items })
  return (
    <Loaded from={absences} what="The list of absences">
      {(items) => (
        <ul className="card rows">
          {items.map((substitution) => (
            <li key={`${substitution.person} ${substitution.substitute} ${substitution.from}`} data-testid="absence-row">
              <span className="two-lines">
                <b>
                  {capital(nameOf(substitution.substitute, substitution.substitute_name))} for{' '}
                  {nameOf(substitution.person, substitution.person_name)}
                </b>
                <span className="note">
                  {momentOf(substitution.from)} to {momentOf(substitution.until)}
                </span>
              </span>
              {substitution.is_active && <span className="chip ok">now</span>}
              {substitution.person === me && (
                <ActButton
                  changes={['absence']}
                  act={() =>
                    call('identity/substitute.remove', {
                      person: substitution.person,
                      substitute: substitution.substitute,
                      ...(substitution.project_id === null ? {} : { project_id: substitution.project_id }),
                    })
                  }
                >
                  End
                </ActButton>
              )}
            </li>
          ))}
          {items.length === 0 && <li className="muted">You have no substitute.</li>}
        </ul>
      )}
    </Loaded>
  )
}
