// A file of a review: unified or side by side, changed words marked, each line with a button for a comment.
import { Fragment, useState, type CSSProperties, type ReactNode } from 'react'
import { Icon } from '../parts/icon.tsx'
import { plural } from '../parts/text.tsx'
import { CommentForm, DraftRemark, MadeRemark, type DraftComment, type MadeComment } from './comments.tsx'
import { pairsOf, type DiffFile, type Line, type Pair } from './diff.ts'

export type View = 'unified' | 'split'
const classOf = (line: Line | null): string => (line === null ? 'blank' : line.kind === 'added' ? 'a' : line.kind === 'removed' ? 'd' : '')
const signs = { same: ' ', added: '+', removed: '−', gap: '' } as const

function Words({ line }: { readonly line: Line }) {
  return <bdi>{line.parts.map(({ text, isMarked }, i) => (isMarked ? <mark key={i}>{text}</mark> : text))}</bdi>
}

/** Added and removed lines; for a text without a former version, its number of lines. */
export function Counts({ file }: { readonly file: DiffFile }) {
  if (file.isWhole) return <span className="pm muted">{plural(file.lines.length, 'line')}</span>
  return (
    <span className="pm">
      <span className="p">+{file.added}</span> <span className="m">−{file.removed}</span>
    </span>
  )
}

/** Long lines wrap under their first word. */
function hangingIndent(line: Line | null, sign = 0): CSSProperties | undefined {
  if (line === null) return undefined
  const text = line.parts.map((part) => part.text).join('')
  const indent = Math.min(40, text.length - text.trimStart().length)
  return { paddingLeft: `calc(10px + ${sign}px + ${indent}ch)`, textIndent: `calc(${-sign}px - ${indent}ch)` }
}

type Props = {
  readonly file: DiffFile
  readonly isOnly: boolean
  readonly view: View
  readonly isViewed: boolean
  readonly comments: readonly MadeComment[]
  readonly drafts: readonly DraftComment[]
  setViewed(viewed: boolean): void
  add(draft: DraftComment): void
  remove(id: string): void
}
/** Anchors are `<file>:<line>`, or `line <n>` if there is only one text. */
export const anchorOf = (file: DiffFile, isOnly: boolean, line: Line): string => {
  const number = line.after ?? line.before
  return isOnly ? `line ${number}` : `${file.name}:${number}`
}

export function FileDiff({ file, isOnly, view, isViewed, comments, drafts, setViewed, add, remove }: Props) {
  const [writing, setWriting] = useState<string | null>(null)
  const columns = view === 'split' ? 4 : 3
  const remarks = (line: Line | null): ReactNode => {
    if (line === null || line.kind === 'gap') return null
    const anchor = anchorOf(file, isOnly, line)
    // The old side of a change has the number of another line.
    const hasComments = line.kind !== 'removed'
    const here = hasComments ? comments.filter((comment) => comment.anchor === anchor) : []
    const mine = hasComments ? drafts.filter((comment) => comment.anchor === anchor) : []
    const isWriting = writing === `${anchor} ${line.kind}`
    if (here.length + mine.length === 0 && !isWriting) return null
    return (
      <tr className="cmt">
        <td colSpan={columns}>
          {here.map((comment, i) => (
            <MadeRemark key={i} comment={comment} />
          ))}
          {mine.map((draft) => (
            <DraftRemark key={draft.id} draft={draft} remove={() => remove(draft.id)} />
          ))}
          {isWriting && <CommentForm anchor={anchor} add={add} close={() => setWriting(null)} />}
        </td>
      </tr>
    )
  }
  const number = (line: Line | null, side: 'before' | 'after'): ReactNode => (
    <td className={`ln ${classOf(line)}`}>
      {(view === 'unified' && side === 'before' ? null : line?.[side]) ?? ''}
      {line !== null && line.kind !== 'gap' && (side === 'after' || line.kind === 'removed') && (
        <button
          type="button"
          className="ln-button"
          aria-label="Comment"
          title={`Comment on ${anchorOf(file, isOnly, line)}`}
          onClick={() => setWriting(`${anchorOf(file, isOnly, line)} ${line.kind}`)}
        >
          +
        </button>
      )}
    </td>
  )
  const unifiedRow = (line: Line, i: number): ReactNode => (
    <Fragment key={i}>
      <tr data-testid="diff-line" data-kind={line.kind} className={line.kind === 'gap' ? 'hunk' : undefined}>
        {line.kind === 'gap' ? (
          <td colSpan={columns}>{line.parts[0]!.text}</td>
        ) : (
          <>
            <td className={`ln ${classOf(line)}`}>{line.before ?? ''}</td>
            {number(line, line.kind === 'removed' ? 'before' : 'after')}
            <td className={classOf(line)} style={hangingIndent(line, 14)}>
              <span className="sign" aria-hidden="true">
                {signs[line.kind]}
              </span>
              <Words line={line} />
            </td>
          </>
        )}
      </tr>
      {remarks(line)}
    </Fragment>
  )
  const splitRow = ({ left, right }: Pair, i: number): ReactNode => (
    <Fragment key={i}>
      <tr data-testid="diff-line" data-kind={right?.kind ?? left?.kind} className={left?.kind === 'gap' ? 'hunk' : undefined}>
        {left?.kind === 'gap' ? (
          <td colSpan={columns}>{left.parts[0]!.text}</td>
        ) : (
          <>
            {right === null ? number(left, 'before') : <td className={`ln ${classOf(left)}`}>{left?.before ?? ''}</td>}
            <td className={classOf(left)} style={hangingIndent(left)}>
              {left && <Words line={left} />}
            </td>
            {right === null ? <td className="ln blank" /> : number(right, 'after')}
            <td className={`sep ${classOf(right)}`} style={hangingIndent(right)}>
              {right && <Words line={right} />}
            </td>
          </>
        )}
      </tr>
      {remarks(right ?? left)}
    </Fragment>
  )
  return (
    <section className="file" data-testid="diff-file" data-file={file.name} id={`file-${file.name}`} aria-label={file.name}>
      <header>
        <Icon name="file" />
        <span className="grow clip">
          <bdi>{file.name}</bdi>
        </span>
        <Counts file={file} />
        <label className="viewed">
          <input
            type="checkbox"
            checked={isViewed}
            onChange={(event) => setViewed(event.target.checked)}
            aria-label={`Viewed ${file.name}`}
          />
          Viewed
        </label>
      </header>
      {!isViewed && (
        <table className={`diff ${view}`}>
          <caption className="sr">{file.name}</caption>
          <colgroup>
            <col className="number" />
            {view === 'split' && <col />}
            <col className="number" />
            <col />
          </colgroup>
          <tbody>{view === 'unified' ? file.lines.map(unifiedRow) : pairsOf(file.lines).map(splitRow)}</tbody>
        </table>
      )}
    </section>
  )
}
