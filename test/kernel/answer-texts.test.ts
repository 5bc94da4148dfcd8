// Answers are written as JSON.stringify would, however often the same document stands in them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { limits } from '#kernel/limits.ts'
import { answerText } from '#kernel/call/answer-texts.ts'

test('an answer is what JSON.stringify makes of it, the first time and every other', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), fc.string(), (one, other, name) => {
      for (const answer of [one, { task: one }, { one, [name]: other, both: [one, other] }])
        for (let time = 0; time < 4; time++) assert.equal(answerText(answer), JSON.stringify(answer))
    }),
    { numRuns: 500 },
  )
})

test('what JSON does not know is left out, and nothing is nothing', () => {
  const answer = { none: undefined, null: null, task: { none: undefined, id: 'a' }, list: [undefined], text: '\u2028"' }
  for (let time = 0; time < 3; time++) assert.equal(answerText(answer), JSON.stringify(answer))
  for (const alone of [null, 'text', 7, true, [], {}]) assert.equal(answerText(alone), JSON.stringify(alone))
})

test('a document that is asked for again is written once, and the one that follows it is another', () => {
  let times = 0
  const version = (n: number): object => ({
    get version() {
      times++
      return n
    },
  })
  const first = version(1)
  for (let time = 0; time < 10; time++) assert.equal(answerText({ task: first }), '{"task":{"version":1}}')
  assert.equal(times, 2, 'once to see it, once to keep it')
  assert.equal(answerText({ task: version(2) }), '{"task":{"version":2}}')
  // Many others in between, and nothing of them is kept.
  for (let n = 0; n < 200; n++) answerText({ task: version(n) })
  assert.equal(answerText({ task: first }), '{"task":{"version":1}}')
  assert.equal(times, 203)
})

test('what is long is written each time: it would hold too much memory', () => {
  let times = 0
  const long = {
    get text() {
      times++
      return 'x'.repeat(limits.answerTextCharsMax)
    },
  }
  for (let time = 0; time < 5; time++) answerText({ long })
  assert.equal(times, 5)
})
