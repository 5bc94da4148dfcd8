// The side panel of a task, next to its timeline: the current state, the agreed terms and the task's parts.
import { useQuery } from '@tanstack/react-query'
import type { HTMLAttributes } from 'react'
import { Link } from 'wouter'
import { DownloadButton } from '../review/download.tsx'
import { RevokeButton } from '../grants/revoke.tsx'
import { Icon } from '../parts/icon.tsx'
import { Meter, Percent } from '../parts/meter.tsx'
import { plural, Said } from '../parts/text.tsx'
import { Ago, momentOf, span, useNow } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { after, all, call } from '../server/client.ts'
import { capital, useMe, useNameOf } from '../server/names.ts'
import type { Event, Run, Task } from '../server/types.ts'
import { itemsIn } from './events.ts'
import { isOver, stateLabel } from './states.ts'

function Now({ task, runs }: { readonly task: Task; readonly runs: readonly Run[] }) {
  const nameOf = useNameOf()
  const holder = task.ownership.assignee
  const ended = isOver(task)
  const live = ended ? [] : runs.filter(({ state }) => state === 'running' || state === 'blocked')
  const now = useNow(task.active_since === null ? 60 : 1)
  const worked = task.active_ms + (task.active_since === null ? 0 : Math.max(0, now - Date.parse(task.active_since)))
  return (
    <section>
      <h2 className="h">Now</h2>
      <dl>
        {ended ? (
          <>
            <dt>Ended</dt>
            <dd>
              {stateLabel(task)}
              {task.outcome_reason !== null && (
                <>
                  : <Said>{task.outcome_reason}</Said>
                </>
              )}
            </dd>
          </>
        ) : (
          <>
            <dt>Held by</dt>
            <dd className="row">
              <Who name={nameOf(holder)} sort={sortOf(holder)} />
              {nameOf(holder)}
            </dd>
          </>
        )}
        <dt>Owner</dt>
        <dd>{nameOf(task.ownership.principal)}</dd>
        {worked > 0 && (
          <>
            <dt>Worked</dt>
            <dd>{span(worked)}</dd>
          </>
        )}
        {task.deadline !== null && (
          <>
            <dt>Due</dt>
            <dd>{momentOf(task.deadline)}</dd>
          </>
        )}
      </dl>
      {live.map(({ run_id, agent_id, progress, state, started_at }) => (
        <div className="run-now" key={run_id}>
          <div className="row">
            <Who name={nameOf(agent_id)} sort="agent" />
            <span className="grow">
              {capital(nameOf(agent_id))}{' '}
              {state === 'blocked' ? 'waits' : started_at === null || task.state === 'assigned' ? 'has not started yet' : 'works'}
            </span>
            <Percent of={progress?.percent} />
          </div>
          {progress !== null && progress.message && (
            <p className="soft">
              <Said>{progress.message}</Said>
            </p>
          )}
          <Meter label="Progress" percent={progress?.percent} />
        </div>
      ))}
    </section>
  )
}

/** Words for the last in the chain, by the state of the task. */
function workLabel(task: Task): string {
  if (isOver(task)) return 'worked on it'
  if (task.state === 'in_progress') return 'works on it'
  return task.state === 'assigned' ? 'has not started yet' : 'waits'
}

function ChainOf({ task }: { readonly task: Task }) {
  const nameOf = useNameOf()
  const links = [...new Set([task.ownership.principal, ...task.delegators, task.executor ?? task.ownership.assignee])]
  return (
    <section>
      <h2 className="h">Who acts for whom</h2>
      <ol className="chain down" aria-label="Who acts for whom">
        {links.map((id, i) => (
          <li key={id}>
            <Who name={nameOf(id)} sort={sortOf(id)} />
            <span>
              <Said>{capital(nameOf(id))}</Said> <small>{i === 0 ? 'owner' : i === links.length - 1 ? workLabel(task) : 'delegated'}</small>
            </span>
          </li>
        ))}
      </ol>
    </section>
  )
}

export function Agreed({ criteria, ...rest }: { readonly criteria: readonly string[] } & HTMLAttributes<HTMLElement>) {
  if (criteria.length === 0) return null
  return (
    <section {...rest}>
      <h2 className="h">What was agreed</h2>
      <ul className="crit">
        {criteria.map((criterion) => (
          <li key={criterion}>
            <Icon name="flag" />
            <Said>{criterion}</Said>
          </li>
        ))}
      </ul>
    </section>
  )
}

export const useEvents = (task_id: string) =>
  useQuery({
    queryKey: ['task', task_id, 'events'],
    queryFn: () => all<Event>((cursor) => call('collaboration/audit.query', { task_id, order: 'oldest', limit: 200, ...after(cursor) })),
  })
export const useArtifacts = (task_id: string) =>
  useQuery({
    queryKey: ['task', task_id, 'artifacts'],
    queryFn: async () => (await call('collaboration/artifact.list', { task_id, limit: 100 })).items,
  })

function Artifacts({ task }: { readonly task: Task }) {
  const artifacts = useArtifacts(task.id).data ?? []
  if (artifacts.length === 0) return null
  return (
    <section>
      <h2 className="h">
        Artifacts <span className="note">{artifacts.length}</span>
      </h2>
      <ul className="things">
        {artifacts.map(({ id, type, version, delivered }) => (
          <li className="row" key={id}>
            <Icon name="file" />
            <Link className="grow clip link" href={`/reviews/${task.id}`}>
              <bdi>{type}</bdi>
            </Link>
            <span className={delivered === null ? 'chip' : 'chip accent'}>{version}</span>
            <DownloadButton artifact_id={id} version={version} />
          </li>
        ))}
      </ul>
    </section>
  )
}

function Grants({ task }: { readonly task: Task }) {
  const me = useMe().data?.id
  const grants = useQuery({
    queryKey: ['grants', task.id],
    queryFn: async () => (await call('collaboration/grant.list', { task_id: task.id, limit: 100 })).items,
  }).data
  const live = (grants ?? []).filter(({ revoked_at }) => revoked_at === null)
  if (live.length === 0) return null
  return (
    <section>
      <h2 className="h">
        Grants <span className="note">{live.length} not revoked</span>
      </h2>
      <ul className="things">
        {live.map((grant) => (
          <li className="row" key={grant.id} data-testid="grant-row">
            <code className="grow">{grant.scope}</code>
            <span className="note">{grant.uses === null ? `${grant.used} used` : `${grant.used} of ${grant.uses} used`}</span>
            {grant.granted_by === me && <RevokeButton grant={grant} />}
          </li>
        ))}
      </ul>
    </section>
  )
}

function Steering({ task }: { readonly task: Task }) {
  const nameOf = useNameOf()
  const items = useQuery({
    queryKey: ['task', task.id, 'steering'],
    queryFn: async () => (await call('collaboration/task.steering', { task_id: task.id, limit: 50 })).items,
  }).data
  if (items === undefined || items.length === 0) return null
  return (
    <section>
      <h2 className="h">
        Steering <span className="note">{plural(items.length, 'instruction')}</span>
      </h2>
      <ul className="things">
        {items.map(({ id, text, intent, by, at }) => (
          <li key={id}>
            <Said>{text}</Said>{' '}
            <span className="note">
              {intent.replace('_', ' ')}, by {nameOf(by)}, <Ago at={at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Checkpoints({ task, events }: { readonly task: Task; readonly events: readonly Event[] }) {
  const items = useQuery({
    queryKey: ['task', task.id, 'checkpoints'],
    queryFn: async () => (await call('collaboration/checkpoint.list', { task_id: task.id, limit: 50 })).items,
  }).data
  if (items === undefined || items.length === 0) return null
  const requests = itemsIn(events)
  return (
    <section>
      <h2 className="h">
        Checkpoints <span className="note">{items.length}</span>
      </h2>
      <ul className="things">
        {items.map(({ id, prompt, state }) => (
          <li className="row" key={id}>
            <Link className="grow clip link" href={`/inbox/${requests.get(id) ?? ''}`}>
              <bdi>{prompt}</bdi>
            </Link>
            <span className={state === 'pending' ? 'chip warn' : 'chip'}>{state}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Ledger({ events }: { readonly events: readonly Event[] }) {
  const entries = events
    .filter(({ subject }) => /ledger|entry/.test(subject.kind))
    .map(({ after, id }) => {
      const { key = '', value = null } = (after ?? {}) as { key?: string; value?: unknown }
      return { id, key, value }
    })
  if (entries.length === 0) return null
  return (
    <section>
      <h2 className="h">Ledger</h2>
      <ul className="things">
        {entries.map(({ id, key, value }) => (
          <li key={id}>
            <code>{key}</code> <Said>{typeof value === 'string' ? value : JSON.stringify(value)}</Said>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Rebuilt({ task }: { readonly task: Task }) {
  const replay = useQuery({
    queryKey: ['task', task.id, 'replay'],
    queryFn: () => call('collaboration/audit.replay', { task_id: task.id }),
    staleTime: 60_000,
  }).data
  if (!replay) return null
  return (
    <section>
      <h2 className="h">Record</h2>
      <p className={replay.matches ? 'row good' : 'row wrong'}>
        <Icon name={replay.matches ? 'check' : 'alert'} />
        {replay.matches
          ? `Verified: the record matches (${plural(replay.replayed, 'event')})`
          : `Event ${replay.difference?.seq ?? '?'} differs: ${replay.difference?.what ?? 'the task differs from its events'}`}
      </p>
    </section>
  )
}

export function Side({ task, runs, events }: { readonly task: Task; readonly runs: readonly Run[]; readonly events: readonly Event[] }) {
  return (
    <aside className="side" aria-label="About the task">
      <Now task={task} runs={runs} />
      <ChainOf task={task} />
      <Agreed criteria={task.spec.acceptance_criteria} />
      <Checkpoints task={task} events={events} />
      <Artifacts task={task} />
      <Grants task={task} />
      <Steering task={task} />
      <Ledger events={events} />
      <Rebuilt task={task} />
    </aside>
  )
}
