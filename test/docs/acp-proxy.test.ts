// docs/acp.md is true for the proxy: its command with an agent of that name, its options, its bounds and its modes.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { acpSpec } from '#apps/cli/acp/commands.ts'
import { neverAsks } from '#gate/acp/modes.ts'
import { limits } from '#kernel/limits.ts'
import { AGENT, choose, effectsIn, openAcpWorld, openEditor } from '../gate/acp/acp-world.ts'
import { inProcess, root } from '../support/as-processes/cli.ts'

const page = readFileSync(join(root, 'docs/acp.md'), 'utf8')
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
