// Agents of the installation: register one, give it a key, switch it off.
import { useState } from 'react'
import { ActButton } from '../../parts/act-button.tsx'
import { Pick, TextField } from '../../parts/fields.tsx'
import { Loaded } from '../../parts/states.tsx'
import { call } from '../../server/client.ts'
import { useAgents, useMe, useNameOf, usePeople } from '../../server/names.ts'
import { ConfirmButton } from '../confirm-button.tsx'
import { KeyList } from '../keys/keys.tsx'
import { AddForm, NamedRow, ShownOnce } from '../parts.tsx'

type SwitchProps = { readonly id: string; readonly name: string; readonly disabled: boolean }
function Switch({ id, name, disabled }: SwitchProps) {
  const toggle = () => call('identity/agent.update', { agent_id: id, disabled: !disabled })
  if (disabled)
    return (
      <ActButton changes={['agents']} act={toggle}>
        Switch on
      </ActButton>
    )
  return (
    <ConfirmButton
      name="Switch off"
      about={`${name} can do nothing until it is switched on again: its keys stop working, its runs end.`}
      danger
      changes={['agents']}
      act={toggle}
    />
  )
}

export default function Agents() {
  const agents = useAgents()
  const me = useMe().data?.id ?? ''
  const people = usePeople().data ?? []
  const nameOf = useNameOf()
  const [name, setName] = useState('')
  const [chosen, setOwner] = useState<string | null>(null)
  const owner = chosen ?? me
  const [open, setOpen] = useState<string | null>(null)
  const [secret, setSecret] = useState<{ readonly of: string; readonly key: string } | null>(null)
  const keyFor = async (subject: string, of: string): Promise<void> => {
    const { key } = await call('identity/key.issue', { subject })
    if (key !== null) setSecret({ of, key })
  }
  return (
    <div className="stack">
      {secret !== null && <ShownOnce what={`A key for ${secret.of}`} secret={secret.key} close={() => setSecret(null)} />}
      <AddForm
        title="New agent"
        button="Add agent"
        changes="agents"
        blocked={name.trim() === '' ? 'Enter a name.' : owner === '' ? 'Choose an owner.' : undefined}
        act={() => call('identity/agent.add', { name: name.trim(), owner })}
        done={() => setName('')}
      >
        <div className="pair">
          <TextField label="Name" value={name} onChange={(event) => setName(event.target.value)} />
          <Pick
            label="Owner"
            value={owner}
            onValue={setOwner}
            choices={people.filter(({ disabled }) => !disabled)}
            note="The person who answers for it."
          />
        </div>
      </AddForm>
      <Loaded from={agents} what="The list of agents">
        {(items) => (
          <ul className="card rows">
            {items
              .filter(({ id }) => id !== 'agent_system')
              .map((agent) => (
                <NamedRow key={agent.id} {...agent} sort="agent" note={`for ${nameOf(agent.owner)}`}>
                  <button
                    type="button"
                    className="btn sm"
                    aria-expanded={open === agent.id}
                    onClick={() => setOpen(open === agent.id ? null : agent.id)}
                  >
                    Keys
                  </button>
                  <ConfirmButton
                    name="New key"
                    about={`A live key for ${agent.name} is made and shown once. Keys that it has keep working.`}
                    changes={['keys']}
                    act={() => keyFor(agent.id, agent.name)}
                  />
                  <Switch {...agent} />
                  {open === agent.id && <KeyList subject={agent.id} none="It has no keys." />}
                </NamedRow>
              ))}
          </ul>
        )}
      </Loaded>
    </div>
  )
}
