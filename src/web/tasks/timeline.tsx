// The timeline of a task, and its replay: the slider shows the task as it was after any event.
import { useEffect, useState } from 'react'
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { Meter } from '../parts/meter.tsx'
import { plural, Said } from '../parts/text.tsx'
import { clockOf, secondsOf, wholeTime } from '../parts/time.tsx'
import { sortOf } from '../parts/who.tsx'
import { capital, useNameOf } from '../server/names.ts'
import type { Event, Task } from '../server/types.ts'
import { groupsOf, type Group } from './events.ts'
import { stateLabel } from './states.ts'

/** The task after an event; null if the event does not contain it. */
export function taskAfter(events: readonly Event[], at: number, task_id: string): Partial<Task> | null {
  for (let i = at; i >= 0; i--) {
    const change = events[i]!.changes.find(({ kind, id }) => kind.endsWith('task') && id === task_id)
    if (change?.after) return change.after
  }
  return null
}

function TimelineEvent({ group, isFuture }: { readonly group: Group; readonly isFuture: boolean }) {
  const nameOf = useNameOf()
  const first = group.events[0]!
  const last = group.events.at(-1)!
  return (
    <li className={isFuture ? 'ev future' : 'ev'} data-testid="timeline-event" data-action={first.action} data-seq={last.seq}>
      <time className="at" dateTime={first.at} title={wholeTime(first.at)}>
        {clockOf(first.at)}
      </time>
      <span className={`gl ${group.tone}`}>
        <Icon name={group.icon} />
      </span>
      <div className="tx">
        {!group.isPassive && (
          <>
            <b>
              <bdi>{capital(nameOf(first.actor))}</bdi>
            </b>{' '}
          </>
        )}
        {group.message} {group.whom !== null && <b>{nameOf(group.whom)}</b>} {group.percent !== null && <b>{group.percent} %</b>}
        {group.events.length > 1 && <span className="note"> {plural(group.events.length, 'report')}</span>}
        {(group.quote !== null || group.request !== null) && (
          <div className="q">
            {group.quote !== null && <Said>{group.quote}</Said>}
            <Meter label="Progress" percent={group.percent} />
            {group.request !== null && (
              <Link className="btn sm" href={`/inbox/${group.request}`}>
                Open
              </Link>
            )}
          </div>
        )}
      </div>
    </li>
  )
}

const TICKS_MAX = 80
/** The slider with a tick for each event, and a taller tick for each act of a person. */
function Track({ events, at, move }: { readonly events: readonly Event[]; readonly at: number; move(at: number): void }) {
  const last = Math.max(1, events.length - 1)
  const placeOf = (index: number): string => `${(index / last) * 100}%`
  return (
    <div className="track">
      <span className="fill" style={{ width: placeOf(at) }} />
      {events.length <= TICKS_MAX &&
        events.map(({ id, actor }, i) => (
          <i key={id} className={sortOf(actor) === 'person' ? 'h' : undefined} style={{ left: placeOf(i) }} />
        ))}
      <input
        type="range"
        aria-label="Replay"
        aria-valuetext={`Event ${at + 1} of ${events.length}, ${secondsOf(events[at]!.at)}`}
        min={1}
        max={events.length}
        value={at + 1}
        onChange={(event) => move(Number(event.target.value) - 1)}
      />
    </div>
  )
}

type Props = { readonly events: readonly Event[]; readonly task: Task }
export function Timeline({ events, task }: Props) {
  const [at, setAt] = useState<number | null>(null)
  const [isPlaying, setPlaying] = useState(false)
  const nameOf = useNameOf()
  const last = events.length - 1
  const shown = Math.min(at ?? last, last)
  useEffect(() => {
    if (!isPlaying) return undefined
    const timer = setTimeout(() => {
      setAt(shown + 1)
      setPlaying(shown + 1 < last)
    }, 600)
    return () => clearTimeout(timer)
  }, [isPlaying, shown, last])
  if (events.length === 0) return null
  const then = events[shown]!
  const state = taskAfter(events, shown, task.id)
  const groups = groupsOf(events)
  const holder = state?.ownership?.assignee
  const status =
    state?.state === undefined
      ? ''
      : `${stateLabel({ outcome: null, pending_checkpoint: null, ...state, state: state.state }).toLowerCase()}${holder ? `, held by ${nameOf(holder)}` : ''}`
  const place = groups.findLastIndex((group) => group.events[0]!.seq <= then.seq)
  return (
    <>
      <div className="card replay">
        <button
          type="button"
          className="btn ghost sm icon-only"
          aria-label={isPlaying ? 'Pause' : 'Play'}
          onClick={() => {
            if (!isPlaying && shown >= last) setAt(0)
            setPlaying(!isPlaying)
          }}
        >
          <Icon name={isPlaying ? 'pause' : 'play'} />
        </button>
        <Track events={events} at={shown} move={setAt} />
        <span className="mono muted nowrap" data-testid="replay-state" data-state={state?.state ?? ''} data-seq={then.seq}>
          {shown + 1} of {events.length} · {secondsOf(then.at)}
          <span className="sr">, {status}</span>
        </span>
      </div>
      <ol data-testid="task-timeline" aria-label="Timeline">
        {groups.slice(0, place + 1).map((group) => (
          <TimelineEvent key={group.events[0]!.id} group={group} isFuture={false} />
        ))}
        {shown < last && (
          <li className="nowline">
            As it was at {secondsOf(then.at)}: {status}
          </li>
        )}
        {groups.slice(place + 1).map((group) => (
          <TimelineEvent key={group.events[0]!.id} group={group} isFuture />
        ))}
      </ol>
    </>
  )
}
