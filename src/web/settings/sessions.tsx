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
          {items.map(({ id, created_at, seen_at, expires_at }) => (
            <li key={id}>
              <span className="two-lines">
                <b>
                  Begun <Ago at={created_at} />
                </b>
                <span className="note">
                  in use <Ago at={seen_at} />, ends {momentOf(expires_at)}
                </span>
              </span>
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
