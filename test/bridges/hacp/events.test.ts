// Events of tasks on the wire: a past that cannot be told costs the subscription alone.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Connection } from '#bindings/jsonrpc/connection.ts'
import { createTaskEvents } from '#bridges/hacp/events.ts'
import type { Failure } from '#bridges/hacp/failures.ts'
import type { Caller, Hacp } from '#bridges/hacp/index.ts'
import { methodsOf } from '#bridges/hacp/methods.ts'
import type { Kernel } from '#kernel/kernel.ts'

test('a task whose past cannot be read refuses its subscription, and keeps nothing of it', async () => {
  let isFollowed = (): boolean => true
  const follow = (_: unknown, wants: () => boolean): (() => void) => {
    isFollowed = wants
    return () => undefined
  }
  const call = (): Promise<never> => Promise.reject(new Error('it differs from the record'))
  const kernel = { protocols: [], now: Date.now, call, tail: { follow } } as unknown as Kernel
  const events = createTaskEvents(kernel)
  const hacp = { kernel, events, sessions: { use() {} }, options: {} } as unknown as Hacp
  const connection = { state: 'open' } as unknown as Connection<Failure>
  const subscribe = methodsOf(hacp).get('task.events.subscribe')!
  await assert.rejects(
    subscribe(
      { connection, actor: { id: 'policy:default' } } as unknown as Caller,
      { session_id: 's', task_id: 'task_1' },
      () => undefined,
    ),
  )
  assert.equal(isFollowed(), false)
  events.stop()
})
