// Sessions that command-line agents keep between the runs of one task: the flags of each, and a stand-in program that remembers a codeword.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openKeptSession } from '#agents/programs/kept-session.ts'
import { profiles, resultIn } from '#agents/programs/profiles.ts'
import type { Plan, Port } from '#agents/programs/conversation.ts'
import type { MailboxItem } from '#agents/programs/lines.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-kept-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))

/** The memos of two runs, the second of which continues the first. */
function memos(): Port {
  const kept = new Map<string, unknown>()
  const call = async (operation: string, input: any): Promise<unknown> => {
    const key = `${input.run_id}/${input.key}`
    if (operation === 'delegation/memo.get') return { found: kept.has(key), value: kept.get(key) ?? null }
    if (operation === 'delegation/memo.put') return kept.has(key) ? { first: false } : (kept.set(key, input.value), { first: true })
    return { run: { continues: null } }
  }
  return { call: call as Port['call'], upload: () => Promise.reject(new Error('nothing here is large')) }
}
const itemOf = (id: string, continues: string | null): MailboxItem => ({ run: { id, continues }, attempt: 1 }) as MailboxItem
const planOf = (name: string, over: Partial<Plan> = {}): Plan => ({
  argv: profiles[name]!.argv as Plan['argv'],
  profile: profiles[name]!,
  cwd: folder,
  env: {},
  timeLimitMs: 1_000,
  waitMs: 1_000,
  graceMs: 100,
  ...over,
})

const printed: Record<string, string> = {
  claude: '{"type":"result","result":"ok"}\n',
  codex:
    '{"type":"thread.started","thread_id":"t-1"}\n{"type":"item.completed","item":{"type":"agent_message","text":"ok"}}\n{"type":"turn.completed"}\n',
  gemini: 'Loaded.\n{\n  "session_id": "g-1",\n  "response": "ok"\n}\n',
  opencode: '{"type":"text","sessionID":"ses_1","part":{"text":"ok"}}\n{"type":"step_finish","sessionID":"ses_1","part":{}}\n',
}
const resumed: Record<string, RegExp> = {
  claude: /--verbose --resume [0-9a-f-]{36}$/,
  codex: /exec --json resume t-1 -$/,
  gemini: /-o json --resume g-1 -p/,
  opencode: /--format json --session ses_1 \{prompt\}$/,
}

for (const name of Object.keys(printed))
  test(`${name} continues its session in the next run of the task, and not with --fresh`, async () => {
    const port = memos()
    const first = await openKeptSession(planOf(name), port, itemOf('run_1', null))
    assert.equal(resultIn(printed[name]!, first.output), 'ok')
    await first.conclude(printed[name]!, true)
    const again = await openKeptSession(planOf(name), port, itemOf('run_2', 'run_1'))
    assert.match(again.argv.join(' '), resumed[name]!)
    const fresh = await openKeptSession(planOf(name, { isFresh: true }), port, itemOf('run_3', 'run_1'))
    assert.doesNotMatch(fresh.argv.join(' '), /resume|--session /)
    const elsewhere = await openKeptSession(planOf(name, { cwd: '/' }), port, itemOf('run_4', 'run_1'))
    assert.doesNotMatch(elsewhere.argv.join(' '), /resume|--session /)
  })

test('a session that could not be continued is given up, and an id that looks like an option is not used', async () => {
  const port = memos()
  const first = await openKeptSession(planOf('codex'), port, itemOf('run_1', null))
  await first.conclude('{"thread_id":"--dangerous"}\n', true)
  assert.deepEqual((await openKeptSession(planOf('codex'), port, itemOf('run_2', 'run_1'))).argv, ['codex', 'exec', '--json', '-'])
  await first.conclude(printed['codex']!, true)
  const second = await openKeptSession(planOf('codex'), port, itemOf('run_2', 'run_1'))
  await second.conclude('', false)
  assert.deepEqual((await openKeptSession(planOf('codex'), port, itemOf('run_2', 'run_1'))).argv, ['codex', 'exec', '--json', '-'])
})

test('a command without {session} runs as it is written, and its output is read as before', async () => {
  const plan = planOf('codex', { argv: ['codex', 'exec', '-'] })
  const kept = await openKeptSession(plan, memos(), itemOf('run_1', null))
  assert.deepEqual([kept.argv, kept.output], [['codex', 'exec', '-'], { kind: 'text' }])
})

test('a program that remembers knows in the second run the codeword of the first', async () => {
  const script = `const fs = require('fs'), [, how, id] = process.argv, file = '${folder}/' + id
    const words = fs.readFileSync(0, 'utf8'), known = how === '--resume' ? fs.readFileSync(file, 'utf8') : ''
    fs.writeFileSync(file, known + words); console.log(JSON.stringify({ result: known + words }))`
  const argv = [process.execPath, '-e', script, '--', '{session}'] as const
  const port = memos()
  const play = async (item: MailboxItem, words: string): Promise<string | null> => {
    const kept = await openKeptSession(planOf('claude', { argv }), port, item)
    const [file, ...args] = kept.argv
    const { stdout, status } = spawnSync(file!, args, { input: words, encoding: 'utf8' })
    await kept.conclude(stdout, status === 0)
    return resultIn(stdout, kept.output)
  }
  assert.equal(await play(itemOf('run_1', null), 'pelican '), 'pelican ')
  assert.equal(await play(itemOf('run_2', 'run_1'), 'again'), 'pelican again')
})

for (const name of Object.keys(printed))
  test(`${name} is installed and knows the flags that continue a session`, async (t) => {
    const found = spawnSync(name, ['--help'], { encoding: 'utf8' })
    if (found.error) return t.skip(`${name} is not installed on this machine: the flags were not tried`)
    const help =
      name === 'codex'
        ? spawnSync('codex', ['exec', '--help'], { encoding: 'utf8' })
        : name === 'opencode'
          ? spawnSync('opencode', ['run', '--help'], { encoding: 'utf8' })
          : found
    assert.match(help.stdout + help.stderr, name === 'opencode' ? /--session/ : /resume/)
  })
