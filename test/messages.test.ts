// The texts that people may read: the list of them is made from the sources, and none begins a sentence without naming its subject.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { messages, textsIn } from '../scripts/messages.ts'

test('a template is one text, with a sign for each hole, whatever stands in the holes', () => {
  const source = "say(`the ${kind} of ${() => { return `an ${inner} one` }} is gone`, 'it\\'s late')"
  assert.deepEqual(textsIn(source), ['an … one', 'the … of … is gone', "it's late"])
})

/** Such a sentence leaves its reader to guess which thing is meant. */
const UNNAMED = /(?:^|[.!?:;] )(?:what|who|whoever)\b/i

test('no message has a sentence that begins with what, who or whoever', () => {
  const found = [...messages()].flatMap(([file, texts]) => texts.filter((text) => UNNAMED.test(text)).map((text) => `${file}: ${text}`))
  assert.deepEqual(found, [])
})
