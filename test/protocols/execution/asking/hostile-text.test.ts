// Hostile text: what is refused in labels, what is shown escaped, what is flagged, and that people of every language can be asked.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '#kernel/declare/errors.ts'
import {
  alikeIn,
  fold,
  isAlike,
  refuseHostile,
  refuseHostileLabel,
  shownText,
  warningsOf,
} from '#protocols/execution/asking/hostile-text.ts'

const refusedWith =
  (message: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof Refusal, String(error))
    assert.equal(error.code, 'INVALID_REQUEST')
    assert.deepEqual(error.details, { field: 'payload.question' })
    assert.match(error.message, message)
    return true
  }
const refuses = (check: () => void): boolean => {
  try {
    check()
    return false
  } catch (error) {
    if (error instanceof Refusal) return true
    throw error
  }
}

const welcome: Readonly<Record<string, string>> = {
  English: 'Approve the $99/mo plan? (yes - it is needed)',
  German: 'Größe ändern, schöner Straßenname',
  French: 'Où déployer ? « Ça marche »',
  Vietnamese: 'Xóa dữ liệu của người dùng',
  Russian: 'Развернуть в Stripe? IT-отдел',
  Greek: 'Έγκριση της αλλαγής',
  Arabic: 'هل توافق على النشر؟ مُحَمَّدٌ',
  Persian: 'می\u200cخواهم منتشر کنم',
  Hebrew: 'לאשר את הפריסה? שָׁלוֹם',
  'Hebrew with a Latin word': 'לפרוס ל-Google',
  Chinese: '部署到生产环境？使用PDF文件',
  Japanese: '日本語でPDFを送るー、よろしいですか',
  Korean: '배포를 승인할까요? Google로',
  Hindi: 'क्या स्वीकृत करें? क्\u200dष ज़रूरी',
  Bengali: 'র\u200d্যাম বাড়ান',
  Sinhala: 'ශ්\u200dරී ලංකා',
  Thai: 'ใช้Googleได้ไหม ที่นี่',
  Tamil: 'அனுமதிக்கவும்',
  Armenian: 'Հաստատել',
  Cherokee: 'ᏣᎳᎩ',
  units: '10 kΩ, 5 µs, ΔT, 3 μm',
  emoji: 'Ship it 🚀👍🏽 ❤️ 👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 1️⃣ ©️ 👁‍🗨',
  'the flag of England': '🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F} wins',
  arithmetic: 'x < y && a|b ≥ −1',
}
for (const [name, text] of Object.entries(welcome)) {
  test(`${name} passes as it is`, () => {
    refuseHostile(text, 'payload.question')
    refuseHostileLabel(text, 'payload.question')
    assert.equal(shownText(text), text)
  })
}
test('several lines pass in a question and stay as they are, not in a label', () => {
  for (const text of ['one\ntwo', 'one\r\ntwo', 'a\tb']) {
    refuseHostile(text, 'payload.question')
    assert.equal(shownText(text), text)
    assert.throws(() => refuseHostileLabel(text, 'payload.question'), refusedWith(/must be one line without tabs/))
  }
})

const hostile: readonly (readonly [title: string, text: string, message: RegExp, shown: string])[] = [
  ['NUL', 'a\0b', /the control character U\+0000/, 'a\\u{0}b'],
  ['a bell', 'a\u0007b', /the control character U\+0007/, 'a\\u{7}b'],
  ['a terminal escape', '\u001b[2Jb', /the control character U\+001B/, '\\u{1B}[2Jb'],
  ['a return to the start of the line', 'reject\rapprove', /the control character U\+000D/, 'reject\\u{D}approve'],
  ['a C1 control', 'a\u009bb', /the control character U\+009B/, 'a\\u{9B}b'],
  ['an override of the direction', 'pay \u202E001', /the change of direction U\+202E/, 'pay \\u{202E}001'],
  ['an isolate', '\u2066a\u2069', /the change of direction U\+2066/, '\\u{2066}a\\u{2069}'],
  ['an Arabic letter mark', 'a\u061Cb', /the change of direction U\+061C/, 'a\\u{61C}b'],
  ['a zero-width space', 'ap\u200Bprove', /the invisible character U\+200B/, 'ap\\u{200B}prove'],
  ['a joiner between letters', 'ap\u200Dprove', /the invisible character U\+200D/, 'ap\\u{200D}prove'],
  ['a non-joiner between Latin letters', 'ap\u200Cprove', /the invisible character U\+200C/, 'ap\\u{200C}prove'],
  ['a word joiner', 'ap\u2060prove', /the invisible character U\+2060/, 'ap\\u{2060}prove'],
  ['a byte order mark', '\uFEFFapprove', /the invisible character U\+FEFF/, '\\u{FEFF}approve'],
  ['a soft hyphen', 'ap\u00ADprove', /the invisible character U\+00AD/, 'ap\\u{AD}prove'],
  ['a variation selector after a letter', 'a\uFE00b', /the invisible character U\+FE00/, 'a\\u{FE00}b'],
  ['the emoji selector after a letter', 'a\uFE0Fb', /the invisible character U\+FE0F/, 'a\\u{FE0F}b'],
  ['the emoji selector after a digit', '1\uFE0F0', /the invisible character U\+FE0F/, '1\\u{FE0F}0'],
  ['two emoji selectors', '❤\uFE0F\uFE0F', /the invisible character U\+FE0F/, '❤\uFE0F\\u{FE0F}'],
  ['a joiner after the last emoji', '👩\u200D', /the invisible character U\+200D/, '👩\\u{200D}'],
  ['a Hangul filler', '\u3164', /the invisible character U\+3164/, '\\u{3164}'],
  ['hidden tags', 'a\u{E0041}', /the invisible character U\+E0041/, 'a\\u{E0041}'],
  ['an empty braille cell', '\u2800', /the invisible character U\+2800/, '\\u{2800}'],
  ['an annotation', 'a\uFFF9b', /the invisible character U\+FFF9/, 'a\\u{FFF9}b'],
  ['a line separator', 'a\u2028b', /the line break U\+2028/, 'a\\u{2028}b'],
  ['a private character', 'a\uE000', /without a meaning U\+E000/, 'a\\u{E000}'],
  ['an unassigned character', 'a\u0378', /without a meaning U\+0378/, 'a\\u{378}'],
  ['half of a pair', 'a\uD83D', /without a meaning U\+D83D/, 'a\\u{D83D}'],
  ['marks in a pile', `a${'\u0301'.repeat(7)}`, /more than 6 marks on one letter: U\+0301/, `a${'\u0301'.repeat(6)}\\u{301}`],
]
for (const [title, text, message, escaped] of hostile) {
  test(`${title} is refused in what people decide by, and shown escaped elsewhere`, () => {
    assert.throws(() => refuseHostile(text, 'payload.question'), refusedWith(message))
    assert.equal(shownText(text), escaped)
    assert.equal(shownText(shownText(text)), escaped)
    assert.ok(warningsOf([text]).includes('contains characters that cannot be seen; they are shown as escapes'))
  })
}

const mixed: Readonly<Record<string, string>> = {
  'Cyrillic a': 'Аpprove',
  'Cyrillic o inside': 'Apprоve',
  'a Cyrillic letter that looks like nothing else': 'Appжove',
  'Greek omicron': 'Apprοve',
  'Armenian o': 'Apprօve',
  'a Cherokee capital': 'ᎪPPROVE',
  'Greek among Cyrillic': 'Οткрыть',
  'the Greek c': 'Rejeϲt',
}
for (const [title, text] of Object.entries(mixed)) {
  test(`a word with ${title} is refused in a label and flagged in a text`, () => {
    assert.throws(() => refuseHostileLabel(text, 'payload.question'), refusedWith(/mixes letters of several scripts in the word/))
    refuseHostile(text, 'payload.question')
    assert.deepEqual(warningsOf([`please ${text} it`]), ['contains letters of several scripts in one word'])
  })
}

const alike: readonly (readonly [string, string])[] = [
  ['Approve', 'approve'],
  ['Approve', ' Ap prove\u00A0'],
  ['Approve', 'Ａｐｐｒｏｖｅ'],
  ['Approve', '𝐀𝐩𝐩𝐫𝐨𝐯𝐞'],
  ['Approve', 'Ap\u200Bprove'],
  ['COPA', 'СОРА'],
  ['copa', 'СОРА'],
  ['HE', 'НЕ'],
  ['Открыть', 'открыть'],
  ['Straße', 'STRASSE'],
  ['ΟΔΟΣ', 'οδος'],
  ['Plan 10', 'Plan IO'],
  ['Plan 1', 'Plan l'],
  ['Plan I', 'Plan l'],
  ['Plan |', 'Plan I'],
  ['Install', 'lnstall'],
  ['Install', 'install'],
  ['modern', 'modem'],
  ['pre–prod', 'pre-prod'],
  ['don’t', "don't"],
  ['file', 'ﬁle'],
  ['Ⅳ', 'IV'],
  ['é', 'e\u0301'],
]
test('labels that people take for one another are alike', () => {
  for (const [one, other] of alike) {
    assert.ok(isAlike(one, other), `${one} / ${other}`)
    assert.deepEqual(alikeIn(['Something else', one, other]), [1, 2], `${one} / ${other}`)
  }
})
test('labels that people tell apart are not', () => {
  const pairs = [
    ['mail', 'mall'],
    ['schon', 'schön'],
    ['Approve', 'Reject'],
    ['+1', '-1'],
    ['<', '>'],
    ['10', '100'],
    ['Да', 'Нет'],
    ['是', '否'],
    ['👍', '👎'],
    ['שלום', 'שלוח'],
    ['A', 'B'],
  ]
  for (const [one, other] of pairs) assert.ok(!isAlike(one!, other!), `${one} / ${other}`)
  assert.equal(alikeIn(['a', 'b', 'c']), null)
})

test('warnings say what is odd, and say nothing about plain text', () => {
  const rows: readonly (readonly [readonly string[], readonly string[]])[] = [
    [['Approve', 'Reject'], []],
    [['Развернуть в Stripe, а не в тест'], []],
    [['pay РАУ'], ['contains words of another script that look like Latin ones']],
    [['𝐀pprove'], ['contains letters in unusual forms']],
    [['לפרוס ל-Google'], ['mixes right-to-left and left-to-right text, so its order may mislead']],
    [['Yes', 'Yes.'], ['contains texts that are easily taken for one another']],
    [['Approve', 'Apprọve'], ['contains texts that are easily taken for one another']],
    [['Yes', 'Yes'], []],
    [[], []],
  ]
  for (const [texts, message] of rows) assert.deepEqual(warningsOf(texts), message, texts.join(' / '))
})

// --- Deceptive pairs -------------------------------------------------------------------------------------------------------

/** Written down once more, independently of the table of the code: what each letter can be replaced with. */
const twins: Readonly<Record<string, readonly string[]>> = {
  A: ['\u0410', '\u0391', '\uFF21', '\u{1D400}', '\uA4EE'],
  B: ['\u0412', '\u0392', '\uFF22'],
  C: ['\u0421', '\u03F9', '\uFF23'],
  E: ['\u0415', '\u0395', '\u{1D404}'],
  H: ['\u041D', '\u0397'],
  I: ['\u0406', '\u0399', 'l', '1'],
  O: ['\u041E', '\u039F', '0', '\u0555'],
  P: ['\u0420', '\u03A1'],
  R: ['\u13A1', '\uFF32'],
  T: ['\u0422', '\u03A4'],
  a: ['\u0430', '\u0251', '\uFF41', 'a\u200B', 'a\u034F', 'a\u0323'],
  c: ['\u0441', '\u03F2', '\u{1D41C}'],
  e: ['\u0435', 'e\u200C', 'e\u00AD', 'e\u0329'],
  i: ['\u0456', '\u0131', '\u03B9'],
  j: ['\u0458', '\u03F3'],
  o: ['\u043E', '\u03BF', '0', '\u0585', 'o\u2060'],
  p: ['\u0440', '\u03C1', 'p\uFEFF'],
  s: ['\u0455', 's\uFE00', 's\u180E'],
  v: ['\u0475', '\u03BD', 'v\u3164'],
  x: ['\u0445', '\u03C7', 'x\u2062'],
  y: ['\u0443', '\u04AF', 'y\u202C'],
}
const labels = [
  'Approve',
  'Reject',
  'Deny payment',
  'TOP PRIORITY',
  'I accept',
  'Cancel this',
  'Pay Alice',
  'Raise to 100',
  'exec copy',
  'BATCH',
  'Export private data',
  'Close the account',
  'Switch to the copy',
  'Accept all conditions of the contract',
  'Transfer',
]
const isCaught = (one: string, other: string): boolean =>
  refuses(() => refuseHostileLabel(other, 'payload.question')) || isAlike(one, other) || warningsOf([one, other]).length > 0

test('of every label with one letter replaced, none gets through unseen', () => {
  let pairs = 0
  for (const label of labels)
    for (const [place, letter] of Array.from(label).entries())
      for (const twin of twins[letter] ?? []) {
        const other = label.slice(0, place) + twin + label.slice(place + 1)
        assert.ok(isCaught(label, other), `${label} / ${shownText(other)}`)
        pairs++
      }
  assert.ok(pairs >= 300, String(pairs))
})
test('nor with any number of them replaced, or cases and spaces changed', () => {
  const replaced = fc
    .constantFrom(...labels)
    .chain((label) =>
      fc
        .tuple(
          ...Array.from(label, (letter) => fc.constantFrom(letter, letter, letter.toUpperCase(), ` ${letter}`, ...(twins[letter] ?? []))),
        )
        .map((letters) => [label, letters.join('')] as const),
    )
  fc.assert(
    fc.property(replaced, ([label, other]) => {
      fc.pre(label !== other)
      assert.ok(isCaught(label, other), `${label} / ${shownText(other)}`)
    }),
    { numRuns: 500 },
  )
})

// --- Properties ------------------------------------------------------------------------------------------------------------

const anyText = fc.oneof(fc.string({ unit: 'binary', maxLength: 60 }), fc.string({ unit: 'grapheme', maxLength: 60 }))
test('shown text has nothing hostile left in it, and showing it again changes nothing', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const once = shownText(text)
      refuseHostile(once, 'payload.question')
      assert.equal(shownText(once), once)
      assert.equal(
        refuses(() => refuseHostile(text, 'payload.question')),
        once !== text,
      )
    }),
    { numRuns: 2_000 },
  )
})
test('a fold does not depend on case, form or spaces, and folding again changes nothing', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), (text) => {
      assert.equal(fold(fold(text)), fold(text))
      assert.equal(fold(` ${text}\n`), fold(text))
      assert.equal(fold(text.normalize('NFD')), fold(text))
      assert.ok(isAlike(text, text.toUpperCase()))
    }),
    { numRuns: 2_000 },
  )
})
