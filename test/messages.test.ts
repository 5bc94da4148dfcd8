// The list of texts that people may read is made from the sources; here its reading of literals is held.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { textsIn } from '../scripts/messages.ts'

test('a template is one text, with a sign for each hole, whatever stands in the holes', () => {
  const source = "say(`the ${kind} of ${() => { return `an ${inner} one` }} is gone`, 'it\\'s late')"
  assert.deepEqual(textsIn(source), ['an … one', 'the … of … is gone', "it's late"])
})
