// The kinds of questions, each with the buttons and the form of its answer: approve, talk to an agent that waits, review, choose, type, hand over a file.
import { useLayoutEffect, useState, type ReactNode } from 'react'
import { createPortal } from 'react-dom'
import { CountersignError } from '#sdk/index.ts'
import { isSettled, useCommands } from '../app/commands.ts'
import { Refused } from '../parts/states.tsx'
import type { Item } from '../server/types.ts'
import { ProposedActions, proposedIn } from './actions.tsx'
import { useChoice, useFile, useTyped, type Prepared } from './answer.tsx'
import { ApproveBar, Confirm, DeclineDialog, Signs, usePhrase, type Comment } from './approve.tsx'
import { HandOver } from './dialogs.tsx'
import { draftOfEdits, editableOf, patchOf, useEdits } from './edit.tsx'
import { Guarded } from './guarded.tsx'
import { isDoubted, sendAgain, useOutgoing } from './outgoing.ts'
import { approveCheckpoint, decide, DECLINING } from './send.ts'

/** Forms stand in the middle of the item, where it is read; the bar below only sends them. */
function InItem({ children }: { readonly children: ReactNode }) {
  const [place, setPlace] = useState<Element | null>(null)
  // Its place comes into being together with the bar: it is known before anything is painted, and not one paint later.
  useLayoutEffect(() => setPlace(document.querySelector('#answer-place')), [])
  return place ? createPortal(children, place) : null
}

/** An answer that did not arrive. A value that was refused is corrected where it stands, and sent from there. */
function NotSent({ item, again }: { readonly item: Item; readonly again?: (() => void) | undefined }) {
  const outgoing = useOutgoing(item.request_id)
  if (outgoing?.phase !== 'failed') return null
  const { error } = outgoing
  const isValue = error instanceof CountersignError && (error.status === 400 || error.status === 422)
  return (
    <div className="row">
      <span className="grow">
        <Refused error={error} testId="decide-error" />
      </span>
      {again !== undefined && outgoing.verb !== DECLINING && !isDoubted(outgoing) && !isValue && (
        <button type="button" className="btn sm" onClick={again}>
          Try again
        </button>
      )}
    </div>
  )
}

export type KindProps = {
  readonly item: Item
  readonly settled: boolean
  readonly blocked: string | undefined
  readonly isReadToEnd: boolean
  readonly isShown: boolean
  readonly isEditing: boolean
  readonly isCommenting: boolean
  advance(): void
}
export function Kind(props: KindProps) {
  const { item } = props
  if (item.kind === 'review') return <ReviewKind {...props} />
  if (item.action === 'APPROVE') return <ApproveKind {...props} />
  if (item.action === 'DECIDE') return <ChooseKind {...props} />
  return item.card.payload.input_type === 'file' ? <FileKind {...props} /> : <TypedKind {...props} />
}

export const canChange = ({ kind, card }: Item): boolean =>
  kind === 'review' && card.payload.options?.includes('changes_requested') === true
/** Those who stopped an agent or are asked for help write to it all the time. */
const isTalk = ({ kind, action }: Item): boolean => action === 'APPROVE' && (kind === 'escalation' || kind === 'interrupt')
export const canComment = (item: Item): boolean => (item.action === 'APPROVE' || item.kind === 'review') && !isTalk(item)
const commentOn = (isOpen: boolean): Comment => ({ label: 'Comment', note: 'Goes to the agent with your yes.', isRequired: false, isOpen })
const withComment = (comment: string): { readonly reason?: string } => (comment === '' ? {} : { reason: comment })
const yesDrafts = ({ request_id }: Item): string[] => [`comment/${request_id}`]

const rejectWords = ({ reject_ends_task }: Item): string => (reject_ends_task ? 'Reject and end the task' : 'Reject')

function ReviewKind({ item, isShown, isCommenting, isEditing: _, ...rest }: KindProps) {
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

/** The words of its two answers, and the text that goes with a yes. */
function wordsOf(item: Item, isEdited: boolean, isCommenting: boolean): { yes: string; no: string; comment: Comment } {
  if (!isTalk(item)) {
    return { yes: isEdited ? 'Approve with edits' : 'Approve', no: rejectWords(item), comment: commentOn(isCommenting) }
  }
  const isRequired = item.kind === 'escalation'
  const note = isRequired ? 'The agent gets it and goes on.' : 'Optional. The agent gets it and goes on.'
  const comment = { label: 'Message to the agent', note, isRequired, isOpen: true }
  return { yes: isRequired ? 'Tell the agent' : 'Let it go on', no: 'End the task', comment }
}

function ApproveKind({ item, isShown: _, isEditing, isCommenting, ...rest }: KindProps) {
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
    const said = comment === '' ? {} : { comment }
    if (isEdited && editable?.kind === 'state')
      return approveCheckpoint(item, { state_patch: patchOf(editable.value, edited.value), ...said }, drafts)
    if (isEdited) return decide(item, { result: 'approved', edited: edited.value, ...why }, drafts)
    if (isPart) return approveCheckpoint(item, { approved_actions: [...chosen], ...said }, drafts)
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
        unready={actions.length > 0 && chosen.size === 0 ? 'Select an action first, or reject all of them.' : undefined}
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

function SendBar({ item, settled, blocked, prepared }: KindProps & { readonly prepared: Prepared }) {
  const [isBusy, setBusy] = useState(false)
  const [isDeclining, setDeclining] = useState(false)
  const [typed, setTyped] = usePhrase(item, prepared.value)
  // It is asked for once there is an answer to confirm.
  const phrase = prepared.blocked !== undefined || prepared.isSlight === true ? null : item.guard.confirm
  const isConfirmed = phrase === null || typed === phrase
  const unfinished = prepared.blocked ?? (isBusy ? 'It is on its way.' : undefined)
  const why = blocked ?? unfinished ?? (isConfirmed ? undefined : 'Type the phrase first.')
  const send = (): void => {
    setBusy(true)
    void prepared
      .make()
      .then((answer) => decide(item, answer, [prepared.draft]))
      .catch(() => undefined)
      .finally(() => setBusy(false))
  }
  // Fields are sent again by the rules of their own button. A secret is gone from its field: it is sent as it was confirmed.
  const resend = prepared.blocked === undefined ? undefined : () => sendAgain(item.request_id)
  const again = prepared.isKept ? (why === undefined ? send : undefined) : resend
  const canDecline = item.declinable
  useCommands([
    {
      title: 'Send answer',
      keys: ['Enter'],
      group: 'This item',
      withModifier: true,
      decides: true,
      run: () => why === undefined && send(),
    },
    ...(canDecline && blocked === undefined
      ? [{ title: 'Decline', keys: ['r', 'd'], group: 'This item' as const, run: () => setDeclining(true) }]
      : []),
  ])
  const buttons = (
    <>
      {canDecline && (
        <Guarded className="btn danger" blocked={blocked} settled={settled} keyHint="R" press={() => setDeclining(true)}>
          Decline
        </Guarded>
      )}
      <Guarded className="btn primary" blocked={why} settled={settled} keyHint="Ctrl ↵" press={send}>
        Send answer
      </Guarded>
    </>
  )
  return (
    <>
      <NotSent item={item} again={again} />
      {phrase === null ? (
        <div className="act">
          <Signs item={item} />
          <span className="grow note">{why}</span>
          {buttons}
        </div>
      ) : (
        <Confirm
          item={item}
          phrase={phrase}
          typed={typed}
          isAsking={blocked === undefined && !isConfirmed}
          setTyped={setTyped}
          enter={() => why === undefined && isSettled() && send()}
        >
          {buttons}
        </Confirm>
      )}
      {isDeclining && <DeclineDialog item={item} close={() => setDeclining(false)} />}
    </>
  )
}
/** A kind of answer that is a form in the item and one button. */
const formKind = (useForm: typeof useChoice) =>
  function FormKind(props: KindProps) {
    const { form, prepared } = useForm(props.item)
    return (
      <>
        <InItem>{form}</InItem>
        <SendBar {...props} prepared={prepared} />
      </>
    )
  }
const ChooseKind = formKind(useChoice)
const FileKind = formKind(useFile)
const TypedKind = formKind(useTyped)
