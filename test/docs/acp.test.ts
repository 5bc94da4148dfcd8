// docs/acp.md is true: its commands and its entry of agents.json, as they stand, with fake agents under the names that the page uses.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { acpSpec } from '#apps/cli/acp/commands.ts'
import { readAgents } from '#apps/server/settings/agents-file.ts'
import { neverAsks } from '#gate/acp/modes.ts'
import { limits } from '#kernel/limits.ts'
import { AGENT, choose, effectsIn, openAcpWorld, openEditor } from '../gate/acp/acp-world.ts'
import { openStage, until } from '../support/as-processes/agents.ts'
import { inProcess, root, temporary } from '../support/as-processes/cli.ts'
import { blocksIn } from '../support/as-processes/tour.ts'

const page = readFileSync(join(root, 'docs/acp.md'), 'utf8')
const section = page.split('\n## As the client\n')[1]!
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

const proxy = page.split('\n## As a proxy in front of an editor\n')[1]!.split('\n## ')[0]!

test('The command of docs/acp.md asks in the editor under the name that the page shows', async (t) => {
  const command = /such as `(countersign acp [^`]+ -- claude-agent-acp)`/.exec(proxy)![1]!
  const world = await openAcpWorld(t)
  await world.call(world.keys.owner, 'identity/agent.add', { id: 'agent_coder', name: 'Coder', owner: 'user_alice' })
  const home = join(world.data, '..')
  const bin = join(home, 'bin')
  mkdirSync(bin)
  for (const [name, file] of [
    ['countersign', join(root, 'bin/countersign.js')],
    ['claude-agent-acp', AGENT],
  ] as const)
    writeFileSync(join(bin, name), `#!/bin/sh\nexec '${process.execPath}' '${file}' "$@"\n`, { mode: 0o755 })
  const { code, err } = await inProcess({ home }).run(['login', '--url', world.url], world.keys.alice)
  assert.equal(code, 0, err)
  const child = spawn('sh', ['-c', `exec ${command}`], {
    cwd: home,
    env: { PATH: `${bin}:${process.env['PATH']}`, HOME: home, EFFECTS: world.effectsFile },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  const editor = openEditor(child.stdin, child.stdout)
  editor.answer = choose('allow_once')
  await editor.call('initialize', { protocolVersion: 1, clientCapabilities: {} })
  await editor.call('session/new', { cwd: home, mcpServers: [] })
  await editor.prompt([{ ask: { title: 'rm', kind: 'execute', rawInput: { command: 'rm' } } }])
  editor.close()
  assert.deepEqual(await ended, [0, null])
  assert.deepEqual(effectsIn(world.effectsFile), ['p1 allow_once'])
  const { items } = await world.call(world.keys.owner, 'gate/call.list', { limit: 1 })
  assert.equal(`${items[0].server}/${items[0].tool}`, /such as `(acp\/[^`]+)`/.exec(proxy)![1])
  const { receipt } = await world.call(world.keys.alice, 'execution/request.get', { request_id: items[0].request_id })
  assert.ok(proxy.includes(`the item says "${receipt.reason}"`))
})

test('docs/acp.md names the options, the bounds and the modes that hold', () => {
  const named = [...proxy.matchAll(/^\| `--([a-z-]+)` \|/gm)].map(([, name]) => name!)
  assert.deepEqual(named.toSorted(), acpSpec.flags.map(({ name }) => name).toSorted())
  assert.ok(proxy.includes(`a line above ${limits.acpLineBytesMax / 1_048_576} MiB`))
  const modes = /an agent never asks \(([^)]+)\)/.exec(proxy)![1]!
  for (const [, mode] of modes.matchAll(/`(\w+)`/g)) assert.ok(neverAsks(mode!), mode!)
})
