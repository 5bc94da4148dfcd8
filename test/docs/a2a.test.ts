// docs/a2a.md is true: its commands, word for word, against a server with the agent that it names.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openStage } from '../support/as-processes/agents.ts'
import { root } from '../support/as-processes/cli.ts'
import { assertPrinted, blocksIn, openShell } from '../support/as-processes/tour.ts'

const page = readFileSync(join(root, 'docs/a2a.md'), 'utf8')

test('the commands print what the page says', async (t) => {
  const stage = await openStage()
  t.after(() => stage.close())
  await stage.system('identity/agent.add', { id: 'agent_writer', name: 'Writer', owner: 'user_owner' })
  const { key } = await stage.system('identity/key.issue', { subject: 'user_owner' })
  const env = { PATH: process.env['PATH']!, BASE: stage.server.url, OWNER: key }
  const shell = openShell('bash', stage.folder, env)
  t.after(() => shell.close())
  const blocks = blocksIn(page)
  let printed = ''
  for (const { language, text } of blocks) {
    if (language === 'sh') printed = await shell.run(text)
    if (language === 'json') assertPrinted(printed, text)
  }
  assert.equal(blocks.filter(({ language }) => language === 'sh').length, 4)
})

test('the page names each state of A2A', () => {
  for (const state of ['SUBMITTED', 'WORKING', 'INPUT_REQUIRED', 'AUTH_REQUIRED', 'COMPLETED', 'REJECTED', 'CANCELED', 'FAILED'])
    assert.ok(page.includes(`| \`${state}\` |`), state)
})
