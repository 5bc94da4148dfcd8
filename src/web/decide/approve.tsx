// Approve and reject: the buttons, the phrase that great risks ask for, and the reason of a no.
import { useState } from 'react'
import { useCommands } from '../app/commands.ts'
import { tellError } from '../app/error-toast.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { Radios, TextArea } from '../parts/fields.tsx'
import { isGrave, riskWords } from '../parts/risk.tsx'
import { Said, shortDigest } from '../parts/text.tsx'
import { useDraft } from '../server/drafts.ts'
import type { Item } from '../server/types.ts'
import { Guarded } from './guarded.tsx'

const PHRASE_CHARS_MAX = 40
/** The words that are typed before a great risk is approved: the target, where the agent names it. */
export function phraseFor(item: Item): string | null {
  if (!isGrave(item.risk)) return null
  const { target } = (item.card.payload.details ?? {}) as { target?: unknown }
  const isFit = typeof target === 'string' && target.trim() === target && target !== '' && target.length <= PHRASE_CHARS_MAX
  return isFit ? target : `approve ${item.risk}`
}

/** The digest of what is shown, which the answer carries. */
export function Signs({ item }: { readonly item: Item }) {
  return (
    <span className="signs" title={`The digest of what is shown; your answer carries it: ${item.digest}`}>
      signs <span className="mono">{shortDigest(item.digest)}</span>
    </span>
  )
}

const sayUnread = (): void => tellError('Read it to its end first: then A approves.')

const presets = ['Wrong environment', 'Suspicious arguments', 'Out of scope', 'Not now'] as const

type RejectProps = { readonly item: Item; readonly name?: string; close(): void; send(reason: string): void }
export function RejectDialog({ item, name = 'Reject', close, send }: RejectProps) {
  const [preset, setPreset] = useState('')
  const [text, setText] = useDraft(`reject/${item.request_id}`, '')
  const isRequired = item.card.payload.reject_requires_reason === true
  const reason = [preset, text.trim()].filter((words) => words !== '').join(': ')
  return (
    <FormDialog
      name={name}
      about={<Said>{item.title}</Said>}
      danger
      close={close}
      busy={false}
      error={null}
      blocked={isRequired && reason === '' ? 'The agent requires a reason.' : undefined}
      send={() => {
        send(reason)
        close()
      }}
    >
      <Radios
        label="Preset reason"
        columns
        value={preset}
        onValue={setPreset}
        options={presets.map((words) => ({ value: words, words }))}
      />
      <TextArea
        label="Reason"
        value={text}
        onValue={setText}
        note={`${isRequired ? 'Required. ' : ''}The agent reads it. ${item.kind === 'request' ? '' : `Rejecting: ${item.effects.reject}.`}`}
      />
    </FormDialog>
  )
}

export function ChangesDialog({ item, close, send }: RejectProps) {
  const [text, setText] = useDraft(`changes/${item.request_id}`, '')
  return (
    <FormDialog
      name="Request changes"
      about={<Said>{item.title}</Said>}
      close={close}
      busy={false}
      error={null}
      blocked={text.trim() === '' ? 'Say what must change.' : undefined}
      send={() => {
        send(text.trim())
        close()
      }}
    >
      <TextArea label="What must change" value={text} onValue={setText} rows={5} note="The agent gets it and delivers anew." />
    </FormDialog>
  )
}

type Props = {
  readonly item: Item
  readonly settled: boolean
  readonly blocked: string | undefined
  readonly isReadToEnd: boolean
  /** The words on the button that says yes. */
  readonly name: string
  readonly canReject: boolean
  readonly canChange: boolean
  approve(): void
  reject(reason: string): void
  change(reason: string): void
}
export function ApproveBar({ item, settled, blocked, isReadToEnd, name, canReject, canChange, approve, reject, change }: Props) {
  const [open, setOpen] = useState<'reject' | 'change' | null>(null)
  const [typed, setTyped] = useState('')
  const phrase = phraseFor(item)
  const isConfirmed = phrase === null || typed === phrase
  const blockedYes = blocked ?? (isConfirmed ? undefined : 'Type the phrase first.')
  useCommands([
    ...(blockedYes === undefined
      ? [{ title: name, keys: ['a'], group: 'This item' as const, decides: true, run: () => (isReadToEnd ? approve() : sayUnread()) }]
      : []),
    ...(canReject && blocked === undefined
      ? [{ title: 'Reject', keys: ['r', 'd'], group: 'This item' as const, run: () => setOpen('reject') }]
      : []),
    ...(canChange && blocked === undefined
      ? [{ title: 'Request changes', keys: ['c'], group: 'This item' as const, run: () => setOpen('change') }]
      : []),
  ])
  const buttons = (
    <>
      {canReject && (
        <Guarded className="btn danger" blocked={blocked} settled={settled} keyHint="R" press={() => setOpen('reject')}>
          Reject
        </Guarded>
      )}
      {canChange && (
        <Guarded className="btn" blocked={blocked} settled={settled} keyHint="C" press={() => setOpen('change')}>
          Request changes
        </Guarded>
      )}
      <Guarded className="btn primary" blocked={blockedYes} settled={settled} keyHint="A" press={approve}>
        {name}
      </Guarded>
    </>
  )
  return (
    <>
      {phrase === null ? (
        <div className="act">
          <Signs item={item} />
          <span className="grow wide-only" />
          {buttons}
        </div>
      ) : (
        <div className={`confirm ${item.risk}`}>
          <span className="grow">
            <strong>{riskWords(item.risk!)} needs your own hand</strong>
            Type <code data-testid="confirm-phrase">{phrase}</code> to approve. <Signs item={item} />
          </span>
          <label className="field">
            <span className="sr">Confirmation phrase</span>
            <input
              aria-label="Confirmation phrase"
              autoComplete="off"
              spellCheck={false}
              value={typed}
              onPaste={(event) => event.preventDefault()}
              onChange={(event) => setTyped(event.target.value)}
            />
          </label>
          {buttons}
        </div>
      )}
      {open === 'reject' && <RejectDialog item={item} close={() => setOpen(null)} send={reject} />}
      {open === 'change' && <ChangesDialog item={item} close={() => setOpen(null)} send={change} />}
    </>
  )
}
