// Notifications: the channels that report waiting items, and the outcome of each notice.
import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { ActButton } from '../parts/act-button.tsx'
import { Select, TextField } from '../parts/fields.tsx'
import { Loaded } from '../parts/states.tsx'
import { Ago } from '../parts/time.tsx'
import { Link } from 'wouter'
import type { Input, Output } from '#sdk/index.ts'
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
      about="Notices carry a link, never the details."
      button="Add channel"
      changes="channels"
      blocked={endpoint.trim() === '' ? 'Enter an address.' : undefined}
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

type Sent = Output<'execution/notice.list'>['items'][number]
type Told = Output<'execution/channel.list'>['items'][number]
const events: Readonly<Record<string, string>> = {
  created: 'New item',
  assigned: 'Assigned to you',
  escalated: 'Escalated to you',
  reminded: 'Reminder',
  overdue: 'Overdue',
  released: 'Released to the pool',
  test: 'Test',
  confirm: 'Confirmation of the address',
  sign_in: 'Sign-in link',
}
const states: Readonly<Record<string, readonly [label: string, tone: string]>> = {
  waiting: ['waiting', ''],
  accepted: ['delivered', 'ok'],
  given_up: ['failed', 'bad'],
  dropped: ['not sent', ''],
}
const errorOf = ({ state, recent }: Sent): string | null => (state === 'accepted' ? null : (recent.at(-1)?.error ?? null))
const nameOfChannel = ({ label, kind }: Pick<Told, 'label' | 'kind'>): string => (label === '' ? capital(kind) : label)

const useSent = () =>
  useQuery({
    queryKey: ['notices'],
    queryFn: async () => (await call('execution/notice.list', { limit: 20 })).items,
    refetchInterval: 5_000,
  }).data

function Log({ sent }: { readonly sent: readonly Sent[] }) {
  if (sent.length === 0) return null
  return (
    <section>
      <h3 className="h">What was sent</h3>
      <ul className="card rows">
        {sent.map((notice) => {
          const { id, event, state, attempts, last_at, why, request_id, title, channel } = notice
          const error = errorOf(notice)
          const [label, tone] = error !== null && state === 'waiting' ? ['retrying', 'warn'] : (states[state] ?? [state, ''])
          return (
            <li key={id} data-testid="notice-row">
              <span className="two-lines">
                <b>
                  {events[event] ?? event}
                  {request_id !== null && (
                    <>
                      {' '}
                      <Link className={title === null ? 'mono' : undefined} href={`/inbox/${request_id}`}>
                        <bdi>{title ?? request_id}</bdi>
                      </Link>
                    </>
                  )}
                </b>
                <span className="note">
                  by <bdi>{channel === null ? 'a channel that was removed' : nameOfChannel(channel)}</bdi>, <Ago at={last_at} />
                  {attempts > 1 && `, ${attempts} attempts`}
                  {why !== undefined && `, ${why}`}
                  {error !== null && `: ${error}`}
                </span>
              </span>
              <span className={`chip ${tone}`}>{label}</span>
            </li>
          )
        })}
      </ul>
    </section>
  )
}

/** The state of a channel, unless it works. */
function ChannelState({ channel, sent }: { readonly channel: Told; readonly sent: readonly Sent[] }) {
  if (channel.disabled) return <span className="chip bad">off</span>
  if ('confirmed' in channel && channel.confirmed === false) return <span className="chip warn">not confirmed</span>
  const last = sent.find(({ target, state }) => target === channel.id && state !== 'dropped')
  return last !== undefined && errorOf(last) !== null ? <span className="chip bad">failing</span> : null
}

function channelNote(channel: Told, sent: readonly Sent[]): string {
  const parts = [channel.kind === 'email' ? 'e-mail' : channel.kind]
  if ('min_priority' in channel && channel.min_priority !== 'low') parts.push(`${channel.min_priority} and above`)
  if ('quiet_hours' in channel && channel.quiet_hours)
    parts.push(`quiet ${channel.quiet_hours.from} to ${channel.quiet_hours.to} (${channel.quiet_hours.zone}), except critical items`)
  if ('confirmed' in channel && channel.confirmed === false)
    parts.push('nothing is sent until you follow the link in the mail to this address')
  const last = sent.find(({ target, state }) => target === channel.id && state !== 'dropped')
  const error = last === undefined ? null : errorOf(last)
  if (error !== null) parts.push(`the last attempt failed: ${error}`)
  return parts.join(', ')
}

export function Notifications() {
  const [secret, setSecret] = useState<string | null>(null)
  const sent = useSent() ?? []
  const channels = useQuery({ queryKey: ['channels'], queryFn: async () => (await call('execution/channel.list', {})).items })
  return (
    <div className="stack">
      {secret !== null && <ShownOnce what="The secret that signs its posts" secret={secret} close={() => setSecret(null)} />}
      <PushHere />
      <NewChannel told={setSecret} />
      <Loaded from={channels} what="The list of channels">
        {(items) => (
          <ul className="card rows">
            {items.map((channel) => (
              <li key={channel.id} data-testid="channel-row" data-kind={channel.kind}>
                <span className="two-lines">
                  <b>
                    <bdi>{nameOfChannel(channel)}</bdi>
                  </b>
                  <span className="note">{channelNote(channel, sent)}</span>
                </span>
                <ChannelState channel={channel} sent={sent} />
                <ActButton changes={['notices']} act={() => call('execution/channel.test', { channel_id: channel.id })}>
                  Test
                </ActButton>
                <ActButton changes={['channels']} act={() => call('execution/channel.remove', { channel_id: channel.id })}>
                  Remove
                </ActButton>
              </li>
            ))}
            {items.length === 0 && <li className="muted">No channel yet. Add one to be notified of new items when this page is closed.</li>}
          </ul>
        )}
      </Loaded>
      <Log sent={sent} />
    </div>
  )
}
