// The keys whose approvals count: a JWKS as a server publishes it. The file is read again when it changes (W45).
import { readFileSync, statSync } from 'node:fs'
import { verifyReceipt } from '#sdk/receipt.ts'
import type { ReceiptVerdict } from '#protocols/hardware/daemon/ports.ts'
import { ConfigError } from '../server/settings/config.ts'

export type ApprovalKeys = { verify(receipt: unknown, request: unknown): Promise<ReceiptVerdict> }

export const noApprovalKeys: ApprovalKeys = {
  verify: () => Promise.resolve({ ok: false, message: 'the daemon has no keys to check it with (--approval-keys)' }),
}

export function approvalKeys(path: string): ApprovalKeys {
  let seen = ''
  let jwks: unknown
  /** If the file can no longer be read, no key is trusted. */
  function read(): unknown {
    try {
      const { mtimeMs, size, ino } = statSync(path)
      const mark = `${mtimeMs} ${size} ${ino}`
      if (mark !== seen) jwks = JSON.parse(readFileSync(path, 'utf8'))
      seen = mark
      return jwks
    } catch {
      seen = ''
      return { keys: [] }
    }
  }
  const first = read() as { keys?: unknown }
  if (seen === '' || !Array.isArray(first.keys)) throw new ConfigError(`${path} holds no JWKS ({"keys": [...]}); see --approval-keys`)
  return {
    async verify(receipt, request) {
      const verdict = await verifyReceipt(receipt, { jwks: read(), request })
      return verdict.ok ? { ok: true, claims: { ...verdict.claims } } : { ok: false, message: verdict.words }
    },
  }
}
