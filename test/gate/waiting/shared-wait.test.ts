// The one long poll of a gate: which calls it carries, and who is answered.
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import type { CallView } from '../../../src/gate/port.ts'
import { sharedWait } from '../../../src/gate/waiting/shared-wait.ts'

type Polled = { readonly ids: readonly string[]; readonly signal: AbortSignal; answer(...ids: string[]): void; fail(error: Error): void }

const view = (call_id: string): CallView => ({ call_id, state: 'approved', digest: '' })
const signal = new AbortController().signal

/** The polls of a gate, and the next one that is sent. */
function played(): { waits: ReturnType<typeof sharedWait>; polls: Polled[]; next(): Promise<Polled> } {
  const polls: Polled[] = []
  let heard = Promise.withResolvers<Polled>()
  const waits = sharedWait((ids, _, stop) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly CallView[]>()
    stop.addEventListener('abort', () => reject(new Error('aborted')))
    const poll = { ids, signal: stop, answer: (...those: string[]) => resolve(those.map(view)), fail: reject }
    polls.push(poll)
    heard.resolve(poll)
    heard = Promise.withResolvers()
    return promise
  })
  return { waits, polls, next: () => heard.promise }
}

test('calls that wait share one poll, a later one joins it, and an answer leaves the others waiting', async () => {
  const { waits, polls, next } = played()
  const first = next()
  const one = waits.until('a', Infinity, signal)
  const other = waits.until('b', Infinity, signal)
  deepEqual((await first).ids, ['a', 'b'])
  const second = next()
  const late = waits.until('c', Infinity, signal)
  const joined = await second
  deepEqual(joined.ids, ['a', 'b', 'c'])
  ok(polls[0]!.signal.aborted, 'the poll without it has ended')
  const third = next()
  joined.answer('b')
  equal((await other)?.call_id, 'b')
  const rest = await third
  deepEqual(rest.ids, ['a', 'c'])
  rest.answer('a', 'c')
  deepEqual([(await one)?.call_id, (await late)?.call_id], ['a', 'c'])
})

test('a refused poll fails the calls in it, and a client that leaves is no longer waited for', async () => {
  const { waits, next } = played()
  const first = next()
  const leaving = new AbortController()
  const gone = waits.until('a', Infinity, leaving.signal)
  const poll = await first
  leaving.abort(new Error('left'))
  await rejects(gone, /left/)
  ok(poll.signal.aborted, 'no call waits')
  const again = next()
  const refused = waits.until('b', Infinity, signal)
  const asked = await again
  asked.fail(new Error('the key is refused'))
  await rejects(refused, /the key is refused/)
  equal(await waits.until('c', 1, signal), null, 'the time of a call is over')
})

test('calls go on waiting while the server is away, for a minute at most', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] })
  const { waits, next } = played()
  const away = Object.assign(new Error('connect ECONNREFUSED'), { retryable: true })
  let poll = next()
  const call = waits.until('a', Infinity, signal)
  const lose = async (ms: number): Promise<void> => {
    t.mock.timers.tick(ms)
    const present = await poll
    poll = next()
    present.fail(away)
  }
  await lose(0)
  await lose(59_999)
  const present = await poll
  poll = next()
  present.answer('a')
  equal((await call)?.call_id, 'a')

  const lost = waits.until('b', Infinity, signal)
  await lose(0)
  await lose(60_000)
  await rejects(lost, /ECONNREFUSED/)
})

test('calls beyond the bound of one poll are in further ones', async () => {
  const { waits, polls, next } = played()
  const first = next()
  const ids = Array.from({ length: limits.gateCallsAwaitedMax + 1 }, (_, i) => `call_${i}`)
  const all = ids.map((id) => waits.until(id, Infinity, signal))
  await first
  deepEqual(
    polls.map((poll) => poll.ids.length),
    [limits.gateCallsAwaitedMax, 1],
  )
  for (const poll of polls) poll.answer(...poll.ids)
  deepEqual(
    (await Promise.all(all)).map((found) => found?.call_id),
    ids,
  )
})
