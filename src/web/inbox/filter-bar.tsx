// Tabs and filters of the inbox. The address holds them. The server can save a filter under a name.
import { useEffect, useEffectEvent, useRef, useState } from 'react'
import { useMutation } from '@tanstack/react-query'
import { Link, useLocation } from 'wouter'
import { useCommands } from '../app/commands.ts'
import { FormDialog } from '../parts/dialog.tsx'
import { Select, TextField } from '../parts/fields.tsx'
import { Icon } from '../parts/icon.tsx'
import { call, queries } from '../server/client.ts'
import { capital, useAgents, useProjects } from '../server/names.ts'
import type { Counted } from './data.ts'
import { isFiltered, kinds, queryOf, searchOf, tabs, type Filters, type Tab } from './query.ts'

const tabLabels: Readonly<Record<Tab, string>> = {
  mine: 'Mine',
  unassigned: 'Unassigned',
  groups: 'Groups',
  all: 'All',
  snoozed: 'Snoozed',
  done: 'Done',
}
const countIn = (tab: Tab, counts: Counted | undefined): number => (tab === 'done' || counts === undefined ? 0 : counts[tab])

function Tabs({
  filters,
  counts,
  hrefOf,
}: {
  readonly filters: Filters
  readonly counts: Counted | undefined
  hrefOf(next: Filters): string
}) {
  return (
    <div className="tabs" role="group" aria-label="Filter">
      {tabs.map((tab) => (
        <Link
          key={tab}
          replace
          className={tab === 'snoozed' ? 'apart' : undefined}
          data-testid={`filter-${tab}`}
          aria-current={filters.tab === tab ? 'true' : undefined}
          href={hrefOf({ ...filters, tab })}
        >
          {tabLabels[tab]}
          {countIn(tab, counts) > 0 && <span className="n"> {countIn(tab, counts)}</span>}
        </Link>
      ))}
    </div>
  )
}

function SaveFilter({ filters, close }: { readonly filters: Filters; close(): void }) {
  const [name, setName] = useState(filters.saved)
  const save = useMutation({
    mutationFn: () => {
      const { filter: _, ...query } = queryOf(filters)
      return call('execution/filter.save', { name: name.trim(), query })
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['filters'] })
      close()
    },
  })
  return (
    <FormDialog
      name="Save filter"
      about="It is saved on the server, for every device and the terminal."
      close={close}
      busy={save.isPending}
      error={save.error}
      blocked={name.trim() === '' ? 'Enter a name.' : undefined}
      send={() => save.mutate()}
    >
      <TextField label="Name" value={name} maxLength={200} onChange={(event) => setName(event.target.value)} />
    </FormDialog>
  )
}

/** The text of the search field: follows the address, and goes there a moment after the last key. */
function useSearchText(filters: Filters, go: (next: Filters) => void): [text: string, setText: (text: string) => void] {
  const [text, setText] = useState(filters.text)
  const [addressText, setAddressText] = useState(filters.text)
  if (addressText !== filters.text) {
    setAddressText(filters.text)
    setText(filters.text)
  }
  const searchForText = useEffectEvent(() => {
    if (text !== filters.text) go({ ...filters, text })
  })
  useEffect(() => {
    const timer = setTimeout(() => searchForText(), 250)
    return () => clearTimeout(timer)
  }, [text])
  return [text, setText]
}

const namesIn = (known: readonly { readonly id: string; readonly name: string }[] = []) => known.map(({ id, name }) => [id, name] as const)
const risks = ['R1', 'R2', 'R3', 'R4', 'R5'].map((risk) => [risk, risk] as const)
function FilterSelects({ filters, go }: { readonly filters: Filters; go(next: Filters): void }) {
  const selects = [
    ['agent', namesIn(useAgents().data)],
    ['project', namesIn(useProjects().data)],
    ['kind', kinds],
    ['risk', risks],
  ] as const
  return (
    <div className="selects">
      {selects.map(([field, options]) => (
        <Select
          key={field}
          compact
          label={capital(field)}
          value={filters[field]}
          onValue={(value) => go({ ...filters, [field]: value })}
          options={[['', `Any ${field}`], ...options]}
        />
      ))}
    </div>
  )
}

type Props = { readonly filters: Filters; readonly counts: Counted | undefined; readonly at: string | null }
export function FilterBar({ filters, counts, at }: Props) {
  const [, navigate] = useLocation()
  // Until the user opens or closes the filters, they are shown only if one is set.
  const [chosen, setOpen] = useState<boolean | null>(null)
  const isOpen = chosen ?? isFiltered(filters)
  const [isSaving, setSaving] = useState(false)
  const search = useRef<HTMLInputElement>(null)
  const hrefOf = (next: Filters): string => `/inbox${at === null ? '' : `/${at}`}${searchOf(next)}`
  const go = (next: Filters): void => navigate(hrefOf(next), { replace: true })
  const [text, setText] = useSearchText(filters, go)
  const toSearch = (): void => {
    setOpen(true)
    requestAnimationFrame(() => search.current?.focus())
  }
  const clear = (): void => {
    setText('')
    go({ ...filters, agent: '', project: '', kind: '', risk: '', text: '', saved: '' })
  }
  useCommands([
    { title: 'Search the inbox', keys: ['/'], group: 'List', run: toSearch },
    { title: 'Save this filter', group: 'List', run: () => setSaving(true) },
  ])
  return (
    <>
      <div className="row">
        <h1 className="grow">Inbox</h1>
        <button
          type="button"
          className="btn ghost sm icon-only"
          aria-label="Filters"
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name="filter" />
        </button>
        <button type="button" className="btn ghost sm icon-only" aria-label="Search the inbox" onClick={toSearch}>
          <Icon name="search" />
        </button>
      </div>
      <Tabs filters={filters} counts={counts} hrefOf={hrefOf} />
      {isOpen && (
        <div className="filters">
          <label className="field">
            <Icon name="search" />
            <input
              ref={search}
              type="search"
              aria-label="Search"
              placeholder="Words in the item, or who asks"
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === 'Enter') go({ ...filters, text })
                if (event.key === 'Escape') event.currentTarget.blur()
              }}
            />
          </label>
          <FilterSelects filters={filters} go={go} />
          <div className="row">
            {filters.saved !== '' && <span className="chip accent clip">{filters.saved}</span>}
            <span className="grow" />
            {isFiltered(filters) && (
              <button type="button" className="btn ghost sm" onClick={clear}>
                Clear
              </button>
            )}
            <button type="button" className="btn sm" onClick={() => setSaving(true)}>
              Save filter
            </button>
          </div>
        </div>
      )}
      {isSaving && <SaveFilter filters={{ ...filters, text }} close={() => setSaving(false)} />}
    </>
  )
}
