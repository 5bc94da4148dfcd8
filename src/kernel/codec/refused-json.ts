// Refused JSON: a text that the strict decoder refused, parsed only to find the id of the request, because the sender waits for an answer
// with that id. Nothing else in it is trusted.
const utf8 = new TextDecoder('utf-8', { fatal: true })

export type RefusedJson = {
  readonly value: unknown
  /** Whether `id` occurs twice in the outermost object, or in the object under this key or index. */
  repeatsId(at?: string | number): boolean
}

/** Null: it is not JSON at all. */
export function refusedJson(bytes: Uint8Array): RefusedJson | null {
  try {
    const text = utf8.decode(bytes)
    const value: unknown = JSON.parse(text)
    let repeated: ReadonlySet<string> | undefined
    return { value, repeatsId: (at) => (repeated ??= repeatedIn(text)).has(at === undefined ? '' : `/${at}`) }
  } catch {
    return null
  }
}

type Level = { readonly isObject: boolean; items: number; key: string; ids: number }

/** Where `id` is repeated: '' for the outermost object, `/key` or `/index` for objects directly in it. The text must be JSON. */
function repeatedIn(text: string): ReadonlySet<string> {
  const found = new Set<string>()
  const levels: Level[] = []
  for (let i = 0; i < text.length; i++) {
    const level = levels.at(-1)
    const character = text[i]
    if (character === '"') {
      const start = i++
      while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1
      if (!level?.isObject || levels.length > 2 || !isKey(text, i + 1)) continue
      level.key = JSON.parse(text.slice(start, i + 1)) as string
      if (level.key === 'id' && ++level.ids === 2) found.add(levels.length === 1 ? '' : `/${placeIn(levels[0]!)}`)
    } else if (character === '{' || character === '[') levels.push({ isObject: character === '{', items: 0, key: '', ids: 0 })
    else if (character === '}' || character === ']') levels.pop()
    else if (character === ',') level!.items++
  }
  return found
}

function isKey(text: string, after: number): boolean {
  let i = after
  while (text.charCodeAt(i) <= 32) i++
  return text[i] === ':'
}

const placeIn = ({ isObject, items, key }: Level): string => (isObject ? key : String(items))
