// A receipt as the server makes it, for those who verify one.
import type { Claims } from '#protocols/execution/answering/receipt-format.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import type { Value } from '#kernel/log/store.ts'

export const claims = (changes: Partial<Claims> = {}): Claims & Value => ({
  v: 1,
  iss: 'http://127.0.0.1:3402',
  aud: 'agent_devin',
  jti: 'rcp_01M7GMWX16CYD5TMA0423FKEE5',
  request_id: 'hxp_01M7GMWX16CYD5TMA0423FKEE4',
  action: 'APPROVE',
  request_digest: 'Qdb5p0lGUYvSlqQLAxH1mFuHMFhrMFKTHfoIrLPFfhk',
  shown_digest: 'wz1y2sUVWgMmfzVvM0lrxKFq5WQcQ0CkWJ9RtXN1hS0',
  status: 'completed',
  result: 'approved',
  decided_by: { sub: 'person_abcdefghijklmnopqrstuv', kind: 'human', via: 'key' },
  created_at: '2026-01-15T10:00:00.000Z',
  completed_at: '2026-01-15T10:00:05.000Z',
  basis: { kind: 'role', id: 'owner' },
  evidence_hash: 'f4'.repeat(32),
  log: { project_id: 'project_default', seq: 17, hash: 'mgf9l15rBrUXm4B7j7jlBDkBpGsWLaH4PeokLU-oq04' },
  ...changes,
})

/** The object that an agent gets. */
export async function receiptOf(notary: Notary, of: Claims & Value = claims()): Promise<Record<string, unknown>> {
  const signature = await notary.attest(of)
  return {
    request_id: of.request_id,
    status: of.status,
    result: of.result ?? of.result_ref ?? null,
    ...(of.reason === undefined ? {} : { reason: of.reason }),
    completed_by: of.decided_by.sub,
    completed_at: of.completed_at,
    duration_seconds: 5,
    evidence_hash: of.evidence_hash,
    receipt_id: of.jti,
    signature,
    key_id: JSON.parse(Buffer.from(signature.split('.')[0]!, 'base64url').toString()).kid,
  }
}
