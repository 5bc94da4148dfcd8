// The deliverable of a review, inside its item: the whole diff, text or picture. A reviewer cannot approve content that was not shown here.
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { Failed, Skeleton } from '../parts/states.tsx'
import { bytesOf, Said } from '../parts/text.tsx'
import { useDeliverable, type Deliverable } from '../review/deliverable.ts'
import type { DiffFile } from '../review/diff.ts'
import { Agreed } from '../tasks/side.tsx'
import type { Item } from '../server/types.ts'

/** `none`: the item is about no deliverable. */
type Delivered = Deliverable | 'none'
export function useDelivered(item: Item): Delivered {
  const found = useDeliverable(item.kind === 'review' ? item.card.artifact : undefined)
  return item.kind === 'review' ? found : 'none'
}
export const isShown = (delivered: Delivered): boolean =>
  delivered === 'none' ||
  (typeof delivered === 'object' && 'files' in delivered && (delivered.files.length > 0 || delivered.image !== null))

function Content({ delivered, type }: { readonly delivered: Delivered; readonly type: string }) {
  if (delivered === 'none') return null
  if (delivered === 'coming') return <Skeleton />
  if ('error' in delivered) return <Failed what="The delivery" error={delivered.error} again={delivered.again} />
  const { files, image, why } = delivered
  if (image !== null)
    return (
      <figure className="file picture">
        <img src={image} alt={`What was delivered: ${type}`} />
      </figure>
    )
  if (files.length === 0)
    return (
      <p className="card notice" data-testid="delivery-not-shown">
        <Icon name="alert" />
        <span>{why} Approve it in the review.</span>
      </p>
    )
  return (
    <div className="delivery">
      {files.map((file) => (
        <DeliveredFile key={file.name} file={file} />
      ))}
    </div>
  )
}

const classes = { same: '', added: 'a', removed: 'd', gap: '' } as const
const signs = { same: ' ', added: '+', removed: '−', gap: '' } as const
/** To be read, with no more to do in it: remarks on lines are made in the review. */
function DeliveredFile({ file }: { readonly file: DiffFile }) {
  return (
    <section className="file" data-testid="delivered-file" data-file={file.name} aria-label={file.name}>
      <header>
        <Icon name="file" />
        <span className="grow clip">
          <bdi>{file.name}</bdi>
        </span>
        {file.added + file.removed > 0 && (
          <span className="pm">
            <span className="p">+{file.added}</span> <span className="m">−{file.removed}</span>
          </span>
        )}
      </header>
      <table className="diff unified">
        <caption className="sr">{file.name}</caption>
        <colgroup>
          <col className="number" />
          <col />
        </colgroup>
        <tbody>
          {file.lines.map((line, i) =>
            line.kind === 'gap' ? (
              <tr key={i} className="hunk">
                <td colSpan={2}>{line.parts[0]!.text}</td>
              </tr>
            ) : (
              <tr key={i} data-testid="delivered-line" data-kind={line.kind}>
                <td className={`ln ${classes[line.kind]}`}>{line.after ?? line.before}</td>
                <td className={classes[line.kind]}>
                  <span className="sign" aria-hidden="true">
                    {signs[line.kind]}
                  </span>
                  <bdi>{line.parts.map(({ text, isMarked }, n) => (isMarked ? <mark key={n}>{text}</mark> : text))}</bdi>
                </td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </section>
  )
}

type Details = { readonly acceptance_criteria?: readonly string[]; readonly delivered?: { readonly kind?: string; readonly size?: number } }
export function ReviewPreview({ item, delivered }: { readonly item: Item; readonly delivered: Delivered }) {
  const { acceptance_criteria = [], delivered: about } = (item.card.payload.details ?? {}) as Details
  const { artifact } = item.card
  return (
    <>
      <Agreed className="card facts agreed" aria-label="What was agreed" criteria={acceptance_criteria} />
      <section aria-label="What was delivered" data-testid="item-delivery">
        <Content delivered={delivered} type={about?.kind ?? 'a file'} />
      </section>
      {item.task_id !== null && (
        <p className="to-review">
          <Link className="btn" href={`/reviews/${item.task_id}`}>
            <Icon name="review" />
            Open the whole review
          </Link>
          {artifact !== undefined && (
            <span className="note">
              version <Said mono>{artifact.version}</Said>
              {about?.size !== undefined && `, ${bytesOf(about.size)}`}
            </span>
          )}
        </p>
      )}
    </>
  )
}
