// Sessions: the browsers that are signed in as this person, each of which can be ended.
import { useQuery } from '@tanstack/react-query'
import { ActButton } from '../parts/act-button.tsx'
import { Loaded } from '../parts/states.tsx'
import { Ago, momentOf } from '../parts/time.tsx'
import { call } from '../server/client.ts'

export function Sessions() {
  const sessions = useQuery({ queryKey: ['sessions'], queryFn: async () => (await call('identity/session.list', { limit: 100 })).items })
  return (
    <Loaded from={sessions} what="The list of sessions">
      {(items) => (
        <ul className="card rows">
          {items.map(({ id, created_at, seen_at, expires_at, browser, address, remembered, current }) => (
            <li key={id} data-testid="session-row">
              <span className="two-lines">
                <b>{browser ?? 'Unknown browser'}</b>
                <span className="note">
                  {address !== undefined && address !== '' && <>from {address}, </>}signed in <Ago at={created_at} />, last used{' '}
                  <Ago at={seen_at} />, {remembered === true ? 'remembered until' : 'ends'} {momentOf(expires_at)}
                </span>
              </span>
              {current && <span className="chip ok">this one</span>}
              <ActButton changes={['sessions']} act={() => call('identity/session.close', { session_id: id })}>
                End
              </ActButton>
            </li>
          ))}
        </ul>
      )}
    </Loaded>
  )
}
