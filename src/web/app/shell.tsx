// The frame around every page: the rail with its links, the state of the connection, the bar of a phone, palette and help.
import { lazy, Suspense, useEffect, useState, type ReactNode } from 'react'
import { useQuery } from '@tanstack/react-query'
import { Link, useLocation, useSearch } from 'wouter'
import { useCounts } from '../inbox/data.ts'
import { filtersIn, searchOf } from '../inbox/query.ts'
import { Icon, Seal, type IconName } from '../parts/icon.tsx'
import { ProjectSwitch, useProject } from '../parts/project.tsx'
import { Banner } from '../parts/states.tsx'
import { span, useNow } from '../parts/time.tsx'
import { Who } from '../parts/who.tsx'
import { call, queries } from '../server/client.ts'
import { lookNow, onNews, steadily, useConnection } from '../server/live.ts'
import { useMyName, useReadsOnly } from '../server/names.ts'
import { useCommands, type Command } from './commands.ts'
import { ConnectionState } from './connection.tsx'
import { useNarrow } from './narrow.ts'
import { undoLast } from '../decide/outgoing.ts'

const Palette = lazy(() => import('./palette.tsx'))
const KeyHelp = lazy(() => import('./key-help.tsx'))

type Place = { readonly name: string; readonly href: string; readonly icon: IconName; readonly key: string }
const places: readonly Place[] = [
  { name: 'Inbox', href: '/inbox', icon: 'inbox', key: 'i' },
  { name: 'Tasks', href: '/tasks', icon: 'task', key: 't' },
  { name: 'Reviews', href: '/reviews', icon: 'review', key: 'v' },
  { name: 'Agents', href: '/agents', icon: 'agent', key: 'a' },
  { name: 'Grants', href: '/grants', icon: 'grant', key: 'g' },
  { name: 'Record', href: '/record', icon: 'record', key: 'r' },
  { name: 'Insight', href: '/insight', icon: 'chart', key: 'n' },
  { name: 'Projects', href: '/projects', icon: 'folder', key: 'p' },
  { name: 'Settings', href: '/settings', icon: 'gear', key: 's' },
]

export const useSavedFilters = () =>
  useQuery({ queryKey: ['filters'], queryFn: async () => (await call('execution/filter.list', {})).items, staleTime: 60_000 })

function NavLink({ place, count }: { readonly place: Place; readonly count?: number | undefined }) {
  const [at] = useLocation()
  const isHere = at === place.href || at.startsWith(`${place.href}/`)
  return (
    <li>
      <Link href={place.href} aria-current={isHere ? 'page' : undefined}>
        <Icon name={place.icon} />
        <span>{place.name}</span>
        {count !== undefined && count > 0 && (
          <span className="n" data-testid={place.name === 'Inbox' ? 'inbox-badge' : undefined} aria-hidden="true">
            {count}
          </span>
        )}
      </Link>
    </li>
  )
}

function SavedFilters() {
  const saved = useSavedFilters().data ?? []
  const search = useSearch()
  const [at] = useLocation()
  const here = at.startsWith('/inbox') ? filtersIn(search).saved : ''
  if (saved.length === 0) return null
  return (
    <>
      <p className="cap">Saved filters</p>
      <ul className="sub">
        {saved.map(({ name }) => (
          <li key={name}>
            <Link
              href={`/inbox${searchOf({ ...filtersIn(''), tab: 'all', saved: name })}`}
              aria-current={here === name ? 'page' : undefined}
            >
              <span className="pip" />
              <span className="clip">{name}</span>
            </Link>
          </li>
        ))}
      </ul>
    </>
  )
}

function Rail({ isSlim, openPalette }: { readonly isSlim: boolean; openPalette(): void }) {
  const counts = useCounts().data
  const name = useMyName()
  return (
    <div className="rail">
      <Link className="brand" href="/inbox">
        <Seal />
        <span>Countersign</span>
      </Link>
      <nav aria-label="Main">
        {!isSlim && <ProjectSwitch />}
        <ul>
          {places.map((place) => (
            <NavLink key={place.name} place={place} count={place.name === 'Inbox' ? counts?.mine : undefined} />
          ))}
        </ul>
        <SavedFilters />
      </nav>
      <div className="foot">
        <button type="button" className="rail-button" onClick={openPalette}>
          <Icon name="search" />
          <span>Commands</span>
          <span className="n mono" aria-hidden="true">
            Ctrl K
          </span>
        </button>
        <div className="me">
          <Who name={name} sort="person" large />
          <div className="grow">
            <div className="clip strong">{name}</div>
            {!isSlim && <ConnectionState />}
          </div>
          {isSlim && <ConnectionState bare />}
        </div>
      </div>
    </div>
  )
}

const phonePlaces = ['Inbox', 'Tasks', 'Reviews', 'Record']
function BottomBar({ openPalette }: { openPalette(): void }) {
  const [at] = useLocation()
  const counts = useCounts().data
  return (
    <nav className="bottom" aria-label="Main">
      {places
        .filter(({ name }) => phonePlaces.includes(name))
        .map(({ name, href, icon }) => (
          <Link key={name} href={href} aria-current={at === href || at.startsWith(`${href}/`) ? 'page' : undefined}>
            <Icon name={icon} />
            {name === 'Inbox' && counts !== undefined && counts.mine > 0 && (
              <span className="dotn" data-testid="inbox-badge" aria-hidden="true">
                {counts.mine}
              </span>
            )}
            {name}
          </Link>
        ))}
      <button type="button" onClick={openPalette}>
        <Icon name="more" />
        More
      </button>
      <ConnectionState bare />
    </nav>
  )
}

const ageOf = (at: number): number => Date.now() - at

/** Shown while the connection is lost. The page keeps its content, and the banner shows its age. */
function ConnectionBanner() {
  const { connection, brokeAt, lastNewsAt } = useConnection()
  useNow()
  if (connection === 'live' || brokeAt === null) return null
  const since = span(ageOf(lastNewsAt))
  if (connection === 'offline')
    return (
      <Banner tone="bad" icon="wifi">
        <span role="status">You are offline. This view is {since} old; nothing can be decided.</span>
      </Banner>
    )
  if (ageOf(brokeAt) < 5_000) return null
  return (
    <Banner tone="warn" icon="clock">
      <span role="status">Reconnecting. Last news {since} ago.</span>
      <button type="button" className="btn sm" onClick={lookNow}>
        Look now
      </button>
    </Banner>
  )
}

export function Shell({ children }: { readonly children: ReactNode }) {
  const [at, go] = useLocation()
  const [open, setOpen] = useState<'palette' | 'help' | null>(null)
  const isNarrow = useNarrow()
  const isSlim = at.startsWith('/reviews/')
  const isItem = /^\/inbox\/./.test(at)
  const { projects, project, choose } = useProject()
  const readsOnly = useReadsOnly(project)
  // The number of waiting items is current on every page, not only on the list.
  useEffect(() => onNews(steadily(() => queries.invalidateQueries({ queryKey: ['inbox-count'] }))), [])
  const commands: Command[] = [
    ...places.map(({ name, href, key }) => ({ title: name, keys: [`g ${key}`], group: 'Go to' as const, run: () => go(href) })),
    ...(readsOnly ? [] : [{ title: 'New task', group: 'Go to' as const, run: () => go('/tasks/new') }]),
    ...(projects.length < 2 ? [] : [{ id: '', name: 'all projects' }, ...projects])
      .filter(({ id }) => id !== project)
      .map(({ id, name }) => ({ title: `Show ${name}`, group: 'Go to' as const, run: () => choose(id) })),
    { title: 'Commands', keys: ['k'], group: 'Page', withModifier: true, run: () => setOpen('palette') },
    { title: 'Keyboard shortcuts', keys: ['?'], group: 'Page', run: () => setOpen('help') },
    { title: 'Undo', keys: ['z'], group: 'Page', run: undoLast },
  ]
  useCommands(commands)
  const name = places.find(({ href }) => at.startsWith(href))?.name ?? 'Inbox'
  useEffect(() => {
    if (!at.startsWith('/inbox/')) document.title = `${name} · Countersign`
  }, [name, at])
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <div className={isSlim ? 'app slim' : 'app'} data-view={isItem ? 'item' : 'page'}>
        {!isNarrow && <Rail isSlim={isSlim} openPalette={() => setOpen('palette')} />}
        <main id="main">
          <ConnectionBanner />
          {children}
        </main>
      </div>
      {isNarrow && !isItem && <BottomBar openPalette={() => setOpen('palette')} />}
      <Suspense>
        {open === 'palette' && <Palette close={() => setOpen(null)} help={() => setOpen('help')} />}
        {open === 'help' && <KeyHelp close={() => setOpen(null)} />}
      </Suspense>
    </>
  )
}
