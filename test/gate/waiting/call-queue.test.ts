// The queue of a gate's calls: how many are sent at a time, in which order, and what frees a place.
import { deepEqual, equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { settled } from '../../support/in-process/manual-clock.ts'
import { queueCalls } from '../../../src/gate/waiting/call-queue.ts'

const AT_A_TIME = 16

/** A queue whose calls end when the test says so. */
function played() {
  const sent: string[] = []
  const open = new Map<string, PromiseWithResolvers<unknown>>()
  const call = queueCalls((operation) => {
    sent.push(operation)
    const outcome = Promise.withResolvers<unknown>()
    open.set(operation, outcome)
    return outcome.promise
  })
  return {
    sent,
    call,
    end: (name: string) => open.get(name)!.resolve(name),
    fail: (name: string) => open.get(name)!.reject(new Error(name)),
  }
}
const names = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, i) => `call_${from + i}`)

test('sixteen calls are sent at a time, the others in their order, and each gets its own answer', async () => {
  const { sent, call, end } = played()
  const all = names(0, 40)
  const answers = all.map((name) => call(name, {}))
  await settled()
  deepEqual(sent, names(0, AT_A_TIME))
  end('call_3')
  end('call_9')
  await settled()
  deepEqual(sent, names(0, AT_A_TIME + 2))
  for (const name of all) {
    end(name)
    await settled()
  }
  deepEqual(sent, all)
  deepEqual(await Promise.all(answers), all)
  const more = names(40, 60).map((name) => call(name, {}))
  await settled()
  equal(sent.length, 40 + AT_A_TIME, 'every place is free again, and there are no more of them')
  for (const name of names(40, 60)) {
    end(name)
    await settled()
  }
  await Promise.all(more)
})

test('a call that fails frees its place, and one whose client has gone is not sent and frees its own', async () => {
  const { sent, call, end, fail } = played()
  const first = names(0, AT_A_TIME).map((name) => call(name, {}).catch(() => null))
  const leaving = new AbortController()
  const gone = call('gone', {}, leaving.signal)
  const last = call('last', {})
  leaving.abort(new Error('the client has gone'))
  await settled()
  deepEqual(sent, names(0, AT_A_TIME))
  fail('call_0')
  await rejects(gone, /the client has gone/)
  await settled()
  deepEqual(sent.slice(AT_A_TIME), ['last'])
  end('last')
  equal(await last, 'last')
  for (const name of names(1, AT_A_TIME)) fail(name)
  await Promise.all(first)
})

test('a long poll waits beside the queue and takes no place in it', async () => {
  const { sent, call, end } = played()
  const poll = call('poll', { call_ids: ['a'], wait_seconds: 25 })
  const first = names(0, AT_A_TIME).map((name) => call(name, {}))
  const second = call('second poll', { call_ids: ['b'], wait_seconds: 25 })
  await settled()
  deepEqual(sent, ['poll', ...names(0, AT_A_TIME), 'second poll'])
  for (const name of sent) end(name)
  await Promise.all([poll, second, ...first])
})
