// The process of an agent behind the ACP proxy: after its end, no timer keeps the proxy alive.
import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { startAgent, type Command } from '../../../src/gate/acp/child.ts'

const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

test('The end of an agent that has ended already, or never began, starts no timer', async () => {
  const before = timers()
  const agents: [Command['argv'], number][] = [
    [[process.execPath, '-e', 'process.exit(9)'], 9],
    [['/no/such/agent'], 127],
  ]
  for (const [argv, code] of agents) {
    const agent = startAgent({ argv, cwd: tmpdir(), env: {} }, () => undefined)
    assert.equal(await agent.ended, code)
    agent.end()
    assert.equal(timers(), before)
  }
})
