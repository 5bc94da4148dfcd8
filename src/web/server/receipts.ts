// Receipts are checked here, in the browser, before anything is called decided: by the server's published keys, not by its word.
import { verifyReceipt, type ReceiptVerdict } from '#sdk/index.ts'

let keys: Promise<unknown> | null = null
function fetchKeys(): Promise<unknown> {
  keys ??= fetch('/.well-known/jwks.json').then((answer) => {
    if (!answer.ok) throw new Error('no keys')
    return answer.json() as Promise<unknown>
  })
  keys.catch(() => (keys = null))
  return keys
}

/** A key that is not known yet may be a new one: the keys are asked for once more. */
async function verdictOn(receipt: unknown): Promise<ReceiptVerdict> {
  try {
    const verdict = await verifyReceipt(receipt, { jwks: await fetchKeys() })
    if (verdict.ok || verdict.reason !== 'unknown_key') return verdict
    keys = null
    return await verifyReceipt(receipt, { jwks: await fetchKeys() })
  } catch {
    return { ok: false, reason: 'unsupported', words: 'the keys of the server could not be fetched', fields: [] }
  }
}

/** Whether it is a receipt of the server, and of this very request. */
export async function checkReceipt(receipt: unknown, request_id: string): Promise<ReceiptVerdict> {
  const verdict = await verdictOn(receipt)
  return !verdict.ok || verdict.claims.request_id === request_id
    ? verdict
    : { ok: false, reason: 'wrong_request', words: 'it is the receipt of another request', fields: ['request_id'] }
}
