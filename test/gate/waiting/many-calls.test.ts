// More calls of one agent than it has long polls, through one gate: all of them wait, and each is answered.
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { callTool, openGateWorld, until } from '../gate-world.ts'

const COUNT = limits.waitsPerActorMax + 6

test('more calls than an agent has long polls wait at one gate, and each is run once when it is approved', async (t) => {
  const world = await openGateWorld(t)
  const { client, close } = await world.connect('stdio', 'modern')
  const pending = Array.from({ length: COUNT }, (_, i) => callTool(client, 'echo', { i }))
  const asked = await until(async () => {
    const waiting = (await world.calls()).filter(({ state }) => state === 'waiting')
    return waiting.length === COUNT ? waiting : null
  })
  await until(() => world.server.kernel.stats().waiting === 1)
  deepEqual(world.runs(), [])
  for (const { request_id } of asked) await world.call(world.keys.alice, 'execution/request.resolve', { request_id, result: 'approved' })
  const answers = await Promise.all(pending)
  deepEqual(
    answers.map(({ content }) => content[0]!.text),
    answers.map((_, i) => `echo {"i":${i}}`),
  )
  equal(world.runs().length, COUNT)
  await close()
})
