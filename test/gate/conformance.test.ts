// The conformance suite of MCP against a fixture server, alone and behind a gate that allows every call: a gate changes no result.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { startDoor, startFixture } from './conformance-server.ts'
import { failuresIn, few, isLong, resultsOf, resultsOfFew, revisions, SCENARIOS_MIN } from './conformance-suite.ts'
import { openGateWorld } from './gate-world.ts'

async function openGated(t: TestContext): Promise<{ readonly fixture: string; readonly door: string }> {
  const fixture = await startFixture(t)
  const world = await openGateWorld(t, {}, { upstream: { url: fixture, sampling: true, roots: true } })
  await world.policy({ default: 'allow' })
  return { fixture, door: await startDoor(t, `${world.url}/gate/files/mcp`, world.keys.devin) }
}

test('A fixture behind the gate passes progress, questions and sessions of both families', async (t) => {
  const { door } = await openGated(t)
  for (const revision of revisions) {
    const results = await resultsOfFew(door, revision)
    assert.deepEqual([...results.keys()].toSorted(), few[revision].toSorted())
    assert.deepEqual(failuresIn(results), [], revision)
  }
})

for (const revision of revisions)
  test(
    `A fixture behind the gate has the same results in the scenarios of ${revision} as alone`,
    { skip: isLong ? false : 'in the long run' },
    async (t) => {
      const { fixture, door } = await openGated(t)
      const alone = await resultsOf(fixture, revision)
      const behind = await resultsOf(door, revision)
      assert.ok(alone.size >= SCENARIOS_MIN, `${alone.size} scenarios`)
      assert.deepEqual(behind, alone)
      assert.deepEqual(failuresIn(alone), [], 'the fixture itself passes')
    },
  )
