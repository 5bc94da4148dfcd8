// The check of receipts in the browser: an item is shown as decided only after its receipt verifies with the server's published keys.
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

/** An unknown key can be a new one: the keys are fetched once more. */
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

/** Whether it is a receipt of the server for this request. */
export async function checkReceipt(receipt: unknown, request_id: string): Promise<ReceiptVerdict> {
  const verdict = await verdictOn(receipt)
  return !verdict.ok || verdict.claims.request_id === request_id
    ? verdict
    : { ok: false, reason: 'wrong_request', words: 'it is the receipt of another request', fields: ['request_id'] }
}
