// The form for a new task: goal, acceptance criteria and agent. It suggests the agents whose cards fit the goal.
import { useState, type FormEvent } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link, useLocation } from 'wouter'
import { useCommands } from '../app/commands.ts'
import { tellError } from '../app/error-toast.tsx'
import { Pick, Select, TextArea, TextField } from '../parts/fields.tsx'
import { Icon } from '../parts/icon.tsx'
import { Page } from '../parts/page.tsx'
import { useProject } from '../parts/project.tsx'
import { Refused } from '../parts/states.tsx'
import { after, all, call, queries } from '../server/client.ts'
import { useDraft } from '../server/drafts.ts'
import { messageOf } from '../server/errors.ts'
import { useAgents } from '../server/names.ts'
import type { AgentCard } from '../server/types.ts'
import { isOffered } from './agents.ts'

type Form = { readonly goal: string; readonly criteria: string; readonly agent: string; readonly project: string; readonly due: string }
const empty: Form = { goal: '', criteria: '', agent: '', project: '', due: '' }

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? []
/** The number of words of the goal that an agent's card contains. */
function fitOf(card: AgentCard, goal: string): number {
  const cardWords = new Set(
    wordsOf([card.name, card.description, ...card.tags, ...card.capabilities.map((capability) => JSON.stringify(capability))].join(' ')),
  )
  return wordsOf(goal).filter((word) => cardWords.has(word)).length
}

function useSuggested(goal: string, project_id: string): readonly AgentCard[] {
  const cards = useQuery({
    queryKey: ['cards', project_id],
    queryFn: () => all<AgentCard>((cursor) => call('delegation/agent.discover', { project_id, limit: 200, ...after(cursor) })),
    enabled: project_id !== '',
  }).data
  return (cards ?? [])
    .map((card) => ({ card, fit: fitOf(card, goal) }))
    .filter(({ fit }) => fit > 0)
    .toSorted((one, other) => other.fit - one.fit)
    .slice(0, 3)
    .map(({ card }) => card)
}

const crumb = (
  <>
    <Link href="/tasks">Tasks</Link>
    <Icon name="chevron" />
    <span>New</span>
  </>
)
const OUTSIDE = 'This agent is not in the project.'
const unknownMessages = { '': undefined, nobody: 'No agent here has that name.', part: 'Choose an agent from the list.' }

async function createTask(form: Form, project: string) {
  const criteria = form.criteria
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const { task } = await call('collaboration/task.create', {
    spec: { goal: form.goal.trim(), acceptance_criteria: criteria },
    ...(project === '' ? {} : { project_id: project }),
    ...(form.due === '' ? {} : { deadline: new Date(form.due).toISOString() }),
  })
  // The task exists now. If the assignment fails, show the task and the reason instead of creating it again.
  if (form.agent !== '')
    await call('collaboration/task.assign', { task_id: task.id, assignee: form.agent }).catch((error: unknown) =>
      tellError(`The task was created but not assigned. ${messageOf(error)}`),
    )
  return task
}

function Suggested({ cards, choose }: { readonly cards: readonly AgentCard[]; choose(agent_id: string): void }) {
  if (cards.length === 0) return null
  return (
    <div className="suggested">
      <span className="note">These agents claim they can do this:</span>
      {cards.map((card) => (
        <button type="button" key={card.agent_id} className="btn sm" onClick={() => choose(card.agent_id)}>
          <Icon name="agent" />
          {card.name}
        </button>
      ))}
    </div>
  )
}

export default function NewTaskPage() {
  const [form, setForm, clear] = useDraft<Form>('task/new', empty)
  const [, go] = useLocation()
  const known = useAgents().data ?? []
  const { projects, project: usual } = useProject()
  const isIn = (id: string): boolean => projects.some((project) => project.id === id)
  const project = [form.project, usual, 'project_default'].find(isIn) ?? projects[0]?.id ?? ''
  const agents = known.filter((agent) => isOffered(agent, project))
  const suggested = useSuggested(form.goal, project).filter(({ agent_id }) => agents.some(({ id }) => id === agent_id))
  const [unknown, setUnknown] = useState<'' | 'nobody' | 'part'>('')
  const set = (more: Partial<Form>): void => setForm({ ...form, ...more })
  const suggest = (agent: string): void => {
    set({ agent })
    setUnknown('')
  }
  const create = useMutation({
    mutationFn: () => createTask(form, project),
    onSuccess(task) {
      clear()
      void queries.invalidateQueries({ queryKey: ['tasks'] })
      go(`/tasks/${task.id}`)
    },
  })
  const isOutside = form.agent !== '' && known.length > 0 && !agents.some(({ id }) => id === form.agent)
  const blocked = form.goal.trim() === '' ? 'Enter a goal.' : (unknownMessages[unknown] ?? (isOutside ? OUTSIDE : undefined))
  const send = (): void => {
    if (blocked === undefined && !create.isPending) create.mutate()
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    send()
  }
  useCommands([{ title: 'Create task', keys: ['Enter'], withModifier: true, group: 'Page', run: send }])
  return (
    <Page title="New task" crumb={crumb}>
      <form className="card form" onSubmit={submit}>
        <TextArea
          label="Goal"
          value={form.goal}
          onValue={(goal) => set({ goal })}
          placeholder="Fix the login bug"
          note="You own this task. The goal can't be edited later."
        />
        <TextArea
          label="Acceptance criteria"
          value={form.criteria}
          onValue={(criteria) => set({ criteria })}
          rows={4}
          note="One per line. Reviewers check the work against these."
        />
        <Pick
          label="Agent"
          value={form.agent}
          onValue={(agent) => set({ agent })}
          onUnknown={(isUnknown, isPart) => setUnknown(isUnknown ? (isPart === true ? 'part' : 'nobody') : '')}
          placeholder="Search agents"
          choices={agents.map(({ id, name, description }) => ({ id, name, ...(description === '' ? {} : { note: description }) }))}
          note="Leave it empty to assign the task later."
        />
        <Suggested cards={suggested} choose={suggest} />
        <div className="pair">
          <Select
            label="Project"
            value={project}
            onValue={(project) => set({ project })}
            options={projects.map(({ id, name }) => [id, name] as const)}
          />
          <TextField label="Due" type="datetime-local" value={form.due} onChange={(event) => set({ due: event.target.value })} />
        </div>
        <Refused error={create.error} />
        <div className="row end">
          <span className="note grow">{blocked}</span>
          <button type="submit" className="btn primary" aria-disabled={blocked !== undefined || create.isPending || undefined}>
            Create task
          </button>
        </div>
      </form>
    </Page>
  )
}
