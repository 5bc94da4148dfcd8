// The conformance suite of MCP against the sessions that our MCP server and the gates share, with a fixture behind them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startOnSessions } from '../gate/conformance-server.ts'
import { failuresIn, few, isLong, resultsOf, resultsOfFew, revisions, SCENARIOS_MIN } from '../gate/conformance-suite.ts'

for (const revision of revisions)
  test(`A server on our sessions passes what ${revision} requires`, async (t) => {
    const url = await startOnSessions(t)
    const results = await (isLong ? resultsOf(url, revision) : resultsOfFew(url, revision))
    assert.ok(results.size >= (isLong ? SCENARIOS_MIN : few[revision].length), `${results.size} scenarios`)
    assert.deepEqual(failuresIn(results), [])
  })
