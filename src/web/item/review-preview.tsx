// Preview of a deliverable, with the way to the whole review.
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { bytesOf, Said } from '../parts/text.tsx'
import { Agreed } from '../tasks/side.tsx'
import type { Item } from '../server/types.ts'

type Delivered = {
  readonly goal?: string
  readonly acceptance_criteria?: readonly string[]
  readonly delivered?: { readonly kind?: string; readonly size?: number; readonly checksum?: string }
}

export function ReviewPreview({ item }: { readonly item: Item }) {
  const { acceptance_criteria = [], delivered } = (item.card.payload.details ?? {}) as Delivered
  const { artifact } = item.card
  return (
    <>
      <Agreed className="card facts agreed" aria-label="What was agreed" criteria={acceptance_criteria} />
      {item.task_id !== null && (
        <p className="to-review">
          <Link className="btn" href={`/reviews/${item.task_id}`}>
            <Icon name="review" />
            Open the whole review
          </Link>
          {artifact !== undefined && (
            <span className="note">
              version <Said mono>{artifact.version}</Said>
              {delivered?.size !== undefined && `, ${bytesOf(delivered.size)}`}
            </span>
          )}
        </p>
      )}
    </>
  )
}
