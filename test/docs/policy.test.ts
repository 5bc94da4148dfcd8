// docs/policy.md is true: its policy, its table of verdicts, and its commands against a server that was started with it.
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { readPolicy } from '#apps/server/settings/policy-file.ts'
import { evaluate } from '#kernel/policy/evaluate.ts'
import { GateRule } from '#kernel/policy/gate-policy.ts'
import { inProcess, root, startUp, temporary, type Ran, type Running } from '../support/as-processes/cli.ts'
import { assertPrinted, blocksIn } from '../support/as-processes/tour.ts'

const page = readFileSync(join(root, 'docs/policy.md'), 'utf8')
const blocks = blocksIn(page)
const home = temporary('policy-page')
const file = join(home, 'policy.json')
writeFileSync(file, blocks.find(({ language }) => language === 'json')!.text)
after(() => rmSync(home, { recursive: true, force: true }))

test('every row of the table has the verdict that it says', () => {
  const rows = [...page.matchAll(/^\| `(\w+\/\w+)` \| `(\{.*\})` \| (\w+) \| ([\w-]*) ?\|$/gm)]
  assert.equal(rows.length, 9)
  for (const [, name, args, verdict, rule] of rows) {
    const call = { kind: 'tool', name: name!, agent: 'agent_x', project: 'project_x', arguments: JSON.parse(args!), hints: {} } as const
    const found = evaluate([{ scope: 'installation', policy: readPolicy(file), updated_at: null }], call, '2026-11-18T10:00:00.000Z')
    assert.deepEqual([found.verdict, found.rule?.id ?? ''], [verdict, rule], `${name} ${args}`)
  }
})

test('the table of fields names each field of a rule', () => {
  const section = page.split('\n## ').find((one) => one.startsWith('A rule'))!
  for (const name of Object.keys(GateRule.properties)) assert.ok(section.includes(`\`${name}\``), name)
})

describe('the commands', () => {
  let server: Running
  const keys: Record<string, string> = {}
  const run = (argv: readonly string[], key?: string): Promise<Ran> =>
    inProcess({ home, env: { HOME: home, COUNTERSIGN_URL: server.url, ...(key === undefined ? {} : { COUNTERSIGN_KEY: key }) } }).run(
      argv,
      '',
    )
  const ask = async (argv: readonly string[], key?: string): Promise<any> => {
    const { code, out, err } = await run([...argv, '--json'], key)
    assert.equal(code, 0, err)
    return JSON.parse(out)
  }
  const propose = (server_: string, tool: string, args: object): Promise<any> =>
    ask(['call', 'propose', server_, tool, '--arguments', JSON.stringify(args)], keys['agent'])

  before(async () => {
    assert.ok(page.includes('`countersign up --policy policy.json`, or `COUNTERSIGN_POLICY`'))
    server = await startUp(join(home, 'data'), { COUNTERSIGN_POLICY: file })
    await ask(['agent', 'add', 'Coder', '--id', 'agent_coder', '--owner', 'user_owner'])
    for (const [name, subject] of [
      ['owner', 'user_owner'],
      ['agent', 'agent_coder'],
    ] as const)
      keys[name] = (await ask(['key', 'issue', subject])).key
  })
  after(() => server?.stop())

  test('print what the page shows', async () => {
    await propose('files', 'read_file', { path: '/a' })
    await propose('shell', 'run', { line: 'ls' })
    await propose('files', 'write_file', { path: '/srv/www/a' })
    const denied = await propose('db', 'query', { sql: 'drop table users' })
    await ask(['policy', 'set', '--installation', '--json-input', JSON.stringify({ gate: { version: 1, rules: [] } })], keys['owner'])
    const rejected = await propose('claude-code', 'Read', { path: '/b' })
    await ask(['request', 'resolve', rejected.request_id, '--result', 'rejected'], keys['owner'])
    await ask(['policy', 'set', '--installation', '--json-input', JSON.stringify({ gate: readPolicy(file) })], keys['owner'])
    for (const { language, text, prints } of blocks) {
      if (language !== 'sh') continue
      const line = text.trim().replace('<call_id>', denied.call_id)
      const { code, out, err } = await run(line.split(' ').slice(1), keys['owner'])
      assert.equal(code, 0, err)
      assertPrinted(out, prints!)
    }
    writeFileSync(join(home, 'broken.json'), '{')
    const broken = await run(['policy', 'test', 'broken.json'], keys['owner'])
    assert.deepEqual([broken.code, broken.err.includes('broken.json')], [2, true], broken.err)
    assert.equal((await run(['policy', 'test', 'none.json'], keys['owner'])).code, 2)
    const suggested = await run(['policy', 'suggest', '--installation'], keys['owner'])
    assert.equal(suggested.code, 0, suggested.err)
    const missing = await run(['policy', 'suggest', '--installation', '--publish', 'earned-none'], keys['owner'])
    assert.deepEqual([missing.code, /no suggestion has the id "earned-none"/.test(missing.err)], [2, true])
  })

  test('publish a suggested rule before the one that asks', async () => {
    for (let i = 0; i < 20; i++) {
      const { request_id } = await propose('shell', 'run', { line: `ls ${i}` })
      await ask(['request', 'resolve', request_id, '--result', 'approved'], keys['owner'])
    }
    const { items } = await ask(['policy', 'suggest', '--installation'], keys['owner'])
    const [{ rule }] = items
    const shown = await run(['policy', 'suggest', '--installation'], keys['owner'])
    assert.match(shown.out, new RegExp(`^${rule.id}  20 in 30 days, none rejected; at 95 % at most 14 % would be`))
    const published = await run(['policy', 'suggest', '--installation', '--publish', rule.id], keys['owner'])
    assert.equal(published.out, `rule ${rule.id} counts from now on; one in 20 of its calls is still asked\n`)
    const { policy } = await ask(['policy', 'get', '--installation'], keys['owner'])
    assert.equal(policy.gate.rules.at(-1).id, rule.id)
    assert.match(policy.gate.rules.at(-1).rehearsal, /^[\w-]{43}$/)
  })
})
