// Unsent answers: each counts for the actor that asked for it, and an answer that waits behind another one does not count as being sent.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import type { Writable } from 'node:stream'
import { test } from 'node:test'
import { createUnsentAnswers } from '#bindings/shared/unsent-answers.ts'

/** A connection that has handed over everything and takes nothing. */
const connection = (): Writable & { isCut: boolean } =>
  Object.assign(new EventEmitter(), {
    writableLength: 0,
    isCut: false,
    destroy(this: { isCut: boolean }) {
      this.isCut = true
    },
  }) as unknown as Writable & { isCut: boolean }

test('answers on one connection count for the actors that asked, in the order in which they are taken', () => {
  const unsent = createUnsentAnswers(undefined, { perActor: 1_000, share: 10, total: 10_000 })
  const line = connection()
  unsent.hold(line, '', 500)
  unsent.hold(line, 'agent_a', 2_000)
  assert.deepEqual([unsent.hasRoom(''), unsent.hasRoom('agent_a')], [true, false])
  unsent.release(line, 2_000)
  assert.equal(unsent.hasRoom('agent_a'), true)
  assert.throws(
    () => {
      unsent.hold(line, 'agent_a', 600)
      unsent.admit('agent_a')
    },
    { code: 'QUOTA_EXCEEDED' },
  )
  line.emit('close')
  unsent.admit('agent_a')
})

test('a connection over its bound whose answers wait behind a call is cut', async () => {
  const unsent = createUnsentAnswers(undefined, { perActor: 1_000, share: 10, total: 10_000, staleMs: 40 })
  const line = connection()
  unsent.hold(line, 'agent_a', 5_000)
  for (let i = 0; i < 100 && !line.isCut; i++) await new Promise((done) => setTimeout(done, 20))
  assert.equal(line.isCut, true)
})
