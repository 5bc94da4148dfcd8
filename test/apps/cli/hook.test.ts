// `countersign hook` as a process: one answer or exit code 2, whatever happens. Effects are counted where the calls arrive.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { agentNames, dialects, type AgentName } from '#bridges/hooks/dialects.ts'
import { agentKeyFor, removePlace, withPlace, writeAgentKey } from '#apps/cli/gate/agent-keys.ts'
import { editsOf, type Plan } from '#apps/cli/hook/installed-files.ts'
import { shellOf } from '#test/bridges/hooks/events.ts'
import { startStandIn, type StandIn } from '#test/support/gate-stand-in.ts'

const program = resolve(import.meta.dirname, '../../../bin/countersign.js')
const folder = mkdtempSync(join(tmpdir(), 'countersign-hook-'))
let gate: StandIn

type Ended = { readonly code: number | null; readonly out: string; readonly err: string }
async function hook(
  agent: string,
  input: string | object,
  options: { env?: object; args?: string[]; cwd?: string; out?: number } = {},
): Promise<Ended> {
  const { env, args = [], cwd = folder, out } = options
  const child = spawn(process.execPath, [program, 'hook', agent, ...args], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: folder, COUNTERSIGN_URL: gate.url, COUNTERSIGN_KEY: 'k', ...env },
    stdio: ['pipe', out ?? 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  child.stdout?.on('data', (part) => (said.out += String(part)))
  child.stderr!.on('data', (part) => (said.err += String(part)))
  child.stdin!.on('error', () => undefined)
  child.stdin!.end(typeof input === 'string' ? input : JSON.stringify(input))
  const code = await new Promise<number | null>((done) => void child.on('close', done))
  return { code, ...said }
}
const operations = (): string[] => gate.calls.map(({ operation }) => operation)

before(async () => {
  gate = await startStandIn()
})
beforeEach(() => {
  gate.calls.length = 0
  gate.state = 'approved'
})
after(async () => {
  await gate.close()
  rmSync(folder, { recursive: true, force: true })
})

describe('countersign hook', () => {
  for (const agent of agentNames) {
    const denied = (text: string): void => {
      const answer = JSON.stringify(JSON.parse(text))
      assert.match(answer, /"(?:permissionDecision|decision|permission)":"deny"/)
      assert.match(answer, /"(?:permissionDecisionReason|reason|agent_message)":"[^"]+/)
      assert.equal(text.trimEnd().includes('\n'), false)
    }
    it(`${agent} runs an allowed call after it was begun`, async () => {
      const ended = await hook(agent, shellOf(agent))
      assert.deepEqual(ended, {
        code: 0,
        out: dialects[agent].answer({ kind: 'allow', reason: `Countersign allowed ${toolOf(agent)} (rule r1)` }),
        err: '',
      })
      assert.deepEqual(operations(), ['gate/call.propose', 'gate/call.begin'])
      assert.equal(gate.calls[0]!.key, 'k')
    })
    it(`${agent} reads a denial with its reason`, async () => {
      gate.state = 'denied'
      const { code, out, err } = await hook(agent, shellOf(agent))
      assert.deepEqual([code, err], [0, ''])
      denied(out)
      assert.match(out, /rule r1 denies it: because/)
    })
    it(`${agent} reads that Countersign is unreachable, that its key is refused, and that there is none`, async () => {
      const gone = await hook(agent, shellOf(agent), { env: { COUNTERSIGN_URL: 'http://127.0.0.1:9' } })
      const keyless = await hook(agent, shellOf(agent), { env: { COUNTERSIGN_KEY: '' } })
      gate.state = 401
      const refused = await hook(agent, shellOf(agent))
      for (const [{ code, out }, words] of [
        [gone, /cannot be reached/],
        [refused, /no such key/],
        [keyless, /has no key/],
      ] as const) {
        assert.equal(code, 0)
        denied(out)
        assert.match(out, words)
      }
    })
    it(`${agent} is blocked by exit code 2 after bad input`, async () => {
      for (const input of ['', '{', '[]', 'null', '{"a":1,"a":2}', '{}', '[log] starting\n{}']) {
        const { code, out, err } = await hook(agent, input)
        assert.deepEqual([code, out], [2, ''], input)
        assert.match(err, /bad input/)
      }
      assert.deepEqual(operations(), [])
    })
    it(`${agent} hears nothing about another event`, async () => {
      assert.deepEqual(await hook(agent, { ...shellOf(agent), hook_event_name: 'SessionStart' }), { code: 0, out: '', err: '' })
    })
  }

  it('an answer that cannot be written blocks the tool', async () => {
    const { code, err } = await hook('claude-code', shellOf('claude-code'), { out: openSync('/dev/full', 'w') })
    assert.equal(code, 2)
    assert.match(err, /could not write/)
  })

  it('an answer that its reader no longer takes blocks the tool', async () => {
    const child = spawn(process.execPath, [program, 'hook', 'claude-code'], {
      cwd: folder,
      env: { PATH: process.env['PATH'], HOME: folder, COUNTERSIGN_URL: gate.url, COUNTERSIGN_KEY: 'k' },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    let err = ''
    child.stderr.on('data', (part) => (err += String(part)))
    child.stdout.destroy()
    child.stdin.end(JSON.stringify(shellOf('claude-code')))
    assert.equal(await new Promise((done) => void child.on('close', done)), 2)
    // Codex runs a tool after exit code 2 without words.
    assert.match(err, /could not write/)
  })

  it('warnings of the program are not in the answer', async () => {
    gate.state = 'denied'
    const env = { NODE_DEBUG: 'http,net,fetch', NODE_OPTIONS: '--pending-deprecation --trace-warnings --experimental-vm-modules' }
    for (const agent of agentNames) {
      const { out, err } = await hook(agent, shellOf(agent), { env })
      assert.notEqual(err, '')
      assert.equal(`${JSON.stringify(JSON.parse(out))}\n`, out, agent)
    }
  })

  it('a hook without an input is blocked', async () => {
    const child = spawn(process.execPath, [program, 'hook', 'codex'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    let err = ''
    child.stderr.on('data', (part) => (err += String(part)))
    assert.equal(await new Promise((done) => void child.on('close', done)), 2)
    assert.match(err, /bad input/)
  })

  it('a hook of managed settings takes neither its key nor its server from the environment', async () => {
    const { code, out } = await hook('claude-code', shellOf('claude-code'), { args: ['--managed', '--agent', 'agent_of_no_file'] })
    assert.equal(code, 0)
    assert.match(out, /"permissionDecision":"deny".*has no key/)
    assert.deepEqual(operations(), [])
  })

  it('an event of 5 MB is refused before it is sent', async () => {
    const { code, err } = await hook('claude-code', { ...shellOf('claude-code'), tool_input: { content: 'x'.repeat(5_000_000) } })
    assert.equal(code, 2)
    assert.match(err, /at most/)
    assert.deepEqual(operations(), [])
  })

  it('a late call is asked at the terminal of Claude Code and denied to Codex', async () => {
    gate.state = 'waiting'
    assert.match((await hook('claude-code', shellOf('claude-code'), { args: ['--wait', 'PT1S'] })).out, /"permissionDecision":"ask"/)
    assert.equal(operations().at(-1), 'gate/call.leave')
    assert.match((await hook('codex', shellOf('codex'), { args: ['--wait=PT1S'] })).out, /"permissionDecision":"deny"/)
  })

  it('an option that would let the agent run the tool is refused', async () => {
    for (const args of [['--late', 'ask'], ['--late', 'defer'], ['--late'], ['--wait', '9m'], ['--verbose', 'x']])
      assert.equal((await hook('codex', shellOf('codex'), { args })).code, 2, args.join(' '))
  })

  it('servers behind countersign gate are asked about by the gate alone', async () => {
    const cwd = join(folder, 'gated')
    mkdirSync(join(cwd, '.codex'), { recursive: true })
    const gated = ['gate', '--name', 'files', '--', 'node', 'files.mjs']
    const mcpServers = {
      files: { command: 'countersign', args: gated },
      web: { command: 'node', args: ['web.mjs', 'countersign', 'gate'] },
    }
    writeFileSync(join(cwd, '.mcp.json'), JSON.stringify({ mcpServers }))
    writeFileSync(join(cwd, '.codex/config.toml'), `[mcp_servers.files]\ncommand = "${program}"\nargs = ${JSON.stringify(gated)}\n`)
    writeFileSync(join(cwd, 'opencode.json'), JSON.stringify({ mcp: { files: { type: 'local', command: ['countersign', ...gated] } } }))
    mkdirSync(join(cwd, '.cursor'))
    writeFileSync(join(cwd, '.cursor/mcp.json'), JSON.stringify({ mcpServers }))
    const events: Readonly<Record<AgentName, object>> = {
      'claude-code': { ...shellOf('claude-code'), tool_name: 'mcp__files__read' },
      codex: { ...shellOf('codex'), tool_name: 'mcp__files__read' },
      gemini: { ...shellOf('gemini'), mcp_context: { server_name: 'files', tool_name: 'read', command: 'countersign', args: gated } },
      cursor: { hook_event_name: 'beforeMCPExecution', tool_name: 'read', tool_input: {}, command: `countersign ${gated.join(' ')}` },
      opencode: { ...shellOf('opencode'), tool: 'files_read' },
    }
    for (const agent of agentNames) assert.deepEqual(await hook(agent, events[agent], { cwd }), { code: 0, out: '', err: '' }, agent)
    assert.deepEqual(operations(), [])
    await hook('claude-code', { ...shellOf('claude-code'), tool_name: 'mcp__web__read' }, { cwd })
    assert.deepEqual(operations(), ['gate/call.propose', 'gate/call.begin'])
    assert.equal(gate.calls[0]!.input['server'], 'web')
  })

  it('the key of a project is found from its folders, in a file of mode 0600', async () => {
    const home = { env: {}, home: join(folder, 'home') }
    const key = { url: gate.url, agent: 'agent_coder', key_id: 'key_1', key: 'stored', places: [] }
    const file = writeAgentKey(home, withPlace(key, { folder, use: 'hook claude-code' }))
    assert.equal(statSync(file).mode & 0o777, 0o600)
    writeAgentKey(home, withPlace({ ...key, agent: 'agent_other', key: 'other' }, { folder: '/elsewhere', use: 'gate' }))
    assert.equal(agentKeyFor(home, join(folder, 'a/b'))?.key, 'stored')
    assert.equal(agentKeyFor(home, '/nowhere'), null)
    await hook('claude-code', shellOf('claude-code'), { env: { HOME: home.home, COUNTERSIGN_KEY: '' } })
    assert.equal(gate.calls[0]!.key, 'stored')
    assert.deepEqual(
      removePlace(home, { folder, use: 'hook claude-code' }).map((one) => one.key),
      ['stored'],
    )
  })
})

const toolOf = (agent: AgentName): string => {
  const call = dialects[agent].read({ ...shellOf(agent) })!
  return `${call.server}/${call.tool}`
}

describe('files of an installed hook', () => {
  const plan = (agent: AgentName, more: Partial<Plan> = {}): Plan => ({
    agent,
    program: ['countersign'],
    wait: 'PT9M',
    late: dialects[agent].late[0]!,
    http: null,
    isManaged: false,
    ...more,
  })
  for (const agent of agentNames)
    it(`${agent}: two installations leave one entry, and the undo leaves nothing`, () => {
      for (const [i, { path, edit }] of editsOf(plan(agent), false).entries()) {
        const once = edit(null)
        assert.equal(edit(once), once, path)
        assert.equal(editsOf(plan(agent), true)[i]!.edit(once), null, path)
      }
    })

  it('hooks of others stay', () => {
    const before = { model: 'x', hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [{ type: 'command', command: 'lint' }] }], Stop: [] } }
    const [settings] = editsOf(plan('claude-code'), false)
    const text = settings!.edit(JSON.stringify(before))!
    assert.equal((JSON.parse(text) as { hooks: { PreToolUse: unknown[] } }).hooks.PreToolUse.length, 2)
    const undone = JSON.parse(editsOf(plan('claude-code'), true)[0]!.edit(text)!) as typeof before
    assert.deepEqual(undone.hooks.PreToolUse, before.hooks.PreToolUse)
  })

  it('a file that is no JSON changes nothing', () => {
    assert.throws(() => editsOf(plan('gemini'), false)[0]!.edit('{'), /nothing was changed/)
  })

  it('Codex pins the feature, in a table of its own or in the one that is there', () => {
    const { edit } = editsOf(plan('codex'), false)[1]!
    const text = edit('model = "x"\n\n[features]\nweb = true\n\n[mcp_servers.a]\ncommand = "a"\n')!
    assert.match(text, /\[features\]\nhooks = true # countersign hook\nweb = true\n/)
    assert.equal(text.match(/\[features\]/g)!.length, 1)
    assert.throws(() => edit('[features]\nhooks = false\n'), /switches hooks off/)
    // A second table of the name would make the file invalid, and Codex would ignore all of it.
    for (const table of ['features = { web = true }\n', 'features.web = true\n', '[ features ]\n', '["features"]\n', '[features.web]\n'])
      assert.throws(() => edit(table), /nothing was changed/, table)
    assert.match(edit('[other]\nfeatures = 1\n')!, /\n\[features\]\nhooks = true/)
  })

  it('Claude Code gets hooks of type http that block, and the key only in a file of its user', () => {
    const [settings, local] = editsOf(plan('claude-code', { http: { url: 'https://x', key: 'secret' } }), false)
    const rows = (JSON.parse(settings!.edit(null)!) as { hooks: { PreToolUse: { matcher: string; hooks: object[] }[] } }).hooks.PreToolUse
    assert.deepEqual(rows[0]!.hooks[0], {
      type: 'http',
      url: 'https://x/hook/claude-code?wait=PT9M&late=ask',
      timeout: 600,
      onFailure: 'block',
      headers: { Authorization: 'Bearer $COUNTERSIGN_KEY' },
      allowedEnvVars: ['COUNTERSIGN_KEY'],
    })
    assert.deepEqual(
      ['Bash', 'mcp__files__read'].map((name) => new RegExp(rows[0]!.matcher).test(name)),
      [true, false],
    )
    assert.equal(local!.secret, true)
    assert.match(local!.edit(null)!, /"COUNTERSIGN_KEY": "secret"/)
  })

  it('the managed settings of Codex pin the feature and are removed whole', () => {
    const managed = { isManaged: true }
    const text = editsOf(plan('codex', managed), false)[0]!.edit('allow_managed_hooks_only = true\n')!
    assert.match(text, /^allow_managed_hooks_only = true\n\n# countersign/)
    assert.match(text, /\[features\]\nhooks = true\n/)
    assert.match(text, /--managed"\n/)
    assert.equal(editsOf(plan('codex', managed), true)[0]!.edit(text), 'allow_managed_hooks_only = true\n\n')
    assert.throws(() => editsOf(plan('codex', managed), false)[0]!.edit('[hooks]\n'), /nothing was changed/)
  })

  it('the plugin of OpenCode throws unless the hook allows', async () => {
    const script = join(folder, 'answer.mjs')
    const { edit } = editsOf({ ...plan('opencode'), program: [process.execPath, script] }, false)[0]!
    const file = join(folder, 'plugin.mjs')
    writeFileSync(file, edit(null)!)
    const { Countersign } = (await import(file)) as {
      Countersign: () => Promise<{ 'tool.execute.before': (a: object, b: object) => Promise<void> }>
    }
    const ask = async (source: string): Promise<void> => {
      writeFileSync(script, source)
      await (await Countersign())['tool.execute.before']({ tool: 'bash', sessionID: 's', callID: 'c' }, { args: { command: 'ls' } })
    }
    await ask(`console.log('{"decision":"allow"}')`)
    for (const source of [
      `console.log('{"decision":"deny","reason":"no"}')`,
      `console.log('{}')`,
      `console.log('words')`,
      'process.exit(1)',
      `console.error('x'); process.exit(2)`,
    ])
      await assert.rejects(ask(source), Error, source)
    assert.equal(readFileSync(script, 'utf8').includes('exit(2)'), true)
  })
})
