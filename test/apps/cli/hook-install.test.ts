// `hook install`, `hook check` and `hook resume` against a real server, with a stand-in for the program `claude`.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { openStage, until, type Agent, type Stage } from '#test/support/as-processes/agents.ts'
import { shellOf } from '#test/bridges/hooks/events.ts'

const program = resolve(import.meta.dirname, '../../../bin/countersign.js')
let stage: Stage
let agent: Agent
let ownerKey: string
let work: string

type Ended = { readonly code: number | null; readonly out: string }
async function countersign(words: readonly string[], { key = ownerKey, input = '' } = {}): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...words], {
    cwd: work,
    env: {
      PATH: `${join(work, 'bin')}:${process.env['PATH']}`,
      HOME: join(work, 'home'),
      COUNTERSIGN_URL: stage.server.url,
      ...(key === '' ? {} : { COUNTERSIGN_KEY: key }),
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let out = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (part: string) => (out += part))
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const code = await new Promise<number | null>((done) => void child.on('close', done))
  return { code, out }
}
function write(name: string, text: string): void {
  mkdirSync(dirname(join(work, name)), { recursive: true })
  writeFileSync(join(work, name), text)
}
const read = (name: string): string => readFileSync(join(work, name), 'utf8')
const claude = (script: string): void => {
  write('bin/claude', `#!/bin/sh\nif [ "$1" = --version ]; then echo '2.1.326 (Claude Code)'; exit; fi\n${script}\n`)
  chmodSync(join(work, 'bin/claude'), 0o755)
}
const calls = async (): Promise<any[]> => (await stage.owner.gate.call.list({})).items

before(async () => {
  stage = await openStage()
  agent = await stage.agent('coder')
  ownerKey = (await stage.system('identity/key.issue', { subject: 'user_owner' })).key
  work = join(stage.folder, 'work')
  mkdirSync(join(work, 'home'), { recursive: true })
  claude('exit 1')
})
after(() => stage.close())

describe('countersign hook install', () => {
  // Indented by four spaces, one line without a break at its end: no printer of JSON would write them so.
  const settings = '{\n    "permissions": {"ask": ["Bash(git push:*)"]},\n    "hooks": {"Stop": []}}'
  const local = '{ "env": {"A": "1"} }'

  it('two installations leave one entry, warn of ask rules, and one --undo restores every file byte for byte', async () => {
    write('.claude/settings.json', settings)
    write('.claude/settings.local.json', local)
    for (let i = 0; i < 2; i++) {
      const installed = await countersign(['hook', 'install', 'claude-code', '--agent', agent.id])
      assert.equal(installed.code, 0, installed.out)
      assert.match(installed.out, /settings\.json has `ask` rules \(Bash\(git push:\*\)\)/)
    }
    const { hooks } = JSON.parse(read('.claude/settings.json')) as { hooks: { PreToolUse: { hooks: { type: string }[] }[] } }
    assert.deepEqual(
      hooks.PreToolUse.flatMap((row) => row.hooks.map(({ type }) => type)),
      ['http', 'command'],
    )
    const checked = await countersign(['hook', 'check', 'claude-code'])
    assert.equal(checked.code, 0, checked.out)
    assert.equal((await calls()).length, 0)
    assert.equal((await countersign(['hook', 'install', 'claude-code', '--undo'])).code, 0)
    assert.equal(read('.claude/settings.json'), settings)
    assert.equal(read('.claude/settings.local.json'), local)
  })

  it('--undo keeps what the user wrote after the installation', async () => {
    write('.claude/settings.json', settings)
    await countersign(['hook', 'install', 'claude-code', '--agent', agent.id])
    const changed = { ...(JSON.parse(read('.claude/settings.json')) as object), model: 'opus' }
    write('.claude/settings.json', JSON.stringify(changed))
    await countersign(['hook', 'install', 'claude-code', '--undo'])
    const left = JSON.parse(read('.claude/settings.json')) as { model: string; hooks?: { PreToolUse?: unknown } }
    assert.deepEqual([left.model, left.hooks?.PreToolUse], ['opus', undefined])
  })

  it('hook check fails if the server refuses the key', async () => {
    await countersign(['hook', 'install', 'claude-code', '--agent', agent.id])
    write('.claude/settings.local.json', '{"env":{"COUNTERSIGN_KEY":"cs_wrong"}}')
    const checked = await countersign(['hook', 'check', 'claude-code'])
    assert.equal(checked.code, 1)
    assert.match(checked.out, /did not deny the check/)
  })
})

describe('countersign hook check codex', () => {
  const codex = (trustStatus: string): void => {
    const listed = JSON.stringify({ id: 2, result: { data: [{ hooks: [{ command: 'countersign hook codex', trustStatus }] }] } })
    write(
      'bin/codex',
      `#!/bin/sh\nwhile read -r line; do case "$line" in\n*'"initialize"'*) echo 'a line of the log'; echo '{"id":1,"result":{}}';;\n*hooks/list*) echo '${listed}';;\nesac; done\n`,
    )
    chmodSync(join(work, 'bin/codex'), 0o755)
  }

  it('shows the trust of Codex, and fails where Codex would skip the hook', async () => {
    codex('untrusted')
    for (let i = 0; i < 2; i++) {
      const installed = await countersign(['hook', 'install', 'codex', '--agent', agent.id])
      assert.equal(installed.code, 0, installed.out)
    }
    const { hooks } = JSON.parse(read('.codex/hooks.json')) as { hooks: Record<string, { hooks: { type: string }[] }[]> }
    // Codex ignores the whole file after one hook of an unknown type.
    assert.deepEqual(
      Object.values(hooks).flatMap((rows) => rows.flatMap((row) => row.hooks.map(({ type }) => type))),
      ['command'],
    )
    assert.equal(read('.codex/config.toml').match(/hooks = true/g)!.length, 1)
    const before = (await calls()).length
    const untrusted = await countersign(['hook', 'check', 'codex'])
    assert.equal(untrusted.code, 1)
    assert.match(untrusted.out, /denied the check[^]*Codex: untrusted[^]*Codex does not trust the hook/)
    codex('trusted')
    const trusted = await countersign(['hook', 'check', 'codex'])
    assert.equal(trusted.code, 0, trusted.out)
    assert.equal((await calls()).length, before)
    assert.equal((await countersign(['hook', 'install', 'codex', '--undo'])).code, 0)
    assert.equal(existsSync(join(work, '.codex/hooks.json')), false)
  })
})

describe('countersign hook resume', () => {
  it('waits for the answer to the deferred call, and continues the session once', async () => {
    const key = agent.key
    const event = JSON.stringify({ ...shellOf('claude-code'), session_id: 'session_7' })
    const deferred = await countersign(['hook', 'claude-code', '--wait', 'PT1S', '--late', 'defer'], { key, input: event })
    assert.match(deferred.out, /"permissionDecision":"defer"/)
    claude(`echo "$*" >> ${join(work, 'resumed')}; echo '{"stop_reason":"end_turn"}'`)
    const resumed = countersign(['hook', 'resume', 'session_7', '--agent', agent.id], { key })
    const open = await until(async () => (await calls()).find(({ state }) => state === 'waiting'), 'a waiting call')
    // It waits for the call of its own session.
    await until(() => stage.server.kernel.stats().waiting > 0, 'a call that waits')
    assert.equal(existsSync(join(work, 'resumed')), false)
    await stage.owner.execution.request.resolve({ request_id: open.request_id, result: 'approved' })
    assert.equal((await resumed).code, 0)
    assert.match(read('resumed'), /^-p --resume session_7 --output-format json\n$/)
  })
})
