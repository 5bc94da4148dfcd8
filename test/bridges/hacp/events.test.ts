// Events of tasks on the wire: what a subscription cannot be told costs the subscription alone.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Connection } from '#bindings/jsonrpc/connection.ts'
import { createTaskEvents } from '#bridges/hacp/events.ts'
import type { Failure } from '#bridges/hacp/failures.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Tail } from '#kernel/log/tail.ts'

test('a task whose past cannot be read ends its subscription, and nothing else', async () => {
  const store = { read: () => Promise.reject(new Error('it differs from the record')) }
  const tail = { follow: () => () => undefined } as unknown as Tail
  const events = createTaskEvents({ store, now: Date.now } as unknown as Kernel, tail)
  const connection = { state: 'open' } as unknown as Connection<Failure>
  events.subscribe('task_1', connection)
  await setImmediate()
  // It would fail where it still told this connection.
  assert.doesNotThrow(() => events.progress('task_1', 0))
  events.stop()
})
