// Receipts are checked here, in the browser, before anything is called decided: by the server's published keys, not by its word.
import { verifyReceipt, type ReceiptVerdict } from '#sdk/index.ts'

let keys: Promise<unknown> | null = null
function published(): Promise<unknown> {
  keys ??= fetch('/.well-known/jwks.json').then((answer) => {
    if (!answer.ok) throw new Error('no keys')
    return answer.json() as Promise<unknown>
  })
  keys.catch(() => (keys = null))
  return keys
}

/** A key that is not known yet may be a new one: the keys are asked for once more. */
export async function checkReceipt(receipt: unknown): Promise<ReceiptVerdict> {
  try {
    const verdict = await verifyReceipt(receipt, { jwks: await published() })
    if (verdict.ok || verdict.reason !== 'unknown_key') return verdict
    keys = null
    return await verifyReceipt(receipt, { jwks: await published() })
  } catch {
    return { ok: false, reason: 'unsupported', words: 'the keys of the server could not be fetched', fields: [] }
  }
}
