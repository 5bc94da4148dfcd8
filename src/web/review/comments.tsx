// Comments on lines: drafts, which only their author sees until the review is submitted, and earlier comments.
import { useState } from 'react'
import { Select, TextArea } from '../parts/fields.tsx'
import { Said } from '../parts/text.tsx'
import { Ago } from '../parts/time.tsx'
import { Who } from '../parts/who.tsx'
import { capital, useNameOf } from '../server/names.ts'

export type Severity = 'blocker' | 'major' | 'minor' | 'nit'
export type DraftComment = { readonly id: string; readonly anchor: string; readonly severity: Severity; readonly body: string }
export type MadeComment = {
  readonly by: string
  readonly at: string
  readonly anchor?: string | undefined
  readonly severity: Severity
  readonly body: string
  readonly version: string
}

const severities: readonly (readonly [Severity, string])[] = [
  ['blocker', 'Blocker'],
  ['major', 'Major'],
  ['minor', 'Minor'],
  ['nit', 'Nit'],
]

export function MadeRemark({ comment }: { readonly comment: MadeComment }) {
  const nameOf = useNameOf()
  return (
    <div className="cm" data-testid="review-comment" data-severity={comment.severity}>
      <header>
        <Who name={nameOf(comment.by)} sort="person" />
        <b>{capital(nameOf(comment.by))}</b>
        <span className={`sev ${comment.severity}`}>{comment.severity}</span>
        <span className="note">
          <Ago at={comment.at} />, on {comment.version}
          {comment.anchor !== undefined && `, ${comment.anchor}`}
        </span>
      </header>
      <p>
        <Said>{comment.body}</Said>
      </p>
    </div>
  )
}

export function DraftRemark({ draft, remove }: { readonly draft: DraftComment; remove(): void }) {
  return (
    <div className="cm draft" data-testid="review-comment" data-severity={draft.severity} data-draft="">
      <header>
        <b>You</b>
        <span className={`sev ${draft.severity}`}>{draft.severity}</span>
        <span className="note">{draft.anchor}</span>
        <span className="grow" />
        <span className="chip warn">Draft, only you see it</span>
        <button type="button" className="btn ghost sm" onClick={remove}>
          Remove
        </button>
      </header>
      <p>
        <Said>{draft.body}</Said>
      </p>
    </div>
  )
}

export function CommentForm({ anchor, add, close }: { readonly anchor: string; add(draft: DraftComment): void; close(): void }) {
  const [body, setBody] = useState('')
  const [severity, setSeverity] = useState<Severity>('major')
  const keep = (): void => {
    if (body.trim() === '') return
    add({ id: `${anchor} ${Date.now()}`, anchor, severity, body: body.trim() })
    close()
  }
  return (
    <form
      className="cm draft"
      onSubmit={(event) => {
        event.preventDefault()
        keep()
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) keep()
        if (event.key === 'Escape') close()
      }}
    >
      <TextArea label="Comment" value={body} onValue={setBody} note={`On ${anchor}. A draft until you submit the review.`} />
      <div className="row">
        <Select compact label="Severity" value={severity} onValue={(value) => setSeverity(value as Severity)} options={severities} />
        <span className="grow" />
        <button type="button" className="btn sm" onClick={close}>
          Cancel
        </button>
        <button type="submit" className="btn sm primary" aria-disabled={body.trim() === '' || undefined}>
          Add comment
        </button>
      </div>
    </form>
  )
}
