// Settings, part by part: personal ones, and for owners the settings of the installation.
import { lazy, Suspense, type ComponentType } from 'react'
import { Link } from 'wouter'
import { Page } from '../parts/page.tsx'
import { Empty, Skeleton } from '../parts/states.tsx'
import { useMe } from '../server/names.ts'
import { Profile } from './profile.tsx'
import { Sessions } from './sessions.tsx'
import { Keys } from './keys/keys.tsx'
import { Passkeys } from './keys/passkeys.tsx'
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

type Group = 'You' | 'Your agents' | 'Installation'
type Part = { readonly name: string; readonly label: string; readonly group: Group; readonly page: ComponentType }
const parts: readonly Part[] = [
  { name: 'profile', label: 'Profile', group: 'You', page: Profile },
  { name: 'notifications', label: 'Notifications', group: 'You', page: Notifications },
  { name: 'absence', label: 'Absence', group: 'You', page: Absence },
  { name: 'filters', label: 'Filters', group: 'You', page: Filters },
  { name: 'passkeys', label: 'Passkeys', group: 'You', page: Passkeys },
  { name: 'keys', label: 'Keys', group: 'You', page: Keys },
  { name: 'sessions', label: 'Sessions', group: 'You', page: Sessions },
  { name: 'rules', label: 'Rules', group: 'Your agents', page: Rules },
  { name: 'policy', label: 'Policy', group: 'Your agents', page: Policy },
  { name: 'people', label: 'People', group: 'Installation', page: People },
  { name: 'agents', label: 'Agents', group: 'Installation', page: Agents },
  { name: 'groups', label: 'Groups', group: 'Installation', page: Groups },
  { name: 'links', label: 'Single sign-on', group: 'Installation', page: Links },
]
/** The parts of the installation are for owners; what an auditor could not set is not offered to them. */
const FOR_AUDITORS = ['profile', 'sessions']
const groups: readonly Group[] = ['You', 'Your agents', 'Installation']

export default function SettingsPage({ part }: { readonly part: string }) {
  const me = useMe().data
  // On a phone the parts are a line that scrolls: the chosen one is in view.
  const scrollIntoView = (link: HTMLAnchorElement | null): void => link?.scrollIntoView({ block: 'nearest', inline: 'center' })
  const isOwner = me?.owner === true
  const isAuditor = me?.role === 'auditor'
  const offered = parts.filter(({ name, group }) => (isAuditor ? FOR_AUDITORS.includes(name) : group !== 'Installation' || isOwner))
  const here = offered.find(({ name }) => name === part)
  return (
    <Page title="Settings">
      <div className="settings">
        <nav aria-label="Settings">
          {groups.map((group) => {
            const its = offered.filter((section) => section.group === group)
            if (its.length === 0) return null
            return (
              <div key={group} className="group" role="group" aria-label={group}>
                <p className="cap" aria-hidden="true">
                  {group}
                </p>
                <ul>
                  {its.map(({ name, label }) => (
                    <li key={name}>
                      <Link
                        href={`/settings/${name}`}
                        aria-current={name === part ? 'page' : undefined}
                        ref={name === part ? scrollIntoView : null}
                      >
                        {label}
                      </Link>
                    </li>
                  ))}
                </ul>
              </div>
            )
          })}
        </nav>
        <div className="part" data-part={part}>
          {here ? (
            <Suspense fallback={<Skeleton />}>
              <h2 className="part-name">{here.label}</h2>
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
