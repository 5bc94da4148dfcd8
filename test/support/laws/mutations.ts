// JSON texts as no honest client sends them: cut, torn, repeated, with scraps and bytes that do not belong there.

/** A number below; from a seed, so that a failure can be repeated. */
export type Pick = (below: number) => number

export function numbers(seed: number): Pick {
  let state = seed >>> 0
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const scraps = [
  '"',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '\\',
  '\\u0000',
  '\\ud800',
  '1e999',
  '-0',
  '9007199254740993',
  'null',
  'true',
  '"__proto__":1,',
  '"constructor":',
  '\r',
  '\0',
  'é',
  '\u{1F600}',
  '"id":',
  '"method":',
  '"params":',
  '[[[[[[[[',
  '"_meta":{}',
]

export function mutated(original: string, pick: Pick): Buffer {
  let text = original
  for (let changes = pick(4); changes >= 0; changes--) {
    const at = pick(text.length + 1)
    const kind = pick(4)
    if (kind === 0) text = text.slice(0, at) + text.slice(at + 1 + pick(8))
    else if (kind === 1) text = text.slice(0, at) + scraps[pick(scraps.length)]! + text.slice(at)
    else if (kind === 2) text = text.slice(0, at) + text.slice(pick(text.length))
    else text = text.slice(0, at) + scraps[pick(scraps.length)]! + text.slice(at + pick(12))
  }
  const bytes = Buffer.from(text)
  if (pick(5) === 0 && bytes.length > 0) bytes[pick(bytes.length)] = pick(256)
  return bytes
}
