// Verdicts on a task: reviewer, time, comments and receipt of each; and the changes requested earlier.
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { Said } from '../parts/text.tsx'
import { Ago } from '../parts/time.tsx'
import { Who } from '../parts/who.tsx'
import type { Output } from '#sdk/index.ts'
import { useRequest } from '../item/receipt.tsx'
import { capital, useNameOf } from '../server/names.ts'
import type { Event } from '../server/types.ts'
import { useEvents } from '../tasks/side.tsx'

export type Reviewed = Output<'collaboration/review.list'>['items'][number]
const verdicts = {
  approved: { message: 'approved', tone: 'ok' },
  changes_requested: { message: 'requested changes', tone: 'warn' },
  rejected: { message: 'rejected', tone: 'bad' },
} as const

/** The item of the inbox that a review answered: in the record the review follows from the item. */
function itemOf(events: readonly Event[], review_id: string): string | null {
  const submitted = events.find(({ action, subject }) => action.endsWith('review.submitted') && subject.id === review_id)
  if (!submitted) return null
  const beside = events.find(
    ({ subject, seq, cause }) => subject.id.startsWith('hxp_') && (cause === submitted.seq || submitted.cause === seq),
  )
  return beside?.subject.id ?? null
}
function ReceiptLine({ request_id }: { readonly request_id: string }) {
  const { data } = useRequest(request_id)
  if (!data?.receipt || data.verdict === null) return null
  return (
    <Link className="receipt-line" href={`/inbox/${request_id}`} data-testid="review-receipt" data-valid={data.verdict.ok}>
      <Icon name={data.verdict.ok ? 'approve' : 'alert'} />
      Receipt <span className={data.verdict.ok ? 'chip ok' : 'chip bad'}>{data.verdict.ok ? 'verified here' : 'does not verify'}</span>
    </Link>
  )
}

function Verdict({ review, item }: { readonly review: Reviewed; readonly item: string | null }) {
  const nameOf = useNameOf()
  const { message, tone } = verdicts[review.verdict]
  return (
    <li data-testid="review-verdict" data-verdict={review.verdict}>
      <div className="row">
        <Who name={nameOf(review.reviewer)} sort="person" />
        <span className="grow">
          <b>{capital(nameOf(review.reviewer))}</b> <span className={tone}>{message}</span>{' '}
          <span className="mono">{review.artifact_version}</span>
        </span>
        <span className="note">
          <Ago at={review.at} />
        </span>
      </div>
      {review.requested_changes.length > 0 && (
        <ul className="changes" data-testid="requested-changes">
          {review.requested_changes.map((change, i) => (
            <li key={i}>
              <Said>{change}</Said>
            </li>
          ))}
        </ul>
      )}
      {review.comments.map(({ anchor, severity, body }, i) => (
        <p key={i} className="soft">
          {anchor !== undefined && <span className="mono muted">{anchor} </span>}
          <span className={`sev ${severity}`}>{severity}</span> <Said>{body}</Said>
        </p>
      ))}
      {item !== null && <ReceiptLine request_id={item} />}
    </li>
  )
}

/** Newest first. */
export function Verdicts({
  title,
  task_id,
  reviews,
}: {
  readonly title: string
  readonly task_id: string
  readonly reviews: readonly Reviewed[]
}) {
  const events = useEvents(task_id).data ?? []
  if (reviews.length === 0) return null
  return (
    <section aria-label={title}>
      <h2 className="h">{title}</h2>
      <ul className="verdicts">
        {reviews.toReversed().map((review) => (
          <Verdict key={review.id} review={review} item={itemOf(events, review.id)} />
        ))}
      </ul>
    </section>
  )
}
