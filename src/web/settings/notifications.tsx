// Notifications: where one is told of what waits, and what became of each notice.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { ActButton } from '../parts/act-button.tsx'
import { Select, TextField } from '../parts/fields.tsx'
import { Loaded } from '../parts/states.tsx'
import { Ago } from '../parts/time.tsx'
import type { Input } from '#sdk/index.ts'
import { call } from '../server/client.ts'
import { capital } from '../server/names.ts'
import { AddForm, ShownOnce } from './parts.tsx'
import { PushHere } from './push.tsx'

type Priority = 'critical' | 'high' | 'normal' | 'low'

function NewChannel({ told }: { told(secret: string | null): void }) {
  const [kind, setKind] = useState('webhook')
  const [endpoint, setEndpoint] = useState('')
  const [label, setLabel] = useState('')
  const [priority, setPriority] = useState<Priority>('low')
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const add = async (): Promise<void> => {
    const hours = from !== '' && to !== '' ? { quiet_hours: { from, to, zone: Intl.DateTimeFormat().resolvedOptions().timeZone } } : {}
    const input = {
      kind,
      ...(kind === 'email' ? { address: endpoint.trim() } : { endpoint: endpoint.trim() }),
      min_priority: priority,
      ...(label.trim() === '' ? {} : { label: label.trim() }),
      ...hours,
    } as Input<'execution/channel.add'>
    told((await call('execution/channel.add', input)).secret)
  }
  return (
    <AddForm
      title="New channel"
      about="A notice says that something waits, with a link. It holds no argument."
      button="Add channel"
      changes="channels"
      blocked={endpoint.trim() === '' ? 'It needs an address.' : undefined}
      act={add}
      done={() => setEndpoint('')}
    >
      <div className="pair">
        <Select
          label="Kind"
          value={kind}
          onValue={setKind}
          options={[
            ['webhook', 'Webhook'],
            ['email', 'E-mail'],
          ]}
        />
        <TextField
          label="Address"
          value={endpoint}
          placeholder={kind === 'email' ? 'you@example.com' : 'https://'}
          onChange={(event) => setEndpoint(event.target.value)}
        />
      </div>
      <div className="pair">
        <TextField label="Label" value={label} onChange={(event) => setLabel(event.target.value)} />
        <Select
          label="From priority"
          value={priority}
          onValue={(value) => setPriority(value as Priority)}
          options={[
            ['low', 'Everything'],
            ['normal', 'Normal and above'],
            ['high', 'High and above'],
            ['critical', 'Critical only'],
          ]}
        />
      </div>
      <div className="pair">
        <TextField label="Quiet from" type="time" value={from} onChange={(event) => setFrom(event.target.value)} />
        <TextField
          label="Quiet until"
          type="time"
          value={to}
          onChange={(event) => setTo(event.target.value)}
          note="Critical items break through."
        />
      </div>
    </AddForm>
  )
}

function Log() {
  const notices = useQuery({
    queryKey: ['notices'],
    queryFn: async () => (await call('execution/notice.list', { limit: 20 })).items,
    refetchInterval: 5_000,
  }).data
  if (notices === undefined || notices.length === 0) return null
  return (
    <section>
      <h3 className="h">What was sent</h3>
      <ul className="card rows">
        {notices.map(({ id, event, state, attempts, last_at, why }) => (
          <li key={id}>
            <span className="two-lines">
              <b>{event}</b>
              <span className="note">
                <Ago at={last_at} />
                {attempts > 1 && `, ${attempts} attempts`}
                {why !== undefined && `, ${why}`}
              </span>
            </span>
            <span className={`chip ${state === 'accepted' ? 'ok' : state === 'given_up' ? 'bad' : ''}`}>{state.replace('_', ' ')}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

export function Notifications() {
  const [secret, setSecret] = useState<string | null>(null)
  const channels = useQuery({ queryKey: ['channels'], queryFn: async () => (await call('execution/channel.list', {})).items })
  return (
    <div className="stack">
      {secret !== null && <ShownOnce what="The secret that its posts are signed with" secret={secret} close={() => setSecret(null)} />}
      <PushHere />
      <NewChannel told={setSecret} />
      <Loaded from={channels} what="The list of channels">
        {(items) => (
          <ul className="card rows">
            {items.map(({ id, kind, label, disabled, min_priority }) => (
              <li key={id} data-testid="channel-row" data-kind={kind}>
                <span className="two-lines">
                  <b>
                    <bdi>{label === '' ? capital(kind) : label}</bdi>
                  </b>
                  <span className="note">
                    {kind}
                    {min_priority !== undefined && `, from ${min_priority}`}
                  </span>
                </span>
                {disabled && <span className="chip bad">off</span>}
                <ActButton changes={['notices']} act={() => call('execution/channel.test', { channel_id: id })}>
                  Test
                </ActButton>
                <ActButton changes={['channels']} act={() => call('execution/channel.remove', { channel_id: id })}>
                  Remove
                </ActButton>
              </li>
            ))}
            {items.length === 0 && <li className="muted">No channel yet: you see what waits when you look here.</li>}
          </ul>
        )}
      </Loaded>
      <Log />
    </div>
  )
}
