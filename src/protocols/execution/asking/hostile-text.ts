// Hostile text: characters of an agent's text that make people read something other than the text. They are refused in texts that must be
// short and plain (questions, labels), and shown as escapes in all other texts (context, details).
import { createCache } from '#kernel/log/cache/document-cache.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'

const MARKS_MAX = 6
/**
 * Sequences whose hidden characters are spelling: emoji, the joiners of Persian, of Indian scripts and of Mongolian. Elsewhere the
 * same characters are refused. U+FE0F counts only directly after an emoji, U+200D only between two.
 */
const SPELLED = [
  String.raw`\p{RGI_Emoji}`,
  String.raw`\p{Extended_Pictographic}\p{Emoji_Modifier}?\uFE0F?(?:\u200D\p{Extended_Pictographic}\p{Emoji_Modifier}?\uFE0F?)*`,
  String.raw`(?<=\p{Script=Arabic})\u200C(?=\p{Script=Arabic})`,
  // After a virama, or before it as Bengali writes it.
  String.raw`(?<=[\u094D\u09CD\u0A4D\u0ACD\u0B4D\u0BCD\u0C4D\u0CCD\u0D4D\u0DCA\u1039\u17D2])[\u200C\u200D]|(?<=\p{Script=Bengali})\u200D(?=\u09CD)`,
  String.raw`(?<=\p{Script=Mongolian})[\u180B-\u180D]`,
].join('|')
// `\p{Cf}` alone would miss U+FE00 and U+3164, which are as invisible.
const CONTROL = String.raw`\r(?!\n)|[\p{Cc}--[\n\t\r]]`
const DIRECTION = String.raw`\p{Bidi_Control}`
const BREAK = String.raw`[\p{Zl}\p{Zp}]`
const HIDDEN = String.raw`[\p{Default_Ignorable_Code_Point}\u2800\uFFF9-\uFFFC]`
const UNKNOWN = String.raw`[\p{Cn}\p{Co}\p{Cs}]`
const PILED = String.raw`(?<=\p{M}{${MARKS_MAX}})\p{M}`
let compiled: RegExp | undefined
/** Compiled at its first use: the table of emoji takes 30 ms, which would delay the start of every process. */
const hostile = (): RegExp =>
  (compiled ??= new RegExp(`(${SPELLED})|${[CONTROL, DIRECTION, BREAK, HIDDEN, UNKNOWN, PILED].join('|')}`, 'gv'))

const kinds: readonly (readonly [name: string, test: RegExp])[] = [
  ['the control character', new RegExp(CONTROL, 'v')],
  ['the change of direction', new RegExp(DIRECTION, 'v')],
  ['the line break', new RegExp(BREAK, 'v')],
  ['the invisible character', new RegExp(HIDDEN, 'v')],
  ['the character without a meaning', new RegExp(UNKNOWN, 'v')],
]
const kindOf = (character: string): string =>
  kinds.find(([, test]) => test.test(character))?.[0] ?? `more than ${MARKS_MAX} marks on one letter:`

/** Most texts are plain ASCII, and nothing hides in them. A check of each letter would cost more than the rest of a request. */
const isPlain = (text: string): boolean => /^[\x20-\x7E\n\t]*$/.test(text)

/** Whether a text has no visible character. */
export const isBlank = (text: string): boolean => /^[\s\p{Default_Ignorable_Code_Point}\u2800]*$/v.test(text)

const hexOf = (character: string): string => character.codePointAt(0)!.toString(16).toUpperCase()
const hostileIn = (text: string): string | undefined =>
  isPlain(text) ? undefined : [...text.matchAll(hostile())].find((found) => found[1] === undefined)?.[0]

/** The text as every surface shows it: deceptive and invisible characters are escaped, as in \u{202E}. */
export const shownText = (text: string): string =>
  isPlain(text)
    ? text
    : text.replace(hostile(), (character, spelled: string | undefined) => (spelled === undefined ? `\\u{${hexOf(character)}}` : character))

/** Characters that a page could treat as markup or as the end of a string, each with the look-alike that replaces it. */
const markup: Readonly<Record<string, string>> = {
  '<': '\uFF1C',
  '>': '\uFF1E',
  '&': '\uFF06',
  '"': '\uFF02',
  "'": '\uFF07',
  '`': '\uFF40',
  '\\': '\uFF3C',
}
/** For third-party pages, which might put it into HTML unescaped: it contains nothing that an HTML parser treats as markup. */
export const harmless = (text: string): string => text.replace(/[<>&"'`\\]/g, (character) => markup[character]!)

const refuse = (message: string, field: string): never => {
  throw new Refusal('INVALID_REQUEST', message, { field })
}

/** For short texts that people read before they decide. */
export function refuseHostile(text: string, field: string): void {
  const hostile = hostileIn(text)
  if (hostile !== undefined) refuse(`${field} holds ${kindOf(hostile)} U+${hexOf(hostile).padStart(4, '0')}`, field)
}

/** For button labels: they must also be one line, and no word may mix letters of several scripts. */
export function refuseHostileLabel(text: string, field: string): void {
  refuseHostile(text, field)
  if (/[\n\t\r]/.test(text)) refuse(`${field} must be one line without tabs`, field)
  const word = isPlain(text) ? undefined : wordsOf(text).find(isMixed)
  if (word !== undefined) refuse(`${field} mixes letters of several scripts in the word "${word}"`, field)
}

// --- Letters that look alike -----------------------------------------------------------------------------------------------

/**
 * Characters that people take for each of these: letters of Cyrillic, Greek, Armenian, Cherokee, Lisu and rare Latin, and signs. NFKC does
 * not fold them. They are written as escapes, because readers of this file could not tell them apart either.
 */
const lookAlikes: Readonly<Record<string, string>> = {
  A: '\u0410\u0391\u13AA\uA4EE',
  B: '\u0412\u0392\u13F4\uA4D0',
  C: '\u0421\u03F9\u13DF\uA4DA',
  D: '\u13A0\uA4D3',
  E: '\u0415\u0395\u13AC\uA4F0',
  F: '\uA4DD',
  G: '\u050C\u13C0\uA4D6',
  H: '\u041D\u04BA\u0397\u13BB\uA4E7',
  I: '\u0406\u0399\uA4F2',
  J: '\u0408\u13AB\uA4D9',
  K: '\u041A\u039A\u13E6\uA4D7',
  L: '\u053C\u13DE\uA4E1',
  M: '\u041C\u039C\u13B7\uA4DF',
  N: '\u039D\uA4E0',
  O: '\u041E\u039F\u0555\uA4F3',
  P: '\u0420\u03A1\u13E2\uA4D1',
  Q: '\u051A',
  R: '\u13A1\u13D2\uA4E3',
  S: '\u0405\u054F\u13DA\uA4E2',
  T: '\u0422\u03A4\u13A2\uA4D4',
  U: '\u054D\uA4F4',
  V: '\u13D9\uA4E6',
  W: '\u051C\u13B3\u13D4\uA4EA',
  X: '\u0425\u03A7\uA4EB',
  Y: '\u0423\u04AE\u03A5\u13BD\uA4EC',
  Z: '\u0396\u13C3\uA4DC',
  a: '\u0430\u03B1\u0251',
  c: '\u0441\u03F2',
  d: '\u0501\u13E7',
  e: '\u0435',
  g: '\u0581\u0261',
  h: '\u04BB\u0570',
  i: '\u0456\u03B9\u0131\u0269\u026A',
  j: '\u0458\u03F3\u0575',
  k: '\u03BA',
  l: '\u04C0\u04CF\u01C0\u2223\u2502\u0196',
  n: '\u0578',
  o: '\u043E\u03BF\u0585',
  p: '\u0440\u03C1',
  q: '\u051B\u0566',
  s: '\u0455',
  t: '\u03C4',
  u: '\u03C5\u057D',
  v: '\u0475\u03BD',
  w: '\u051D',
  x: '\u0445\u03C7',
  y: '\u0443\u04AF\u028F',
  '-': '\u2010\u2011\u2012\u2013\u2014\u2015\u2212',
  "'": '\u2018\u2019\u201B\u02BC\u02B9\u2032\uA78C',
  '"': '\u201C\u201D\u201E\u2033',
  '.': '\u2024',
  '/': '\u2044\u2215',
  ':': '\u2236\uA789',
  '*': '\u204E\u2217',
  ',': '\u201A',
  '!': '\u01C3',
}

const seenAs = new Map<string, string>()
/** As `seenAs`, without regard to case: a small letter folds like its capital. */
const foldedAs = new Map<string, string>()
for (const [plain, others] of Object.entries(lookAlikes)) for (const other of others) seenAs.set(other, plain)
for (const [other, plain] of seenAs) {
  const small = other.toLowerCase()
  if (small !== other || !foldedAs.has(small)) foldedAs.set(small, plain.toLowerCase())
}
const isLookAlike = (letter: string): boolean => seenAs.has(letter)

const mapLetters = (text: string, to: ReadonlyMap<string, string>): string =>
  isPlain(text) ? text : Array.from(text, (letter) => to.get(letter) ?? letter).join('')
/** Normalized and decomposed, so that case and look are those of the base letter. U+03F2, whose look NFKD would change, stays. */
const lettersOf = (text: string): string =>
  isPlain(text)
    ? text.replaceAll(/[ \n\t]/g, '')
    : Array.from(text, (letter) => (seenAs.has(letter) ? letter : letter.normalize('NFKD')))
        .join('')
        .normalize('NFD')
        .replace(/[\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]/gu, '')

/** People cannot tell apart two labels with the same fold: it ignores case, spaces and letter forms. */
export function fold(text: string): string {
  // There and back: only so do ẞ, ß and SS, or the two small sigmas, become one.
  const small = lettersOf(text).toLowerCase().toUpperCase().toLowerCase().normalize('NFD')
  return mapLetters(small, foldedAs).replaceAll('0', 'o').replaceAll('1', 'l').normalize('NFKC')
}

/** How a label looks in a plain typeface: capital I and small l are one stroke, but a small i is not. */
const looks = (text: string): string =>
  mapLetters(lettersOf(text), seenAs).replaceAll(/[I1|]/g, 'l').replaceAll('0', 'O').replaceAll('rn', 'm').replaceAll('vv', 'w')

export const isAlike = (one: string, other: string): boolean => fold(one) === fold(other) || looks(one) === looks(other)

/** Most questions have the same few answers. */
const marks = createCache<readonly [string, string]>(limits.labelMarksBytesMax)
function marksOf(label: string): readonly [string, string] {
  let found = marks.get(label)
  if (!found) marks.set(label, (found = [`fold ${fold(label)}`, `looks ${looks(label)}`]), 200 + 6 * label.length)
  return found
}

/** The places of the first two that people could take for one another. */
export function alikeIn(labels: readonly string[]): readonly [number, number] | null {
  const places = new Map<string, number>()
  for (const [place, label] of labels.entries())
    for (const key of marksOf(label)) {
      const before = places.get(key)
      if (before !== undefined && before !== place) return [before, place]
      places.set(key, place)
    }
  return null
}

// --- Words of several scripts ----------------------------------------------------------------------------------------------

/** Scripts whose letters pass for Latin ones. Other scripts often mix with Latin in one word, as in 日本語でPDFを送る. */
const scripts = ['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Cherokee', 'Coptic', 'Lisu', 'Deseret', 'Osage', 'Vai', 'Tifinagh'].map(
  (name) => new RegExp(`\\p{Script=${name}}`, 'u'),
)
/** Greek letters without a Latin look-alike occur in units: kΩ, ΔT. */
const isUnit = (letter: string): boolean => /\p{Script=Greek}/u.test(letter) && !isLookAlike(letter)

const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{M}\p{N}_]+/gu) ?? []

/** Checks the word and its normalized form: NFKC turns U+03F2, which looks like c, into a sigma, which does not. */
function isMixed(word: string): boolean {
  const letters = Array.from(word + word.normalize('NFKC')).filter((letter) => !isUnit(letter))
  return scripts.filter((script) => letters.some((letter) => script.test(letter))).length > 1
}

const isPosing = (word: string): boolean => /^\p{L}{3,}$/u.test(word) && Array.from(word).every((letter) => isLookAlike(letter))
const isLatin = (word: string): boolean => /^\p{Script=Latin}+$/u.test(word)
const STYLED = /[\u{1D400}-\u{1D7FF}\u{1F110}-\u{1F189}\u24B6-\u24E9]/u
const LEFTWARD = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u

const withoutMarks = (text: string): string => text.normalize('NFD').replace(/[\p{M}\p{P}]/gu, '')
const isCloseIn = (texts: readonly string[]): boolean =>
  [fold, (text: string) => looks(text).toLowerCase()].some(
    (key) => new Set(texts.map((text) => withoutMarks(key(text)))).size < new Set(texts).size,
  )

/** Warnings to people about texts that are no reason to refuse them. */
export function warningsOf(texts: readonly string[]): string[] {
  const words = texts.flatMap(wordsOf)
  const warnings: readonly (readonly [boolean, string])[] = [
    [texts.some((text) => hostileIn(text) !== undefined), 'contains characters that cannot be seen; they are shown as escapes'],
    [words.some(isMixed), 'contains letters of several scripts in one word'],
    [words.some(isLatin) && words.some(isPosing), 'contains words of another script that look like Latin ones'],
    [texts.some((text) => STYLED.test(text)), 'contains letters in unusual forms'],
    [
      texts.some((text) => LEFTWARD.test(text) && /\p{Script=Latin}/u.test(text)),
      'mixes right-to-left and left-to-right text, so its order may mislead',
    ],
    [isCloseIn(texts), 'contains texts that are easily taken for one another'],
  ]
  return warnings.filter(([applies]) => applies).map(([, message]) => message)
}
