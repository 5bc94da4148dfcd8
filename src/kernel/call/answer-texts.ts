// A cache of the JSON texts of documents. Documents are immutable, so a text stays valid.
import { limits } from '../limits.ts'

type Sight = object | null

const texts = new WeakMap<object, string>()
/** What was written lately. Only what comes again is kept: most answers are made for one caller and never seen again. */
const lately: Sight[] = Array.from({ length: limits.answersSeenMax }, () => null)
let next = 0

function textOf(value: object): string {
  const known = texts.get(value)
  if (known !== undefined) return known
  const text = JSON.stringify(value)
  if (text.length > limits.answerTextCharsMax) return text
  if (lately.includes(value)) texts.set(value, text)
  else {
    lately[next] = value
    next = (next + 1) % lately.length
  }
  return text
}

const isDocument = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The same as JSON.stringify for the answer to a question: plain JSON, an object in which documents stand under their names. */
export function answerText(answer: unknown): string {
  if (!isDocument(answer)) return JSON.stringify(answer)
  let text = ''
  for (const [name, value] of Object.entries(answer)) {
    const written = isDocument(value) ? textOf(value) : JSON.stringify(value)
    // As JSON.stringify does with what JSON does not know.
    if (written !== undefined) text += `${text && ','}${JSON.stringify(name)}:${written}`
  }
  return `{${text}}`
}
