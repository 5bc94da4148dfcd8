// Races between the editor and the inbox: one answer reaches the agent, and the side that lost learns it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../gate-world.ts'
import { connect, openAcpWorld } from './acp-world.ts'

/** A thousand in the long run. */
const RACES = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 1_000 : 100

test(`Of ${RACES} races between editor and inbox each has one answer, one effect, and both sides know it`, async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  let inInbox = 0
  const answers: Promise<void>[] = []
  editor.answer = async (_, { id }) => {
    const number = Number(String(id).slice(1))
    const { request_id } = await until(async () => {
      const [newest] = (await world.call(world.keys.devin, 'gate/call.list', { limit: 1 })).items
      return newest?.state === 'waiting' ? (newest as { request_id: string }) : null
    })
    // The editor has the longer way: the inbox gives it a start in every second race.
    const later = (ms: number) => new Promise((done) => setTimeout(done, ms))
    const inbox = later(number % 2 === 1 ? 8 : 0).then(() =>
      world.call(world.keys.alice, 'execution/request.resolve', { request_id, result: 'approved' }).then(
        () => void inInbox++,
        ({ code }: { code: string }) => assert.equal(code, 'ALREADY_RESOLVED'),
      ),
    )
    answers.push(inbox)
    return { outcome: { outcome: 'selected', optionId: 'reject_once' } }
  }
  const orders = Array.from({ length: RACES }, (_, i) => ({ ask: { title: `race ${i}`, kind: 'execute', rawInput: { i } } }))
  await editor.prompt(orders)
  await Promise.all(answers)
  const effects = world.effects()
  assert.equal(effects.length, RACES)
  assert.equal(new Set(effects.map((line) => line.split(' ')[0])).size, RACES)
  const allowed = effects.filter((line) => line.endsWith('allow_once')).length
  const inEditor = effects.filter((line) => line.endsWith('reject_once')).length
  assert.deepEqual([allowed, allowed + inEditor], [inInbox, RACES])
  assert.equal(editor.closed().length, allowed)
  t.diagnostic(`${allowed} in the inbox, ${inEditor} in the editor`)
  await until(async () => (await world.call(world.keys.devin, 'gate/call.list', { state: 'begun', limit: 100 })).items.length === 0)
})
