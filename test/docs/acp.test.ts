// docs/acp.md, "As the client": its command and its entry of agents.json, taken from the page, with a fake agent under the name that the page uses.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readAgents } from '#apps/server/settings/agents-file.ts'
import { openStage, until } from '../support/as-processes/agents.ts'
import { root, temporary } from '../support/as-processes/cli.ts'
import { blocksIn } from '../support/as-processes/tour.ts'

const section = readFileSync(join(root, 'docs/acp.md'), 'utf8').split('\n## As the client\n')[1]!
const blockOf = (wanted: string): string => blocksIn(section).find(({ language }) => language === wanted)!.text

function program(path: string, script: string): void {
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o700)
}

test('the command takes a task: the agent asks a person, runs once and delivers', async (t) => {
  const stage = await openStage()
  t.after(() => stage.close())
  const agent = await stage.agent('gemini')
  const [bin, work] = [join(stage.folder, 'bin'), join(stage.folder, 'work')]
  for (const path of [bin, work]) mkdirSync(path)
  const steps = join(stage.folder, 'steps')
  writeFileSync(steps, 'run make; say Done.')
  const effects = join(stage.folder, 'effects')
  const fake = join(root, 'test/support/acp/misbehaving-agent.ts')
  program(join(bin, 'gemini'), `[ "$1" = --acp ] || exit 9\nSTEPS=${steps} EFFECTS=${effects} exec ${process.execPath} ${fake}`)
  program(join(bin, 'countersign'), `exec ${process.execPath} ${join(root, 'bin/countersign.js')} "$@"`)

  const command = blockOf('sh').replace('http://127.0.0.1:3402', stage.server.url).replace('cs_…', agent.key)
  assert.ok(command.includes(stage.server.url) && command.includes(agent.key), 'the page names the server and the key')
  const env = { PATH: `${bin}:${process.env['PATH']}`, HOME: stage.folder }
  const child = spawn('sh', ['-c', command], { cwd: work, env, detached: true, stdio: 'ignore' })
  const gone = once(child, 'exit')
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGTERM')
    await gone
  })
  const task_id = await stage.assign(agent)
  const item = await until(async () => (await stage.owner.execution.inbox.list({})).items[0], 'a question in the inbox')
  await stage.owner.execution.request.resolve({ request_id: item.request_id, result: 'approved' })
  const task = await stage.taskIn(task_id, 'review_ready')
  assert.equal(readFileSync(effects, 'utf8'), 'make\n')
  const { bytes } = await stage.owner.download('collaboration/artifact.download', { artifact_id: task.artifacts[0]! })
  assert.equal(Buffer.from(bytes).toString(), 'Done.')
})

test('the entry of agents.json is one that a server reads', () => {
  const folder = temporary('acp-page')
  const path = join(folder, 'agents.json')
  writeFileSync(path, blockOf('json').replace('/srv/project', folder))
  const [agent] = readAgents(path, { PATH: '/bin', HOME: folder, SECRET: 'not for agents' })
  assert.deepEqual([agent!.agent_id, agent!.plan.argv, agent!.plan.cwd], ['agent_gemini', ['gemini', '--acp'], folder])
  assert.equal(agent!.plan.profile.input, 'acp')
  assert.deepEqual([agent!.plan.env['HOME'], agent!.plan.env['SECRET']], [folder, undefined])
})
