// Saved filters of the inbox: the same on every device, and at a terminal.
import { Link } from 'wouter'
import { useSavedFilters } from '../app/shell.tsx'
import { filtersIn, searchOf } from '../inbox/query.ts'
import { ActButton } from '../parts/act-button.tsx'
import { Loaded } from '../parts/states.tsx'
import { Ago } from '../parts/time.tsx'
import { call } from '../server/client.ts'

export function Filters() {
  const saved = useSavedFilters()
  return (
    <Loaded from={saved} what="The list of filters">
      {(items) => (
        <ul className="card rows">
          {items.map(({ name, query, saved_at }) => (
            <li key={name}>
              <span className="two-lines">
                <Link className="title" href={`/inbox${searchOf({ ...filtersIn(''), tab: 'all', saved: name })}`}>
                  {name}
                </Link>
                <span className="note mono">
                  {Object.entries(query)
                    .map(([field, value]) => `${field}: ${String(value)}`)
                    .join(', ')}
                  , saved <Ago at={saved_at} />
                </span>
              </span>
              <ActButton changes={['filters']} act={() => call('execution/filter.remove', { name })}>
                Remove
              </ActButton>
            </li>
          ))}
          {items.length === 0 && <li className="muted">None yet. In the inbox, choose filters and then Save filter.</li>}
        </ul>
      )}
    </Loaded>
  )
}
