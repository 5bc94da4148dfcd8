// Cursors: opaque to callers, and valid only for the query that returned them.
import { canonical } from '../log/canonical-json.ts'
import { sha256 } from '../log/hash-chain.ts'
import { Refusal } from './errors.ts'
import { limits } from '../limits.ts'
import type { Listed, Read } from './operation.ts'
import { t, type Doc, type Static, type TSchema } from './schema.ts'

/** The fields of every list. */
export const pageInput = {
  cursor: t.Optional(t.String({ maxLength: 1_000, description: 'next_cursor of the page before, with the same filters' })),
  limit: t.Optional(t.Integer({ minimum: 1, maximum: limits.pageMax, description: `items a page, ${limits.pageDefault} by default` })),
}
export const nextCursor = t.Union([t.String(), t.Null()], { description: 'null: that was the last page' })

type Paged = { readonly cursor?: string | undefined; readonly limit?: number | undefined }

/** The words that make two questions the same: everything but the place and the size of the page. */
function questionOf(name: string, { cursor: _, limit: __, ...filters }: Paged & Record<string, unknown>): string {
  return sha256(`${name} ${canonical(filters)}`).slice(0, 12)
}

export function cursorOf(name: string, input: Paged & Record<string, unknown>, place: string): string {
  return Buffer.from(`${questionOf(name, input)}${place}`).toString('base64url')
}

/** Where to continue, or undefined at the beginning. */
export function placeOf(name: string, input: Paged & Record<string, unknown>): string | undefined {
  if (input.cursor === undefined) return undefined
  const text = Buffer.from(input.cursor, 'base64url').toString()
  if (!text.startsWith(questionOf(name, input)))
    throw new Refusal('INVALID_REQUEST', 'the cursor belongs to a call with other filters', { field: 'cursor' })
  return text.slice(12)
}

export const pageSize = (input: Paged): number => input.limit ?? limits.pageDefault

/** The start and the length of a page of a list. */
export const pageIn = (name: string, input: Paged & Record<string, unknown>): { after: string | undefined; limit: number } => ({
  after: placeOf(name, input),
  limit: pageSize(input),
})

/**
 * The documents of a page, read one by one until the page is full; `isCut`: there are more. Documents that the actor cannot see are
 * left out.
 */
export async function readListed<S extends TSchema>(
  read: Read,
  doc: Doc<S>,
  listed: readonly Listed[],
): Promise<{ listed: readonly Listed[]; items: Static<S>[]; isCut: boolean }> {
  const items: Static<S>[] = []
  for (const [i, { id }] of listed.entries()) {
    const found = await read.maybe(doc, id)
    if (found !== null) items.push(found)
    if (read.isFull() && i + 1 < listed.length) return { listed: listed.slice(0, i + 1), items, isCut: true }
  }
  return { listed, items, isCut: false }
}

/** The answer of a list. A full or cut page has a cursor for the next one. */
export function pageOf<T>(
  name: string,
  input: Paged & Record<string, unknown>,
  listed: readonly { readonly at: string }[],
  items: T[],
  isCut = false,
): { items: T[]; next_cursor: string | null } {
  const last = isCut || listed.length === pageSize(input) ? listed.at(-1) : undefined
  return { items, next_cursor: last ? cursorOf(name, input, last.at) : null }
}
