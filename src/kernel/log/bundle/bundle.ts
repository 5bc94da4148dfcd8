// The bundle, form `bundle/1`: facts with their proofs, images and receipts as lines of canonical JSON, for readers that share nothing with this
// server. Its last line has the checkpoint and a digest over the lines before.
import { canonical } from '../canonical-json.ts'
import type { StoredFact } from '../store.ts'
import { base64Of } from '../tree/base64.ts'

export const BUNDLE = 'bundle/1'

export type About = { readonly id: string; readonly kind: string }
export type FirstLine = {
  readonly about: About
  readonly complete: boolean
  readonly countersign: typeof BUNDLE
  readonly made_at: string
  readonly origin: string
}
export type BundleImage =
  | { readonly key: string; readonly salt: string; readonly text: string; readonly version: number }
  | { readonly erased: number; readonly key: string; readonly version: number }
export type FactLine = {
  readonly fact: {
    readonly images: readonly BundleImage[]
    readonly index: number
    readonly line: string
    readonly proof?: readonly string[]
  }
}
export type ReceiptLine = { readonly receipt: Readonly<Record<string, unknown>>; readonly request?: Readonly<Record<string, unknown>> }
export type SeenLine = { readonly seen: { readonly checkpoint: string; readonly proof: readonly string[] } }
export type LastLine = { readonly checkpoint: string; readonly lines: number; readonly sha256: string }

/** The kinds of facts that verification itself depends on. */
export const PUBLISHED = 'identity/receipt_key.published'
export const RETIRED = 'identity/receipt_key.retired'
export const ERASED = 'collaboration/audit.erased'
export const REQUEST_KEY = 'execution.request/'

/** `proof` null: the next fact of its project is in the bundle and names this one. */
export function factLine({ position, line, images }: StoredFact, proof: readonly Uint8Array[] | null): string {
  const shown = images.map(({ key, version, salt, text }) => ({ key, salt, text: text ?? '', version }))
  const fact = { images: shown, index: position - 1, line, ...(proof === null ? {} : { proof: proof.map(base64Of) }) }
  return bundleLine({ fact })
}
export const bundleLine = (value: unknown): string => `${canonical(value)}\n`
