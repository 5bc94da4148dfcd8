// Tasks: those that are under way first by default, with the ones who work on them.
import { useState } from 'react'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { Select } from '../parts/fields.tsx'
import { Icon } from '../parts/icon.tsx'
import { Page } from '../parts/page.tsx'
import { Empty, Loaded } from '../parts/states.tsx'
import { Ago, momentOf } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { call } from '../server/client.ts'
import { capital, useNameOf } from '../server/names.ts'
import type { Task } from '../server/types.ts'
import { stateWords, toneOf } from './states.ts'

const groups = {
  active: ['created', 'assigned', 'in_progress', 'blocked', 'review_ready', 'under_review', 'accepted'],
  waiting: ['blocked', 'review_ready', 'under_review'],
  ended: ['rejected', 'completed'],
} as const
type Group = keyof typeof groups | 'all'

function TaskRow({ task }: { readonly task: Task }) {
  const nameOf = useNameOf()
  const holder = task.executor ?? task.ownership.assignee
  return (
    <li data-testid="task-row" data-task-id={task.id} data-state={task.state}>
      <Who name={nameOf(holder)} sort={sortOf(holder)} />
      <span className="two-lines">
        <Link className="title clip" href={`/tasks/${task.id}`}>
          <bdi>{task.spec.goal}</bdi>
        </Link>
        <span className="note clip">
          {capital(nameOf(holder))} · for {nameOf(task.ownership.principal)} · <Ago at={task.created_at} />
          {task.deadline !== null && ` · due ${momentOf(task.deadline)}`}
        </span>
      </span>
      {task.overdue && <span className="chip bad">overdue</span>}
      <span className={`chip ${toneOf(task)}`}>{stateWords(task)}</span>
    </li>
  )
}

export default function TasksPage() {
  const [group, setGroup] = useState<Group>('active')
  const tasks = useInfiniteQuery({
    queryKey: ['tasks', group],
    queryFn: ({ pageParam }) =>
      call('collaboration/task.list', {
        ...(group === 'all' ? {} : { state: [...groups[group]] }),
        ...(pageParam === null ? {} : { cursor: pageParam }),
      }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    refetchInterval: 15_000,
  })
  return (
    <Page
      title="Tasks"
      about="Work that was handed to agents, and where it stands."
      actions={
        <>
          <Select
            compact
            label="State"
            value={group}
            onValue={(value) => setGroup(value as Group)}
            options={[
              ['active', 'Under way'],
              ['waiting', 'Waiting for people'],
              ['ended', 'Ended'],
              ['all', 'All'],
            ]}
          />
          <Link className="btn sm primary" href="/tasks/new">
            <Icon name="plus" />
            New task
          </Link>
        </>
      }
    >
      <Loaded from={tasks} what="The list of tasks">
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items)
          if (items.length === 0)
            return (
              <Empty icon="task" tone="accent" title="No tasks here">
                <p>Create one and hand it to an agent.</p>
              </Empty>
            )
          return (
            <>
              <ul className="card rows">
                {items.map((task) => (
                  <TaskRow key={task.id} task={task} />
                ))}
              </ul>
              {tasks.hasNextPage && (
                <button type="button" className="btn sm more" onClick={() => void tasks.fetchNextPage()}>
                  More
                </button>
              )}
            </>
          )
        }}
      </Loaded>
    </Page>
  )
}
