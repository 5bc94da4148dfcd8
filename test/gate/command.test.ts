// `countersign gate` as a program, and `gate install`, as the README shows them.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { inProcess } from '../support/as-processes/cli.ts'
import { callTool, openGateWorld, toolServer } from './gate-world.ts'

const BIN = join(import.meta.dirname, '../../bin/countersign.js')

test('The installed gate serves the tools of .mcp.json behind the policy, and --undo puts the file back', async (t) => {
  const world = await openGateWorld(t)
  const folder = `${world.data}-project`
  mkdirSync(folder)
  const { command, args } = toolServer(world.file)
  const original = { mcpServers: { files: { command, args, env: { OWN: 'yes' } } } }
  const file = join(folder, '.mcp.json')
  writeFileSync(file, `${JSON.stringify(original, null, 2)}\n`)
  const env = { COUNTERSIGN_URL: world.url, COUNTERSIGN_KEY: world.keys.owner, HOME: folder }
  const cli = inProcess({ home: folder, env })
  const install = (...more: string[]) => cli.run(['gate', 'install', 'claude-code', ...more])
  const installed = await install('--agent', 'agent_devin')
  assert.equal(installed.code, 0, installed.err)
  assert.match(installed.out, /\+ .*countersign/)
  const { mcpServers } = JSON.parse(readFileSync(file, 'utf8')) as {
    mcpServers: Record<string, { command: string; args: string[]; env: Record<string, string> }>
  }
  const files = mcpServers['files']!
  assert.deepEqual(files.args.slice(0, 3), ['gate', '--name', 'files'])
  const keyFile = files.env['COUNTERSIGN_KEY_FILE']!
  assert.equal(statSync(keyFile).mode & 0o777, 0o600)
  assert.ok(!readFileSync(file, 'utf8').includes(readFileSync(keyFile, 'utf8').trim()), 'the key is not in the file')

  await world.policy({ default: 'ask', rules: [{ id: 'images', tool: 'files/image', then: 'allow' }] })
  const client = new Client({ name: 'claude-code', version: '1' })
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [BIN, ...files.args],
      env: { ...files.env, PATH: process.env['PATH']!, HOME: folder },
    }),
  )
  assert.equal((await callTool(client, 'image')).content.length, 1)
  const pending = callTool(client, 'echo', { a: 1 }, { onprogress: () => undefined, resetTimeoutOnProgress: true })
  await world.answer('approved')
  assert.equal((await pending).content[0]!.text, 'echo {"a":1}')
  assert.equal(world.runs().length, 2)
  for (const run of world.runs()) assert.ok(run.env.includes('OWN') && !run.env.some((name) => /^COUNTERSIGN_(?:KEY|URL)/.test(name)))
  await client.close()

  const undone = await install('--undo')
  assert.equal(undone.code, 0, undone.err)
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), original)
})
