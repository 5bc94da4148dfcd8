// The payload of a request: every rule by name, and that checking never changes what it accepts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '#kernel/declare/errors.ts'
import { linearPattern } from '#kernel/foreign/linear-pattern.ts'
import { limits } from '#kernel/limits.ts'
import { assertMatches } from '#kernel/declare/schema.ts'
import type { Fallback } from '#protocols/execution/actions/action.ts'
import { Payload, type Action } from '#protocols/execution/actions/index.ts'
import { payloadOf } from '#protocols/execution/asking/payload.ts'
import { isAlike } from '#protocols/execution/asking/hostile-text.ts'

const decide = { question: 'Which plan?', options: ['Basic', 'Pro'] }
const approve = { item: 'Deploy 1.2.3', details: { to: 'staging' } }
const provide = { prompt: 'Which port?', input_type: 'number' }
const asking = (input_type: string, validation: object) => ({ prompt: 'What?', input_type, validation })
const nested = (levels: number): object => (levels === 1 ? {} : { in: nested(levels - 1) })

function refusalOf(action: Action, raw: unknown, fallback: Fallback): Refusal {
  try {
    payloadOf(action, raw, fallback)
  } catch (error) {
    assert.ok(error instanceof Refusal, String(error))
    assert.equal(error.code, 'INVALID_REQUEST')
    return error
  }
  return assert.fail('it was accepted')
}

// --- What is refused -------------------------------------------------------------------------------------------------------

type Row = readonly [title: string, action: Action, payload: unknown, field: string, message: RegExp, fallback?: Fallback]
const refused: readonly Row[] = [
  ['no payload', 'DECIDE', undefined, 'payload', /payload (is required|must be object)/],
  ['payload: null', 'APPROVE', null, 'payload', /payload must be object/],
  ['a payload that is a list', 'PROVIDE', [], 'payload', /payload/],
  ['a payload that is a text', 'DECIDE', 'Which plan?', 'payload', /payload must be object/],
  ['no question', 'DECIDE', { options: ['a', 'b'] }, 'payload.question', /payload.question is required/],
  ['an empty question', 'DECIDE', { ...decide, question: '' }, 'payload.question', /fewer than 1 char/],
  ['a blank question', 'DECIDE', { ...decide, question: ' \n\u00A0' }, 'payload.question', /must not be blank/],
  ['a question that is a number', 'DECIDE', { ...decide, question: 7 }, 'payload.question', /must be string/],
  ['a question of 301 characters', 'DECIDE', { ...decide, question: 'q'.repeat(301) }, 'payload.question', /more than 300 char/],
  [
    'a question that turns its direction',
    'DECIDE',
    { ...decide, question: 'pay \u202E001' },
    'payload.question',
    /change of direction U\+202E/,
  ],
  ['no options', 'DECIDE', { question: 'Which?' }, 'payload.options', /is required/],
  ['1 option', 'DECIDE', { ...decide, options: ['a'] }, 'payload.options', /fewer than 2 items/],
  ['7 options', 'DECIDE', { ...decide, options: Array.from('abcdefg') }, 'payload.options', /more than 6 items/],
  ['options that are a text', 'DECIDE', { ...decide, options: 'ab' }, 'payload.options', /must be array/],
  ['an option that is a number', 'DECIDE', { ...decide, options: ['a', 1] }, 'payload.options.1', /must be string/],
  ['an option that is an object', 'DECIDE', { ...decide, options: ['a', { label: 'b' }] }, 'payload.options.1', /must be string/],
  ['an option that is null', 'DECIDE', { ...decide, options: ['a', null] }, 'payload.options.1', /must be string/],
  ['an empty option', 'DECIDE', { ...decide, options: ['a', ''] }, 'payload.options.1', /fewer than 1 char/],
  ['a blank option', 'DECIDE', { ...decide, options: ['a', ' '] }, 'payload.options.1', /must not be blank/],
  ['an option of 81 characters', 'DECIDE', { ...decide, options: ['a', 'b'.repeat(81)] }, 'payload.options.1', /more than 80 char/],
  ['an option of two lines', 'DECIDE', { ...decide, options: ['a', 'b\nc'] }, 'payload.options.1', /must be one line/],
  ['the same option twice', 'DECIDE', { ...decide, options: ['a', 'b', 'a'] }, 'payload.options', /1 and 3 are the same/],
  ['options that differ in case', 'DECIDE', { ...decide, options: ['Yes', 'yes'] }, 'payload.options', /1 and 2 look the same/],
  ['options that differ in spaces', 'DECIDE', { ...decide, options: ['Yes', 'Yes '] }, 'payload.options', /1 and 2 look the same/],
  ['options that look alike', 'DECIDE', { ...decide, options: ['COPA', '\u0421\u041E\u0420\u0410'] }, 'payload.options', /look the same/],
  ['an option of two scripts', 'DECIDE', { ...decide, options: ['\u0410pprove', 'Reject'] }, 'payload.options.0', /several scripts/],
  ['an invisible option', 'DECIDE', { ...decide, options: ['a', '\u3164'] }, 'payload.options.1', /invisible character U\+3164/],
  [
    'a default not among the options',
    'DECIDE',
    { ...decide, default_option: 'Max' },
    'payload.default_option',
    /must be one of the options/,
  ],
  ['a default in another case', 'DECIDE', { ...decide, default_option: 'pro' }, 'payload.default_option', /must be one of the options/],
  ['a default that is a number', 'DECIDE', { ...decide, default_option: 0 }, 'payload.default_option', /must be string/],
  ['fallback default without one', 'DECIDE', decide, 'payload.default_option', /is required when the fallback is default/, 'default'],
  ['fallback default with null', 'DECIDE', { ...decide, default_option: null }, 'payload.default_option', /is required/, 'default'],
  ['a context of 501 characters', 'DECIDE', { ...decide, context: 'c'.repeat(501) }, 'payload.context', /more than 500 char/],
  ['a context that is an object', 'APPROVE', { ...approve, context: {} }, 'payload.context', /must be string/],

  [
    'a default on APPROVE',
    'APPROVE',
    { ...approve, default_option: 'approved' },
    'payload.default_option',
    /is for DECIDE, not for APPROVE/,
  ],
  ['a default on PROVIDE', 'PROVIDE', { ...provide, default_option: '1' }, 'payload.default_option', /is for DECIDE, not for PROVIDE/],
  ['fallback default on APPROVE', 'APPROVE', approve, 'fallback', /nobody is taken to have answered APPROVE/, 'default'],
  ['fallback default on PROVIDE', 'PROVIDE', provide, 'fallback', /nobody is taken to have answered PROVIDE/, 'default'],
  ['no item', 'APPROVE', { details: {} }, 'payload.item', /is required/],
  ['a blank item', 'APPROVE', { item: ' ' }, 'payload.item', /must not be blank/],
  ['an item with a zero-width space', 'APPROVE', { item: 'De\u200Bploy' }, 'payload.item', /invisible character U\+200B/],
  ['an item of 301 characters', 'APPROVE', { item: 'i'.repeat(301) }, 'payload.item', /more than 300 char/],
  ['details that are a list', 'APPROVE', { ...approve, details: [1] }, 'payload.details', /must be object/],
  ['details that are a text', 'APPROVE', { ...approve, details: 'x' }, 'payload.details', /must be object/],
  ['details of 13 levels', 'APPROVE', { ...approve, details: nested(13) }, 'payload.details', /nested more than 12 deep/],
  ['10 kB of nesting', 'APPROVE', { ...approve, details: nested(2_000) }, 'payload.details', /nested more than 12 deep/],
  ['details above 16 KiB', 'APPROVE', { ...approve, details: { a: 'ä'.repeat(8_192) } }, 'payload.details', /larger than 16384 bytes/],
  ['details that are not JSON', 'APPROVE', { ...approve, details: { a: undefined } }, 'payload.details', /is not JSON/],
  ['a flag that is a text', 'APPROVE', { ...approve, reject_requires_reason: 'yes' }, 'payload.reject_requires_reason', /must be boolean/],
  ['an empty scope', 'APPROVE', { ...approve, scope: '' }, 'payload.scope', /fewer than 1 char/],
  ['a scope of two lines', 'APPROVE', { ...approve, scope: 'a\nb' }, 'payload.scope', /must be one line/],
  ['a scope of 201 characters', 'APPROVE', { ...approve, scope: 's'.repeat(201) }, 'payload.scope', /more than 200 char/],

  ['no prompt', 'PROVIDE', { input_type: 'text' }, 'payload.prompt', /is required/],
  ['a prompt of 301 characters', 'PROVIDE', { ...provide, prompt: 'p'.repeat(301) }, 'payload.prompt', /more than 300 char/],
  ['no input type', 'PROVIDE', { prompt: 'What?' }, 'payload.input_type', /is required/],
  [
    'an unknown input type',
    'PROVIDE',
    { ...provide, input_type: 'password' },
    'payload.input_type',
    /must be one of: text, number, url, email/,
  ],
  ['a placeholder of 201 characters', 'PROVIDE', { ...provide, placeholder: 'p'.repeat(201) }, 'payload.placeholder', /more than 200 char/],
  [
    'a placeholder that hides something',
    'PROVIDE',
    { ...provide, placeholder: 'a\u2060' },
    'payload.placeholder',
    /invisible character U\+2060/,
  ],
  ['a validation that is a text', 'PROVIDE', { ...provide, validation: 'x' }, 'payload.validation', /must be object/],
  ['a secret file', 'PROVIDE', { prompt: 'Key?', input_type: 'file', sensitive: true }, 'payload.sensitive', /not for file/],
  [
    'a secret selection',
    'PROVIDE',
    { ...asking('selection', { allowed_values: ['a'] }), sensitive: true },
    'payload.sensitive',
    /not for selection/,
  ],
  [
    'a selection of nothing',
    'PROVIDE',
    { prompt: 'Which?', input_type: 'selection' },
    'payload.validation.allowed_values',
    /is required for a selection/,
  ],
  [
    'a selection of no values',
    'PROVIDE',
    asking('selection', { allowed_values: [] }),
    'payload.validation.allowed_values',
    /fewer than 1 items/,
  ],
  [
    'a selection of 101 values',
    'PROVIDE',
    asking('selection', { allowed_values: Array.from({ length: 101 }, (_, i) => i) }),
    'payload.validation.allowed_values',
    /more than 100 items/,
  ],
  [
    'the same value twice',
    'PROVIDE',
    asking('selection', { allowed_values: ['a', 'a'] }),
    'payload.validation.allowed_values',
    /1 and 2 are the same/,
  ],
  [
    'a number and its text',
    'PROVIDE',
    asking('selection', { allowed_values: [1, '1'] }),
    'payload.validation.allowed_values',
    /1 and 2 are the same/,
  ],
  [
    'values that look alike',
    'PROVIDE',
    asking('selection', { allowed_values: ['Plan I', 'Plan l'] }),
    'payload.validation.allowed_values',
    /look the same/,
  ],
  ['a blank value', 'PROVIDE', asking('selection', { allowed_values: [' '] }), 'payload.validation.allowed_values.0', /must not be blank/],
  [
    'a value of 201 characters',
    'PROVIDE',
    asking('selection', { allowed_values: ['v'.repeat(201)] }),
    'payload.validation.allowed_values.0',
    /more than 200 characters/,
  ],
  [
    'a value that is an object',
    'PROVIDE',
    asking('selection', { allowed_values: [{}] }),
    'payload.validation.allowed_values.0',
    /must be string/,
  ],
  [
    'a text among numbers',
    'PROVIDE',
    asking('number', { allowed_values: [1, '2'] }),
    'payload.validation.allowed_values.1',
    /must be a number/,
  ],
  [
    'a number among texts',
    'PROVIDE',
    asking('text', { allowed_values: ['1', 2] }),
    'payload.validation.allowed_values.1',
    /must be a text/,
  ],
  [
    'a value outside the bounds',
    'PROVIDE',
    asking('number', { min: 1, allowed_values: [1, 0] }),
    'payload.validation.allowed_values.1',
    /could never be given: it must be at least 1/,
  ],
  [
    'a value that is not an address',
    'PROVIDE',
    asking('url', { allowed_values: ['example.com'] }),
    'payload.validation.allowed_values.0',
    /could never be given/,
  ],
  ['pattern and regex', 'PROVIDE', asking('text', { pattern: 'a', regex: 'a' }), 'payload.validation.pattern', /are the same thing/],
  [
    'a pattern for a number',
    'PROVIDE',
    asking('number', { pattern: '1' }),
    'payload.validation.pattern',
    /does not apply to number, only: min, max/,
  ],
  ['a regex for a file', 'PROVIDE', asking('file', { regex: '1' }), 'payload.validation.pattern', /does not apply to file/],
  ['a size for a text', 'PROVIDE', asking('text', { max_bytes: 1 }), 'payload.validation.max_bytes', /does not apply to text/],
  [
    'media types for a selection',
    'PROVIDE',
    asking('selection', { media_types: ['image/*'] }),
    'payload.validation.media_types',
    /does not apply to selection/,
  ],
  ['several e-mails', 'PROVIDE', asking('email', { multiple: true }), 'payload.validation.multiple', /does not apply to email/],
  ['min above max', 'PROVIDE', asking('number', { min: 2, max: 1 }), 'payload.validation.min', /is greater than max/],
  ['a text min', 'PROVIDE', asking('number', { min: '1' }), 'payload.validation.min', /must be number/],
  ['a fractional length', 'PROVIDE', asking('text', { min: 1.5 }), 'payload.validation.min', /whole number from 0 to 4000/],
  ['a negative length', 'PROVIDE', asking('text', { max: -1 }), 'payload.validation.max', /whole number from 0 to 4000/],
  ['a length above the bound', 'PROVIDE', asking('text', { max: 4_001 }), 'payload.validation.max', /whole number from 0 to 4000/],
  ['a length of nothing', 'PROVIDE', asking('text', { max: 0 }), 'payload.validation.max', /leaves no text/],
  ['a file of no bytes', 'PROVIDE', asking('file', { max_bytes: 0 }), 'payload.validation.max_bytes', /must be >= 1/],
  ['a file of half a byte', 'PROVIDE', asking('file', { max_bytes: 0.5 }), 'payload.validation.max_bytes', /integer|>= 1/],
  [
    'a file above what is stored',
    'PROVIDE',
    asking('file', { max_bytes: limits.blobBytesMax + 1 }),
    'payload.validation.max_bytes',
    /must be <= /,
  ],
  [
    '21 media types',
    'PROVIDE',
    asking('file', { media_types: Array.from({ length: 21 }, (_, i) => `a/${i}`) }),
    'payload.validation.media_types',
    /more than 20 items/,
  ],
  [
    'what is no media type',
    'PROVIDE',
    asking('file', { media_types: ['image/*', 'png'] }),
    'payload.validation.media_types.1',
    /must be a media type/,
  ],
  ['a media type twice', 'PROVIDE', asking('file', { media_types: ['a/b', 'A/B'] }), 'payload.validation.media_types.1', /each once/],
  ['a catastrophic pattern', 'PROVIDE', asking('text', { pattern: '^(a+)+$' }), 'payload.validation.pattern', /repeats a repetition/],
  [
    'a pattern of 201 characters',
    'PROVIDE',
    asking('text', { pattern: 'a'.repeat(201) }),
    'payload.validation.pattern',
    /more than 200 characters/,
  ],
  ['a pattern that unfolds', 'PROVIDE', asking('text', { pattern: '.{0,301}' }), 'payload.validation.pattern', /more than 300 parts/],
  ['a back-reference', 'PROVIDE', asking('text', { regex: '(a)\\1' }), 'payload.validation.pattern', /no back-reference/],
  ['a look-ahead', 'PROVIDE', asking('text', { pattern: '(?=a)b' }), 'payload.validation.pattern', /no look-around/],
  ['a look-behind', 'PROVIDE', asking('text', { pattern: '(?<=a)b' }), 'payload.validation.pattern', /no look-around/],
  [
    'a pattern that does not close',
    'PROVIDE',
    asking('text', { pattern: '(a' }),
    'payload.validation.pattern',
    /cannot be used: missing closing/,
  ],
]
for (const [title, action, payload, field, message, fallback = 'pause'] of refused) {
  test(`${title} is refused: ${action}`, () => {
    const refusal = refusalOf(action, payload, fallback)
    assert.match(refusal.message, message)
    assert.equal(refusal.details?.['field'], field)
  })
}

// --- What is accepted ------------------------------------------------------------------------------------------------------

const accepted: readonly (readonly [title: string, action: Action, payload: object, expected: object, fallback?: Fallback])[] = [
  [
    'the example of the draft',
    'DECIDE',
    { question: 'Approve $99/mo Stripe plan?', options: ['Approve', 'Deny'], context: 'Required.' },
    { question: 'Approve $99/mo Stripe plan?', options: ['Approve', 'Deny'], context: 'Required.' },
  ],
  [
    'everything at its bound',
    'DECIDE',
    { question: '😀'.repeat(300), options: Array.from('abcdef').map((letter) => letter.repeat(80)), context: 'c'.repeat(500) },
    { question: '😀'.repeat(300), options: Array.from('abcdef').map((letter) => letter.repeat(80)), context: 'c'.repeat(500) },
  ],
  ['a default that is used', 'DECIDE', { ...decide, default_option: 'Pro' }, { ...decide, default_option: 'Pro' }, 'default'],
  ['a default that is only preselected', 'DECIDE', { ...decide, default_option: 'Pro' }, { ...decide, default_option: 'Pro' }, 'fail'],
  ['null for what is not said', 'DECIDE', { ...decide, context: null, default_option: null }, decide],
  ['an empty context', 'DECIDE', { ...decide, context: '' }, { ...decide, context: '' }],
  ['hostile context, which is shown escaped', 'DECIDE', { ...decide, context: '\u202Eabc' }, { ...decide, context: '\u202Eabc' }],
  ['no details', 'APPROVE', { item: 'Deploy' }, { item: 'Deploy', details: {} }],
  [
    'details of 12 levels, whatever they hold',
    'APPROVE',
    { item: 'Deploy', details: { ...nested(12), a: [1, null, '\u200B'] } },
    { item: 'Deploy', details: { ...nested(12), a: [1, null, '\u200B'] } },
  ],
  [
    'details of 16 KiB',
    'APPROVE',
    { item: 'Deploy', details: { a: 'x'.repeat(16_384 - 8) } },
    { item: 'Deploy', details: { a: 'x'.repeat(16_384 - 8) } },
  ],
  [
    'a reason and a scope',
    'APPROVE',
    { ...approve, reject_requires_reason: true, scope: 'deploy:staging' },
    { ...approve, reject_requires_reason: true, scope: 'deploy:staging' },
  ],
  ['a plain question', 'PROVIDE', provide, provide],
  [
    'a secret',
    'PROVIDE',
    { prompt: 'API key?', input_type: 'text', sensitive: true, placeholder: 'sk-…' },
    { prompt: 'API key?', input_type: 'text', sensitive: true, placeholder: 'sk-…' },
  ],
  ['regex, which is pattern', 'PROVIDE', asking('text', { regex: '^a+$', min: null }), asking('text', { pattern: '^a+$' })],
  ['a length', 'PROVIDE', asking('text', { min: 0, max: 4_000 }), asking('text', { min: 0, max: 4_000 })],
  [
    'negative and fractional bounds of a number',
    'PROVIDE',
    asking('number', { min: -1.5, max: -1.5 }),
    asking('number', { min: -1.5, max: -1.5 }),
  ],
  [
    'media types',
    'PROVIDE',
    asking('file', { max_bytes: 1, media_types: ['Image/*', 'text/plain'] }),
    asking('file', { max_bytes: 1, media_types: ['image/*', 'text/plain'] }),
  ],
  [
    'a selection of numbers and texts',
    'PROVIDE',
    asking('selection', { allowed_values: [1, 2, 'more'], multiple: true }),
    asking('selection', { allowed_values: [1, 2, 'more'], multiple: true }),
  ],
]
for (const [title, action, payload, expected, fallback = 'pause'] of accepted) {
  test(`${title} is accepted: ${action}`, () => {
    const made = payloadOf(action, payload, fallback)
    assert.deepEqual(made, expected)
    assert.deepEqual(payloadOf(action, made, fallback), expected)
    assertMatches(Payload, made, 'payload')
  })
}

// --- Properties ------------------------------------------------------------------------------------------------------------

const word = (maxLength: number) => fc.stringMatching(/^[a-zA-Zäöü0-9 .?()-]+$/, { maxLength }).filter((text) => text.trim() !== '')
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const given = (fields: object): object => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
const context = optional(fc.string({ unit: 'grapheme', maxLength: 100 }))
const unknown = fc.dictionary(fc.stringMatching(/^x_[a-z]{1,8}$/), fc.jsonValue())

const decides = fc
  .uniqueArray(word(80), { minLength: 2, maxLength: 6, comparator: isAlike })
  .chain((options) =>
    fc.record({ question: word(300), options: fc.constant(options), context, default_option: optional(fc.constantFrom(...options)) }),
  )
const approves = fc.record({
  item: word(300),
  details: optional(
    fc.dictionary(
      fc.string({ maxLength: 20 }).filter((key) => key !== '__proto__'),
      fc.jsonValue({ maxDepth: 6 }),
      { maxKeys: 5 },
    ),
  ),
  context,
  reject_requires_reason: optional(fc.boolean()),
  scope: optional(word(200)),
})
const bounds = (least: number, most: number) =>
  fc
    .tuple(optional(fc.integer({ min: least, max: 0 })), optional(fc.integer({ min: 1, max: most })))
    .map(([min, max]) => given({ min, max }))
const provides = fc.oneof(
  fc.record({
    prompt: word(300),
    input_type: fc.constant('text'),
    context,
    validation: optional(bounds(0, 4_000)),
    sensitive: optional(fc.boolean()),
  }),
  fc.record({ prompt: word(300), input_type: fc.constant('number'), context, validation: optional(bounds(-1e9, 1e9)) }),
  fc.record({ prompt: word(300), input_type: fc.constantFrom('url', 'email', 'file'), placeholder: optional(word(200)) }),
  fc.record({
    prompt: word(300),
    input_type: fc.constant('selection'),
    validation: fc.record(
      { allowed_values: fc.uniqueArray(word(80), { minLength: 1, maxLength: 10, comparator: isAlike }) },
      { noNullPrototype: true },
    ),
  }),
)
const valid: fc.Arbitrary<readonly [Action, object]> = fc.oneof(
  decides.map((payload) => ['DECIDE', payload] as const),
  approves.map((payload) => ['APPROVE', payload] as const),
  provides.map((payload) => ['PROVIDE', payload] as const),
)

test('a valid payload is accepted as it is, and again; beside a field that is not known it is refused', () => {
  fc.assert(
    fc.property(valid, unknown, ([action, fields], more) => {
      const asked = given(fields)
      if (Object.values(more).some((value) => value !== null))
        assert.throws(() => payloadOf(action, { ...more, ...asked }, 'pause'), /^Refusal: payload\.x_[a-z]+ is not a field here/)
      const made = payloadOf(action, asked, 'pause')
      assert.deepEqual(made, action === 'APPROVE' ? { details: {}, ...asked } : asked)
      assert.deepEqual(payloadOf(action, made, 'pause'), made)
      assertMatches(Payload, made, 'payload')
    }),
    { numRuns: 500 },
  )
})
test('anything else is refused in words, and nothing but a refusal is ever thrown', () => {
  const broken = valid.chain(([action, fields]) =>
    fc
      .tuple(fc.constant(action), fc.constantFrom(...Object.keys(fields)), fc.jsonValue())
      .map(([kind, key, value]) => [kind, { ...fields, [key]: value }] as const),
  )
  fc.assert(
    fc.property(fc.oneof(broken, fc.tuple(fc.constantFrom<Action>('DECIDE', 'APPROVE', 'PROVIDE'), fc.jsonValue())), ([action, raw]) => {
      try {
        assertMatches(Payload, payloadOf(action, raw, 'pause'), 'payload')
      } catch (error) {
        assert.ok(error instanceof Refusal, String(error))
        assert.ok(error.message.length < 500)
      }
    }),
    { numRuns: 1_000 },
  )
})
test('two options with one fold are refused at every position', () => {
  const changed = (option: string) =>
    fc.constantFrom(option, option.toUpperCase(), ` ${option}`, `${option}\u00A0`, option.normalize('NFD'), option.replaceAll('o', '0'))
  fc.assert(
    fc.property(
      fc
        .uniqueArray(word(39), { minLength: 1, maxLength: 5, comparator: isAlike })
        .chain((options) => fc.tuple(fc.constant(options), fc.constantFrom(...options).chain(changed), fc.nat(options.length))),
      ([options, twin, place]) => {
        const refusal = refusalOf('DECIDE', { question: 'Which?', options: options.toSpliced(place, 0, twin) }, 'pause')
        assert.match(refusal.message, /payload.options must be distinct/)
      },
    ),
  )
})

// --- Patterns --------------------------------------------------------------------------------------------------------------

const nestedOnes = [
  '(a+)+',
  '(a*)*',
  '(a|b+)*',
  '(\\w+\\s?)*$',
  '((a+))+',
  '(?:a+)+',
  '(?P<n>a+)+',
  '(?i:a+){2,}',
  '(.*)*',
  '([a-z]+)*',
  '(\\x41+)+',
  '(\\pL+)*',
  '(a{2,})+',
  '(^a+$)+',
  '((a+)?b?)*',
  '(a+?)+?',
]
const plainOnes = [
  '^\\d+(,\\d+)*$',
  '^[a-z]+(-[a-z]+)*$',
  '(a+b)+',
  '(ab?)+',
  '([(+)*]+,)*',
  '\\(a+\\)+',
  '\\Q(a+)+\\E',
  '(a{2,3})+',
  '(a+){2}',
  '[]+)+]+',
  '(?i)a+',
  'a|b|',
  '',
  '^$',
  '{',
  'a{,2}',
  '[[:alpha:]]+x*',
  '\\p{Greek}+',
]
test('a repetition of a repetition is refused, what only resembles it is not', () => {
  for (const pattern of nestedOnes)
    assert.match(refusalOf('PROVIDE', asking('text', { pattern }), 'pause').message, /repeats a repetition/, pattern)
  for (const pattern of plainOnes) payloadOf('PROVIDE', asking('text', { pattern }), 'pause')
})

/** Pieces that make backtracking engines hang, put together in every way. */
const cores = [
  '(a+)+',
  '(a|a)+',
  '(a|aa)+',
  '(.*a){12}',
  '(a*)*',
  '([a-z]+)*',
  '(a|b|ab)*',
  '(.*)*',
  '(\\w+\\s?)+',
  '(a?){30}a{30}',
  '.*.*.*.*',
  '(x+x+)+y',
  '((a+)+)+',
  '(a{1,20}){1,12}',
  '(?:a|a?)+',
  '.{0,1000}',
  '(.{0,99}){99}',
  '\\d+\\d+\\d+',
  '(?i)(a|A)*',
  '[^x]*[^y]*[^z]*',
]
const heads = ['', '^', '.*', '(?:b|c)?', '\\b']
const tails = ['$', '!$', '[x-z]', '\\z', 'b{3}$', '(c|d)+$', '[^a]$', '\\B', '.{9}x', '']
const evil = heads.flatMap((head) => cores.flatMap((core) => tails.map((tail) => head + core + tail)))
test('of 1,000 evil patterns all are refused or run to their end on the longest text', () => {
  const text = 'aab'.repeat(limits.textCharsMax).slice(0, limits.textCharsMax)
  assert.equal(evil.length, 1_000)
  let [refusals, runs] = [0, 0]
  for (const pattern of evil) {
    let matches: (text: string) => boolean
    try {
      matches = linearPattern(pattern, 'INVALID_REQUEST', 'pattern')
    } catch (error) {
      assert.ok(error instanceof Refusal, String(error))
      refusals++
      continue
    }
    matches(text)
    runs++
  }
  // The eight cores that repeat a repetition or unfold are refused with every head and tail; the rest run to their end.
  assert.deepEqual({ refusals, runs }, { refusals: 400, runs: 600 })
})
test('a pattern searches: who means the whole text says so', () => {
  assert.ok(linearPattern('b', 'INVALID_REQUEST', 'pattern')('abc'))
  assert.ok(!linearPattern('^b$', 'INVALID_REQUEST', 'pattern')('abc'))
  assert.ok(!linearPattern('^b$', 'INVALID_REQUEST', 'pattern')('b\n'))
  assert.ok(linearPattern('^.$', 'INVALID_REQUEST', 'pattern')('😀'))
})
