// A review: approve the deliverable, request changes or reject it.
import { ApproveBar } from '../approve.tsx'
import { decide } from '../send.ts'
import { canChange, commentOn, rejectWords, withComment, yesDrafts, type KindProps } from './kind.ts'
import { NotSent } from './send-bar.tsx'

export function ReviewKind({ item, isShown, isCommenting, isEditing: _, ...rest }: KindProps) {
  const { options = [] } = item.card.payload
  return (
    <>
      <NotSent item={item} />
      <ApproveBar
        {...rest}
        item={item}
        yes={isShown ? 'Approve' : null}
        no={options.includes('rejected') ? rejectWords(item) : null}
        comment={commentOn(isCommenting)}
        canChange={canChange(item)}
        approve={(comment) => decide(item, { result: 'approved', ...withComment(comment) }, yesDrafts(item))}
        reject={(reason) => decide(item, { result: 'rejected', reason }, [`reject/${item.request_id}`])}
        change={(reason) => decide(item, { result: 'changes_requested', reason }, [`changes/${item.request_id}`])}
      />
    </>
  )
}
