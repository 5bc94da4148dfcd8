// docs/mcp.md is true: its command as a program with each source of a key, and its tables.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { limits } from '#kernel/limits.ts'
import { openMcpWorld } from '../mcp/mcp-world.ts'
import { root } from '../support/as-processes/cli.ts'

const page = readFileSync(join(root, 'docs/mcp.md'), 'utf8')
const BIN = join(root, 'bin/countersign.js')

test('`countersign mcp` of docs/mcp.md serves the holder of COUNTERSIGN_KEY or --key, and no login where COUNTERSIGN_AGENT is set', async (t) => {
  assert.match(page, /^claude mcp add countersign -- countersign mcp$/m)
  const world = await openMcpWorld(t)
  const file = `${world.data}.key`
  writeFileSync(file, `${world.keys.devin}\n`, { mode: 0o600 })
  const open = async (args: readonly string[], env: Record<string, string>): Promise<Client> => {
    const client = new Client({ name: 'claude-code', version: '1' }, { versionNegotiation: { mode: 'auto' } })
    await client.connect(
      new StdioClientTransport({
        command: process.execPath,
        args: [BIN, 'mcp', ...args],
        env: { PATH: process.env['PATH']!, HOME: world.data, COUNTERSIGN_URL: world.url, ...env },
        stderr: 'ignore',
      }),
    )
    return client
  }
  for (const [args, env, count] of [
    [[], { COUNTERSIGN_KEY: world.keys.devin }, 100],
    [['--key', file], { COUNTERSIGN_AGENT: 'agent_devin' }, 100],
    [[], { COUNTERSIGN_KEY: world.keys.alice }, 30],
  ] as const) {
    const client = await open(args, env)
    const { tools } = await client.listTools()
    assert.ok(tools.length >= count, String(tools.length))
    assert.equal(
      tools.some(({ name }) => name === 'ask_approve'),
      count === 100,
    )
    await client.close()
  }
  await assert.rejects(open([], { COUNTERSIGN_AGENT: 'agent_devin' }))
  await assert.rejects(open([], { COUNTERSIGN_AGENT: 'agent_devin', COUNTERSIGN_KEY: world.keys.alice }))
})

test('docs/mcp.md names the bounds and paths that hold', () => {
  assert.ok(page.includes(`${limits.bodyBytesMax / 1_024} KiB 413`))
  assert.ok(page.includes(`up to ${limits.mcpSessionsMax} sessions`))
  assert.ok(page.includes('`/.well-known/oauth-protected-resource/mcp`'))
})
