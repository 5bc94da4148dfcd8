// Results of a request: every type by name, and that every accepted answer satisfies the question.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import type { Action, Payload } from '#protocols/execution/actions/index.ts'
import type { Validation } from '#protocols/execution/actions/provide.ts'
import { payloadOf } from '#protocols/execution/asking/payload.ts'
import { resultOf, resultText } from '#protocols/execution/answering/result.ts'

const decide = payloadOf('DECIDE', { question: 'Which plan?', options: ['Basic', 'Pro'] }, 'pause')
const approve = payloadOf('APPROVE', { item: 'Deploy' }, 'pause')
const strict = payloadOf('APPROVE', { item: 'Deploy', reject_requires_reason: true }, 'pause')
const asking = (input_type: string, validation?: object): Payload =>
  payloadOf('PROVIDE', { prompt: 'What?', input_type, validation }, 'pause')
const text = asking('text')
const number = asking('number')
const url = asking('url')
const email = asking('email')
const file = asking('file')
const one = asking('selection', { allowed_values: ['red', 2, '3'] })
const many = asking('selection', { allowed_values: ['red', 2, '3'], multiple: true })

const actionOf = (payload: Payload): Action => ('options' in payload ? 'DECIDE' : 'item' in payload ? 'APPROVE' : 'PROVIDE')
function refusalOf(payload: Payload, result: unknown, reason?: unknown): Refusal {
  try {
    resultOf(actionOf(payload), payload, { result, reason: reason as string })
  } catch (error) {
    assert.ok(error instanceof Refusal, String(error))
    assert.equal(error.code, 'INVALID_RESULT')
    return error
  }
  return assert.fail(`${JSON.stringify(result)} was accepted`)
}

// --- DECIDE and APPROVE ----------------------------------------------------------------------------------------------------

test('a decision is one of the options, letter by letter', () => {
  assert.deepEqual(resultOf('DECIDE', decide, { result: 'Pro' }), { result: 'Pro' })
  for (const result of ['pro', ' Pro', 'Max', '', 1, true, null, undefined, ['Pro'], { option: 'Pro' }, 'constructor']) {
    const refusal = refusalOf(decide, result)
    assert.equal(refusal.message, 'result must be one of: Basic, Pro')
    assert.deepEqual(refusal.details, { field: 'result' })
  }
})
test('an approval is approved or rejected, in these words', () => {
  assert.deepEqual(resultOf('APPROVE', approve, { result: 'approved', reason: null }), { result: 'approved' })
  assert.deepEqual(resultOf('APPROVE', approve, { result: 'rejected' }), { result: 'rejected' })
  for (const result of [true, false, 'Approved', 'approve', 'yes', '', null, undefined, 1, ['approved']])
    assert.equal(refusalOf(approve, result).message, 'result must be one of: approved, rejected')
})
test('a rejection needs its reason if the agent asked for one', () => {
  for (const reason of [undefined, null, '', ' \n\t']) {
    const refusal = refusalOf(strict, 'rejected', reason)
    assert.equal(refusal.message, 'reason is required for a rejection')
    assert.deepEqual(refusal.details, { field: 'reason' })
  }
  assert.deepEqual(resultOf('APPROVE', strict, { result: 'rejected', reason: 'too late' }), { result: 'rejected', reason: 'too late' })
  assert.deepEqual(resultOf('APPROVE', strict, { result: 'approved' }), { result: 'approved' })
})
test('a reason is a text of at most 2,000 characters, whatever it goes with', () => {
  const longest = '😀'.repeat(limits.reasonCharsMax)
  assert.deepEqual(resultOf('DECIDE', decide, { result: 'Pro', reason: longest }), { result: 'Pro', reason: longest })
  assert.match(refusalOf(decide, 'Pro', `${longest}x`).message, /reason has more than 2000 characters/)
  for (const reason of [1, {}, ['a'], true]) assert.match(refusalOf(approve, 'approved', reason).message, /reason must be a text/)
  assert.deepEqual(resultOf('PROVIDE', text, { result: 'x', reason: ' ' }), { result: 'x' })
})

// --- PROVIDE ---------------------------------------------------------------------------------------------------------------

const accepted: readonly (readonly [title: string, payload: Payload, given: unknown, result?: unknown])[] = [
  ['a text', text, 'anything\nat all \u202E'],
  ['a text of 4,000 characters', text, '😀'.repeat(4_000)],
  ['an empty text where min is 0', asking('text', { min: 0 }), ''],
  ['a text that fits', asking('text', { pattern: '^[a-z]+$', min: 2, max: 3, allowed_values: ['ab', 'abc'] }), 'abc'],
  ['a text in which the pattern is found', asking('text', { pattern: 'b' }), 'abc'],
  ['a number', number, 42],
  ['a fraction', number, -1.5],
  ['a number that is text', number, '42', 42],
  ['a fraction that is text', number, '-1.5', -1.5],
  ['a number with spaces around it', number, ' 42 ', 42],
  ['a number with a sign, a bare point, an exponent', asking('number', { allowed_values: [500] }), '+.5e3', 500],
  ['a negative nothing', number, '-0', 0],
  ['a number at its bounds', asking('number', { min: 1, max: 1 }), '1', 1],
  ['one of the numbers', asking('number', { allowed_values: [8080, 9090] }), '9090', 9090],
  ['an address', url, 'https://example.com/a?b=c#d'],
  ['an address as it was written', url, 'HTTP://EXAMPLE.com:80'],
  ['an address in another script', url, 'https://пример.рф/ä'],
  ['an address with @ in its path', url, 'https://example.com/@me?a=b@c'],
  ['an address of this machine', url, 'http://[::1]:3402/hxp'],
  ['an e-mail', email, 'a.b+c@mail.example.com'],
  ['an e-mail in another script', email, 'почта@пример.рф'],
  ['the longest local part', email, `${'a'.repeat(64)}@example.com`],
  ['a file by its id', file, 'art_1', { artifact_id: 'art_1' }],
  ['a file by id and version', file, { artifact_id: 'art_1', version: '2', name: 'x' }, { artifact_id: 'art_1', version: '2' }],
  ['a file without a version', file, { artifact_id: 'art_1', version: null }, { artifact_id: 'art_1' }],
  ['one of the values', one, 'red'],
  ['the number among them', one, 2],
  ['the number among them as text', one, '2', 2],
  ['the text among them', one, '3'],
  ['several values', many, ['3', '2'], ['3', 2]],
  ['all values', many, ['red', 2, '3']],
]
for (const [title, payload, given, result = given] of accepted) {
  test(`${title} is an answer`, () => assert.deepEqual(resultOf('PROVIDE', payload, { result: given }), { result }))
}

const refused: readonly (readonly [title: string, payload: Payload, given: readonly unknown[], message: RegExp])[] = [
  ['what is no text', text, [1, null, undefined, ['a'], {}, true], /result must be a text/],
  ['an empty text', text, [''], /must not be empty/],
  ['a text of 4,001 characters', text, ['a'.repeat(4_001)], /at most 4000 characters/],
  ['a text that is too short', asking('text', { min: 2 }), ['a', '😀'], /at least 2 characters/],
  ['a text that is too long', asking('text', { max: 2 }), ['abc'], /at most 2 characters/],
  ['a text that does not match', asking('text', { pattern: '^[a-z]+$' }), ['A', 'a\n', 'a b'], /does not match the pattern \^\[a-z\]\+\$/],
  ['a text that is not listed', asking('text', { allowed_values: ['a', 'b'] }), ['c', 'A'], /must be one of: a, b/],
  [
    'what is no number',
    number,
    [
      '',
      ' ',
      'abc',
      '0x10',
      'NaN',
      'Infinity',
      '1e400',
      '-1e400',
      '1,5',
      '1 000',
      '１',
      '--1',
      '1.',
      '.',
      '1e',
      '1_0',
      '42px',
      '9007199254740993',
      '1'.repeat(41),
      null,
      undefined,
      true,
      [42],
      {},
    ],
    /must be a number such as 42/,
  ],
  ['a number that is not finite', number, [Number.NaN, Infinity, -Infinity, 1e300], /must be a number/],
  ['a number below', asking('number', { min: 0 }), [-1, '-0.5'], /must be at least 0/],
  ['a number above', asking('number', { max: 65_535 }), [65_536, '1e5'], /must be at most 65535/],
  ['a number that is not listed', asking('number', { allowed_values: [1, 2] }), [3, '1.5'], /must be one of: 1, 2/],
  [
    'what is not an address',
    url,
    [
      'example.com',
      'ftp://example.com',
      'javascript:alert(1)',
      'data:text/html,x',
      'file:///etc/passwd',
      '//example.com',
      '/path',
      'https:example.com',
      'https:/example.com',
      'https://',
      'http:///x',
      'https://exa mple.com'.replace(' ', '%'),
      'http://[::1',
      'http://a:99999',
    ],
    /must be an address that begins with/,
  ],
  [
    'an address that parsers repair',
    url,
    [
      ' https://example.com',
      'https://example.com ',
      'https://exa\tmple.com',
      'https://a b.com',
      'https:\\\\example.com',
      'https://good.com\\@evil.com',
      'https://example.com/\u202Egpj',
      'https://ex\u200Bample.com',
    ],
    /must not hold spaces, backslashes or hidden/,
  ],
  [
    'an address with a name in it',
    url,
    ['https://me:secret@example.com', 'https://me@example.com', 'https://@example.com', 'https://good.com:x@evil.com'],
    /must not hold a user name/,
  ],
  ['an address of 2,001 characters', url, [`https://example.com/${'a'.repeat(1_981)}`], /at most 2000 characters/],
  ['an address of another pattern', asking('url', { pattern: '^https://github\\.com/' }), ['https://gitlab.com/'], /does not match/],
  ['an address that is no text', url, [1, null], /must be a text/],
  [
    'what is no e-mail',
    email,
    [
      'a',
      '@',
      'a@',
      '@b.com',
      'a@b',
      'a@@b.com',
      'a@b@c.com',
      'a b@c.com',
      ' a@c.com',
      'a@c.com ',
      'a@c.com\n',
      'a@c..com',
      'a@.com',
      'a@c.',
      'a@-c.com',
      'a@c-.com',
      '.a@c.com',
      'a.@c.com',
      'a..b@c.com',
      'a@1.2.3.4',
      'a@[1.2.3.4]',
      '"a b"@c.com',
      'Ann <a@c.com>',
      'a@c.com,b@c.com',
      'a\u200B@c.com',
      'a\u3164@c.com',
      'a\0@c.com',
      `${'a'.repeat(65)}@c.com`,
      `a@${'b'.repeat(64)}.com`,
    ],
    /must be an e-mail address such as/,
  ],
  ['an e-mail of 255 characters', email, [`a@${'b.'.repeat(125)}com`], /at most 254 characters/],
  [
    'what names no file',
    file,
    [
      '',
      1,
      null,
      undefined,
      [],
      {},
      { artifact_id: 1 },
      { version: '1' },
      { artifact_id: 'a', version: 1 },
      { artifact_id: 'a', version: '' },
      'a'.repeat(81),
    ],
    /must name an artifact/,
  ],
  ['what is not among the values', one, ['blue', 3, '2.5', '', null, undefined, ['red'], 'Red', true], /must be one of: red, 2, 3/],
  ['no list', many, ['red', null, {}, []], /must be a list of at least one/],
  ['a list with something else', many, [['red', 'blue'], [null], [['red']]], /must hold only: red, 2, 3/],
  [
    'a list with one value twice',
    many,
    [
      ['red', 'red'],
      [2, '2'],
    ],
    /the same value twice/,
  ],
  ['a list that is too long', many, [['red', 'red', 'red', 'red']], /at most 3 values/],
]
for (const [title, payload, given, message] of refused) {
  test(`${title} is refused`, () => {
    for (const result of given) {
      const refusal = refusalOf(payload, result)
      assert.match(refusal.message, message, JSON.stringify(result))
      assert.deepEqual(refusal.details, { field: 'result' })
    }
  })
}

test('a refusal never repeats the answer, which may be a secret', () => {
  const secret = 'hunter2'
  const asked = [
    asking('text', { pattern: '^\\d+$' }),
    asking('text', { max: 1 }),
    asking('text', { allowed_values: ['a'] }),
    number,
    url,
    email,
    one,
    many,
    decide,
    approve,
  ]
  for (const payload of asked) assert.ok(!refusalOf(payload, secret).message.includes(secret))
})

test('the text of a result is the text itself, or canonical JSON', () => {
  assert.equal(resultText('approved'), 'approved')
  assert.equal(resultText('"'), '"')
  assert.equal(resultText(42), '42')
  assert.equal(resultText(['b', 1]), '["b",1]')
  assert.equal(resultText({ version: '1', artifact_id: 'a' }), '{"artifact_id":"a","version":"1"}')
})

// --- Properties ------------------------------------------------------------------------------------------------------------

const answers = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.string({ maxLength: 20 }),
  fc.double(),
  fc.double().map(String),
  fc.integer({ min: -20, max: 20 }),
  fc.integer({ min: -20, max: 20 }).map((value) => ` ${value}`),
  fc.webUrl(),
  fc.emailAddress(),
  fc.stringMatching(/^[ab]{0,12}$/),
  fc.uniqueArray(fc.constantFrom('a', 'b', 1, '2', 2), { maxLength: 3 }),
  fc.jsonValue(),
)
const between = fc.tuple(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 6, max: 12 })).map(([min, max]) => ({ min, max }))
const asked: fc.Arbitrary<readonly [string, object]> = fc.oneof(
  fc.tuple(
    fc.constant('text'),
    fc.tuple(between, fc.constantFrom({}, { pattern: '^[ab]+$' }, { pattern: 'ab' })).map(([a, b]) => ({ ...a, ...b })),
  ),
  fc.tuple(fc.constant('number'), between),
  fc.tuple(fc.constantFrom('url', 'email', 'file'), fc.constant({})),
  fc.tuple(
    fc.constant('selection'),
    fc.record({ allowed_values: fc.constantFrom(['a', 'b', 1, '2'], [1, 2], ['b']), multiple: fc.boolean() }),
  ),
)

/** The validation, once more and in other words. */
function satisfies(
  type: string,
  { min = 0, max = 0, pattern, allowed_values = [], multiple = false }: Validation,
  result: unknown,
): boolean {
  if (type === 'text')
    return (
      typeof result === 'string' &&
      Array.from(result).length >= min &&
      Array.from(result).length <= max &&
      (pattern === undefined || new RegExp(pattern, 'u').test(result))
    )
  if (type === 'number') return typeof result === 'number' && result >= min && result <= max
  if (type === 'url')
    return typeof result === 'string' && ['http:', 'https:'].includes(new URL(result).protocol) && !new URL(result).username
  if (type === 'email') return typeof result === 'string' && /^[^@\s]{1,64}@[^@\s]+\.[^@\s]+$/.test(result)
  if (type === 'file') return typeof (result as { artifact_id: unknown }).artifact_id === 'string'
  const chosen = (multiple ? result : [result]) as (string | number)[]
  return chosen.length > 0 && new Set(chosen).size === chosen.length && chosen.every((value) => allowed_values.includes(value))
}
test('every answer that is accepted satisfies what was asked, and is accepted again as it is', () => {
  let taken = 0
  fc.assert(
    fc.property(asked, answers, ([type, validation], given) => {
      const payload = asking(type, validation)
      try {
        const { result } = resultOf('PROVIDE', payload, { result: given })
        assert.ok(satisfies(type, validation, result), canonical({ type, validation, result }))
        assert.deepEqual(resultOf('PROVIDE', payload, { result }), { result })
        taken++
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        assert.equal(error.code, 'INVALID_RESULT')
      }
    }),
    { numRuns: 5_000 },
  )
  assert.ok(taken > 250, String(taken))
})
test('a plainly valid value is accepted', () => {
  const accepts = (payload: Payload, given: unknown) => assert.deepEqual(resultOf('PROVIDE', payload, { result: given }), { result: given })
  fc.assert(fc.property(fc.webUrl({ size: 'small' }), (given) => accepts(url, given)))
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9]+([._+-][a-z0-9]+){0,3}@([a-z0-9]+\.){1,2}[a-z]{2,6}$/, { maxLength: 60 }), (given) =>
      accepts(email, given),
    ),
  )
  fc.assert(fc.property(fc.integer(), (given) => accepts(number, given)))
  fc.assert(fc.property(fc.string({ unit: 'binary', minLength: 1 }), (given) => accepts(text, given)))
})
test('a text and the number that it writes are the same answer', () => {
  fc.assert(
    fc.property(fc.double({ min: -1e15, max: 1e15, noNaN: true }), (value) => {
      assert.deepEqual(resultOf('PROVIDE', number, { result: String(value) }), resultOf('PROVIDE', number, { result: value }))
    }),
  )
})
