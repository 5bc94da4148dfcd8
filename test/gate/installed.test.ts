// The gate and the hook of one project, installed by the command, as programs of their own: each call opens one item.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { shellOf } from '#test/bridges/hooks/events.ts'
import { callTool, openGateWorld, toolServer, type GateWorld } from './gate-world.ts'

const program = resolve(import.meta.dirname, '../../bin/countersign.js')
const run = promisify(execFile)

/** What the hook prints for an event, run as the settings of the agent name it. */
async function hookAnswer(cwd: string, env: Record<string, string>, event: object): Promise<string> {
  const child = spawn(process.execPath, [program, 'hook', 'claude-code', '--wait', 'PT1S', '--late', 'deny'], { cwd, env })
  let out = ''
  child.stdout.on('data', (part) => (out += String(part)))
  child.stdin.end(JSON.stringify(event))
  await new Promise((done) => void child.on('close', done))
  return out
}

async function openItems(world: GateWorld): Promise<string[]> {
  const { items } = await world.call(world.keys.owner, 'execution/inbox.list', { limit: 50 })
  return items.map(({ title }: { title: string }) => title)
}

test('three commands put an agent behind gate and hook, and each of its calls opens one item', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({ default: 'ask' })
  const home = `${world.data}.home`
  const cwd = join(home, 'project')
  mkdirSync(cwd, { recursive: true })
  writeFileSync(join(cwd, '.mcp.json'), JSON.stringify({ mcpServers: { files: toolServer(world.file) } }))
  const before = readFileSync(join(cwd, '.mcp.json'), 'utf8')
  const env = { PATH: `${dirname(program)}:${process.env['PATH']}`, HOME: home }
  const owner = { ...env, COUNTERSIGN_URL: world.url, COUNTERSIGN_KEY: world.keys.owner }
  const countersign = (...words: string[]) => run(process.execPath, [program, ...words], { cwd, env: owner })

  await countersign('agent', 'add', 'Coder', '--id', 'agent_coder', '--owner', 'user_owner')
  const { stdout } = await countersign('gate', 'install', 'claude-code', '--agent', 'agent_coder')
  assert.match(stdout, /^[+].*gate/m)
  await countersign('hook', 'install', 'claude-code', '--agent', 'agent_coder')
  const written = readFileSync(join(cwd, '.mcp.json'), 'utf8')
  assert.doesNotMatch(written, /cs_/)

  const { command, args } = (JSON.parse(written) as { mcpServers: { files: { command: string; args: string[] } } }).mcpServers.files
  const variables = (JSON.parse(written) as { mcpServers: { files: { env?: Record<string, string> } } }).mcpServers.files.env ?? {}
  const client = new Client({ name: 'mcp', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await client.connect(new StdioClientTransport({ command, args, cwd, env: { ...env, ...variables } }))
  t.after(() => client.close())

  assert.equal(await hookAnswer(cwd, env, { ...shellOf('claude-code'), tool_name: 'mcp__files__image', tool_input: {} }), '')
  const { isError, _meta } = await callTool(client, 'image')
  assert.deepEqual([isError, _meta?.['countersign/state']], [true, 'waiting'])
  assert.deepEqual(await openItems(world), ['Run files/image'])

  assert.match(await hookAnswer(cwd, env, shellOf('claude-code')), /"permissionDecision":"deny"/)
  assert.deepEqual((await openItems(world)).toSorted(), ['Run claude-code/Bash', 'Run files/image'])
  assert.deepEqual(world.runs(), [])

  await countersign('hook', 'install', 'claude-code', '--undo')
  await countersign('gate', 'install', 'claude-code', '--undo')
  assert.equal(readFileSync(join(cwd, '.mcp.json'), 'utf8'), before)
})
