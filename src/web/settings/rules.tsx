// Delegation rules: they route requests of the user's agents to another person.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { actionWords, type Action } from '../decide/kinds/words.ts'
import { ActButton } from '../parts/act-button.tsx'
import { Pick, Select, TextField } from '../parts/fields.tsx'
import { Loaded } from '../parts/states.tsx'
import { call } from '../server/client.ts'
import { useMe, useNameOf, usePeople, useProjects } from '../server/names.ts'
import { AddForm } from './parts.tsx'

export function Rules() {
  const me = useMe().data?.id
  const nameOf = useNameOf()
  const people = usePeople().data ?? []
  const projects = useProjects().data ?? []
  const [to, setTo] = useState('')
  const [action, setAction] = useState('')
  const [project, setProject] = useState('')
  const [tag, setTag] = useState('')
  const rules = useQuery({ queryKey: ['rules'], queryFn: async () => (await call('execution/rule.list', {})).items })
  const add = (): Promise<unknown> =>
    call('execution/rule.add', {
      delegate_to: to,
      ...(action === '' ? {} : { action: action as Action }),
      ...(project === '' ? {} : { project_id: project }),
      ...(tag.trim() === '' ? {} : { tag: tag.trim() }),
    })
  return (
    <div className="stack">
      <AddForm
        title="New rule"
        about="The most specific rule counts."
        button="Add rule"
        changes="rules"
        blocked={to === '' ? 'Choose a person.' : undefined}
        act={add}
        done={() => setTo('')}
      >
        <Pick label="Person" value={to} onValue={setTo} choices={people.filter(({ id, disabled }) => id !== me && !disabled)} />
        <div className="pair">
          <Select
            label="Kind of request"
            value={action}
            onValue={setAction}
            options={[['', 'Any'], ...Object.entries(actionWords).map(([name, { plural }]) => [name, plural] as const)]}
          />
          <Select
            label="Project"
            value={project}
            onValue={setProject}
            options={[['', 'Any'], ...projects.map(({ id, name }) => [id, name] as const)]}
          />
        </div>
        <TextField label="Tag" value={tag} onChange={(event) => setTag(event.target.value)} />
      </AddForm>
      <Loaded from={rules} what="The list of rules">
        {(items) => (
          <ul className="card rows">
            {items.map((rule) => (
              <li key={rule.id}>
                <span className="two-lines">
                  <b>To {nameOf(rule.delegate_to)}</b>
                  <span className="note">
                    {[
                      rule.action ?? 'any kind',
                      rule.project_id ?? 'any project',
                      rule.tag === undefined ? 'any tag' : `tag ${rule.tag}`,
                    ].join(' · ')}
                  </span>
                </span>
                <ActButton changes={['rules']} act={() => call('execution/rule.remove', { rule_id: rule.id })}>
                  Remove
                </ActButton>
              </li>
            ))}
            {items.length === 0 && <li className="muted">No rules: every request of your agents comes to you.</li>}
          </ul>
        )}
      </Loaded>
    </div>
  )
}
