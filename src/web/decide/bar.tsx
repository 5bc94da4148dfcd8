// The bar with the deciding buttons: always at the same place, next to the digest of the shown item.
import { useRef, useState } from 'react'
import { useMutation } from '@tanstack/react-query'
import { noteMove, useCommands, type Command } from '../app/commands.ts'
import { useRequest } from '../item/receipt.tsx'
import { Icon, type IconName } from '../parts/icon.tsx'
import { Refused } from '../parts/states.tsx'
import { call, queries } from '../server/client.ts'
import { hasDraft } from '../server/drafts.ts'
import { useConnection } from '../server/live.ts'
import { useMe, useReadsOnly } from '../server/names.ts'
import type { Item } from '../server/types.ts'
import { AskBack, Escalate, Extend, Reassign, Snooze } from './dialogs.tsx'
import { DeclineDialog } from './approve.tsx'
import { editableOf } from './edit.tsx'
import { GrantDialog } from './grant.tsx'
import { useSettled } from './guarded.tsx'
import { Kind } from './kinds/index.tsx'
import { canChange, canComment } from './kinds/kind.ts'
import { isVerdict } from './kinds/words.ts'
import { useOutgoing } from './outgoing.ts'
import { HeldMessage } from './undo.tsx'

type Props = {
  readonly item: Item
  readonly isStale: boolean
  readonly isReadToEnd: boolean
  /** A deliverable is on the screen: without it there is no approval here. */
  readonly isShown: boolean
  accepted(item: Item): void
  advance(): void
}
type Opened = 'Ask back' | 'Reassign' | 'Snooze' | 'Extend' | 'Escalate' | 'Grant' | 'Decline'

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

/** Claim and release are sent immediately, without the undo delay. */
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
  commenting,
  comment,
  open,
}: {
  readonly item: Item
  readonly editing: boolean
  readonly edit: (() => void) | null
  readonly commenting: boolean
  readonly comment: (() => void) | null
  open(what: Opened): void
}) {
  const pool = usePool(item)
  const [isMore, setMore] = useState(false)
  const canGrant = item.card.payload.scope !== undefined && item.task_id !== null
  // Without a deadline there is nothing to extend.
  const canExtend = item.expires_at !== null
  // Questions that are answered have the button in their bar.
  const canDecline = item.declinable && isVerdict(item.action)
  // C requests changes if that is an answer.
  const commentKey = canChange(item) ? [] : ['c']
  const commands: Command[] = [
    { title: 'Ask back', keys: ['q'], group: 'This item', run: () => open('Ask back') },
    { title: 'Snooze', keys: ['s'], group: 'This item', run: () => open('Snooze') },
    { title: 'Reassign', keys: ['m'], group: 'This item', run: () => open('Reassign') },
    { title: 'Escalate', group: 'This item', run: () => open('Escalate') },
    ...(canDecline ? [{ title: 'Decline', group: 'This item' as const, run: () => open('Decline') }] : []),
    ...(canExtend ? [{ title: 'Extend', group: 'This item' as const, run: () => open('Extend') }] : []),
    ...(edit === null ? [] : [{ title: 'Edit', keys: ['e'], group: 'This item' as const, run: edit }]),
    ...(comment === null ? [] : [{ title: 'Comment', keys: commentKey, group: 'This item' as const, run: comment }]),
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
        {comment !== null && (
          <Tool name="Comment" icon="review" {...(commentKey.length === 0 ? {} : { keyHint: 'C' })} press={comment} pressed={commenting} />
        )}
        {canGrant && <Tool name="Grant" icon="grant" press={() => open('Grant')} />}
        {pool.claims && <Tool name="Claim" icon="hand" press={() => pool.act('claim')} />}
        {pool.releases && <Tool name="Release" icon="back" press={() => pool.act('release')} />}
        <Tool name="Ask back" icon="ask" keyHint="Q" press={() => open('Ask back')} />
        <Tool name="Snooze" icon="snooze" keyHint="S" press={() => open('Snooze')} />
        <Tool name="Reassign" icon="person" keyHint="M" press={() => open('Reassign')} />
        {canExtend && <Tool name="Extend" icon="clock" press={() => open('Extend')} />}
        <Tool name="Escalate" icon="alert" press={() => open('Escalate')} />
        {canDecline && <Tool name="Decline" icon="x" press={() => open('Decline')} />}
      </div>
      <Refused error={pool.error} />
    </>
  )
}

function Opened({ what, item, close, done }: { readonly what: Opened | null; readonly item: Item; close(): void; done(): void }) {
  const props = { item, close, done }
  if (what === 'Ask back') return <AskBack {...props} />
  if (what === 'Reassign') return <Reassign {...props} />
  if (what === 'Snooze') return <Snooze {...props} />
  if (what === 'Extend') return <Extend {...props} />
  if (what === 'Escalate') return <Escalate {...props} />
  if (what === 'Decline') return <DeclineDialog item={item} close={close} />
  return what === 'Grant' ? <GrantDialog item={item} close={close} /> : null
}

/** Why one reads the item and does not decide; null: one decides, as far as the server lets one. */
function useWhyReader({ project, approval, through, no_decider }: Item): string | null {
  const readsOnly = useReadsOnly(project.id)
  if (readsOnly) return 'You read here: auditors and viewers decide nothing.'
  return approval && through === null && !no_decider ? `Others answer it: ${approval.words}.` : null
}

export function DecisionBar(props: Props) {
  const why = useWhyReader(props.item)
  if (why === null) return <Deciding {...props} />
  return (
    <footer className="decide" aria-label="Decide" data-testid="item-reader">
      <div className="in">
        <p className="note">{why}</p>
      </div>
    </footer>
  )
}

function Deciding({ item, isStale, isReadToEnd, isShown, accepted, advance }: Props) {
  const [open, setOpen] = useState<Opened | null>(null)
  const [isEditing, setEditing] = useState(false)
  const [isCommenting, setCommenting] = useState(() => hasDraft(`comment/${item.request_id}`))
  const bar = useRef<HTMLElement>(null)
  const outgoing = useOutgoing(item.request_id)
  const { connection } = useConnection()
  const settled = useSettled(`${item.request_id} ${item.digest} ${isStale} ${isEditing} ${isCommenting}`)
  const isOnItsWay = outgoing?.phase === 'held' || outgoing?.phase === 'sending'
  const blocked = whyNot(item, connection === 'offline', isStale, isOnItsWay)
  const edit = editableOf(item) === null ? null : () => setEditing(!isEditing)
  const comment = (): void => {
    setCommenting(!isCommenting)
    if (!isCommenting) requestAnimationFrame(() => bar.current?.querySelector('textarea')?.focus())
  }
  /** The person's own remark changes the item, but needs no second reading. */
  const onDone = (): void => {
    const key = ['item', item.request_id]
    void queries.refetchQueries({ queryKey: key }).then(() => {
      const fresh = queries.getQueryData<{ item: Item }>(key)?.item
      if (fresh) accepted(fresh)
      noteMove()
    })
  }
  const kind = { item, settled, blocked, isReadToEnd, isShown, isEditing, isCommenting, advance }
  return (
    <footer className="decide" aria-label="Decide" ref={bar}>
      <div className="in">
        <Tools
          item={item}
          editing={isEditing}
          edit={edit}
          commenting={isCommenting}
          comment={canComment(item) ? comment : null}
          open={setOpen}
        />
        {outgoing?.phase === 'voted' && <p className="note">Your vote is recorded. The item is decided when enough people have voted.</p>}
        {isOnItsWay && (
          <p className="note" role="status">
            {outgoing.phase === 'held' ? (
              <>
                <span aria-hidden="true">
                  <HeldMessage one={outgoing} />.{' '}
                </span>
                Nothing is sent yet.
              </>
            ) : (
              'Sending. It is decided when its receipt arrives.'
            )}
          </p>
        )}
        <Kind {...kind} />
      </div>
      <Opened what={open} item={item} close={() => setOpen(null)} done={onDone} />
    </footer>
  )
}

function whyNot(item: Item, isOffline: boolean, isStale: boolean, isOnItsWay: boolean): string | undefined {
  if (isOffline) return 'You are offline: deciding needs the server.'
  if (isStale) return 'It has changed: read it first.'
  if (item.no_decider) return 'Nobody can answer it until a substitute is named.'
  return isOnItsWay ? 'It is on its way.' : undefined
}
