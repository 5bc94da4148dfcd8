// A task: its state, its timeline with replay, and its parts, live.
import { useEffect } from 'react'
import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { useProject } from '../parts/project.tsx'
import { Failed, Skeleton } from '../parts/states.tsx'
import { Said, ShortId } from '../parts/text.tsx'
import { call, queries } from '../server/client.ts'
import { followLive, steadily } from '../server/live.ts'
import type { Task } from '../server/types.ts'
import { TaskActions } from './actions.tsx'
import { Side, useEvents } from './side.tsx'
import { stepsOf, titleOf } from './states.ts'
import { Timeline } from './timeline.tsx'
import '../style/pages/task.css'

function Steps({ task }: { readonly task: Task }) {
  return (
    <ol className="steps" data-testid="task-state" data-state={task.state} aria-label="State">
      {stepsOf(task).map(({ message, phase }) => (
        <li key={message} className={phase === 'past' ? 'past' : undefined} aria-current={phase === 'now' ? 'step' : undefined}>
          <span className="st">{phase === 'past' && <Icon name="check" />}</span>
          {message}
        </li>
      ))}
    </ol>
  )
}

const SHOWN_CHARS = 400
/** The rest of a long goal, with its line breaks. */
function Goal({ text }: { readonly text: string }) {
  const whole = (
    <p className="goal">
      <Said>{text}</Said>
    </p>
  )
  if (text.length <= SHOWN_CHARS) return whole
  return (
    <details className="goal-fold">
      <summary>The whole goal</summary>
      {whole}
    </details>
  )
}

const useTask = (id: string) => ({
  task: useQuery({ queryKey: ['task', id], queryFn: async () => (await call('collaboration/task.get', { task_id: id })).task }),
  events: useEvents(id),
  runs: useQuery({
    queryKey: ['task', id, 'runs'],
    queryFn: async () => (await call('delegation/run.list', { task_id: id, limit: 50 })).items,
  }),
})

/** Whether a person has taken over the work at present. */
function useTakenOver(task: Task | undefined): boolean {
  const pending = task?.pending_checkpoint ?? null
  const found = useQuery({
    queryKey: ['task', task?.id, 'pending', pending],
    queryFn: async () => (await call('collaboration/checkpoint.get', { checkpoint_id: pending! })).checkpoint,
    enabled: pending !== null,
  }).data
  return pending !== null && found?.takeover === true
}

function useTitle(goal: string | undefined): void {
  useEffect(() => {
    if (goal !== undefined) document.title = `${titleOf(goal).title} · Countersign`
  }, [goal])
}

/** Reads the task and its grants again after each event of the task. */
const useTaskNews = (id: string): void =>
  useEffect(
    () =>
      followLive(
        'collaboration/audit.follow',
        { task_id: id },
        steadily(() =>
          Promise.all([queries.invalidateQueries({ queryKey: ['task', id] }), queries.invalidateQueries({ queryKey: ['grants', id] })]),
        ),
      ),
    [id],
  )

export default function TaskPage({ id }: { readonly id: string }) {
  const { task, events, runs } = useTask(id)
  const isTakenOver = useTakenOver(task.data)
  const { projects, nameOf } = useProject()
  useTaskNews(id)
  useTitle(task.data?.spec.goal)
  if (!task.data)
    return (
      <div className="page">
        <h1 className="sr">Task</h1>
        {task.error ? (
          <Failed what="This task" thing="task" back="/tasks" error={task.error} again={() => void task.refetch()} />
        ) : (
          <Skeleton />
        )}
      </div>
    )
  const { title, rest } = titleOf(task.data.spec.goal)
  return (
    <div className="page">
      <header>
        <div className="row head">
          <div className="grow">
            <div className="crumb">
              <Link href="/tasks">Tasks</Link>
              <Icon name="chevron" />
              <ShortId id={id} />
              {projects.length > 1 && (
                <span className="chip line project-chip" data-testid="project-name">
                  <bdi>{nameOf(task.data.project_id)}</bdi>
                </span>
              )}
            </div>
            <h1>
              <bdi>{title}</bdi>
            </h1>
          </div>
          <div className="row wrap actions">
            {(task.data.state === 'review_ready' || task.data.state === 'under_review') && (
              <Link className="btn sm primary" href={`/reviews/${id}`}>
                Review
              </Link>
            )}
            <TaskActions task={task.data} isHeldByPerson={isTakenOver} />
          </div>
        </div>
        {rest !== '' && <Goal text={rest} />}
        <Steps task={task.data} />
      </header>
      <div className="cols task-cols">
        <div className="tl">
          {events.data ? (
            <Timeline events={events.data} task={task.data} />
          ) : events.error ? (
            <Failed what="The timeline" error={events.error} again={() => void events.refetch()} />
          ) : (
            <Skeleton />
          )}
        </div>
        <Side task={task.data} runs={runs.data ?? []} events={events.data ?? []} />
      </div>
    </div>
  )
}
