// The gram table: which documents might contain a word, by the groups of three characters in their texts. Each group is one of some thousand bits, and each
// document a column of them: for a word the rows of its groups are laid over one another, and the documents that are left are few. Two groups may
// share a bit, so a search looks into the text itself; no document that holds the word is ever left out.

/** Bits of a document. An item of the inbox has about two hundred groups, a tenth of these; a long text has all of them and is always looked into. */
const BITS = 2_048
/** Documents in one block of 2 MiB: its rows are contiguous, which reads several times as fast as pieces of 128 bytes. */
const BLOCK = 8_192
const WORDS = BLOCK / 32
const GRAM = 3

export type GramTable = {
  set(id: string, group: string, text: string): void
  delete(id: string): void
  has(id: string): boolean
  readonly size: number
  /** The groups of documents, such as their authors. */
  groups(): Iterable<string>
  /**
   * Documents that might contain all words; `inGroup`: for each word the groups all of whose documents hold it. Null: there are more than `most`, or no word
   * is long enough to tell.
   */
  holding(words: readonly string[], inGroup: readonly ReadonlySet<string>[], most: number): string[] | null
}

/** The bit of the group of characters that begins here. */
const bitOf = (text: string, i: number): number =>
  Math.imul(
    Math.imul(Math.imul(text.charCodeAt(i), 0x9e3779b1) ^ text.charCodeAt(i + 1), 0x85ebca6b) ^ text.charCodeAt(i + 2),
    0xc2b2ae35,
  ) >>> 21

function bitsOf(text: string): Set<number> {
  const bits = new Set<number>()
  for (let i = 0; i + GRAM <= text.length; i++) bits.add(bitOf(text, i))
  return bits
}

type Slot = { readonly place: number; readonly group: string }

export function createGramTable(): GramTable {
  const blocks: Uint32Array[] = []
  const slots = new Map<string, Slot>()
  const ids: (string | undefined)[] = []
  const free: number[] = []
  const counts = new Map<string, number>()
  const [left, current] = [new Uint32Array(WORDS), new Uint32Array(WORDS)]

  function change(place: number, rows: Iterable<number>, isOn: boolean): void {
    const block = blocks[Math.floor(place / BLOCK)]!
    const word = (place % BLOCK) >>> 5
    const bit = 1 << (place % 32)
    for (const row of rows) {
      const i = row * WORDS + word
      block[i] = isOn ? block[i]! | bit : block[i]! & ~bit
    }
  }
  function remove(id: string): void {
    const slot = slots.get(id)
    if (slot === undefined) return
    change(slot.place, everyRow, false)
    slots.delete(id)
    ids[slot.place] = undefined
    free.push(slot.place)
    const others = counts.get(slot.group)! - 1
    if (others === 0) counts.delete(slot.group)
    else counts.set(slot.group, others)
  }
  /** Lays the rows of a word over current another in a block. */
  function lay(block: Uint32Array, rows: readonly number[], found: Uint32Array): void {
    found.fill(0xffffffff)
    for (const row of rows) for (let i = 0, from = row * WORDS; i < WORDS; i++) found[i]! &= block[from + i]!
  }
  /** Adds the documents whose group contains the word. */
  function addGroups(found: Uint32Array, first: number, groups: ReadonlySet<string>): void {
    for (let i = 0; i < BLOCK; i++) {
      const id = ids[first + i]
      if (id !== undefined && groups.has(slots.get(id)!.group)) found[i >>> 5]! |= 1 << (i % 32)
    }
  }

  return {
    set(id, group, text) {
      remove(id)
      const place = free.pop() ?? ids.length
      if (place === blocks.length * BLOCK) blocks.push(new Uint32Array(BITS * WORDS))
      slots.set(id, { place, group })
      ids[place] = id
      counts.set(group, (counts.get(group) ?? 0) + 1)
      change(place, bitsOf(text), true)
    },
    delete: remove,
    has: (id) => slots.has(id),
    get size() {
      return slots.size
    },
    groups: () => counts.keys(),
    holding(words, inGroup, most) {
      const known = words.flatMap((word, i) => (word.length < GRAM ? [] : [{ rows: [...bitsOf(word)], groups: inGroup[i]! }]))
      if (known.length === 0) return null
      const found: string[] = []
      for (const [n, block] of blocks.entries()) {
        left.fill(0xffffffff)
        for (const { rows, groups } of known) {
          lay(block, rows, current)
          if (groups.size > 0) addGroups(current, n * BLOCK, groups)
          for (let i = 0; i < WORDS; i++) left[i]! &= current[i]!
        }
        for (let i = 0; i < WORDS; i++)
          for (let bits = left[i]!; bits !== 0; bits &= bits - 1) {
            const id = ids[n * BLOCK + i * 32 + (31 - Math.clz32(bits & -bits))]
            if (id !== undefined && found.push(id) > most) return null
          }
      }
      return found
    },
  }
}
const everyRow = Array.from({ length: BITS }, (_, row) => row)
