// Searching the inbox for words: an item matches if its text contains every word, regardless of case and letter form. The text is the part
// of the item that people see, plus the names and ids of the requester.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Knowing } from './item.ts'
import type { Request } from '../schema.ts'

/** Normalizes case, width and invisible characters, because people type what they see. */
const plain = (text: string): string =>
  text
    .normalize('NFKC')
    .replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '')
    .toLowerCase()

export const wordsIn = (text: string): readonly string[] =>
  plain(text)
    .split(/\s+/)
    .filter((word) => word !== '')

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return [String(value)]
  if (Array.isArray(value)) return value.flatMap(textsIn)
  return Object.entries(value).flatMap(([name, inner]) => [name, ...textsIn(inner)])
}

/** Request objects are immutable, so the text is built once per object and cached while the object lives. */
const texts = new WeakMap<Request, string>()
export function textOf(request: Request): string {
  let text = texts.get(request)
  if (text === undefined) {
    const { id, requester, agent_id, payload, thread = [], tags, task_id = '', owner } = request
    const remarks = thread.map((remark) => remark.text)
    text = plain([id, requester, agent_id, owner, task_id, ...tags, ...textsIn(payload), ...remarks].join('\n'))
    texts.set(request, text)
  }
  return text
}

export type Search = {
  readonly words: readonly string[]
  nameOf(requester: string): Promise<string>
  fits(request: Request): Promise<boolean>
  /** How many characters it has looked at. */
  readonly searched: number
}

export function searchFor(text: string, knowing: Knowing): Search {
  const terms = wordsIn(text)
  if (terms.length === 0)
    throw new Refusal('INVALID_REQUEST', 'text has no character that people see: give at least one word', { field: 'text' })
  const names = new Map<string, string>()
  let searched = 0
  async function nameOf(requester: string): Promise<string> {
    let name = names.get(requester)
    if (name === undefined) names.set(requester, (name = plain((await knowing.named(requester))?.name ?? '')))
    return name
  }
  return {
    words: terms,
    nameOf,
    get searched() {
      return searched
    },
    async fits(request) {
      const found = textOf(request)
      searched += found.length
      const name = await nameOf(request.requester)
      return terms.every((word) => found.includes(word) || name.includes(word))
    },
  }
}
