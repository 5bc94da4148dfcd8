// Actions that the page offers on a task: exactly those that the state of the task allows.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { canMove } from '#kernel/declare/transitions.ts'
import { isTerminal, taskMoves, taskStates } from '#protocols/collaboration/states.ts'
import { allowed, stateLabel, titleOf, type Act } from '../../src/web/tasks/states.ts'

test('in each state the page offers what the server allows its principal, and nothing else', () => {
  for (const state of taskStates) {
    const can = (event: string): boolean => canMove(taskMoves, state, event)
    const isWorkedOn = state === 'in_progress' || state === 'blocked'
    const expected: Readonly<Record<Act, boolean>> = {
      Assign: can('task.assign'),
      Reassign: state === 'assigned' || isWorkedOn,
      'Take over': can('task.interrupt'),
      Interrupt: can('task.interrupt'),
      Amend: isWorkedOn,
      // `accepted` is never final: the batch that reaches it also leaves it.
      Extend: !isTerminal(state) && state !== 'accepted',
      'Cancel task': can('task.cancel'),
    }
    const offered = Object.entries(expected).flatMap(([act, is]) => (is ? [act] : []))
    assert.deepEqual([...allowed[state]].toSorted(), offered.toSorted(), state)
  }
})

test('a task reads as what became of it', () => {
  const task = { state: 'completed', outcome: 'cancelled', pending_checkpoint: null } as const
  assert.equal(stateLabel(task), 'Cancelled')
  assert.equal(stateLabel({ ...task, outcome: 'rejected_at_checkpoint' }), 'Rejected')
  assert.equal(stateLabel({ ...task, outcome: 'accepted' }), 'Completed')
  const blocked = { state: 'blocked', outcome: null, pending_checkpoint: 'ckpt_2' } as const
  assert.equal(stateLabel({ ...blocked, taken_over: 'ckpt_2' }), 'Taken over')
  assert.equal(stateLabel({ ...blocked, taken_over: 'ckpt_1' }), 'Waits for people')
})

test('the first line of a goal is its title, cut between words if it is long', () => {
  assert.deepEqual(titleOf('Fix it\n\n- one\n- two\n'), { title: 'Fix it', rest: '- one\n- two' })
  assert.deepEqual(titleOf('Fix it'), { title: 'Fix it', rest: '' })
  const long = 'word '.repeat(60).trim()
  const { title, rest } = titleOf(long)
  assert.ok(title.length <= 121 && title.endsWith('word…'))
  assert.equal(rest, long)
})
