// HACP 0.1.0, sentence for sentence. The tests are in the files below, by section; here they are compared with the rows.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differences } from '../support/laws/requirements.ts'
import { hacp } from './hacp-cited.ts'
import './hacp-objects.ts'
import './hacp-states.ts'
import './hacp-work.ts'
import './hacp-operations.ts'
import './hacp-record.ts'
import './hacp-errors.ts'
import './hacp-flow.ts'
import './hacp-layers.ts'

test('a row without a test, a test without a row, a row twice and a row that is not late any more are each named', () => {
  const rows = [
    { id: 'A', clause: '', text: 'a' },
    { id: 'B', clause: '', text: 'b' },
    { id: 'B', clause: '', text: 'b again' },
    { id: 'C', clause: '', text: 'c', later: 'capabilities' as const },
  ]
  const cited = new Map([
    ['B', 1],
    ['C', 1],
    ['D', 1],
  ])
  assert.deepEqual(differences(rows, cited), [
    'two rows have the id B',
    'no test cites A: a',
    'a test cites D, which is no row',
    'C has a test: it is not for later any more',
  ])
})

hacp.assertAllCited()
