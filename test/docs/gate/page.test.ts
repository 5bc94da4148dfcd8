// docs/gate.md is true: its commands with a real server and an agent behind the installed gate, its file of gates, and its tables.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { gateFlags } from '#apps/cli/gate/commands.ts'
import { readGates } from '#apps/server/settings/gates.ts'
import { limits } from '#kernel/limits.ts'
import * as answers from '../../../src/gate/answers.ts'
import { gateFields } from '../../../src/gate/gate-fields.ts'
import { patienceOf } from '../../../src/mcp/wire/patience.ts'
import { callTool, openGateWorld, textOf, toolServer } from '../../gate/gate-world.ts'
import { inProcess, root } from '../../support/as-processes/cli.ts'
import { assertPrinted, blocksIn, openShell } from '../../support/as-processes/tour.ts'

const page = readFileSync(join(root, 'docs/gate.md'), 'utf8')
const blocks = blocksIn(page)
const sectionOf = (title: string): string => page.split(/\n#+ /).find((one) => one.startsWith(`${title}\n`)) ?? assert.fail(title)

test('The commands of docs/gate.md put Claude Code behind gate and hook, and its first call waits', async (t) => {
  const world = await openGateWorld(t)
  const home = join(world.data, '..', 'home')
  const folder = join(home, 'project')
  const bin = join(home, 'bin')
  mkdirSync(folder, { recursive: true })
  mkdirSync(bin)
  symlinkSync(join(root, 'bin/countersign'), join(bin, 'countersign'))
  // No `claude` of this machine: its version decides which hooks are written.
  const env = { HOME: home, PATH: [bin, dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter), COUNTERSIGN_URL: world.url }
  assert.equal((await inProcess({ home }).run(['login', '--url', world.url], world.keys.owner)).code, 0)
  writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: { files: toolServer(world.file) } }))
  const shell = openShell('sh', folder, env)
  t.after(() => shell.close())
  const [install, list] = blocks.filter(({ language }) => language === 'sh')
  assertPrinted(await shell.run(install!.text), install!.prints!)

  const { files } = JSON.parse(readFileSync(join(folder, '.mcp.json'), 'utf8')).mcpServers
  const client = new Client({ name: 'mcp', version: '1' })
  const hold = { COUNTERSIGN_GATE_HOLD: 'PT1S' }
  await client.connect(new StdioClientTransport({ ...files, cwd: folder, env: { ...env, ...files.env, ...hold } }))
  const answer = await callTool(client, 'echo', { a: 1 })
  assert.match(textOf(answer), new RegExp(`^NOT RUN YET: .* at ${world.url}/inbox/hxp_`))
  await client.close()
  assertPrinted(await shell.run(list!.text), list!.prints!)
  const { call_id } = (await world.call(world.keys.owner, 'gate/call.list', {})).items[0]
  const inline = (start: string): string => page.split('`').find((words) => words.startsWith(start)) ?? assert.fail(start)
  assert.match(
    await shell.run(`${inline('countersign policy why').replace('<call_id>', call_id)} --pick text\n`),
    /because there is no policy/,
  )
  for (const undo of ['countersign gate install claude-code --undo', 'countersign hook install claude-code --undo'])
    assert.match(await shell.run(`${inline(undo)} && echo undone\n`), /undone\n$/)
  assert.deepEqual(Object.keys(JSON.parse(readFileSync(join(folder, '.mcp.json'), 'utf8')).mcpServers.files), Object.keys(toolServer('')))
  assert.deepEqual(world.runs(), [])
})

test('The file of gates of docs/gate.md is one that the server takes', async (t) => {
  const world = await openGateWorld(t)
  const file = `${world.data}.page.json`
  writeFileSync(file, blocks.find(({ language }) => language === 'json')!.text)
  const [shop, ...others] = readGates(file, { SHOP_TOKEN: 'x' })
  assert.deepEqual([shop!.settings.name, shop!.settings.redact, shop!.settings.trusted, others], ['shop', ['/card'], true, []])
})

test('The tables of docs/gate.md name each option, setting and decision, and how long a client is held', () => {
  const named = [...sectionOf('In front of a server').matchAll(/^\| `--([a-z-]+)/gm)].map(([, name]) => name!)
  assert.deepEqual(named.toSorted(), gateFlags.map(({ name }) => name).toSorted())
  for (const name of Object.keys(gateFields).filter((one) => one !== 'results')) assert.match(page, new RegExp(`^\\| .*\`${name}\``, 'm'))
  const view = { call_id: 'c', digest: 'd', request_id: 'hxp_1' } as const
  const decisions = [
    answers.refusalOf({ ...view, state: 'denied', decision: 'deny' }),
    answers.refusalOf({ ...view, state: 'denied', decision: 'ask' }),
    answers.refusalOf({ ...view, state: 'expired' }),
    answers.refusalOf({ ...view, state: 'cancelled' }),
    answers.unreachable(''),
    answers.refusedKey(''),
    answers.outcomeUnknown('c', ''),
  ].map(({ _meta }) => _meta!['countersign/decision'])
  assert.deepEqual(
    [...sectionOf('Answers').matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name),
    decisions,
  )
  const waiting = sectionOf('Waiting')
  const asker = { isModern: false, name: '', hasProgressToken: false, takesTasks: false }
  const rows: readonly (readonly [row: RegExp, ms: number])[] = [
    [/^\| `codex-mcp-client` \| held (\d+) minutes/m, 60_000],
    [/^\| `mcp` .* \| held (\d+) s/m, 1_000],
    [/^\| all others \| held (\d+) s/m, 1_000],
  ]
  for (const [[row, unit], name] of [
    [rows[0]!, 'codex-mcp-client'],
    [rows[1]!, 'mcp'],
    [rows[2]!, 'other'],
  ] as const)
    assert.deepEqual(patienceOf({ ...asker, name }, null), { way: 'hold', ms: Number(row.exec(waiting)![1]) * unit })
  assert.ok(waiting.includes(`more than ${limits.gateArgumentsBytesMax / 1024} KiB is denied`))
  assert.ok(waiting.includes(`Arguments above ${limits.gateShownBytesMax / 1024} KiB`))
})
