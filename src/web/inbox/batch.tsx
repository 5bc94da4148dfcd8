// Batch decisions: each item is decided as shown and has its own result. Items of higher risk are left out of the batch, with a notice.
import { useState } from 'react'
import { useMutation } from '@tanstack/react-query'
import { Dialog, FormDialog } from '../parts/dialog.tsx'
import { TextArea } from '../parts/fields.tsx'
import { Icon } from '../parts/icon.tsx'
import { isWeighty, RiskBadge } from '../parts/risk.tsx'
import { plural } from '../parts/text.tsx'
import { call } from '../server/client.ts'
import { useNameOf } from '../server/names.ts'
import { checkReceipt } from '../server/receipts.ts'
import type { Row } from '../server/types.ts'
import { isEnded } from './data.ts'

export type Verdict = 'approved' | 'rejected'
type Outcome = 'done' | 'already_decided' | 'changed' | 'refused'
type Result = { readonly row: Row; readonly outcome: Outcome; readonly message: string }

/** Why it must be decided alone; null: it can be part of a batch. */
const apart = (row: Row): string | null => (isEnded(row) ? 'It is decided.' : row.guard.batch)
const outcomes: Readonly<Record<string, readonly [Outcome, string]>> = {
  ALREADY_RESOLVED: ['already_decided', 'already decided, left alone'],
  CHANGED: ['changed', 'changed since then, left alone'],
}

async function answerRows(rows: readonly Row[], verdict: Verdict, reason: string): Promise<Result[]> {
  const why = reason.trim() === '' ? {} : { reason: reason.trim() }
  const answers = rows.map(({ request_id, digest }) => ({ request_id, digest, result: verdict, ...why }))
  const { results } = await call('execution/inbox.resolve', { answers })
  return Promise.all(
    results.map(async ({ ok, code = '', message = '', receipt }, i): Promise<Result> => {
      const row = rows[i]!
      if (!ok) {
        const [outcome, text] = outcomes[code] ?? (['refused', message] as const)
        return { row, outcome, message: text }
      }
      if (receipt === undefined) return { row, outcome: 'done', message: 'your vote is recorded' }
      const check = await checkReceipt(receipt, row.request_id)
      return check.ok
        ? { row, outcome: 'done', message: verdict }
        : { row, outcome: 'refused', message: `its receipt does not verify: ${check.words}` }
    }),
  )
}

function Results({ name, results, close }: { readonly name: string; readonly results: readonly Result[]; close(): void }) {
  const done = results.filter(({ outcome }) => outcome === 'done').length
  return (
    <Dialog
      name={name}
      about={`${done} of ${plural(results.length, 'item')} decided.`}
      close={close}
      footer={
        <button type="button" className="btn" onClick={close} data-first>
          Close
        </button>
      }
    >
      <ul className="peek">
        {results.map(({ row, outcome, message }) => (
          <li key={row.request_id} data-testid="batch-result" data-outcome={outcome} className={outcome}>
            <Icon name={outcome === 'done' ? 'check' : outcome === 'refused' ? 'alert' : 'x'} />
            <span className="grow clip">
              <bdi>{row.title}</bdi>
            </span>
            <span className="note">{message}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  )
}

type PeekProps = { readonly rows: readonly Row[]; readonly verdict: Verdict; close(): void; cleared(): void }
export function BatchPeek({ rows, verdict, close, cleared }: PeekProps) {
  const nameOf = useNameOf()
  const [reason, setReason] = useState('')
  // Freezes the rows as shown when the dialog opened; later changes must not alter the batch.
  const [fit] = useState(() => rows.filter((row) => apart(row) === null))
  const [taken] = useState(() => rows.filter((row) => apart(row) !== null))
  const ending = verdict === 'rejected' ? fit.filter(({ reject_ends_task }) => reject_ends_task).length : 0
  const weighty = taken.filter(({ risk }) => isWeighty(risk)).length
  const send = useMutation({
    mutationFn: () => answerRows(fit, verdict, reason),
  })
  const finish = (): void => {
    cleared()
    close()
  }
  const name = verdict === 'approved' ? 'Approve selected' : 'Reject selected'
  if (send.data) return <Results name={name} results={send.data} close={finish} />
  return (
    <FormDialog
      name={name}
      about="Small items, with everything that they ask. Items that changed since you looked are left alone."
      deliberate={verdict === 'rejected'}
      danger={verdict === 'rejected'}
      close={close}
      busy={send.isPending}
      error={send.error}
      blocked={fit.length === 0 ? 'None of them can be decided together.' : undefined}
      send={() => send.mutate()}
    >
      <ul className="peek" tabIndex={0} aria-label="Items to decide" data-first>
        {fit.map((row) => (
          <li key={row.request_id} data-testid="batch-peek-row" data-request-id={row.request_id}>
            <span className="grow">
              <b>
                <bdi>{row.title}</bdi>
              </b>
              <span className="muted">
                {nameOf(row.agent.id, row.agent.name)} · for {nameOf(row.acts_for.id, row.acts_for.name)}
              </span>
              {row.arguments.map(({ name, value }) => (
                <span className="muted mono" key={name}>
                  <bdi>{name}</bdi>: <bdi>{value}</bdi>
                </span>
              ))}
            </span>
            {row.risk !== null && <RiskBadge risk={row.risk} short />}
          </li>
        ))}
      </ul>
      {taken.length > 0 && (
        <div className="note" data-testid="batch-apart">
          <p>
            {weighty > 0
              ? `R3 and above are decided one at a time: ${weighty} of your ${rows.length} taken out.`
              : `${taken.length} of your ${rows.length} taken out:`}
          </p>
          <ul>
            {taken.map((row) => (
              <li key={row.request_id} data-request-id={row.request_id}>
                <bdi>{row.title}</bdi>: {apart(row)}
              </li>
            ))}
          </ul>
        </div>
      )}
      {ending > 0 && (
        <p className="note" data-testid="batch-ends-task">
          {ending === 1 ? 'One of them ends its task when it is rejected.' : `${ending} of them end their tasks when they are rejected.`}
        </p>
      )}
      {verdict === 'rejected' && <TextArea label="Reason" value={reason} onValue={setReason} note="Each agent reads it." />}
    </FormDialog>
  )
}

type BarProps = { readonly rows: readonly Row[]; readonly open: Verdict | null; setOpen(verdict: Verdict | null): void; clear(): void }
export function BatchBar({ rows, open, setOpen, clear }: BarProps) {
  if (rows.length === 0 && open === null) return null
  return (
    <>
      <div className="batchbar" data-testid="batch-bar">
        <span className="grow strong">{plural(rows.length, 'item')}</span>
        <button type="button" className="btn ghost sm end" onClick={clear}>
          Clear selection
        </button>
        <button type="button" className="btn sm danger" onClick={() => setOpen('rejected')}>
          Reject selected{' '}
          <span className="kbd" aria-hidden="true">
            R
          </span>
        </button>
        <button type="button" className="btn sm primary" onClick={() => setOpen('approved')}>
          Approve selected{' '}
          <span className="kbd" aria-hidden="true">
            A
          </span>
        </button>
      </div>
      {open !== null && <BatchPeek rows={rows} verdict={open} close={() => setOpen(null)} cleared={clear} />}
    </>
  )
}
