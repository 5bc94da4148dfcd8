// HLP with bodies that no honest client sends: an answer in the wire's form to each, and never a failure of the server's.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hlp } from '#bridges/hlp/index.ts'
import { operations } from '#bridges/hlp/operations.ts'
import { stateHash } from '../../support/in-process/world.ts'
import { mutated, numbers } from '../../support/laws/mutations.ts'
import { send } from '../../support/over-sockets/http-client.ts'
import { hxpWorld } from '../../support/over-sockets/hxp-world.ts'

const CASES = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 200_000 : 1_000
const SEED = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const AT_ONCE = 4
/** Inputs around which the whole state is compared. */
const HASHED = 1_000

test(`${CASES} bodies at random get an answer of the wire (FUZZ_SEED=${SEED})`, async (t) => {
  const world = await hxpWorld(t, { http: { bridges: [hlp] } })
  const pick = numbers(SEED)
  const values = ['x', 7, null, [], {}, [{ id: 'a' }], 'task_1', { kind: 'inline', uri: 'data:,x' }, '‮', true]
  const value = (): unknown => values[pick(values.length)]
  const names = [...operations.keys()]
  const one = async (): Promise<number> => {
    const name = names[pick(names.length)]!
    const { required, optional } = operations.get(name)!
    const params = Object.fromEntries([...required, ...optional.filter(() => pick(3) === 0)].map((field) => [field, value()]))
    const beside = pick(3) === 0 ? { expected_task_revision: value(), idempotency_key: value(), spec_version: '0.2.0-draft' } : {}
    const text = JSON.stringify({ params, ...beside })
    const body = pick(2) === 0 ? text : mutated(text, pick)
    const as = (['alice', 'devin', 'owner', 'mallory'] as const)[pick(4)]!
    const answer = await send(world.port, `/hlp/v1/ops/${name}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${world.keys[as]}` },
      body,
    })
    assert.ok([200, 400, 401, 404, 408, 409, 410, 412, 413, 429].includes(answer.status), `${name} ${String(body)}: ${answer.text}`)
    if (answer.status !== 200) assert.equal(answer.json.error.profile, 'HLP-industrial', answer.text)
    return answer.status
  }
  let refused = 0
  for (let done = 0; done < CASES; done += AT_ONCE) {
    const before = done < HASHED ? await stateHash(world.store) : null
    const statuses = await Promise.all(Array.from({ length: AT_ONCE }, one))
    if (before === null || statuses.includes(200)) continue
    refused++
    assert.equal(await stateHash(world.store), before, `refusals change nothing (FUZZ_SEED=${SEED})`)
  }
  assert.ok(refused > 0, 'some rounds were refused as a whole')
  assert.deepEqual(world.logged, [])
})
