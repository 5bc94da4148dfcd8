// The record: what happened, who did it, and by what right; searched, verified and exported.
import { useState } from 'react'
import { useInfiniteQuery, useMutation } from '@tanstack/react-query'
import { Link, useLocation, useSearch } from 'wouter'
import { saveAs } from '../review/download.tsx'
import { Select, TextField } from '../parts/fields.tsx'
import { Icon, type IconName } from '../parts/icon.tsx'
import { useProject } from '../parts/project.tsx'
import { Empty, Loaded, Refused } from '../parts/states.tsx'
import { dayOf, secondsOf, wholeTime } from '../parts/time.tsx'
import { ShortId } from '../parts/text.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import type { Input, Output } from '#sdk/index.ts'
import { call } from '../server/client.ts'
import { capital, useAgents, useMe, useNameOf, usePeople } from '../server/names.ts'
import type { Event } from '../server/types.ts'
import { EventDetail } from './event.tsx'
import { verifyChain, verifyTask, VerifyResult } from './verify.tsx'
import '../style/pages/record.css'
import '../style/pages/task.css'

type Asked = { readonly task: string; readonly actor: string; readonly action: string; readonly project: string }
const askedIn = (search: string): Asked => {
  const params = new URLSearchParams(search)
  const of = (name: string): string => params.get(name) ?? ''
  return { task: of('task'), actor: of('actor'), action: of('action'), project: of('project') }
}
const searchOf = (asked: Asked): string => {
  const params = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ''))
  return params.size === 0 ? '' : `?${params.toString()}`
}

/** The whole chain, in the lines that were sealed. */
async function exportChain(project_id: string): Promise<Blob> {
  const parts: string[] = []
  let cursor: string | null = null
  do {
    const page: Output<'collaboration/audit.export'> = await call('collaboration/audit.export', {
      project_id,
      ...(cursor === null ? {} : { cursor }),
    })
    parts.push(page.ndjson)
    cursor = page.next_cursor
  } while (cursor !== null)
  return new Blob(parts, { type: 'application/x-ndjson' })
}

function EventRow({ event, isOpen, open }: { readonly event: Event; readonly isOpen: boolean; open(): void }) {
  const nameOf = useNameOf()
  return (
    <tr
      className={/denied/.test(event.action) ? 'denied' : undefined}
      data-testid="record-row"
      data-seq={event.seq}
      data-action={event.action}
      aria-selected={isOpen}
    >
      <td className="seq">{event.seq.toLocaleString('en')}</td>
      <td className="m muted" title={wholeTime(event.at)}>
        <span className="nowrap">
          {dayOf(event.at)}, {secondsOf(event.at)}
        </span>
      </td>
      <td>
        <span className="row">
          <Who name={nameOf(event.actor)} sort={sortOf(event.actor)} />
          <span className="clip">{capital(nameOf(event.actor))}</span>
        </span>
      </td>
      <td className="m act">
        <button type="button" className="cell" onClick={open}>
          {event.action.slice(event.action.indexOf('/') + 1)}
        </button>
      </td>
      <td className="m muted wide-only">
        <ShortId id={event.subject.id} />
      </td>
      <td className="muted wide-only clip" title={`${event.basis.kind}: ${event.basis.id}`}>
        {rightLabel(event)}
      </td>
      <td className="m muted wide-only">
        {event.hash.slice(0, 4)}…{event.hash.slice(-4)}
      </td>
    </tr>
  )
}

/** The authorization of an event as a label; the title has the exact one. */
function rightLabel({ basis }: Event): string {
  if (basis.kind === 'contract') return 'follows from another event'
  return basis.kind === 'role' ? basis.id : `${basis.kind}: ${basis.id}`
}

/** Resolves the name of a person or an agent to its id; returns any other text unchanged. */
function useIdOf(): (text: string) => string {
  const known = [...(usePeople().data ?? []), ...(useAgents().data ?? [])]
  return (text) => known.find(({ name }) => name.toLowerCase() === text.toLowerCase())?.id ?? text
}

function SearchForm({ asked, go }: { readonly asked: Asked; go(next: Asked): void }) {
  const nameOf = useNameOf()
  const idOf = useIdOf()
  const known = asked.actor === '' ? '' : nameOf(asked.actor)
  const [form, setForm] = useState({ ...asked, actor: known === 'you' ? asked.actor : known })
  const { projects } = useProject()
  return (
    <form
      className="toolbar"
      role="search"
      onSubmit={(event) => {
        event.preventDefault()
        go({ ...form, task: form.task.trim(), actor: idOf(form.actor.trim()), action: form.action.trim() })
      }}
    >
      <TextField label="Task" placeholder="task_…" value={form.task} onChange={(event) => setForm({ ...form, task: event.target.value })} />
      <TextField
        label="Actor"
        placeholder="Name or ID"
        value={form.actor}
        onChange={(event) => setForm({ ...form, actor: event.target.value })}
      />
      <TextField
        label="Action"
        placeholder="task.created"
        value={form.action}
        onChange={(event) => setForm({ ...form, action: event.target.value })}
      />
      <Select
        label="Project"
        value={form.project}
        onValue={(project) => go({ ...form, actor: idOf(form.actor.trim()), project })}
        options={projects.map(({ id, name }) => [id, name] as const)}
      />
      <button type="submit" className="btn">
        Search
      </button>
    </form>
  )
}

type ActionProps = {
  readonly act: { readonly isPending: boolean; mutate(): void }
  readonly icon: IconName
  readonly label: string
  readonly primary?: boolean
}
function ActionButton({ act, icon, label, primary = false }: ActionProps) {
  return (
    <button
      type="button"
      className={primary ? 'btn sm primary' : 'btn sm'}
      aria-disabled={act.isPending || undefined}
      onClick={() => !act.isPending && act.mutate()}
    >
      <Icon name={icon} />
      {label}
    </button>
  )
}

/** Shown to a member of the project who has not named a task. */
function NeedsTask({ project, isOwner }: { readonly project: string; readonly isOwner: boolean }) {
  return (
    <Empty icon="record" tone="accent" title="Enter a task ID" testId="record-needs-task">
      <p>Only owners and viewers of {project} can search, verify and export its whole record. You are a member of it.</p>
      {isOwner && (
        <p>
          You own this installation: you can make yourself an owner under{' '}
          <Link className="link" href="/projects">
            Projects
          </Link>
          .
        </p>
      )}
    </Empty>
  )
}

type TableProps = { readonly events: readonly Event[]; readonly open: Event | null; setOpen(event: Event): void }
function EventTable({ events, open, setOpen }: TableProps) {
  if (events.length === 0) return <Empty icon="search" tone="accent" title="No event fits" />
  return (
    <div className="card over">
      <table className="log">
        <thead>
          <tr>
            <th className="seq">No.</th>
            <th>Time</th>
            <th>Who</th>
            <th>What</th>
            <th className="wide-only">About</th>
            <th className="wide-only">By what right</th>
            <th className="wide-only">Hash</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <EventRow key={event.id} event={event} isOpen={event.id === open?.id} open={() => setOpen(event)} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

export default function RecordPage() {
  const { projects, project: usual, nameOf } = useProject()
  const search = askedIn(useSearch())
  const isMine = (id: string): boolean => projects.some((project) => project.id === id)
  const project_id = [search.project, usual, 'project_default'].find(isMine) ?? projects[0]?.id ?? 'project_default'
  const filters = { ...search, project: project_id }
  const [, navigate] = useLocation()
  const me = useMe().data
  const [open, setOpen] = useState<Event | null>(null)
  // An owner of the installation owns no project by that.
  const isKeeper = projects.some((one) => one.id === project_id && one.isWhole)
  const events = useInfiniteQuery({
    queryKey: ['record', filters],
    queryFn: ({ pageParam }) => {
      const input = {
        ...(filters.task === '' ? { project_id } : { task_id: filters.task }),
        ...(filters.actor === '' ? {} : { actor: filters.actor }),
        ...(filters.action === '' ? {} : { action: filters.action }),
        order: 'newest',
        ...(pageParam === null ? {} : { cursor: pageParam }),
      } as Input<'collaboration/audit.query'>
      return call('collaboration/audit.query', input)
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    enabled: isKeeper || filters.task !== '',
  })
  const verify = useMutation({
    mutationFn: () => (filters.task === '' ? verifyChain(project_id) : verifyTask(filters.task)),
  })
  const save = useMutation({ mutationFn: async () => saveAs(await exportChain(project_id), `${project_id}.ndjson`) })
  const needsTask = me !== undefined && !isKeeper && filters.task === ''
  return (
    <div className="page">
      <header>
        <div className="row head">
          <div className="grow">
            <h1>Record</h1>
            <p className="muted">Every event, with its actor and the right it acted by.</p>
          </div>
          <div className="row wrap actions">
            {isKeeper && <ActionButton act={save} icon="download" label="Export" />}
            {!needsTask && <ActionButton act={verify} icon="approve" label="Verify" primary />}
          </div>
        </div>
      </header>
      <div className={open === null ? 'cols' : 'cols record-cols'}>
        <div className="body">
          <Refused error={verify.error ?? save.error} />
          {verify.data && <VerifyResult checked={verify.data} />}
          <SearchForm key={`${searchOf(filters)} ${projects.length}`} asked={filters} go={(next) => navigate(`/record${searchOf(next)}`)} />
          {needsTask ? (
            <NeedsTask project={nameOf(project_id)} isOwner={me.owner} />
          ) : (
            <Loaded from={events} what="The record">
              {({ pages }) => (
                <>
                  <EventTable events={pages.flatMap((page) => page.items)} open={open} setOpen={setOpen} />
                  {events.hasNextPage && (
                    <button type="button" className="btn sm more" onClick={() => void events.fetchNextPage()}>
                      More
                    </button>
                  )}
                </>
              )}
            </Loaded>
          )}
        </div>
        {open !== null && <EventDetail event={open} close={() => setOpen(null)} />}
      </div>
    </div>
  )
}
