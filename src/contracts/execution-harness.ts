// Contracts from an answer in the inbox to the session that waits for it, in the same batch.
import type { Contract, Read } from '#kernel/declare/operation.ts'
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import type { Request } from '#protocols/execution/schema.ts'
import { Session } from '#protocols/harness/schema.ts'

async function waitingFor(read: Read, { session_id }: Request): Promise<Session | null> {
  const session = session_id === undefined ? null : await read.raw(Session, session_id)
  return session?.state === 'PENDING' && session.waiting_for === 'human' ? session : null
}

/** Only people decide: what the system ended approves nothing. */
const decides = ['request.completed', 'request.failed', 'request.declined'].map((on): Contract => ({
  name: `execution-harness/${on}-decides`,
  on: `execution/${on}`,
  call: 'harness/harness.decide',
  as: 'system',
  when: ({ subject }) => (subject as Request).session_id !== undefined,
  async input({ subject }, read) {
    const request = subject as Request
    const session = await waitingFor(read, request)
    if (session === null) return null
    const { receipt, votes = [] } = request
    const isYes = receipt?.status === 'completed' && receipt.result === 'approved' && receipt.by !== SYSTEM_ID
    const by = votes.length > 0 ? votes.filter(({ result }) => result === 'approved').map((vote) => vote.by) : [receipt!.by]
    const reason = request.status === 'failed' ? 'too few of those who may approve it are there' : receipt?.reason
    return { session_id: session.id, result: isYes ? 'approved' : 'rejected', by, ...(reason === undefined ? {} : { reason }) }
  },
}))

export const executionToHarness: readonly Contract[] = decides
