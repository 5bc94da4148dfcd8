// Actions of a principal on a task: assign, steer, stop, take over, hand back, extend and end it. Each is offered only if the task's state
// allows it.
import { useRef, useState, type ReactNode } from 'react'
import { useMutation } from '@tanstack/react-query'
import { useCommands } from '../app/commands.ts'
import { ActButton } from '../parts/act-button.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { Pick, Select, TextArea, TextField } from '../parts/fields.tsx'
import { Icon } from '../parts/icon.tsx'
import { call, queries, serverNow } from '../server/client.ts'
import { useDraft } from '../server/drafts.ts'
import { useAgents, useMe, useReadsOnly } from '../server/names.ts'
import type { Task } from '../server/types.ts'
import { isOffered as canTake } from './agents.ts'
import { allowed, titleOf, type Act } from './states.ts'

type Opened = Exclude<Act, 'Take over'>
type Props = { readonly task: Task; close(): void }

function TaskDialog({
  name,
  task,
  close,
  danger = false,
  blocked,
  children,
  act,
}: Props & {
  readonly name: Opened
  readonly danger?: boolean
  readonly blocked?: string | undefined
  readonly children: ReactNode
  act(): Promise<unknown>
}) {
  const send = useMutation({
    mutationFn: act,
    onSuccess() {
      void queries.invalidateQueries({ queryKey: ['task', task.id] })
      void queries.invalidateQueries({ queryKey: ['tasks'] })
      close()
    },
  })
  return (
    <FormDialog
      name={name}
      about={<bdi>{titleOf(task.spec.goal).title}</bdi>}
      danger={danger}
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

type Intent = 'redirect' | 'clarify' | 'constrain' | 'abort_hint'
const intents: readonly (readonly [Intent, string])[] = [
  ['redirect', 'Redirect: go another way'],
  ['clarify', 'Clarify: what was meant'],
  ['constrain', 'Constrain: a further limit'],
  ['abort_hint', 'Consider stopping'],
]
function Amend(props: Props) {
  const [text, setText, clear] = useDraft(`amend/${props.task.id}`, '')
  const [intent, setIntent] = useState<Intent>('redirect')
  const act = async (): Promise<void> => {
    await call('collaboration/task.amend', { task_id: props.task.id, text: text.trim(), intent })
    clear()
  }
  return (
    <TaskDialog {...props} name="Amend" act={act} blocked={text.trim() === '' ? 'Say what changes.' : undefined}>
      <TextArea
        label="Instruction"
        value={text}
        onValue={setText}
        rows={4}
        note="The agent gets it while it works. The goal itself never changes."
      />
      <Select label="Intent" value={intent} onValue={(value) => setIntent(value as Intent)} options={intents} />
    </TaskDialog>
  )
}

function HandOver({ name, ...props }: Props & { readonly name: 'Assign' | 'Reassign' }) {
  const { task } = props
  const [agent, setAgent] = useState('')
  const agents = (useAgents().data ?? []).filter((candidate) => canTake(candidate, task.project_id) && candidate.id !== task.executor)
  const act = (): Promise<unknown> =>
    name === 'Assign'
      ? call('collaboration/task.assign', { task_id: task.id, assignee: agent })
      : call('collaboration/task.reassign', { task_id: task.id, assignee: agent })
  return (
    <TaskDialog {...props} name={name} act={act} blocked={agent === '' ? 'Choose an agent.' : undefined}>
      <Pick
        label="Agent"
        value={agent}
        onValue={setAgent}
        placeholder="Search agents"
        choices={agents.map((candidate) => ({
          id: candidate.id,
          name: candidate.name,
          ...(candidate.description === '' ? {} : { note: candidate.description }),
        }))}
        note={
          name === 'Assign'
            ? 'The agent gets the task when it connects.'
            : 'The present agent stops. Questions that it asked are withdrawn; what it delivered stays.'
        }
      />
    </TaskDialog>
  )
}

type Reasoned = 'Interrupt' | 'Cancel task'
const reasoned: Readonly<Record<Reasoned, { readonly note: string; act(task_id: string, reason: string): Promise<unknown> }>> = {
  Interrupt: {
    note: 'The agent stops and waits until you answer in the inbox.',
    act: (task_id, reason) => call('collaboration/task.interrupt', { task_id, ...(reason === '' ? {} : { reason }) }),
  },
  'Cancel task': {
    note: 'It ends, with all its parts. This cannot be undone.',
    act: (task_id, reason) => call('collaboration/task.cancel', { task_id, ...(reason === '' ? {} : { reason }) }),
  },
}
function WithReason({ name, ...props }: Props & { readonly name: Reasoned }) {
  const [reason, setReason, clear] = useDraft(`${name}/${props.task.id}`, '')
  const { note, act } = reasoned[name]
  return (
    <TaskDialog
      {...props}
      name={name}
      danger
      act={async () => {
        await act(props.task.id, reason.trim())
        clear()
      }}
    >
      <TextArea label="Reason" value={reason} onValue={setReason} note={note} />
    </TaskDialog>
  )
}

function ExtendTask(props: Props) {
  const [minutes, setMinutes] = useState('60')
  const from = Math.max(serverNow(), props.task.deadline === null ? 0 : Date.parse(props.task.deadline))
  const deadline = new Date(from + Number(minutes) * 60_000)
  const isGood = Number(minutes) > 0 && !Number.isNaN(deadline.getTime())
  return (
    <TaskDialog
      {...props}
      name="Extend"
      act={() => call('collaboration/task.extend', { task_id: props.task.id, deadline: deadline.toISOString() })}
      blocked={isGood ? undefined : 'Give a number of minutes.'}
    >
      <TextField
        label="Minutes"
        type="number"
        min={1}
        value={minutes}
        onChange={(event) => setMinutes(event.target.value)}
        note="Added to the deadline, or to now if there is none or it has passed."
      />
    </TaskDialog>
  )
}

/** Take over and hand back act immediately, because each undoes the other. */
function ChangeHands({ task, isHeldByPerson }: { readonly task: Task; readonly isHeldByPerson: boolean }) {
  const button = useRef<HTMLButtonElement>(null)
  const title = isHeldByPerson ? 'Hand back' : 'Take over'
  useCommands([{ title, group: 'Page', run: () => button.current?.click() }])
  return (
    <ActButton
      ref={button}
      changes={['task']}
      act={() => call(isHeldByPerson ? 'collaboration/task.return' : 'collaboration/task.takeover', { task_id: task.id })}
    >
      <Icon name={isHeldByPerson ? 'back' : 'hand'} />
      {title}
    </ActButton>
  )
}

const icons = { Assign: 'agent', Reassign: 'agent', Amend: 'edit', Interrupt: 'stop', Extend: 'clock', 'Cancel task': 'x' } as const

export function TaskActions({ task, isHeldByPerson }: { readonly task: Task; readonly isHeldByPerson: boolean }) {
  const [open, setOpen] = useState<Opened | null>(null)
  const me = useMe().data?.id
  const readsOnly = useReadsOnly(task.project_id)
  const acts = task.ownership.principal === me && !readsOnly ? allowed[task.state] : []
  const offered = acts.filter((act) => act !== 'Take over')
  useCommands(offered.map((title) => ({ title, group: 'Page' as const, run: () => setOpen(title) })))
  const close = (): void => setOpen(null)
  return (
    <>
      {acts.length > 0 && (acts.includes('Take over') || isHeldByPerson) && <ChangeHands task={task} isHeldByPerson={isHeldByPerson} />}
      {offered.map((name) => (
        <button
          key={name}
          type="button"
          className={`btn sm${name === 'Assign' ? ' primary' : name === 'Interrupt' || name === 'Cancel task' ? ' danger' : ''}`}
          onClick={() => setOpen(name)}
        >
          <Icon name={icons[name]} />
          {name}
        </button>
      ))}
      {open === 'Amend' && <Amend task={task} close={close} />}
      {open === 'Extend' && <ExtendTask task={task} close={close} />}
      {(open === 'Assign' || open === 'Reassign') && <HandOver name={open} task={task} close={close} />}
      {(open === 'Interrupt' || open === 'Cancel task') && <WithReason name={open} task={task} close={close} />}
    </>
  )
}
