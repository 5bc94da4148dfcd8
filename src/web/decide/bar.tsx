// The bar that decides: always at the same place, with the digest of what was shown beside its buttons.
import { useLayoutEffect, useState, type ReactNode } from 'react'
import { createPortal } from 'react-dom'
import { useMutation } from '@tanstack/react-query'
import { noteMove, useCommands, type Command } from '../app/commands.ts'
import { useRequest } from '../item/receipt.tsx'
import { Icon, type IconName } from '../parts/icon.tsx'
import { Refused } from '../parts/states.tsx'
import { call, queries } from '../server/client.ts'
import { useConnection } from '../server/live.ts'
import { useMe } from '../server/names.ts'
import type { Item } from '../server/types.ts'
import { ProposedActions, proposedIn } from './actions.tsx'
import { useChoice, useFile, useTyped, type Prepared } from './answer.tsx'
import { ApproveBar, Signs } from './approve.tsx'
import { AskBack, Escalate, Extend, Reassign, Snooze } from './dialogs.tsx'
import { draftOfEdits, editableOf, patchOf, useEdits } from './edit.tsx'
import { GrantDialog } from './grant.tsx'
import { Guarded, useSettled } from './guarded.tsx'
import { isDoubted, sendAgain, useOutgoing } from './outgoing.ts'
import { approveCheckpoint, decide } from './send.ts'
import { HeldWords } from './undo.tsx'

type Props = { readonly item: Item; readonly isStale: boolean; readonly isReadToEnd: boolean; accepted(item: Item): void }
type Opened = 'Ask back' | 'Reassign' | 'Snooze' | 'Extend' | 'Escalate' | 'Grant'

/** Forms stand in the middle of the item, where it is read; the bar below only sends them. */
function InItem({ children }: { readonly children: ReactNode }) {
  const [place, setPlace] = useState<Element | null>(null)
  // Its place comes into being together with the bar: it is known before anything is painted, and not one paint later.
  useLayoutEffect(() => setPlace(document.querySelector('#answer-place')), [])
  return place ? createPortal(children, place) : null
}

function Tool({
  name,
  icon,
  keyHint,
  press,
  pressed,
}: {
  readonly name: string
  readonly icon: IconName
  readonly keyHint?: string
  press(): void
  readonly pressed?: boolean
}) {
  return (
    <button type="button" className="btn ghost sm" onClick={press} aria-pressed={pressed}>
      <Icon name={icon} />
      {name}
      {keyHint !== undefined && (
        <span className="kbd" aria-hidden="true">
          {keyHint}
        </span>
      )}
    </button>
  )
}

/** Claim and release act at once. */
function usePool(item: Item): {
  readonly claims: boolean
  readonly releases: boolean
  act(what: 'claim' | 'release'): void
  readonly error: unknown
} {
  const me = useMe().data?.id
  const request = useRequest(item.request_id).data?.request
  const isPool = request?.role === 'pool' && item.task_id === null && item.quorum === null
  const act = useMutation({
    mutationFn: (what: 'claim' | 'release'): Promise<unknown> =>
      what === 'claim'
        ? call('execution/request.claim', { request_id: item.request_id })
        : call('execution/request.release', { request_id: item.request_id }),
    onSettled: () => void queries.invalidateQueries({ queryKey: ['item', item.request_id] }),
  })
  return {
    claims: isPool && item.assignee === null,
    releases: isPool && item.assignee === me,
    act: (what) => act.mutate(what),
    error: act.error,
  }
}

function Tools({
  item,
  editing,
  edit,
  open,
}: {
  readonly item: Item
  readonly editing: boolean
  readonly edit: (() => void) | null
  open(what: Opened): void
}) {
  const pool = usePool(item)
  const [isMore, setMore] = useState(false)
  const canGrant = item.card.payload.scope !== undefined && item.task_id !== null
  const commands: Command[] = [
    { title: 'Ask back', keys: ['q'], group: 'This item', run: () => open('Ask back') },
    { title: 'Snooze', keys: ['s'], group: 'This item', run: () => open('Snooze') },
    { title: 'Reassign', keys: ['m'], group: 'This item', run: () => open('Reassign') },
    { title: 'Extend', group: 'This item', run: () => open('Extend') },
    { title: 'Escalate', group: 'This item', run: () => open('Escalate') },
    ...(edit === null ? [] : [{ title: 'Edit', keys: ['e'], group: 'This item' as const, run: edit }]),
    ...(canGrant ? [{ title: 'Grant', group: 'This item' as const, run: () => open('Grant') }] : []),
  ]
  useCommands(commands)
  return (
    <>
      <button type="button" className="btn ghost sm phone-only more-tools" aria-expanded={isMore} onClick={() => setMore(!isMore)}>
        <Icon name="more" />
        More
      </button>
      <div className={isMore ? 'top open' : 'top'}>
        {edit !== null && <Tool name="Edit" icon="edit" keyHint="E" press={edit} pressed={editing} />}
        {canGrant && <Tool name="Grant" icon="grant" press={() => open('Grant')} />}
        {pool.claims && <Tool name="Claim" icon="hand" press={() => pool.act('claim')} />}
        {pool.releases && <Tool name="Release" icon="back" press={() => pool.act('release')} />}
        <Tool name="Ask back" icon="ask" keyHint="Q" press={() => open('Ask back')} />
        <Tool name="Snooze" icon="snooze" keyHint="S" press={() => open('Snooze')} />
        <Tool name="Reassign" icon="person" keyHint="M" press={() => open('Reassign')} />
        <Tool name="Extend" icon="clock" press={() => open('Extend')} />
        <Tool name="Escalate" icon="alert" press={() => open('Escalate')} />
      </div>
      <Refused error={pool.error} />
    </>
  )
}

function Opened({
  what,
  item,
  close,
  done,
  approve,
}: {
  readonly what: Opened | null
  readonly item: Item
  close(): void
  done(): void
  approve(): void
}) {
  const props = { item, close, done }
  if (what === 'Ask back') return <AskBack {...props} />
  if (what === 'Reassign') return <Reassign {...props} />
  if (what === 'Snooze') return <Snooze {...props} />
  if (what === 'Extend') return <Extend {...props} />
  if (what === 'Escalate') return <Escalate {...props} />
  return what === 'Grant' ? <GrantDialog item={item} close={close} approve={approve} /> : null
}

export function DecisionBar({ item, isStale, isReadToEnd, accepted }: Props) {
  const [open, setOpen] = useState<Opened | null>(null)
  const [isEditing, setEditing] = useState(false)
  const outgoing = useOutgoing(item.request_id)
  const { connection } = useConnection()
  const settled = useSettled(`${item.request_id} ${item.digest} ${isStale} ${isEditing}`)
  const isOnItsWay = outgoing?.phase === 'held' || outgoing?.phase === 'sending'
  const blocked = whyNot(item, connection === 'offline', isStale, isOnItsWay)
  const edit = editableOf(item) === null ? null : () => setEditing(!isEditing)
  /** One's own remark is no surprise: it needs no second reading. */
  const done = (): void => {
    const key = ['item', item.request_id]
    void queries.refetchQueries({ queryKey: key }).then(() => {
      const fresh = queries.getQueryData<{ item: Item }>(key)?.item
      if (fresh) accepted(fresh)
      noteMove()
    })
  }
  const approve = (): void => decide(item, { result: 'approved' })
  return (
    <footer className="decide" aria-label="Decide">
      <div className="in">
        <Tools item={item} editing={isEditing} edit={edit} open={setOpen} />
        {outgoing?.phase === 'failed' && (
          <div className="row">
            <span className="grow">
              <Refused error={outgoing.error} testId="decide-error" />
            </span>
            {!isDoubted(outgoing) && (
              <button type="button" className="btn sm" onClick={() => sendAgain(item.request_id)}>
                Try again
              </button>
            )}
          </div>
        )}
        {outgoing?.phase === 'voted' && <p className="note">Your vote is in. It is decided when enough have voted.</p>}
        {isOnItsWay && (
          <p className="note" role="status">
            {outgoing.phase === 'held' ? (
              <>
                <span aria-hidden="true">
                  <HeldWords one={outgoing} />.{' '}
                </span>
                Nothing is sent yet.
              </>
            ) : (
              'Sending. It is decided when its receipt is here.'
            )}
          </p>
        )}
        <Kind item={item} settled={settled} blocked={blocked} isReadToEnd={isReadToEnd} isEditing={isEditing} />
      </div>
      <Opened what={open} item={item} close={() => setOpen(null)} done={done} approve={approve} />
    </footer>
  )
}

function whyNot(item: Item, isOffline: boolean, isStale: boolean, isOnItsWay: boolean): string | undefined {
  if (isOffline) return 'You are offline: deciding needs the server.'
  if (isStale) return 'It has changed: read it first.'
  if (item.no_decider) return 'Nobody can answer it until a substitute is named.'
  return isOnItsWay ? 'It is on its way.' : undefined
}

type KindProps = {
  readonly item: Item
  readonly settled: boolean
  readonly blocked: string | undefined
  readonly isReadToEnd: boolean
  readonly isEditing: boolean
}
function Kind(props: KindProps) {
  const { item } = props
  if (item.kind === 'review') return <ReviewKind {...props} />
  if (item.action === 'APPROVE') return <ApproveKind {...props} />
  if (item.action === 'DECIDE') return <ChooseKind {...props} />
  return item.card.payload.input_type === 'file' ? <FileKind {...props} /> : <TypedKind {...props} />
}

function ReviewKind({ item, isEditing: _, ...rest }: KindProps) {
  const { options = [] } = item.card.payload
  return (
    <ApproveBar
      {...rest}
      item={item}
      name="Approve"
      canReject={options.includes('rejected')}
      canChange={options.includes('changes_requested')}
      approve={() => decide(item, { result: 'approved' })}
      reject={(reason) => decide(item, { result: 'rejected', reason }, [`reject/${item.request_id}`])}
      change={(reason) => decide(item, { result: 'changes_requested', reason }, [`changes/${item.request_id}`])}
    />
  )
}

function ApproveKind({ item, isEditing, ...rest }: KindProps) {
  const actions = proposedIn(item)
  const [chosen, choose] = useState<ReadonlySet<string>>(() => new Set(actions.map(({ id }) => id)))
  const edited = useEdits(item)
  const isPart = actions.length > 0 && chosen.size < actions.length
  const isEdited = isEditing && edited !== null
  const blocked =
    rest.blocked ?? (isEdited ? (edited.problem ?? (edited.isChanged ? undefined : 'Change something first, or leave Edit.')) : undefined)
  function approve(): void {
    const editable = editableOf(item)
    const drafts = [draftOfEdits(item)]
    if (isEdited && editable?.kind === 'state')
      return approveCheckpoint(item, { state_patch: patchOf(editable.value, edited.value) }, drafts)
    if (isEdited) return decide(item, { result: 'approved', edited: edited.value }, drafts)
    if (isPart) return approveCheckpoint(item, { approved_actions: [...chosen] })
    decide(item, { result: 'approved' })
  }
  return (
    <>
      <InItem>
        {actions.length > 0 && <ProposedActions actions={actions} chosen={chosen} choose={choose} />}
        {isEdited && edited.form}
      </InItem>
      <ApproveBar
        {...rest}
        blocked={blocked}
        item={item}
        name={isEdited ? 'Approve with edits' : 'Approve'}
        canReject
        canChange={false}
        approve={approve}
        reject={(reason) => decide(item, { result: 'rejected', reason }, [`reject/${item.request_id}`])}
        change={() => undefined}
      />
    </>
  )
}

function SendBar({ item, settled, blocked, prepared }: KindProps & { readonly prepared: Prepared }) {
  const [isBusy, setBusy] = useState(false)
  const why = blocked ?? prepared.blocked ?? (isBusy ? 'It is on its way.' : undefined)
  const send = (): void => {
    setBusy(true)
    void prepared
      .make()
      .then((answer) => decide(item, answer, [prepared.draft]))
      .catch(() => undefined)
      .finally(() => setBusy(false))
  }
  useCommands([
    {
      title: 'Send answer',
      keys: ['Enter'],
      group: 'This item',
      withModifier: true,
      decides: true,
      run: () => why === undefined && send(),
    },
  ])
  return (
    <div className="act">
      <Signs item={item} />
      <span className="grow note">{why}</span>
      <Guarded className="btn primary" blocked={why} settled={settled} keyHint="Ctrl ↵" press={send}>
        Send answer
      </Guarded>
    </div>
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
