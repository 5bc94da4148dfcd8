// The receipt of a decision, checked in this browser by the server's public keys.
import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { Icon } from '../parts/icon.tsx'
import { Said } from '../parts/text.tsx'
import { wholeTime } from '../parts/time.tsx'
import { call } from '../server/client.ts'
import { checkReceipt } from '../server/receipts.ts'

export const useRequest = (request_id: string) =>
  useQuery({
    queryKey: ['item', request_id, 'request'],
    async queryFn() {
      const { request, receipt } = await call('execution/request.get', { request_id })
      return { request, receipt: receipt ?? null, verdict: receipt === undefined ? null : await checkReceipt(receipt, request_id) }
    },
    staleTime: 0,
  })

type Shown = {
  readonly receipt_id?: string
  readonly result?: unknown
  readonly edited?: unknown
  readonly reason?: string
  readonly completed_at?: string
  readonly evidence_hash?: string
  readonly assertion?: unknown
  readonly assertion_digest?: string
}

export function Receipt({ request_id }: { readonly request_id: string }) {
  const { data } = useRequest(request_id)
  if (!data?.receipt || data.verdict === null) return null
  const { verdict } = data
  const receipt = data.receipt as Shown
  return (
    <section className="card facts receipt" data-testid="item-receipt" data-valid={verdict.ok} aria-label="Receipt">
      <h2 className="h">
        <Icon name={verdict.ok ? 'approve' : 'alert'} />
        Receipt
        <span className={verdict.ok ? 'chip ok' : 'chip bad'}>{verdict.ok ? 'verified here' : 'does not verify'}</span>
        <span className="grow" />
        <Link className="btn sm" href={`/record/why/${request_id}`}>
          Why?
        </Link>
      </h2>
      {!verdict.ok && <p role="alert">Do not take this as decided: {verdict.words}.</p>}
      <dl>
        <dt>Number</dt>
        <dd className="mono">{receipt.receipt_id}</dd>
        <dt>Result</dt>
        <dd>
          <Said mono>{typeof receipt.result === 'string' ? receipt.result : JSON.stringify(receipt.result ?? null)}</Said>
        </dd>
        {receipt.edited !== undefined && receipt.edited !== null && (
          <>
            <dt>Edited</dt>
            <dd>
              <Said mono>{JSON.stringify(receipt.edited)}</Said>
            </dd>
          </>
        )}
        {receipt.reason !== undefined && (
          <>
            <dt>Reason</dt>
            <dd>
              <Said>{receipt.reason}</Said>
            </dd>
          </>
        )}
        {receipt.completed_at !== undefined && (
          <>
            <dt>At</dt>
            <dd>{wholeTime(receipt.completed_at)}</dd>
          </>
        )}
        {(receipt.assertion !== undefined || receipt.assertion_digest !== undefined) && (
          <>
            <dt>Signature</dt>
            <dd data-testid="signed-by-passkey">by the passkey of the person</dd>
          </>
        )}
        <dt>Signed over</dt>
        <dd className="hash">{receipt.evidence_hash}</dd>
      </dl>
    </section>
  )
}
