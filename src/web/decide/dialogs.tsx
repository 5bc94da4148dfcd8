// The dialogs next to a decision: ask back, reassign, snooze, extend, escalate. Each closes when the server has accepted it, and otherwise
// keeps the typed text.
import { useState, type ReactNode } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { FormDialog } from '../parts/dialog.tsx'
import { Pick, Radios, TextArea, TextField, type Choice } from '../parts/fields.tsx'
import { plural, Said } from '../parts/text.tsx'
import { momentOf } from '../parts/time.tsx'
import { call, serverNow } from '../server/client.ts'
import { useDraft } from '../server/drafts.ts'
import { useAgents, useMe, usePeople } from '../server/names.ts'
import type { Item } from '../server/types.ts'
import { isOffered } from '../tasks/agents.ts'
import { dropRow } from '../inbox/data.ts'
import { useRequest } from '../item/receipt.tsx'

type Props = { readonly item: Item; close(): void; done(): void }
type ActProps = Props & {
  readonly name: string
  readonly button?: string
  readonly about?: string
  readonly blocked?: string | undefined
  readonly children: ReactNode
  act(): Promise<unknown>
}
function Act({ item, close, done, name, button, about, blocked, children, act }: ActProps) {
  const send = useMutation({
    mutationFn: act,
    onSuccess: () => {
      done()
      close()
    },
  })
  return (
    <FormDialog
      name={name}
      {...(button === undefined ? {} : { button })}
      about={about ?? <Said>{item.title}</Said>}
      close={close}
      busy={send.isPending}
      error={send.error}
      blocked={blocked}
      send={() => send.mutate()}
    >
      {children}
    </FormDialog>
  )
}

export function AskBack(props: Props) {
  const { request_id } = props.item
  const [text, setText, clear] = useDraft(`question/${request_id}`, '')
  const act = async (): Promise<void> => {
    await call('execution/request.question', { request_id, text: text.trim() })
    clear()
  }
  return (
    <Act {...props} name="Ask back" button="Send question" act={act} blocked={text.trim() === '' ? 'Ask something.' : undefined}>
      <TextArea
        label="Question"
        value={text}
        onValue={setText}
        note="The agent gets it; its reply appears below the item. It stays open."
      />
    </Act>
  )
}

function usePersonChoices(): { readonly id: string; readonly name: string }[] {
  const me = useMe().data?.id
  return (usePeople().data ?? []).filter(({ id, disabled }) => id !== me && !disabled).map(({ id, name }) => ({ id, name }))
}

/** People who are allowed to answer the item: for a task its owner and reviewers, otherwise anyone. */
function useAnswerers({ task_id }: Item): { readonly choices: Choice[]; readonly isOfTask: boolean } {
  const people = usePersonChoices()
  const task = useQuery({
    queryKey: ['task', task_id],
    queryFn: async () => (await call('collaboration/task.get', { task_id: task_id! })).task,
    enabled: task_id !== null,
  }).data
  if (task_id === null) return { choices: people, isOfTask: false }
  const judges = task === undefined ? [] : [task.ownership.principal, ...task.reviewers]
  return { choices: people.filter(({ id }) => judges.includes(id)), isOfTask: task !== undefined }
}
const ONLY_TASK = 'Only people of the task can answer it, and you are the only one. Add a reviewer to the task first.'

export function Reassign(props: Props) {
  const { request_id } = props.item
  const [to, setTo] = useState('')
  const [reason, setReason] = useDraft(`reassign/${request_id}`, '')
  const { choices, isOfTask } = useAnswerers(props.item)
  const why = reason.trim() === '' ? {} : { reason: reason.trim() }
  return (
    <Act
      {...props}
      name="Reassign"
      act={() => call('execution/request.assign', { request_id, to, ...why })}
      blocked={isOfTask && choices.length === 0 ? ONLY_TASK : to === '' ? 'Choose a person.' : undefined}
    >
      <Pick label="Person" value={to} onValue={setTo} choices={choices} note="It leaves your inbox and is theirs to answer." />
      <TextArea label="Reason" value={reason} onValue={setReason} rows={2} />
    </Act>
  )
}

/** Hands the task to another agent, which also closes the question. */
export function HandOver({ item, close }: Omit<Props, 'done'>) {
  const [to, setTo] = useState('')
  const agents = (useAgents().data ?? []).filter((agent) => isOffered(agent, item.project.id) && agent.id !== item.agent.id)
  const { checkpoint_id, digest } = item
  const act = (): Promise<unknown> =>
    call('collaboration/checkpoint.resolve', { checkpoint_id: checkpoint_id!, action: 'reassign', reassign_to: to, digest })
  return (
    <Act
      item={item}
      close={close}
      done={() => undefined}
      name="Hand to another agent"
      act={act}
      blocked={to === '' ? 'Choose an agent.' : undefined}
    >
      <Pick
        label="Agent"
        value={to}
        onValue={setTo}
        choices={agents.map(({ id, name }) => ({ id, name }))}
        note="It gets the task in its present state. The asking agent is stopped."
      />
    </Act>
  )
}

const MINUTE = 60_000
/** The value of a `datetime-local` field: local time without a zone. */
const localOf = (at: Date): string => new Date(at.getTime() - at.getTimezoneOffset() * MINUTE).toISOString().slice(0, 16)
function untilOf(choice: string, custom: string): string | null {
  if (choice === 'custom') return custom === '' || Number.isNaN(Date.parse(custom)) ? null : new Date(custom).toISOString()
  if (choice !== 'tomorrow') return new Date(serverNow() + Number(choice) * MINUTE).toISOString()
  const morning = new Date(serverNow())
  morning.setDate(morning.getDate() + 1)
  morning.setHours(9, 0, 0, 0)
  return morning.toISOString()
}

export function Snooze(props: Props) {
  const [choice, setChoice] = useState('60')
  const [custom, setCustom] = useState(() => localOf(new Date(serverNow() + 180 * MINUTE)))
  const { request_id, expires_at } = props.item
  const until = untilOf(choice, custom)
  const isLate = expires_at !== null && until !== null && until >= expires_at
  const isPast = until === null || Date.parse(until) <= serverNow()
  const act = async (): Promise<void> => {
    await call('execution/request.snooze', { request_id, until: until! })
    dropRow(request_id)
  }
  const blocked = isPast ? 'Choose a future time.' : isLate ? `Its deadline is earlier: ${momentOf(expires_at)}.` : undefined
  return (
    <Act {...props} name="Snooze" act={act} blocked={blocked}>
      <Radios
        label="Until"
        value={choice}
        onValue={setChoice}
        options={[
          { value: '30', label: '30 minutes' },
          { value: '60', label: '1 hour' },
          { value: 'tomorrow', label: 'Tomorrow', note: 'at 9:00' },
          { value: 'custom', label: 'Another time' },
        ]}
      />
      {choice === 'custom' && (
        <TextField label="Date and time" type="datetime-local" value={custom} onChange={(event) => setCustom(event.target.value)} />
      )}
      <p className="note">Only for you. A late or escalated item comes back by itself.</p>
    </Act>
  )
}

export function Extend(props: Props) {
  const [minutes, setMinutes] = useState('60')
  const { request_id } = props.item
  const seconds = Math.round(Number(minutes) * 60)
  return (
    <Act
      {...props}
      name="Extend"
      act={() => call('execution/request.extend', { request_id, timeout_seconds: seconds })}
      blocked={Number.isFinite(seconds) && seconds >= 1 ? undefined : 'Give a number of minutes.'}
    >
      <TextField
        label="Minutes"
        type="number"
        min={1}
        step={1}
        value={minutes}
        onChange={(event) => setMinutes(event.target.value)}
        note="Counted from now. The deadline only moves to a later time."
      />
    </Act>
  )
}

/** Groups of the project, which can be chosen like people. */
function useGroupChoices(project_id: string): Choice[] {
  const groups = useQuery({
    queryKey: ['groups', project_id],
    queryFn: async () => (await call('execution/group.list', { project_id })).items,
    staleTime: 60_000,
  })
  return (groups.data ?? []).map(({ name, members }) => ({
    id: `group:${name}`,
    name: `Group ${name}`,
    note: plural(members.length, 'person', 'people'),
  }))
}

export function Escalate(props: Props) {
  const [to, setTo] = useState('')
  const [isUnknown, setUnknown] = useState(false)
  const { request_id } = props.item
  const groups = useGroupChoices(props.item.project.id)
  const { choices, isOfTask } = useAnswerers(props.item)
  const named = useRequest(request_id).data?.request.escalation?.to ?? []
  const isNeeded = to === '' && named.length === 0
  return (
    <Act
      {...props}
      name="Escalate"
      act={() => call('execution/request.escalate', { request_id, ...(to === '' ? {} : { to: [to] }) })}
      blocked={isUnknown ? 'Nobody here has that name.' : isNeeded ? 'Choose a person or a group.' : undefined}
    >
      <Pick
        label="Person"
        value={to}
        onValue={setTo}
        onUnknown={setUnknown}
        choices={[...choices, ...(isOfTask ? [] : groups)]}
        note={`They can answer, too, and it becomes more urgent.${named.length === 0 ? '' : ' If you choose nobody, it goes to the people whom the agent named.'}`}
      />
    </Act>
  )
}
