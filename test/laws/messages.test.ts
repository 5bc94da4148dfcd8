// The texts that people read, as `npm run messages` prints them, and refusals that give the next step.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { protocols } from '#protocols/index.ts'
import { textsIn } from '../../scripts/messages.ts'
import { refusalOf } from '../support/in-process/stage.ts'
import { createWorld } from '../support/in-process/world.ts'

test('a template is one text, with a sign for each placeholder of any value', () => {
  const source = "say(`the ${kind} of ${() => { return `an ${inner} one` }} is gone`, 'it\\'s late')"
  assert.deepEqual(textsIn(source), ['an … one', 'the … of … is gone', "it's late"])
})

test('no refusal of an operation sends its reader to the same operation', () => {
  const found = protocols.flatMap(({ operations }) =>
    operations.flatMap((operation) => {
      const rules = 'requires' in operation ? operation.requires : []
      return rules
        .filter(({ refusal }) => refusal.includes(`${operation.name} makes`))
        .map(({ refusal }) => `${operation.name}: ${refusal}`)
    }),
  )
  assert.deepEqual(found, [])
})

test('each address that cannot be called is refused with what the operator may allow', async () => {
  const world = await createWorld({ terms: { publicHooksOnly: true } })
  const refused: [string, string, object][] = [
    ['devin', 'delegation/agent.publish', { name: 'Devin', reach: 'webhook' }],
    ['devin', 'execution/channel.add', {}],
    ['alice', 'execution/channel.add', {}],
  ]
  for (const [as, operation, more] of refused) {
    const { code, message } = await refusalOf(world.call(as, operation, { endpoint: 'http://10.0.0.1/hook', ...more }))
    assert.equal(code, 'INVALID_REQUEST', operation)
    assert.match(message, /https address of the public Internet .*--webhook-private/, operation)
  }
  await world.close()
})
