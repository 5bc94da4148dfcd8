// Preview of a deliverable, with the way to the whole review.
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { bytesOf, Said } from '../parts/text.tsx'
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
      {acceptance_criteria.length > 0 && (
        <section className="card facts agreed" aria-label="What was agreed">
          <h2 className="h">What was agreed</h2>
          <ul className="crit">
            {acceptance_criteria.map((one) => (
              <li key={one}>
                <Icon name="flag" />
                <Said>{one}</Said>
              </li>
            ))}
          </ul>
        </section>
      )}
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
