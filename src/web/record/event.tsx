// One event of the record: who did what by which right, its place in the chain, and what changed by it.
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { Said } from '../parts/text.tsx'
import { wholeTime } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { capital, useNameOf } from '../server/names.ts'
import type { Event } from '../server/types.ts'
import { changesBetween, ChangeTable } from '../item/arguments.tsx'

const isRefusal = ({ action }: Event): boolean => /denied|refused/.test(action)

function EventFields({ event }: { readonly event: Event }) {
  const nameOf = useNameOf()
  const { detail } = event
  return (
    <dl>
      <dt>When</dt>
      <dd>{wholeTime(event.at)}</dd>
      <dt>Who</dt>
      <dd className="row">
        <Who name={nameOf(event.actor)} sort={sortOf(event.actor)} />
        {nameOf(event.actor)}
      </dd>
      {event.behalf !== null && (
        <>
          <dt>Acts for</dt>
          <dd>{nameOf(event.behalf)}</dd>
        </>
      )}
      <dt>By right of</dt>
      <dd>
        {event.basis.kind}: <Said>{event.basis.id}</Said>
      </dd>
      <dt>About</dt>
      <dd className="mono">{event.subject.id}</dd>
      {event.cause !== null && (
        <>
          <dt>Follows from</dt>
          <dd>event {event.cause}</dd>
        </>
      )}
      {detail !== null && (
        <>
          <dt>Detail</dt>
          <dd>
            <Said mono>{JSON.stringify(detail)}</Said>
          </dd>
        </>
      )}
    </dl>
  )
}

export function EventDetail({ event, close }: { readonly event: Event; close(): void }) {
  const nameOf = useNameOf()
  return (
    <aside className="side" aria-label={`Event ${event.seq}`}>
      <section>
        <div className="row">
          <div className="crumb grow">Event {event.seq.toLocaleString('en')}</div>
          <Link className="btn sm" href={`/record/why/${event.id}`}>
            Why?
          </Link>
          <button type="button" className="btn ghost sm icon-only" aria-label="Close" onClick={close}>
            <Icon name="x" />
          </button>
        </div>
        <h2 className="event-name">
          {capital(nameOf(event.actor))}: <span className="mono">{event.action}</span>
        </h2>
        {isRefusal(event) && <span className="chip bad">Refused</span>}
      </section>
      <section>
        <EventFields event={event} />
      </section>
      <section>
        <h3 className="h">In the chain</h3>
        <p className="hash">{event.hash}</p>
      </section>
      {event.changes.map(({ kind, id, version, before, after }) => (
        <section key={`${kind} ${id}`}>
          <h3 className="h">
            {kind} <span className="note">version {version}</span>
          </h3>
          <ChangeTable changes={changesBetween(before ?? {}, after ?? {})} testId="event-changes" />
        </section>
      ))}
      {event.changes.length === 0 && <p className="muted">It changed nothing.</p>}
      <details className="card raw">
        <summary className="fold">
          <Icon name="chevron" />
          Raw JSON
        </summary>
        <pre>{JSON.stringify(event, null, 2)}</pre>
      </details>
    </aside>
  )
}
