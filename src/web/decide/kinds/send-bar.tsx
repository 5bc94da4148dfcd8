// The bar of a form: one button that sends it, and the notice of an answer that did not arrive.
import { useLayoutEffect, useState, type ReactNode } from 'react'
import { createPortal } from 'react-dom'
import { CountersignError, phraseFor } from '#sdk/index.ts'
import { isSettled, useCommands } from '../../app/commands.ts'
import { Refused } from '../../parts/states.tsx'
import type { Item } from '../../server/types.ts'
import type { Prepared, useChoice } from '../answer.tsx'
import { ConfirmBar, DeclineDialog, usePhrase } from '../approve.tsx'
import { Guarded } from '../guarded.tsx'
import { isDoubted, sendAgain, useOutgoing } from '../outgoing.ts'
import { decide, DECLINING } from '../send.ts'
import type { KindProps } from './kind.ts'

/** Places a form inside the item, above the bar with its button. */
export function InItem({ children }: { readonly children: ReactNode }) {
  const [place, setPlace] = useState<Element | null>(null)
  // The place is mounted together with the bar. A layout effect finds it before the first paint.
  // oxlint-disable-next-line react/set-state-in-effect -- the place is an element of the item, which exists only after the commit
  useLayoutEffect(() => setPlace(document.querySelector('#answer-place')), [])
  return place ? createPortal(children, place) : null
}

/** An answer that was not delivered. The user corrects a refused value in its field and sends it from there. */
export function NotSent({ item, again }: { readonly item: Item; readonly again?: (() => void) | undefined }) {
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

function SendBar({ item, settled, blocked, prepared }: KindProps & { readonly prepared: Prepared }) {
  const [isBusy, setBusy] = useState(false)
  const [isDeclining, setDeclining] = useState(false)
  const [typed, setTyped] = usePhrase(item, prepared.value)
  // The phrase is required once there is an answer to confirm.
  const phrase = prepared.blocked === undefined ? phraseFor(item, prepared.value) : null
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
  // The form's own button sends changed fields again. The field of a secret is empty by now, so the confirmed value is sent again.
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
      <ConfirmBar
        item={item}
        phrase={phrase}
        typed={typed}
        note={why}
        isAsking={blocked === undefined && !isConfirmed}
        setTyped={setTyped}
        enter={() => why === undefined && isSettled() && send()}
      >
        {buttons}
      </ConfirmBar>
      {isDeclining && <DeclineDialog item={item} close={() => setDeclining(false)} />}
    </>
  )
}
/** A kind of answer that consists of a form in the item and one button. */
export const formKind = (useForm: typeof useChoice) =>
  function FormKind(props: KindProps) {
    const { form, prepared } = useForm(props.item)
    return (
      <>
        <InItem>{form}</InItem>
        <SendBar {...props} prepared={prepared} />
      </>
    )
  }
