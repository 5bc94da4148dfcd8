// Settings, part by part: what is one's own, and for owners what is everybody's.
import { lazy, Suspense, type ComponentType } from 'react'
import { Link } from 'wouter'
import { Page } from '../parts/page.tsx'
import { Empty, Skeleton } from '../parts/states.tsx'
import { useMe } from '../server/names.ts'
import { Profile } from './profile.tsx'
import { Sessions } from './sessions.tsx'
import { Keys } from './keys.tsx'
import { Filters } from './filters.tsx'
import { Rules } from './rules.tsx'
import { Absence } from './absence.tsx'
import { Notifications } from './notifications.tsx'
import '../style/pages/settings.css'

const Policy = lazy(() => import('./policy.tsx'))
const People = lazy(() => import('./owner/people.tsx'))
const Agents = lazy(() => import('./owner/agents.tsx'))
const Groups = lazy(() => import('./owner/groups.tsx'))
const Links = lazy(() => import('./owner/links.tsx'))

type Part = { readonly name: string; readonly words: string; readonly page: ComponentType; readonly isForOwners?: true }
const parts: readonly Part[] = [
  { name: 'profile', words: 'Profile', page: Profile },
  { name: 'notifications', words: 'Notifications', page: Notifications },
  { name: 'absence', words: 'Absence', page: Absence },
  { name: 'filters', words: 'Filters', page: Filters },
  { name: 'keys', words: 'Keys', page: Keys },
  { name: 'sessions', words: 'Sessions', page: Sessions },
  { name: 'rules', words: 'Rules', page: Rules },
  { name: 'policy', words: 'Policy', page: Policy },
  { name: 'people', words: 'People', page: People, isForOwners: true },
  { name: 'agents', words: 'Agents', page: Agents, isForOwners: true },
  { name: 'groups', words: 'Groups', page: Groups, isForOwners: true },
  { name: 'links', words: 'Links', page: Links, isForOwners: true },
]

export default function SettingsPage({ part }: { readonly part: string }) {
  const me = useMe().data
  const isOwner = me?.owner === true
  const offered = parts.filter(({ isForOwners }) => isForOwners !== true || isOwner)
  const here = offered.find(({ name }) => name === part)
  return (
    <Page title="Settings">
      <div className="settings">
        <nav aria-label="Settings">
          <ul>
            {offered.map(({ name, words }) => (
              <li key={name}>
                <Link href={`/settings/${name}`} aria-current={name === part ? 'page' : undefined}>
                  {words}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <div className="part" data-part={part}>
          {here ? (
            <Suspense fallback={<Skeleton />}>
              <h2 className="part-name">{here.words}</h2>
              <here.page />
            </Suspense>
          ) : me === undefined ? (
            <Skeleton />
          ) : (
            <Empty icon="gear" tone="accent" title="There is no such setting" />
          )}
        </div>
      </div>
    </Page>
  )
}
