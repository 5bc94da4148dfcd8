// Messages from the broker: a table of accepted and refused messages, in the order of the reasons, and a fuzz test.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { deadReasons, propertiesOf, decodeMessage, type Properties } from '#protocols/harness/message-decoder.ts'
import { answerTypes, commandTypes, textOf, type Envelope } from '#protocols/harness/envelope.ts'

const ID = '0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0001'
const SESSION = '7d8f6a52-1c3b-4e0f-8a65-0a4c7ce0a001'
const submit: Envelope = {
  hcp_version: '1.0',
  message_id: ID,
  timestamp: '2026-01-01T00:00:00.123Z',
  session_id: null,
  type: 'task_submit',
  payload: { intent: 'Grow a film.' },
}
const bytes = (value: unknown): Buffer => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
const mime: Properties = { content_type: 'application/json', content_encoding: 'utf-8' }
const reasonOf = (body: Buffer, properties: Properties = mime, channel: 'commands' | 'events' = 'commands'): string => {
  const result = decodeMessage(channel, body, properties)
  return 'dead' in result ? result.dead.reason : 'taken'
}
const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`

describe('reading a message', () => {
  test('an encoded message decodes to the same message', () => {
    for (const type of [...commandTypes, ...answerTypes]) {
      const envelope: Envelope = { ...submit, type, session_id: type === 'task_submit' ? null : SESSION }
      const channel = (commandTypes as readonly string[]).includes(type) ? 'commands' : 'events'
      assert.deepEqual(decodeMessage(channel, Buffer.from(textOf(envelope)), propertiesOf(envelope)), { envelope })
    }
    assert.deepEqual(propertiesOf({ ...submit, type: 'abort', session_id: SESSION }), {
      message_id: ID,
      type: 'abort',
      timestamp: 1_767_225_600,
      content_type: 'application/json',
      content_encoding: 'utf-8',
      correlation_id: SESSION,
    })
  })

  for (const [message, body, reason] of [
    ['5 MB', Buffer.alloc(5_000_000, 32), 'too_large'],
    ['no JSON', bytes('{"a":'), 'not_json'],
    ['no UTF-8', Buffer.from([0xff, 0xfe]), 'not_json'],
    ['repeated keys', bytes('{"a":1,"a":2}'), 'not_json'],
    ['too deep', bytes(nested(100)), 'not_json'],
    ['a list', bytes('[]'), 'invalid_message'],
    ['a text', bytes('"hello"'), 'invalid_message'],
    ['no version', bytes({ ...submit, hcp_version: undefined }), 'invalid_message'],
    ['a version that is none', bytes({ ...submit, hcp_version: '1' }), 'invalid_message'],
    ['an id of the examples', bytes({ ...submit, message_id: 'msg-001' }), 'invalid_message'],
    ['an id in capitals', bytes({ ...submit, message_id: ID.toUpperCase() }), 'invalid_message'],
    ['a time that is none', bytes({ ...submit, timestamp: 'today' }), 'invalid_message'],
    ['a type that is no text', bytes({ ...submit, type: 7 }), 'invalid_message'],
    ['no payload', bytes({ ...submit, payload: undefined }), 'invalid_message'],
    ['a payload that is a list', bytes({ ...submit, payload: [] }), 'invalid_message'],
    ['a submission that names a session', bytes({ ...submit, session_id: SESSION }), 'invalid_message'],
    ['an abort without a session', bytes({ ...submit, type: 'abort' }), 'invalid_message'],
    ['another major version', bytes({ ...submit, hcp_version: '2.0' }), 'unsupported_version'],
    ['a type that is unknown', bytes({ ...submit, type: 'tool_start', session_id: SESSION }), 'unknown_type'],
    ['a type that is unknown, without a session', bytes({ ...submit, type: 'tool_start' }), 'unknown_type'],
    ['a type of the other queue, without a session', bytes({ ...submit, type: 'event' }), 'unknown_type'],
    ['a type of the other queue', bytes({ ...submit, type: 'event', session_id: SESSION }), 'unknown_type'],
    ['another minor version and unknown fields', bytes({ ...submit, hcp_version: '1.7', more: 1 }), 'taken'],
  ] as const)
    test(`${message}: ${reason}`, () => assert.equal(reasonOf(body), reason))

  test('properties that say something else than the envelope are invalid_message, and absent ones are taken from it', () => {
    const body = bytes(submit)
    for (const more of [
      { message_id: SESSION },
      { type: 'abort' },
      { correlation_id: SESSION },
      { timestamp: 1 },
      { content_type: 'text/plain' },
      { content_type: undefined },
      { content_encoding: undefined },
      { content_encoding: 'gzip' },
    ])
      assert.equal(reasonOf(body, { ...mime, ...more }), 'invalid_message', JSON.stringify(more))
    assert.equal(reasonOf(body), 'taken')
    assert.equal(reasonOf(body, propertiesOf(submit)), 'taken')
    const large = Buffer.alloc(300_000, 'x')
    assert.equal(reasonOf(large, { content_type: 'application/json' }), 'too_large')
  })

  test('a task_rejected without a session is taken, with null and with none', () => {
    for (const session_id of [null, 'none', SESSION])
      assert.equal(reasonOf(bytes({ ...submit, type: 'task_rejected', session_id }), mime, 'events'), 'taken')
  })

  test('any bytes decode to an envelope or a reason, and never throw', () => {
    const json = fc.jsonValue({ maxDepth: 4 })
    const text = JSON.stringify(submit)
    const mutated = fc
      .tuple(fc.nat(text.length - 1), fc.integer({ min: 0, max: 255 }))
      .map(([at, byte]) => Buffer.concat([Buffer.from(text.slice(0, at)), Buffer.from([byte]), Buffer.from(text.slice(at + 1))]))
    const swapped = fc.tuple(fc.constantFrom(...Object.keys(submit)), json).map(([name, value]) => bytes({ ...submit, [name]: value }))
    const body = fc.oneof(fc.uint8Array({ maxLength: 300 }).map(Buffer.from), json.map(bytes), mutated, swapped)
    const properties = fc.record(
      {
        message_id: fc.string(),
        correlation_id: fc.string(),
        type: fc.string(),
        timestamp: fc.integer(),
        content_type: fc.string(),
        content_encoding: fc.string(),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(body, fc.oneof(fc.constant(mime), properties), fc.constantFrom('commands', 'events'), (given, props, channel) => {
        const result = decodeMessage(channel, given, props)
        if ('dead' in result) assert.ok(deadReasons.includes(result.dead.reason) && result.dead.detail !== '')
        else assert.deepEqual(Object.keys(result.envelope).toSorted(), Object.keys(submit).toSorted())
      }),
      { numRuns: 2_000 },
    )
  })
})
