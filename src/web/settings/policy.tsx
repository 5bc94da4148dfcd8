// The policy for the person's agents: whether a timeout can decide, and the minimum risk of their requests.
import { useState } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { ActButton } from '../parts/act-button.tsx'
import { Pick, Radios, Select, TextField } from '../parts/fields.tsx'
import { riskLabel } from '../parts/risk.tsx'
import { Loaded, Refused } from '../parts/states.tsx'
import { Said } from '../parts/text.tsx'
import type { Output } from '#sdk/index.ts'
import { call, queries } from '../server/client.ts'
import { useAgents, useMe, useNameOf } from '../server/names.ts'
import type { Risk } from '../server/types.ts'
import { AddForm } from './parts.tsx'

type Floor = NonNullable<Output<'execution/policy.get'>['policy']['floors']>[number]
const risks: readonly Risk[] = ['R2', 'R3', 'R4', 'R5']

function NewFloor({ floors }: { readonly floors: readonly Floor[] }) {
  const me = useMe().data?.id
  const agents = (useAgents().data ?? []).filter(({ owner, disabled }) => owner === me && !disabled)
  const [risk, setRisk] = useState<Risk>('R3')
  const [agent, setAgent] = useState('')
  const [isUnknown, setUnknown] = useState(false)
  const [by, setBy] = useState({ tag: '', scope: '', target: '' })
  const add = (): Promise<unknown> => {
    const fields = Object.entries(by)
      .map(([name, text]) => [name, text.trim()] as const)
      .filter(([, text]) => text !== '')
    const floor: Floor = { risk, ...(agent === '' ? {} : { agent_id: agent }), ...Object.fromEntries(fields) }
    return call('execution/policy.set', { floors: [...floors, floor] })
  }
  return (
    <AddForm
      title="Minimum risk"
      about="Requests that match get at least this risk. Empty fields match everything."
      button="Add rule"
      changes="policy"
      blocked={isUnknown ? 'None of your agents has that name.' : undefined}
      confirm={
        agent === '' && Object.values(by).every((text) => text.trim() === '')
          ? `All fields are empty: every request of all your agents gets at least ${riskLabel(risk)}.`
          : undefined
      }
      act={add}
      done={() => setBy({ tag: '', scope: '', target: '' })}
    >
      <div className="pair">
        <Select
          label="At least"
          value={risk}
          onValue={(value) => setRisk(value as Risk)}
          options={risks.map((risk) => [risk, riskLabel(risk)] as const)}
        />
        <Pick label="Agent" value={agent} onValue={setAgent} onUnknown={setUnknown} choices={agents} />
      </div>
      <div className="pair">
        <TextField
          label="Target"
          placeholder="prod-eu-1"
          value={by.target}
          onChange={(event) => setBy({ ...by, target: event.target.value })}
        />
        <TextField
          label="Scope"
          placeholder="deploy:*"
          value={by.scope}
          onChange={(event) => setBy({ ...by, scope: event.target.value })}
        />
      </div>
      <TextField label="Tag" value={by.tag} onChange={(event) => setBy({ ...by, tag: event.target.value })} />
    </AddForm>
  )
}

function Floors({ floors }: { readonly floors: readonly Floor[] }) {
  const nameOf = useNameOf()
  return (
    <ul className="card rows">
      {floors.map((floor, at) => {
        const { risk, agent_id, ...by } = floor
        const conditions = Object.entries(by).map(([name, value]) => `${name} ${value}`)
        return (
          <li key={JSON.stringify(floor)} data-testid="floor-row">
            <span className="two-lines">
              <b>At least {riskLabel(risk)}</b>
              <span className="note">
                <Said>{[agent_id === undefined ? 'all your agents' : nameOf(agent_id), ...conditions].join(', ')}</Said>
              </span>
            </span>
            <ActButton changes={['policy']} act={() => call('execution/policy.set', { floors: floors.filter((_, i) => i !== at) })}>
              Remove
            </ActButton>
          </li>
        )
      })}
      {floors.length === 0 && <li className="muted">No rules yet: the risk that your agents state counts.</li>}
    </ul>
  )
}

export default function Policy() {
  const policy = useQuery({ queryKey: ['policy'], queryFn: async () => (await call('execution/policy.get', {})).policy })
  const set = useMutation({
    mutationFn: (defaults: 'allow' | 'forbid') => call('execution/policy.set', { defaults }),
    onSettled: () => void queries.invalidateQueries({ queryKey: ['policy'] }),
  })
  return (
    <Loaded from={policy} what="The policy">
      {({ defaults, floors = [] }) => (
        <div className="stack">
          <section className="card form">
            <h3 className="h">Without an answer in time</h3>
            <Radios
              label="Without an answer in time"
              value={defaults}
              onValue={(value) => set.mutate(value as 'allow' | 'forbid')}
              options={[
                { value: 'allow', label: 'A decision may take the default that its agent stated', note: 'Approvals never do.' },
                { value: 'forbid', label: 'Nothing is decided by time', note: 'It waits until a person answers.' },
              ]}
            />
            <Refused error={set.error} />
          </section>
          <NewFloor floors={floors} />
          <Floors floors={floors} />
        </div>
      )}
    </Loaded>
  )
}
