// A row of the inbox: the question, the agent and its owner, the risk, and the time left.
import { memo } from 'react'
import { Link } from 'wouter'
import { isDoubted, useOutgoing } from '../decide/outgoing.ts'
import { HeldMessage } from '../decide/undo.tsx'
import { Icon, type IconName } from '../parts/icon.tsx'
import { RiskBadge } from '../parts/risk.tsx'
import { Ago, deadlineOf, momentOf, span, useNow } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { actionWords } from '../decide/kinds/words.ts'
import { capital, useNameOf } from '../server/names.ts'
import type { Row as RowData } from '../server/types.ts'
import { isEnded } from './data.ts'

type Kind = { readonly label: string; readonly icon: IconName }
export function kindOf({ kind, action }: Pick<RowData, 'kind' | 'action'>): Kind {
  if (kind === 'review') return { label: 'Review', icon: 'review' }
  if (kind === 'escalation') return { label: 'Escalation', icon: 'alert' }
  if (kind === 'interrupt') return { label: 'Interrupt', icon: 'stop' }
  const { label, icon } = actionWords[action]
  return { label, icon }
}

/** Such as "Approved", "Chose eu-north-1" or "Withdrawn". */
export function outcomeOf({ status, action, ended }: Pick<RowData, 'status' | 'action' | 'ended'>): { label: string; no: boolean } {
  const result = ended?.result
  if (status === 'declined') return { label: 'Declined', no: true }
  if (status === 'cancelled') return { label: 'Withdrawn', no: true }
  if (status === 'failed') return { label: 'Not answered in time', no: true }
  if (result === 'approved') return { label: 'Approved', no: false }
  if (result === 'rejected') return { label: 'Rejected', no: true }
  if (result === 'changes_requested') return { label: 'Changes requested', no: true }
  const { answered, results = {} } = actionWords[action]
  return { label: results[String(result)] ?? answered, no: false }
}

/** The person who answered, for people who share the inbox. The receipt of a pool or a vote has a pseudonym: agents never see the name. */
function useAnswerer({ ended, status, quorum, assignee, assignee_name }: RowData): string | null {
  const nameOf = useNameOf()
  if (ended === null || status !== 'completed' || ended.by.id.startsWith('system')) return null
  if (!ended.by.id.startsWith('person_')) return nameOf(ended.by.id, ended.by.name)
  if (quorum !== null) return 'vote'
  return assignee === null ? 'a member of the pool' : nameOf(assignee, assignee_name)
}

export function EndedMessage({ row }: { readonly row: RowData }) {
  const { label, no } = outcomeOf(row)
  const answerer = useAnswerer(row)
  return (
    <span className={no ? 'by no' : 'by'}>
      <Icon name={no ? 'x' : 'check'} />
      <span className="clip">
        {label}
        {answerer !== null && <> by {answerer}</>}
        {row.ended !== null && (
          <>
            , <Ago at={row.ended.at} />
          </>
        )}
      </span>
    </span>
  )
}

function Time({ row }: { readonly row: RowData }) {
  const now = useNow(5)
  if (isEnded(row)) return null
  const deadline = deadlineOf(row.expires_at, row.overdue, now)
  if (deadline === null) return <span className="time">{span(now - Date.parse(row.created_at))}</span>
  return <span className={`time ${deadline.tone}`}>{deadline.text}</span>
}

const priorityTone = { critical: 'chip bad', high: 'chip warn', low: 'chip' } as const
function Tail({ row }: { readonly row: RowData }) {
  const nameOf = useNameOf()
  const { quorum, remarks, assignee, risk, snoozed_until, through } = row
  return (
    <span className="tail">
      {snoozed_until !== null && <span className="chip">until {momentOf(snoozed_until)}</span>}
      {remarks > 0 && (
        <span className="chip" title={`${remarks} remarks`}>
          <Icon name="ask" />
          {remarks}
        </span>
      )}
      {quorum !== null && (
        <span className="chip line">
          {quorum.voted} of {quorum.n}
        </span>
      )}
      {quorum === null && assignee === null && <span className="chip line">Unassigned</span>}
      {assignee !== null && through !== 'you' && through !== undefined && (
        <span className="chip line clip">{nameOf(assignee, row.assignee_name)}</span>
      )}
      {row.priority !== 'normal' && <span className={priorityTone[row.priority]}>{row.priority}</span>}
      {risk !== null && <RiskBadge risk={risk} short />}
    </span>
  )
}

type Props = {
  readonly row: RowData
  readonly href: string
  readonly isCurrent: boolean
  readonly isSelected: boolean
  readonly position: number
  readonly size: number
  /** Its place from the beginning of the list, in pixels. */
  readonly start: number
  readonly index: number
  measure(element: Element | null): void
  select(row: RowData, on: boolean): void
}
type Outgoing = ReturnType<typeof useOutgoing>
const isUnderWay = (outgoing: Outgoing): outgoing is Outgoing & { readonly phase: 'held' | 'sending' } =>
  outgoing?.phase === 'held' || outgoing?.phase === 'sending'

/** The agent that asks; while a decision is under way, its state. */
function Asker({ row, outgoing }: { readonly row: Props['row']; readonly outgoing: Outgoing }) {
  const nameOf = useNameOf()
  const agent = nameOf(row.agent.id, row.agent.name)
  return (
    <span className="by">
      <Who name={agent} sort={sortOf(row.agent.id)} />
      <span className="clip">
        {isDoubted(outgoing) ? (
          <b className="doubted">Its receipt does not verify</b>
        ) : isUnderWay(outgoing) ? (
          <b className="sending">{outgoing.phase === 'held' ? <HeldMessage one={outgoing} /> : 'Sending…'}</b>
        ) : (
          <>
            <b>
              <bdi>{capital(agent)}</bdi>
            </b>
            {row.acts_for.id !== row.agent.id && <> · for {nameOf(row.acts_for.id, row.acts_for.name)}</>}
            {row.project.id !== 'project_default' && (
              <>
                {' · '}
                <bdi>{row.project.name ?? row.project.id}</bdi>
              </>
            )}
          </>
        )}
      </span>
    </span>
  )
}

export const InboxRow = memo(function InboxRow(props: Props) {
  const { row, href, isCurrent, isSelected, position, size, start, index, measure, select } = props
  const outgoing = useOutgoing(row.request_id)
  const kind = kindOf(row)
  const isSending = isUnderWay(outgoing)
  // A decision of this person is done once its receipt was verified here, not when the server says so.
  const isDone = isEnded(row) && !isSending && !isDoubted(outgoing)
  return (
    <li
      ref={measure}
      data-index={index}
      style={{ transform: `translateY(${start}px)` }}
      className={`item${isDone ? ' done' : ''}${isSelected ? ' selected' : ''}`}
      data-testid="inbox-row"
      data-request-id={row.request_id}
      data-kind={row.kind}
      data-risk={row.risk ?? ''}
      data-state={isDone ? 'ended' : isSending ? 'sending' : 'open'}
      aria-current={isCurrent ? 'true' : undefined}
      aria-setsize={size}
      aria-posinset={position}
    >
      <span className="kind" title={kind.label}>
        <Icon name={kind.icon} />
        <span className="sr">{kind.label}</span>
        {!isDone && (
          <input
            type="checkbox"
            className="pick-box"
            aria-label={`Select ${row.title}`}
            checked={isSelected}
            tabIndex={-1}
            onChange={(event) => select(row, event.target.checked)}
          />
        )}
      </span>
      <div className="lines">
        <div className="l">
          <Link className="title clip" href={href} tabIndex={isCurrent || index === 0 ? 0 : -1}>
            <bdi>{row.title}</bdi>
          </Link>
          <Time row={row} />
        </div>
        <div className="l">
          {isDone ? (
            <EndedMessage row={row} />
          ) : (
            <>
              <Asker row={row} outgoing={outgoing} />
              <Tail row={row} />
            </>
          )}
        </div>
      </div>
    </li>
  )
})
