// A whole item: the exact action, known and claimed facts, the effect of each answer, and the bar with the deciding buttons.
import { memo, useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from 'react'
import { Link } from 'wouter'
import { announce } from '../app/announce.ts'
import { noteMove } from '../app/commands.ts'
import { ConnectionState } from '../app/connection.tsx'
import { useNarrow } from '../app/narrow.ts'
import { proposedIn } from '../decide/actions.tsx'
import { DecisionBar } from '../decide/bar.tsx'
import { actionWords, isVerdict } from '../decide/kinds/words.ts'
import { dismiss, isDoubted, useOutgoing } from '../decide/outgoing.ts'
import { isEnded, useItem, type Shown } from '../inbox/data.ts'
import { EndedMessage, kindOf } from '../inbox/row.tsx'
import { Icon } from '../parts/icon.tsx'
import { RiskBadge, riskLabel } from '../parts/risk.tsx'
import { Banner, Failed, Skeleton } from '../parts/states.tsx'
import { bytesOf, Said } from '../parts/text.tsx'
import { Ago, deadlineOf, momentOf, useNow, wholeTime } from '../parts/time.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { Unverified, messageOf } from '../server/errors.ts'
import { capital, useMe, useNameOf } from '../server/names.ts'
import type { Item, Row } from '../server/types.ts'
import { Arguments, changesBetween, ChangeTable, inOrder } from './arguments.tsx'
import { CALL_FACTS, useLongArguments, WholeArguments } from './call.tsx'
import { Evidence, evidenceIn } from './evidence.tsx'
import { Chain, Claim, EffectList, Facts } from './facts.tsx'
import { Receipt, useRequest } from './receipt.tsx'
import { isShown, ReviewPreview, useDelivered } from './review-preview.tsx'
import { Quorum, Thread } from './thread.tsx'

const asks: Readonly<Record<Row['kind'], (item: Row) => string>> = {
  request: ({ action }) => actionWords[action].asks,
  approval: () => 'asks for your approval',
  choice: () => 'asks for your decision',
  input: () => 'asks for your answer',
  escalation: () => 'asks how to go on',
  interrupt: () => 'stopped the agent',
  review: () => 'has delivered and asks for your review',
}

export function DeadlineChip({ expires_at, overdue }: Pick<Item, 'expires_at' | 'overdue'>) {
  const deadline = deadlineOf(expires_at, overdue, useNow())
  if (deadline === null || expires_at === null) return null
  const tone = { '': '', soon: ' warn', late: ' bad' }[deadline.tone]
  return (
    <span className={`chip${tone}`} data-testid="item-deadline" title={wholeTime(expires_at)}>
      <Icon name="clock" />
      {deadline.text}
      {deadline.tone === 'late' ? `, since ${momentOf(expires_at)}` : `, until ${momentOf(expires_at)}`}
    </span>
  )
}

function Heading({ item }: { readonly item: Row & Partial<Pick<Item, 'facts'>> }) {
  const nameOf = useNameOf()
  const me = useMe().data?.id
  const agent = nameOf(item.agent.id, item.agent.name)
  const isSelf = item.agent.id === item.acts_for.id
  const sort = sortOf(item.agent.id)
  return (
    <>
      <div className="asks">
        <Who name={agent} sort={sort} large />
        <span>
          <b>
            <bdi>{capital(agent)}</bdi>
          </b>{' '}
          {asks[item.kind](item)}
          <br />
          <span className="muted">
            {sort === 'agent' &&
              !isSelf &&
              `an agent that acts for ${item.acts_for.id === me ? 'you' : nameOf(item.acts_for.id, item.acts_for.name)} · `}
            asked <Ago at={item.created_at} />
          </span>
        </span>
      </div>
      <h1 id="item-title" tabIndex={-1} data-testid="item-action">
        <Said>{item.title}</Said>
      </h1>
      <div className="meta">
        {item.risk !== null && <RiskBadge risk={item.risk} testId="item-risk" />}
        <DeadlineChip expires_at={item.expires_at} overdue={item.overdue} />
        {item.priority !== 'normal' && (
          <span className={item.priority === 'critical' ? 'chip bad' : 'chip'}>{capital(item.priority)} priority</span>
        )}
        {item.facts !== undefined && item.facts.task !== null && (
          <Link className="chip" href={`/tasks/${item.facts.task.id}`}>
            <Icon name="task" />
            <bdi className="clip">{item.facts.task.goal}</bdi>
          </Link>
        )}
        {item.approval && (
          <span className="chip line" data-testid="item-approval">
            Approval: {item.approval.words}
          </span>
        )}
        {item.quorum !== null && (
          <span className="chip line">
            {item.quorum.voted} of {item.quorum.n} votes
          </span>
        )}
        {item.assignee !== null && item.assignee !== me && (
          <span className="chip line">With {nameOf(item.assignee, item.assignee_name)}</span>
        )}
        {item.snoozed_until !== null && <span className="chip">snoozed until {momentOf(item.snoozed_until)}</span>}
      </div>
    </>
  )
}

function Notice({ of: { card } }: { readonly of: Item }) {
  if (card.notice === undefined) return null
  return (
    <p className="card notice">
      <Icon name="alert" />
      <Said>{card.notice}</Said>
    </p>
  )
}

/** All that was asked, if the title is only its beginning. */
function WholeQuestion({ item }: { readonly item: Item }) {
  const { question, item: asked, prompt, claim } = item.card.payload
  const whole = question ?? asked ?? prompt ?? claim ?? ''
  if (whole.trim() === item.title) return null
  return (
    <p className="whole">
      <Said>{whole}</Said>
    </p>
  )
}

/** The details without the fields that have their own section. */
export function plainDetails(item: Item): Record<string, unknown> {
  const details = inOrder(item.card.payload.details ?? {}, item.order) as Record<string, unknown>
  const apart = [
    ...(proposedIn(item).length > 0 ? ['proposed_actions'] : []),
    ...(evidenceIn(item).length > 0 ? ['context'] : []),
    ...(item.facts.call ? CALL_FACTS : []),
  ]
  return Object.fromEntries(Object.entries(details).filter(([name]) => !apart.includes(name)))
}

/** Arguments are an action that is asked for, or the details of a question or a delivery. */
function exactLabels({ action, kind, facts }: Item): readonly [title: string, note: string] {
  if (kind === 'review') return ['Delivery details', 'as the agent sent them']
  if (facts.call) return ['What will run', 'exactly these arguments; the agent wrote them']
  return isVerdict(action) && (kind === 'request' || kind === 'approval')
    ? ['What the agent asks to do', 'complete and unchanged']
    : ['Details', 'as the agent sent them']
}
function Exact({ item }: { readonly item: Item }) {
  const { scope } = item.card.payload
  const shown = { ...plainDetails(item), ...(scope === undefined ? {} : { scope }) }
  if (Object.keys(shown).length === 0) return null
  const [title, note] = exactLabels(item)
  return (
    <section className="exact" aria-label={title}>
      <header>
        {title}
        <span className="grow" />
        <span className="note">{note}</span>
      </header>
      <Arguments of={shown} />
    </section>
  )
}

const Raw = memo(function Raw({ shown }: { readonly shown: Shown }) {
  const text = JSON.stringify(shown, null, 2)
  return (
    <details className="card raw" data-testid="item-raw">
      <summary className="fold">
        <Icon name="chevron" />
        <span className="grow">Raw JSON</span>
        <span className="note mono">{bytesOf(new TextEncoder().encode(text).length)}</span>
      </summary>
      <pre>{text}</pre>
    </details>
  )
})

/** The outcome; with a receipt, shown only after the receipt was verified here. */
function Decided({ item, next }: { readonly item: Item; next(): void }) {
  const { data } = useRequest(item.request_id)
  const outgoing = useOutgoing(item.request_id)
  const unverified = data?.verdict?.ok === false ? new Unverified(data.verdict.words) : null
  const doubt = isDoubted(outgoing) ? outgoing?.error : unverified
  if (doubt)
    return (
      <Banner tone="bad" icon="alert">
        <span className="grow" role="alert" data-testid="item-doubted">
          {messageOf(doubt)}
        </span>
      </Banner>
    )
  if (item.status === 'completed' && data?.request.status !== item.status)
    return (
      <div className="banner" role="status" aria-busy="true">
        <span className="muted">Checking its receipt…</span>
      </div>
    )
  return (
    <div
      className={`banner ${item.status === 'completed' && item.ended?.result !== 'rejected' ? 'ok' : 'bad'}`}
      data-testid="item-decided"
      role="status"
    >
      <EndedMessage row={item} />
      {item.ended?.reason !== undefined && item.ended.reason !== null && (
        <span className="why">
          <Said>{item.ended.reason}</Said>
        </span>
      )}
      {outgoing?.phase === 'failed' && <span className="why">Your answer came later and was not used.</span>}
      <button type="button" className="btn sm" onClick={next}>
        Next item
      </button>
    </div>
  )
}

type Props = { readonly id: string; readonly place: string | null; readonly back: string; next(): void; advance(): void }
/** With its row, if the list has one: that much is shown before the item itself is here. */
export function ItemDetail({ id, row, place, back, next, advance }: Props & { readonly row: Row | undefined }) {
  const query = useItem(id)
  const shown = query.data
  if (shown === undefined && row !== undefined && !query.error) return <Coming row={row} place={place} back={back} />
  if (shown === undefined)
    return (
      <article className="detail" aria-label="Item">
        <Topbar place={place} back={back} />
        {query.error ? (
          <Failed what="This item" error={query.error} again={() => void query.refetch()} testId="item-error" />
        ) : (
          <Skeleton />
        )}
      </article>
    )
  return <Detail shown={shown} place={place} back={back} next={next} advance={advance} />
}

function Coming({ row, place, back }: Pick<Props, 'place' | 'back'> & { readonly row: Row }) {
  return (
    <article className="detail" data-testid="item-coming" aria-labelledby="item-title" aria-busy="true">
      <Topbar place={place} back={back} />
      <div className="scroll">
        <div className="measure">
          <Heading item={row} />
          <Skeleton />
        </div>
      </div>
    </article>
  )
}

/** On a phone an item fills the page: a back button, its place in the list, and the connection state, which the rail shows elsewhere. */
function Topbar({ place, back }: Pick<Props, 'place' | 'back'>) {
  if (!useNarrow()) return null
  return (
    <div className="topbar">
      <Link className="btn ghost icon-only" href={back} aria-label="Back to the inbox">
        <Icon name="back" />
      </Link>
      <span className="muted">{place}</span>
      <ConnectionState />
    </div>
  )
}

/** Moves the focus to the heading of the opened item and announces it. */
function useArrival({ item }: Shown): void {
  const arrive = useEffectEvent(() => {
    noteMove()
    document.title = `${item.title} · Countersign`
    const from = document.activeElement
    if (from === null || from === document.body || from.closest('.pane') !== null)
      document.querySelector<HTMLElement>('#item-title')?.focus({ preventScroll: true })
    const deadline = deadlineOf(item.expires_at, item.overdue, Date.now())
    announce(
      [kindOf(item).label, item.risk === null ? '' : riskLabel(item.risk), item.title, deadline?.text ?? '']
        .filter((part) => part !== '')
        .join(', '),
    )
  })
  useLayoutEffect(() => arrive(), [item.request_id])
}

/**
 * Whether the whole content to decide on was on the screen: it fits, or was scrolled to its end. The raw JSON below only repeats it.
 * Observes the content as well as the window, because a font or a name that loads late can make the content shorter.
 */
function useReadToEnd(
  of: React.RefObject<HTMLElement | null>,
  end: React.RefObject<HTMLElement | null>,
  digest: string,
  isWhole: boolean,
): boolean {
  const [readDigest, setReadDigest] = useState<string | null>(null)
  useEffect(() => {
    const [scroller, last] = [of.current, end.current]
    if (!scroller || !last || !isWhole) return undefined
    const look = (): void => {
      if (last.getBoundingClientRect().bottom <= scroller.getBoundingClientRect().bottom + 24) setReadDigest(digest)
    }
    look()
    scroller.addEventListener('scroll', look, { passive: true })
    const watch = new ResizeObserver(look)
    watch.observe(scroller)
    watch.observe(last.parentElement!)
    return () => {
      scroller.removeEventListener('scroll', look)
      watch.disconnect()
    }
  }, [of, end, digest, isWhole])
  return isWhole && readDigest === digest
}

function Changed({ accept, children }: { accept(): void; readonly children: React.ReactNode }) {
  return (
    <div className="changed" data-testid="item-changed" role="alert">
      <Banner tone="warn" icon="alert">
        <span className="grow">This changed while you read it. Nothing was sent.</span>
        <button type="button" className="btn sm" onClick={accept}>
          I have read it
        </button>
      </Banner>
      {children}
    </div>
  )
}

function Detail({ shown, place, back, next, advance }: Omit<Props, 'id'> & { readonly shown: Shown }) {
  const { item, thread, votes } = shown
  // An answer applies to the version on the screen. A version that arrives later is shown as a diff first.
  const [read, setRead] = useState(item)
  const outgoing = useOutgoing(item.request_id)
  const isOpen = !isEnded(item)
  const hasChanged = isOpen && read.digest !== item.digest
  // The digest does not cover assignee, votes and deadline, so use the newest ones while it is unchanged.
  const decidable = hasChanged ? read : item
  const scroller = useRef<HTMLDivElement>(null)
  const end = useRef<HTMLDivElement>(null)
  const delivered = useDelivered(item)
  const long = useLongArguments(item)
  const isWhole = delivered !== 'coming' && (long === null || long.query.isSuccess)
  const isReadToEnd = useReadToEnd(scroller, end, item.digest, isWhole)
  useArrival(shown)
  const accept = (): void => {
    setRead(item)
    dismiss(item.request_id)
    noteMove()
  }
  return (
    <article
      className="detail"
      data-testid="item-detail"
      data-request-id={item.request_id}
      data-status={item.status}
      aria-labelledby="item-title"
    >
      <Topbar place={place} back={back} />
      {!isOpen && <Decided item={item} next={next} />}
      {(hasChanged || (outgoing?.phase === 'changed' && isOpen)) && (
        <Changed accept={accept}>{hasChanged && <ChangeTable changes={changesBetween(read.card, item.card)} />}</Changed>
      )}
      <div className="scroll" ref={scroller} tabIndex={0} role="region" aria-label="Item">
        <div className="measure">
          <Heading item={item} />
          <WholeQuestion item={item} />
          <Notice of={item} />
          {item.kind === 'review' && <ReviewPreview item={item} delivered={delivered} />}
          <Exact item={item} />
          <WholeArguments long={long} />
          <Evidence item={item} />
          <div id="answer-place" />
          <div className="two">
            <Facts item={item} />
            <div className="stack">
              <Claim item={item} />
              <Chain item={item} />
            </div>
          </div>
          {isOpen && <EffectList item={item} />}
          <Quorum item={item} votes={votes} />
          <Thread thread={thread} />
          {!isOpen && <Receipt request_id={item.request_id} />}
          <div ref={end} />
          <Raw shown={shown} />
        </div>
      </div>
      {isOpen && (
        <DecisionBar
          item={decidable}
          isStale={hasChanged}
          isReadToEnd={isReadToEnd}
          isShown={isShown(delivered) && (long === null || long.query.isSuccess)}
          accepted={(fresh) => setRead(fresh)}
          advance={advance}
        />
      )}
    </article>
  )
}
