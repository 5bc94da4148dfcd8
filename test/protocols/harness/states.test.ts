// The state machine of a session, exhaustively: every pair of states is an edge of the table or refused.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { canMove, isAtWork, isEnded, nextState, sessionMoves, sessionStates } from '#protocols/harness/states.ts'

/** HCP 1.0, L2, and PENDING to ABORTED (C3). */
const edges = new Set([
  'PENDING RUNNING',
  'PENDING REJECTED',
  'PENDING ABORTED',
  'RUNNING PAUSED',
  'PAUSED RUNNING',
  'RUNNING ABORTING',
  'PAUSED ABORTING',
  'ABORTING ABORTED',
  'RUNNING COMPLETED',
  'RUNNING FAILED',
])

test('every pair of states is an edge of the table or refused', () => {
  assert.equal(sessionMoves.length, edges.size)
  for (const from of sessionStates)
    for (const to of sessionStates) {
      const isEdge = edges.has(`${from} ${to}`)
      assert.equal(canMove(from, to), isEdge, `${from} to ${to}`)
      if (isEdge) assert.equal(nextState(from, to), to)
      else
        assert.throws(() => nextState(from, to), { code: 'PRECONDITION_FAILED', message: `a session that is ${from} cannot become ${to}` })
    }
})

test('nothing leaves an end, and every state leads to one', () => {
  for (const state of sessionStates) {
    const onward = sessionStates.filter((to) => canMove(state, to))
    assert.equal(onward.length === 0, isEnded(state), state)
    assert.ok(!(isEnded(state) && isAtWork(state)))
  }
  assert.ok(!canMove('PAUSED', 'FAILED') && !canMove('PAUSED', 'COMPLETED'), 'C11: by RUNNING alone')
})
