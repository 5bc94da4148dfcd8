// Approve and reject: the buttons, the phrase that great risks ask for, a comment with a yes, and the reason of a no.
import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'
import { announce } from '../app/announce.ts'
import { isSettled, useCommands, useLetters } from '../app/commands.ts'
import { sentence } from '../item/facts.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { Radios, TextArea } from '../parts/fields.tsx'
import { riskSentence } from '../parts/risk.tsx'
import { Said, shortDigest } from '../parts/text.tsx'
import { useDraft } from '../server/drafts.ts'
import type { Item } from '../server/types.ts'
import { Guarded } from './guarded.tsx'
import { onUndone } from './outgoing.ts'
import { decline } from './send.ts'

/** The digest of the shown content, which the answer carries. */
function Signs({ item }: { readonly item: Item }) {
  return (
    <span className="signs" title={`Your answer carries the digest of exactly what is shown: ${item.digest}`}>
      You sign version <span className="mono">{shortDigest(item.digest)}</span>{' '}
      <span className="info" aria-hidden="true">
        i
      </span>
    </span>
  )
}

const presets = ['Wrong environment', 'Suspicious arguments', 'Out of scope', 'Not now'] as const

type NoProps = { readonly item: Item; readonly name: string; close(): void; send(reason: string): void }
export function RejectDialog({ item, name, close, send }: NoProps) {
  const [preset, setPreset] = useState('')
  const [text, setText] = useDraft(`reject/${item.request_id}`, '')
  const isRequired = item.card.payload.reject_requires_reason === true
  const reason = [preset, text.trim()].filter((part) => part !== '').join(': ')
  const isAgents = item.kind === 'request' || item.kind === 'approval'
  return (
    <FormDialog
      name={name}
      about={<Said>{item.title}</Said>}
      danger
      deliberate
      close={close}
      busy={false}
      error={null}
      blocked={isRequired && reason === '' ? 'The agent requires a reason.' : undefined}
      send={() => {
        send(reason)
        close()
      }}
    >
      {isAgents && (
        <Radios
          label="Preset reason"
          columns
          value={preset}
          onValue={setPreset}
          options={presets.map((value) => ({ value, label: value }))}
        />
      )}
      <TextArea
        label="Reason"
        value={text}
        onValue={setText}
        note={`${isRequired ? 'Required. ' : ''}The agent reads it. ${item.kind === 'request' ? '' : item.effects.reject}`}
      />
    </FormDialog>
  )
}

/** A dialog with one required text. */
export function TextDialog({ item, name, label, note, blocked, danger = false, draft, close, send }: TextProps) {
  const [text, setText] = useDraft(`${draft}/${item.request_id}`, '')
  return (
    <FormDialog
      name={name}
      about={<Said>{item.title}</Said>}
      danger={danger}
      deliberate={danger}
      close={close}
      busy={false}
      error={null}
      blocked={text.trim() === '' ? blocked : undefined}
      send={() => {
        send(text.trim())
        close()
      }}
    >
      <TextArea label={label} value={text} onValue={setText} rows={5} note={note} />
    </FormDialog>
  )
}
type TextProps = NoProps & {
  readonly label: string
  readonly note: string
  readonly blocked: string
  readonly danger?: boolean
  readonly draft: string
}

export function DeclineDialog({ item, close }: { readonly item: Item; close(): void }) {
  return (
    <TextDialog
      item={item}
      name="Decline"
      label="Reason"
      note={`The agent reads it. ${sentence(item.effects.decline)}`}
      blocked="Say why you decline."
      danger
      draft="decline"
      close={close}
      send={(reason) => decline(item, reason)}
    />
  )
}

/** A typed phrase counts for one version and one value, and no longer once the decision was taken back. */
export function usePhrase({ request_id, digest }: Item, value: string): readonly [typed: string, setTyped: (typed: string) => void] {
  const of = JSON.stringify([request_id, digest, value])
  const [held, setHeld] = useState({ of, typed: '' })
  useEffect(() => onUndone((id) => id === request_id && setHeld({ of: '', typed: '' })), [request_id])
  return [held.of === of ? held.typed : '', (typed) => setHeld({ of, typed })]
}

type ConfirmProps = {
  readonly item: Item
  readonly phrase: string
  readonly typed: string
  /** Letters are wanted: it can be decided, and they are not all there yet. */
  readonly isAsking: boolean
  readonly children: ReactNode
  setTyped(typed: string): void
  enter(): void
}
/** Asks for the phrase: letters typed anywhere go to its field and trigger nothing else. */
function Confirm({ item, phrase, typed, isAsking, children, setTyped, enter }: ConfirmProps) {
  const field = useRef<HTMLInputElement>(null)
  const sayWhy = (): void => announce(`${riskSentence(item.risk)}. Type ${phrase} to confirm.`, 'assertive')
  useLetters(
    isAsking
      ? (letter, isElsewhere) => {
          const begins = phrase.toLowerCase().startsWith(letter.toLowerCase())
          if (typed === '' && isElsewhere && !begins) return false
          field.current?.focus()
          if (letter.toLowerCase() === 'a') sayWhy()
          else setTyped(typed + letter)
          return true
        }
      : null,
  )
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') field.current?.blur()
    if (event.key !== 'Enter' || event.repeat || event.nativeEvent.isComposing) return
    event.preventDefault()
    event.stopPropagation()
    if (typed === phrase) enter()
    else sayWhy()
  }
  return (
    <div className={`confirm ${item.risk}`} data-asking={isAsking || undefined}>
      <span className="grow">
        <strong>{riskSentence(item.risk)}.</strong> Type <code data-testid="confirm-phrase">{phrase}</code> to confirm.{' '}
        <Signs item={item} />
      </span>
      <label className="field">
        <span className="sr">Confirmation phrase</span>
        <input
          ref={field}
          aria-label="Confirmation phrase"
          aria-invalid={(typed !== '' && !phrase.startsWith(typed)) || undefined}
          autoComplete="off"
          spellCheck={false}
          value={typed}
          onPaste={(event) => event.preventDefault()}
          onChange={(event) => setTyped(event.target.value)}
          onKeyDown={onKeyDown}
        />
      </label>
      {children}
    </div>
  )
}

/** The buttons of an answer, after the phrase if one is required. `note`: why it cannot be sent yet. */
export function ConfirmBar({
  phrase,
  note,
  ...props
}: Omit<ConfirmProps, 'phrase'> & { readonly phrase: string | null; readonly note?: ReactNode }) {
  if (phrase !== null) return <Confirm {...props} phrase={phrase} />
  return (
    <div className="act">
      <Signs item={props.item} />
      <span className={note === undefined ? 'grow wide-only' : 'grow note'}>{note}</span>
      {props.children}
    </div>
  )
}

/** A comment with a yes: shown on demand, always shown, or required. */
export type Comment = { readonly label: string; readonly note: string; readonly isRequired: boolean; readonly isOpen: boolean }

type Props = {
  readonly item: Item
  readonly settled: boolean
  readonly blocked: string | undefined
  readonly isReadToEnd: boolean
  /** The label of the approve button; null if the item cannot be approved here. */
  readonly yes: string | null
  /** The label of the reject button; null if the item cannot be rejected. */
  readonly no: string | null
  readonly comment: Comment
  readonly canChange: boolean
  /** The content of a yes, without its comment: a typed phrase applies only to this value. */
  readonly value?: string
  /** Why a yes is blocked while a no is possible. */
  readonly unready?: string | undefined
  readonly children?: ReactNode
  approve(comment: string): void
  reject(reason: string): void
  change(reason: string): void
  /** Opens the next item, after a key. */
  advance(): void
}
const group = 'This item' as const
export function ApproveBar(props: Props) {
  const { item, settled, blocked, isReadToEnd, yes, no, comment, canChange, value = '', unready, children } = props
  const { approve, reject, change, advance } = props
  const [open, setOpen] = useState<'reject' | 'change' | null>(null)
  const [typed, setTyped] = usePhrase(item, value)
  const [isTold, setTold] = useState(false)
  const [text, setText] = useDraft(`comment/${item.request_id}`, '')
  const phrase = yes === null ? null : item.guard.confirm
  const isConfirmed = phrase === null || typed === phrase
  const missing = comment.isRequired && text.trim() === '' ? `Write it under “${comment.label}” first.` : undefined
  const blockedYes = blocked ?? unready ?? missing ?? (isConfirmed ? undefined : 'Type the phrase first.')
  // The button of a review waits as its key does.
  const unread = item.kind === 'review' && !isReadToEnd ? 'Read it to its end first' : undefined
  const send = (): void => approve(comment.isOpen ? text.trim() : '')
  const byKey = (): void => {
    if (blockedYes !== undefined || !isSettled()) return
    if (!isReadToEnd) return setTold(true)
    send()
    // A grave decision stays in sight until its receipt is here.
    if (phrase === null) advance()
  }
  useCommands([
    ...(yes !== null && blockedYes === undefined
      ? [
          { title: yes, keys: ['a'], group, decides: true, run: byKey },
          { title: `${yes}, from a field`, keys: ['Enter'], group, decides: true, withModifier: true, run: byKey },
        ]
      : []),
    ...(no !== null && blocked === undefined ? [{ title: no, keys: ['r', 'd'], group, run: () => setOpen('reject') }] : []),
    ...(canChange && blocked === undefined ? [{ title: 'Request changes', keys: ['c'], group, run: () => setOpen('change') }] : []),
  ])
  const buttons = (
    <>
      {no !== null && (
        <Guarded className="btn danger" blocked={blocked} settled={settled} keyHint="R" press={() => setOpen('reject')}>
          {no}
        </Guarded>
      )}
      {canChange && (
        <Guarded className="btn" blocked={blocked} settled={settled} keyHint="C" press={() => setOpen('change')}>
          Request changes
        </Guarded>
      )}
      {children}
      {yes !== null && (
        <Guarded className="btn primary" blocked={blockedYes ?? unread} settled={settled} keyHint="A" press={send}>
          {yes}
        </Guarded>
      )}
    </>
  )
  return (
    <>
      {isTold && !isReadToEnd && (
        <p className="note unread" role="alert">
          Read it to its end first. Then A approves.
        </p>
      )}
      {comment.isOpen && <TextArea label={comment.label} value={text} onValue={setText} rows={2} note={comment.note} />}
      <ConfirmBar
        item={item}
        phrase={phrase}
        typed={typed}
        isAsking={blocked === undefined && !isConfirmed}
        setTyped={setTyped}
        enter={byKey}
      >
        {buttons}
      </ConfirmBar>
      {open === 'reject' && <RejectDialog item={item} name={no ?? 'Reject'} close={() => setOpen(null)} send={reject} />}
      {open === 'change' && <TextDialog {...changeTexts} item={item} close={() => setOpen(null)} send={change} />}
    </>
  )
}
const changeTexts = {
  name: 'Request changes',
  label: 'What must change',
  note: 'The agent gets it and delivers again.',
  blocked: 'Say what must change.',
  draft: 'changes',
}
