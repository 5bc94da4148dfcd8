// Tasks of all projects, by default active ones; filters by words, agent, state and project.
import { useState } from 'react'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { SearchField, Select } from '../parts/fields.tsx'
import { Icon } from '../parts/icon.tsx'
import { Page } from '../parts/page.tsx'
import { ProjectChip, ProjectFilter, useProject, type Chosen } from '../parts/project.tsx'
import { Empty, Loaded } from '../parts/states.tsx'
import { Ago, momentOf } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { call } from '../server/client.ts'
import { capital, useAgents, useNameOf, useReadsOnly } from '../server/names.ts'
import type { Task } from '../server/types.ts'
import { stateLabel, titleOf, toneOf } from './states.ts'

const groups = {
  active: ['created', 'assigned', 'in_progress', 'blocked', 'review_ready', 'under_review', 'accepted'],
  waiting: ['blocked', 'review_ready', 'under_review'],
  ended: ['rejected', 'completed'],
} as const
type Group = keyof typeof groups | 'all'

function TaskRow({ task, chosen }: { readonly task: Task; readonly chosen: Chosen }) {
  const nameOf = useNameOf()
  const worker = task.executor ?? task.ownership.assignee
  return (
    <li data-testid="task-row" data-task-id={task.id} data-state={task.state}>
      <Who name={nameOf(worker)} sort={sortOf(worker)} />
      <span className="two-lines">
        <Link className="title clip" href={`/tasks/${task.id}`}>
          <bdi>{titleOf(task.spec.goal).title}</bdi>
        </Link>
        <span className="note clip">
          {task.executor === null ? 'Not assigned' : capital(nameOf(worker))} · for {nameOf(task.ownership.principal)} ·{' '}
          <Ago at={task.created_at} />
          {task.deadline !== null && ` · due ${momentOf(task.deadline)}`}
        </span>
      </span>
      <ProjectChip of={chosen} id={task.project_id} />
      {task.overdue && <span className="chip bad">overdue</span>}
      <span className="state">
        <span className={`chip ${toneOf(task)}`}>{stateLabel(task)}</span>
      </span>
    </li>
  )
}

/** The text and the agent filter the loaded tasks here, so pages are as long as possible. */
type Sought = { readonly text: string; readonly agent: string }
const fits = ({ spec, executor, id }: Task, { text, agent }: Sought): boolean =>
  (agent === '' || executor === agent) &&
  text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => `${spec.goal} ${id}`.toLowerCase().includes(word))

const useTasks = (group: Group, chosen: ReturnType<typeof useProject>, isSeeking: boolean) =>
  useInfiniteQuery({
    queryKey: ['tasks', group, chosen.project, isSeeking],
    queryFn: ({ pageParam }) =>
      call('collaboration/task.list', {
        ...chosen.input,
        ...(group === 'all' ? {} : { state: [...groups[group]] }),
        ...(isSeeking ? { limit: 200 } : {}),
        ...(pageParam === null ? {} : { cursor: pageParam }),
      }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    refetchInterval: 15_000,
  })

function NewTask({ project }: { readonly project: string }) {
  if (useReadsOnly(project)) return null
  return (
    <Link className="btn sm primary" href="/tasks/new">
      <Icon name="plus" />
      New task
    </Link>
  )
}

export default function TasksPage() {
  const [group, setGroup] = useState<Group>('active')
  const [sought, setSought] = useState<Sought>({ text: '', agent: '' })
  const isSeeking = sought.text.trim() !== '' || sought.agent !== ''
  const chosen = useProject()
  const agents = (useAgents().data ?? []).filter(({ id }) => id !== 'agent_system')
  const tasks = useTasks(group, chosen, isSeeking)
  return (
    <Page
      title="Tasks"
      about="Work that was delegated to agents, and its state."
      actions={
        <>
          <SearchField label="Find a task" value={sought.text} onValue={(text) => setSought({ ...sought, text })} />
          <ProjectFilter of={chosen} />
          <Select
            compact
            label="Worked on by"
            value={sought.agent}
            onValue={(agent) => setSought({ ...sought, agent })}
            options={[['', 'Any agent'], ...agents.map(({ id, name }) => [id, name] as const)]}
          />
          <Select
            compact
            label="State"
            value={group}
            onValue={(value) => setGroup(value as Group)}
            options={[
              ['active', 'Under way'],
              ['waiting', 'Waiting for people'],
              ['ended', 'Ended'],
              ['all', 'All states'],
            ]}
          />
          <NewTask project={chosen.project} />
        </>
      }
    >
      <Loaded from={tasks} what="The list of tasks">
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items).filter((task) => fits(task, sought))
          return (
            <>
              {items.length === 0 ? (
                <Empty icon="task" tone="accent" title={isSeeking ? 'No task matches' : 'No tasks here'}>
                  <p>{isSeeking ? 'Try other words, another agent or another state.' : 'Create one and assign it to an agent.'}</p>
                </Empty>
              ) : (
                <ul className="card rows">
                  {items.map((task) => (
                    <TaskRow key={task.id} task={task} chosen={chosen} />
                  ))}
                </ul>
              )}
              {tasks.hasNextPage && (
                <button type="button" className="btn sm more" onClick={() => void tasks.fetchNextPage()}>
                  {isSeeking ? 'Show older tasks' : 'More'}
                </button>
              )}
            </>
          )
        }}
      </Loaded>
    </Page>
  )
}
