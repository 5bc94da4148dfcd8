// Two harnesses with a broker between them under faults, and the same with mistakes planted in the source: a part of both each time, all of it
// with `npm run test:long`.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { chosenBy, VARIABLE } from '../choice.ts'
import { patched } from '../mistakes.ts'
import { createRandom } from '../random.ts'
import { harnessMistakes } from './mistakes.ts'
import { simulate } from './simulate.ts'

const [HISTORIES, PART] = [200, 30]
/** Within so many histories each planted mistake is found. */
const FOUND_WITHIN = 100
const { name, isAll } = chosenBy(process.env[VARIABLE])
const random = createRandom(isAll ? 1 : Number(name))
const from = isAll ? 1 : 1 + random.below(HISTORIES - PART)
const planted = isAll ? harnessMistakes : [random.pick(harnessMistakes)]

async function found(mistake: string): Promise<boolean> {
  const args = [join(import.meta.dirname, 'run.ts'), '--mistake', mistake, '--seeds', String(FOUND_WITHIN)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const [code] = (await once(child, 'exit')) as [number | null]
  return code === 0
}

describe(`two harnesses and a broker (${VARIABLE}=${name})`, { timeout: 900_000 }, () => {
  test('nothing is lost, nothing is done twice, events come in order, and both sides say the same', async () => {
    const happened = new Map<string, number>()
    for (let seed = from; seed < from + (isAll ? HISTORIES : PART); seed++) {
      const history = await simulate(seed)
      assert.deepEqual(history.broken, [], `seed ${seed}`)
      for (const [what, count] of history.happened) happened.set(what, (happened.get(what) ?? 0) + count)
    }
    for (const what of ['submitted', 'report', 'snapshot', 'complete', 'fail', 'pause', 'aborted', 'lab-a killed', 'lab-b killed'])
      assert.ok((happened.get(what) ?? 0) > 0, `${what} never happened`)
  })

  test('every mistake can be planted', () => {
    for (const mistake of harnessMistakes) assert.ok(patched(mistake).size > 0, mistake.name)
  })

  for (const mistake of planted)
    test(`a planted mistake is found: ${mistake.name}`, async () => assert.ok(await found(mistake.name), `${mistake.name} was not found`))
})
