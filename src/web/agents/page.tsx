// Agents and their runs: owners, capabilities and progress, live.
import { useEffect, useState } from 'react'
import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { SearchField } from '../parts/fields.tsx'
import { Meter, Percent } from '../parts/meter.tsx'
import { Page } from '../parts/page.tsx'
import { ProjectChip, ProjectFilter, useMyProjects, useProject, type Chosen } from '../parts/project.tsx'
import { Empty, Loaded } from '../parts/states.tsx'
import { plural, Said } from '../parts/text.tsx'
import { Ago } from '../parts/time.tsx'
import { Who } from '../parts/who.tsx'
import { after, all, call, queries } from '../server/client.ts'
import { followLive, onNews, steadily } from '../server/live.ts'
import { capital, useAgents, useGoals, useNameOf } from '../server/names.ts'
import type { Agent, AgentCard, Run } from '../server/types.ts'

const isLive = ({ state }: Run): boolean => state === 'running' || state === 'blocked'
/** Limit of followed tasks: a socket carries a limited number of streams, and each task costs a call. Other tasks are only polled. */
const TASKS_MAX = 16
const PROJECTS_MAX = 20
/** Pause between two reads. One read loads many rows, and a busy project changes all the time. */
const PAUSE_MS = 1_000
/** Poll interval: the server sends no event for a task that has just begun or has just been shared. */
const NOW_AND_THEN_MS = 60_000

/** All runs of a project for its owners; for others the runs of the tasks they can read. Includes the newest ended runs. */
async function runsOf(project_id: string, isKept: boolean): Promise<readonly Run[]> {
  if (isKept) return (await call('delegation/run.list', { project_id, limit: 50 })).items
  const { items } = await call('collaboration/task.list', { project_id, state: ['in_progress', 'blocked'], limit: TASKS_MAX })
  const found = await Promise.all(items.map(({ id }) => call('delegation/run.list', { task_id: id, limit: 5 })))
  return found.flatMap((page) => page.items)
}

const idsIn = (text: string): string[] => text.split(' ').filter((id) => id !== '')

/** Runs of everything that one may read. Owners and viewers follow all that happens in their projects; others the tasks whose runs they see. */
function useRuns(project: string): readonly Run[] {
  const projects = useMyProjects()
    .filter(({ id }) => project === '' || project === id)
    .slice(0, PROJECTS_MAX)
    .map(({ id, isWhole }) => ({ project_id: id, isKept: isWhole }))
  const found = useQueries({
    queries: projects.map(({ project_id, isKept }) => ({
      queryKey: ['runs', project_id, isKept],
      queryFn: () => runsOf(project_id, isKept),
      refetchInterval: NOW_AND_THEN_MS,
    })),
  })
  const runs = found.flatMap(({ data }) => data ?? [])
  const kept = projects.filter(({ isKept }) => isKept).map(({ project_id }) => project_id)
  const others = runs.filter((run) => isLive(run) && !kept.includes(run.project_id)).flatMap(({ task_id }) => task_id ?? [])
  const followedProjects = kept.slice(0, TASKS_MAX).join(' ')
  const followedTasks = [...new Set(others)].slice(0, TASKS_MAX).join(' ')
  useEffect(() => {
    const look = steadily(() => queries.invalidateQueries({ queryKey: ['runs'] }), PAUSE_MS)
    const left = [
      ...idsIn(followedProjects).map((project_id) => followLive('collaboration/audit.follow', { project_id }, look)),
      ...idsIn(followedTasks).map((task_id) => followLive('delegation/run.follow', { task_id, all: true }, look)),
      onNews(look),
    ]
    return () => left.forEach((leave) => leave())
  }, [followedProjects, followedTasks])
  return runs
}

/** A run that was stopped did not fail. */
function endOf({ state, reason }: Run): { readonly message: string; readonly tone: string } {
  if (state !== 'failed') return { message: state, tone: { running: 'accent', blocked: 'warn', completed: 'ok' }[state] }
  if (reason === 'cancelled') return { message: 'stopped', tone: '' }
  return reason === 'handed_off' ? { message: 'handed over', tone: '' } : { message: 'failed', tone: 'bad' }
}

function RunRow({ run, goal, chosen }: { readonly run: Run; readonly goal: string | undefined; readonly chosen: Chosen }) {
  const nameOf = useNameOf()
  const { progress } = run
  const { message, tone } = endOf(run)
  const isStopped = run.state === 'failed' && message !== 'failed'
  return (
    <li data-testid="run-row" data-run-id={run.run_id} data-state={run.state}>
      <Who name={nameOf(run.agent_id)} sort="agent" />
      <span className="two-lines">
        {run.task_id === null ? (
          <b>{capital(nameOf(run.agent_id))}</b>
        ) : (
          <Link className="title clip" href={`/tasks/${run.task_id}`}>
            <bdi>{goal ?? 'A task that you cannot read'}</bdi>
          </Link>
        )}
        <span className="note">
          {goal !== undefined && `${capital(nameOf(run.agent_id))}: `}
          {progress?.message ? (
            <>
              <Said>{progress.message}</Said> · <Ago at={progress.at} />
            </>
          ) : (
            <>
              {run.reason !== null && !isStopped && (
                <>
                  <Said>{run.reason}</Said> ·{' '}
                </>
              )}
              began <Ago at={run.created_at} />
            </>
          )}
        </span>
        <Meter label="Progress" percent={progress?.percent} />
      </span>
      <Percent of={progress?.percent} />
      <ProjectChip of={chosen} id={run.project_id} />
      <span className="state">
        <span className={`chip ${tone}`}>{message}</span>
      </span>
    </li>
  )
}

function AgentRow({ agent, card, load }: { readonly agent: Agent; readonly card: AgentCard | undefined; readonly load: number }) {
  const nameOf = useNameOf()
  return (
    <li data-testid="agent-row" data-agent-id={agent.id}>
      <Who name={agent.name} sort="agent" large />
      <span className="two-lines">
        <b>
          <bdi>{agent.name}</bdi> <code className="muted">{agent.id}</code>
        </b>
        <span className="note">
          {capital(nameOf(agent.owner))}{' '}
          {agent.owner.startsWith('user_') && (nameOf(agent.owner) === 'you' ? 'answer for it' : 'answers for it')}
          {agent.description !== '' && (
            <>
              {' · '}
              <Said>{agent.description}</Said>
            </>
          )}
        </span>
        {card !== undefined && (
          <span className="row wrap">
            {card.capabilities.map((capability) => (
              <span className="chip" key={capability.capability_id}>
                {capability.capability_id}
              </span>
            ))}
            {card.tags.map((tag) => (
              <span className="chip line" key={tag}>
                {tag}
              </span>
            ))}
          </span>
        )}
      </span>
      <span className="note">
        {card === undefined ? 'no card' : card.concurrency === null ? plural(load, 'run') : `${load} of ${card.concurrency} runs`}
        <br />
        {agent.last_seen === null ? (
          'never seen'
        ) : (
          <>
            seen <Ago at={agent.last_seen} />
          </>
        )}
      </span>
      {agent.disabled ? (
        <span className="chip bad">switched off</span>
      ) : (
        card?.available === true && <span className="chip ok">available</span>
      )}
    </li>
  )
}

function NoAgents({ isSeeking }: { readonly isSeeking: boolean }) {
  if (isSeeking) return <Empty icon="search" tone="accent" title="No agent matches" />
  return (
    <Empty icon="agent" tone="accent" title="No agents yet">
      <p>
        Register one: <code>countersign agent add</code>
      </p>
    </Empty>
  )
}

export default function AgentsPage() {
  const agents = useAgents()
  const chosen = useProject()
  const [message, setWords] = useState('')
  const runs = useRuns(chosen.project)
  const cards = useQuery({
    queryKey: ['cards', chosen.project],
    queryFn: () => all<AgentCard>((cursor) => call('delegation/agent.discover', { ...chosen.input, limit: 200, ...after(cursor) })),
  }).data
  const live = runs.filter(isLive)
  const ended = runs
    .filter((run) => !live.includes(run))
    .toSorted((one, other) => (one.created_at < other.created_at ? 1 : -1))
    .slice(0, 10)
  const goals = useGoals([...live, ...ended].map(({ task_id }) => task_id))
  const sought = message.trim().toLowerCase()
  const isIn = ({ projects }: Agent): boolean => chosen.project === '' || projects.some(({ project_id }) => project_id === chosen.project)
  return (
    <Page
      title="Agents"
      about="The agents of your projects, the people who answer for them, and the work they do now."
      actions={
        <>
          <SearchField label="Find an agent" value={message} onValue={setWords} />
          <ProjectFilter of={chosen} />
        </>
      }
    >
      {live.length + ended.length > 0 && (
        <section className="block">
          <h2 className="h">
            Runs <span className="note">{live.length} live</span>
          </h2>
          <ul className="card rows">
            {[...live, ...ended].map((run) => (
              <RunRow key={run.run_id} run={run} goal={goals.get(run.task_id ?? '')} chosen={chosen} />
            ))}
          </ul>
        </section>
      )}
      <Loaded from={agents} what="The list of agents">
        {(found) => {
          const shown = found.filter(
            (agent) =>
              agent.id !== 'agent_system' && isIn(agent) && `${agent.name} ${agent.id} ${agent.description}`.toLowerCase().includes(sought),
          )
          if (shown.length === 0) return <NoAgents isSeeking={sought !== ''} />
          return (
            <section className="block">
              <h2 className="h">
                Agents <span className="note">{shown.length}</span>
              </h2>
              <ul className="card rows">
                {shown.map((agent) => (
                  <AgentRow
                    key={agent.id}
                    agent={agent}
                    card={cards?.find(({ agent_id }) => agent_id === agent.id)}
                    load={live.filter(({ agent_id }) => agent_id === agent.id).length}
                  />
                ))}
              </ul>
            </section>
          )
        }}
      </Loaded>
    </Page>
  )
}
