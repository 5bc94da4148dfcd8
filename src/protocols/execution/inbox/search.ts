// Searching the inbox for words: an item fits when every word stands somewhere in its text, whatever the case and the form of the
// letters. The text is what people are shown of the item, and the names and ids of who asks.
import type { Knowing } from './item.ts'
import type { Request } from '../schema.ts'

/** Without case, width and characters that nobody sees: people type what they see. */
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

export type Search = {
  fits(request: Request): Promise<boolean>
  /** How many characters it has looked at. */
  readonly searched: number
}

export function searchFor(text: string, knowing: Knowing): Search {
  const words = wordsIn(text)
  let searched = 0
  return {
    get searched() {
      return searched
    },
    async fits(request) {
      const { id, requester, agent_id, payload, thread = [], tags, task_id = '', owner } = request
      const agent = await knowing.registered('agent', requester)
      const said = thread.map((remark) => remark.text)
      const texts = [id, requester, agent?.name ?? '', agent_id, owner, task_id, ...tags, ...textsIn(payload), ...said].join('\n')
      searched += texts.length
      const found = plain(texts)
      return words.every((word) => found.includes(word))
    },
  }
}
