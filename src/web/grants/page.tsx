// Grants: scopes that were allowed or denied in advance, live ones first, each with a button to revoke it.
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { Page } from '../parts/page.tsx'
import { ProjectChip, ProjectFilter, useProject, type Chosen } from '../parts/project.tsx'
import { Empty, Loaded } from '../parts/states.tsx'
import { Ago, momentOf } from '../parts/time.tsx'
import { call, serverNow } from '../server/client.ts'
import { useGoals, useMe, useNameOf } from '../server/names.ts'
import type { Output } from '#sdk/index.ts'
import { RevokeButton } from './revoke.tsx'

type Listed = Output<'collaboration/grant.list'>['items'][number]
const isLive = ({ revoked_at, until, uses, used }: Listed): boolean =>
  revoked_at === null && (uses === null || used < uses) && (until === 'session' || until === 'task' || Date.parse(until) > serverNow())
const untilLabel = (until: string): string =>
  until === 'session' ? 'this run' : until === 'task' ? 'the end of the task' : momentOf(until)

function GrantRow({ grant, goal, chosen }: { readonly grant: Listed; readonly goal: string | undefined; readonly chosen: Chosen }) {
  const nameOf = useNameOf()
  const me = useMe().data?.id
  const live = isLive(grant)
  return (
    <tr data-testid="grant-row" data-grant-id={grant.id} data-live={live}>
      <td>
        <code>{grant.scope}</code>
      </td>
      <td>
        <span className={`chip ${grant.decision === 'allow' ? 'ok' : 'bad'}`}>{grant.decision}</span>
      </td>
      <td>
        <Link className="link" href={`/tasks/${grant.task_id}`}>
          <bdi>{goal ?? 'Task'}</bdi>
        </Link>{' '}
        <ProjectChip of={chosen} id={grant.project_id} />
      </td>
      <td>until {untilLabel(grant.until)}</td>
      <td>{grant.uses === null ? `${grant.used} used` : `${grant.used} of ${grant.uses} used`}</td>
      <td>
        {nameOf(grant.granted_by)}, <Ago at={grant.granted_at} />
      </td>
      <td className="end">
        {live ? (
          grant.granted_by === me ? (
            <RevokeButton grant={grant} />
          ) : (
            <span className="chip ok">live</span>
          )
        ) : (
          <span className="chip">{grant.revoked_at === null ? 'over' : 'revoked'}</span>
        )}
      </td>
    </tr>
  )
}

export default function GrantsPage() {
  const chosen = useProject()
  const grants = useInfiniteQuery({
    queryKey: ['grants'],
    queryFn: ({ pageParam }) => call('collaboration/grant.list', { limit: 100, ...(pageParam === null ? {} : { cursor: pageParam }) }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  })
  const items = (grants.data?.pages ?? [])
    .flatMap((page) => page.items)
    .filter(({ project_id }) => chosen.project === '' || project_id === chosen.project)
  const goals = useGoals(items.map(({ task_id }) => task_id))
  return (
    <Page
      title="Grants"
      about="Work that you allowed or denied in advance: if a grant answers, no person is asked."
      actions={<ProjectFilter of={chosen} />}
    >
      <Loaded from={grants} what="The list of grants">
        {() => {
          if (items.length === 0)
            return (
              <Empty icon="grant" tone="accent" title="No grants">
                <p>An approval that names a scope can become one: choose Grant beside Approve.</p>
              </Empty>
            )
          return (
            <>
              <div className="card over">
                <table className="grid stacks">
                  <thead>
                    <tr>
                      {['Scope', 'Decision', 'For', 'Until', 'Used', 'Given by', ''].map((name) => (
                        <th key={name} scope="col">
                          {name === '' ? <span className="sr">State</span> : name}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((grant) => (
                      <GrantRow key={grant.id} grant={grant} goal={goals.get(grant.task_id)} chosen={chosen} />
                    ))}
                  </tbody>
                </table>
              </div>
              {grants.hasNextPage && (
                <button type="button" className="btn sm more" onClick={() => void grants.fetchNextPage()}>
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
