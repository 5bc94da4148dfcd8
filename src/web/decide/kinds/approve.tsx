// An approval: a yes or a no, with edits, proposed actions or words for an agent that waits.
import { useState } from 'react'
import type { Item } from '../../server/types.ts'
import { ProposedActions, proposedIn } from '../actions.tsx'
import { ApproveBar, type Comment } from '../approve.tsx'
import { HandOver } from '../dialogs.tsx'
import { draftOfEdits, editableOf, patchOf, useEdits } from '../edit.tsx'
import { Guarded } from '../guarded.tsx'
import { approveCheckpoint, decide } from '../send.ts'
import { commentOn, isTalk, rejectWords, withComment, yesDrafts, type KindProps } from './kind.ts'
import { InItem, NotSent } from './send-bar.tsx'

/** The labels of the two answers, and the text of a yes. */
function wordsOf(item: Item, isEdited: boolean, isCommenting: boolean): { yes: string; no: string; comment: Comment } {
  if (!isTalk(item)) {
    return { yes: isEdited ? 'Approve with edits' : 'Approve', no: rejectWords(item), comment: commentOn(isCommenting) }
  }
  const isRequired = item.kind === 'escalation'
  const note = isRequired ? 'The agent gets it and continues.' : 'Optional. The agent gets it and continues.'
  const comment = { label: 'Message to the agent', note, isRequired, isOpen: true }
  return { yes: isRequired ? 'Tell the agent' : 'Let it go on', no: 'End the task', comment }
}

export function ApproveKind({ item, isShown, isEditing, isCommenting, ...rest }: KindProps) {
  const actions = proposedIn(item)
  const [chosen, choose] = useState<ReadonlySet<string>>(() => new Set(actions.map(({ id }) => id)))
  const [isHanding, setHanding] = useState(false)
  const edited = useEdits(item)
  const isPart = actions.length > 0 && chosen.size < actions.length
  const isEdited = isEditing && edited !== null
  const blocked =
    rest.blocked ?? (isEdited ? (edited.problem ?? (edited.isChanged ? undefined : 'Change something first, or leave Edit.')) : undefined)
  function approve(comment: string): void {
    const editable = editableOf(item)
    const drafts = [draftOfEdits(item), ...yesDrafts(item)]
    const why = withComment(comment)
    const remark = comment === '' ? {} : { comment }
    if (isEdited && editable?.kind === 'state')
      return approveCheckpoint(item, { state_patch: patchOf(editable.value, edited.value), ...remark }, drafts)
    if (isEdited) return decide(item, { result: 'approved', edited: edited.value, ...why }, drafts)
    if (isPart) return approveCheckpoint(item, { approved_actions: [...chosen], ...remark }, drafts)
    decide(item, { result: 'approved', ...why }, drafts)
  }
  return (
    <>
      <InItem>
        {actions.length > 0 && <ProposedActions actions={actions} chosen={chosen} choose={choose} />}
        {isEdited && edited.form}
      </InItem>
      <NotSent item={item} />
      <ApproveBar
        {...rest}
        {...wordsOf(item, isEdited, isCommenting)}
        blocked={blocked}
        unready={
          !isShown
            ? 'The arguments are not on the screen yet.'
            : actions.length > 0 && chosen.size === 0
              ? 'Select an action first, or reject all of them.'
              : undefined
        }
        value={JSON.stringify([[...chosen], isEdited ? edited.value : null])}
        item={item}
        canChange={false}
        approve={approve}
        reject={(reason) => decide(item, { result: 'rejected', reason }, [`reject/${item.request_id}`])}
        change={() => undefined}
      >
        {item.kind === 'escalation' && item.task_id !== null && (
          <Guarded className="btn" blocked={blocked} settled={rest.settled} press={() => setHanding(true)}>
            Hand to another agent
          </Guarded>
        )}
      </ApproveBar>
      {isHanding && <HandOver item={item} close={() => setHanding(false)} />}
    </>
  )
}
