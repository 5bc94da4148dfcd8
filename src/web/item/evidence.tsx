// Evidence for a question: texts, versions of artifacts, and addresses, which are shown and never followed.
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { plural, Said } from '../parts/text.tsx'
import { DownloadButton } from '../review/download.tsx'
import type { Item } from '../server/types.ts'

type Piece =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'artifact'; readonly artifact_id: string; readonly version: string }
  | { readonly kind: 'link'; readonly uri: string; readonly title?: string }

/** The evidence of a claim or a checkpoint. In other requests, a field of that name is an ordinary argument. */
export function evidenceIn(item: Item): readonly Piece[] {
  const { evidence } = item.card.payload
  if (evidence !== undefined) return evidence
  const { context } = (item.card.payload.details ?? {}) as { context?: unknown }
  return item.kind !== 'request' && item.kind !== 'review' && Array.isArray(context) ? (context as Piece[]) : []
}

function PieceOf({ piece, task_id }: { readonly piece: Piece; readonly task_id: string | null }) {
  if (piece.kind === 'text')
    return (
      <p>
        <Said>{piece.text}</Said>
      </p>
    )
  if (piece.kind === 'link')
    return (
      <p className="row">
        <Icon name="link" />
        <span className="grow">
          {piece.title !== undefined && (
            <b>
              <Said>{piece.title}</Said>
            </b>
          )}{' '}
          <Said mono>{piece.uri}</Said> <span className="note">Link from the agent (not clickable)</span>
        </span>
        <button type="button" className="btn ghost sm" onClick={() => void navigator.clipboard?.writeText(piece.uri)}>
          Copy
        </button>
      </p>
    )
  const { artifact_id, version } = piece
  return (
    <p className="row">
      <Icon name="file" />
      <span className="grow">
        Artifact <Said mono>{artifact_id}</Said> <span className="chip">{version}</span>
      </span>
      {task_id !== null && (
        <Link className="btn ghost sm" href={`/reviews/${task_id}`}>
          Look at it
        </Link>
      )}
      <DownloadButton artifact_id={artifact_id} version={version} />
    </p>
  )
}

export function Evidence({ item }: { readonly item: Item }) {
  // The item already shows the agent's reason, so skip the piece that repeats it.
  const pieces = evidenceIn(item).filter((piece) => piece.kind !== 'text' || piece.text !== item.reason?.text)
  if (pieces.length === 0) return null
  return (
    <section className="card facts evidence" aria-label="Evidence" data-testid="item-evidence">
      <h2 className="h">
        Evidence <span className="note">{plural(pieces.length, 'piece')}, as the agent gave it</span>
      </h2>
      <ul className="things">
        {pieces.map((piece, i) => (
          <li key={i}>
            <PieceOf piece={piece} task_id={item.task_id} />
          </li>
        ))}
      </ul>
    </section>
  )
}
