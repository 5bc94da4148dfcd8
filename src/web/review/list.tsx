// Reviews: deliverables that wait for this person, and those that wait for others.
import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { Page } from '../parts/page.tsx'
import { ProjectChip, ProjectFilter, useProject, type Chosen } from '../parts/project.tsx'
import { Empty, Loaded } from '../parts/states.tsx'
import { Ago } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { after, all, call } from '../server/client.ts'
import { capital, useMe, useNameOf } from '../server/names.ts'
import type { Task } from '../server/types.ts'
import { titleOf } from '../tasks/states.ts'

function Tasks({ title, tasks, chosen }: { readonly title: string; readonly tasks: readonly Task[]; readonly chosen: Chosen }) {
  const nameOf = useNameOf()
  if (tasks.length === 0) return null
  return (
    <section className="block">
      <h2 className="h">
        {title} <span className="note">{tasks.length}</span>
      </h2>
      <ul className="card rows">
        {tasks.map((task) => {
          const by = task.executor ?? task.ownership.assignee
          return (
            <li key={task.id} data-testid="task-row" data-task-id={task.id} data-state={task.state}>
              <Who name={nameOf(by)} sort={sortOf(by)} />
              <span className="two-lines">
                <Link className="title clip" href={`/reviews/${task.id}`}>
                  <bdi>{titleOf(task.spec.goal).title}</bdi>
                </Link>
                <span className="note clip">
                  {capital(nameOf(by))} delivered {task.delivered?.version ?? ''} · for {nameOf(task.ownership.principal)} · created{' '}
                  <Ago at={task.created_at} />
                </span>
              </span>
              <ProjectChip of={chosen} id={task.project_id} />
              {task.delivered !== undefined && <span className="chip">{task.delivered.version}</span>}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

export default function ReviewsPage() {
  const me = useMe().data?.id ?? ''
  const chosen = useProject()
  const tasks = useQuery({
    queryKey: ['tasks', 'reviews', chosen.project],
    queryFn: () =>
      all<Task>((cursor) =>
        call('collaboration/task.list', { ...chosen.input, state: ['review_ready', 'under_review'], limit: 100, ...after(cursor) }),
      ),
    refetchInterval: 15_000,
  })
  return (
    <Page title="Reviews" about="Deliveries of agents that wait for a verdict." actions={<ProjectFilter of={chosen} />}>
      <Loaded from={tasks} what="The list of reviews">
        {(found) => {
          const isMine = ({ ownership, reviewers }: Task): boolean => ownership.principal === me || reviewers.includes(me)
          if (found.length === 0)
            return (
              <Empty icon="check" tone="ok" title="Nothing to review">
                <p>Deliveries of agents appear here.</p>
              </Empty>
            )
          return (
            <>
              <Tasks title="Waits for you" tasks={found.filter(isMine)} chosen={chosen} />
              <Tasks title="Waits on others" tasks={found.filter((task) => !isMine(task))} chosen={chosen} />
            </>
          )
        }}
      </Loaded>
    </Page>
  )
}
