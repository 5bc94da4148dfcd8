// A verification: three verdicts on a claim, each with a button and a key, and a note.
import { useState } from 'react'
import { isSettled, useCommands } from '../../app/commands.ts'
import { TextArea } from '../../parts/fields.tsx'
import { useDraft } from '../../server/drafts.ts'
import { ConfirmBar, DeclineDialog, usePhrase } from '../approve.tsx'
import { Guarded } from '../guarded.tsx'
import { decide } from '../send.ts'
import { withComment, type KindProps } from './kind.ts'
import { NotSent } from './send-bar.tsx'

const verdicts = [
  { result: 'confirmed', label: 'Confirmed', look: 'btn primary' },
  { result: 'refuted', label: 'Refuted', look: 'btn danger' },
  { result: 'cannot_tell', label: 'Cannot tell', look: 'btn' },
] as const

export function VerifyKind({ item, settled, blocked, isReadToEnd, advance }: KindProps) {
  const draft = `note/${item.request_id}`
  const [note, setNote] = useDraft(draft, '')
  const [typed, setTyped] = usePhrase(item, '')
  const [isTold, setTold] = useState(false)
  const [isDeclining, setDeclining] = useState(false)
  const phrase = item.guard.confirm
  const isConfirmed = phrase === null || typed === phrase
  const why = blocked ?? (isConfirmed ? undefined : 'Type the phrase first.')
  const give = (result: string): void => decide(item, { result, ...withComment(note.trim()) }, [draft])
  const byKey = (result: string): void => {
    if (why !== undefined || !isSettled()) return
    if (!isReadToEnd) return setTold(true)
    give(result)
    // A grave decision stays in sight until its receipt is here.
    if (phrase === null) advance()
  }
  const canDecline = item.declinable && blocked === undefined
  useCommands([
    ...(why === undefined
      ? verdicts.map(({ result, label }, i) => ({
          title: label,
          keys: [String(i + 1)],
          group: 'This item' as const,
          decides: true,
          run: () => byKey(result),
        }))
      : []),
    ...(canDecline ? [{ title: 'Decline', keys: ['r', 'd'], group: 'This item' as const, run: () => setDeclining(true) }] : []),
  ])
  return (
    <>
      <NotSent item={item} />
      {isTold && !isReadToEnd && (
        <p className="note unread" role="alert">
          Read it to its end first. Then 1, 2 or 3 answers.
        </p>
      )}
      <TextArea label="Note" value={note} onValue={setNote} rows={2} note="Optional. The agent gets it with your verdict." />
      <ConfirmBar
        item={item}
        phrase={phrase}
        typed={typed}
        isAsking={blocked === undefined && !isConfirmed}
        setTyped={setTyped}
        enter={() => undefined}
      >
        {item.declinable && (
          <Guarded className="btn" blocked={blocked} settled={settled} keyHint="R" press={() => setDeclining(true)}>
            Decline
          </Guarded>
        )}
        {verdicts.toReversed().map(({ result, label, look }) => (
          <Guarded
            key={result}
            className={look}
            blocked={why}
            settled={settled}
            keyHint={String(verdicts.findIndex((verdict) => verdict.result === result) + 1)}
            press={() => give(result)}
          >
            {label}
          </Guarded>
        ))}
      </ConfirmBar>
      {isDeclining && <DeclineDialog item={item} close={() => setDeclining(false)} />}
    </>
  )
}
