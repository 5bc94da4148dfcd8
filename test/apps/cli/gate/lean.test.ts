// `countersign gate` without the command line around it: the calls that it serves itself, and the rest, which it passes to the command line.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { inProcess, root, runPiped, temporary } from '../../../support/as-processes/cli.ts'
import { callTool, openGateWorld, toolServer } from '../../../gate/gate-world.ts'

const home = temporary('cli-gate-lean')
const refused: readonly (readonly string[])[] = [
  ['gate'],
  ['gate', '--name', 'A NAME', '--', 'x'],
  ['gate', '--hold', 'soon', '--', 'x'],
  ['gate', '--url', 'ftp://example.com'],
  ['gate', '--env', 'COUNTERSIGN_KEY', '--', 'x'],
  ['gate', '--env', '1=2', '--', 'x'],
  ['gate', '--config', 'no-such-file', '--', 'x'],
]
/** Refused if there is no key. */
const alone = ['gate', '--', 'x']
const notTaken: readonly (readonly string[])[] = [
  ['gate', '--help'],
  ['gate', 'install', 'claude-code', '--agent', 'agent_devin'],
  ['gate', 'words', '--', 'x'],
  ['gate', '--nope', '--', 'x'],
  ['gate', '--name'],
  ['gate', '--json', '--', 'x'],
  ['inbox', 'list'],
  [],
]

test('words that the gate does not take, and refusals, are left to the command line, and nothing is written', () => {
  const script = `import { runLeanGate } from '#apps/cli/gate/lean.ts'
    const served = []
    const tryAll = async (all) => { for (const words of all) if (await runLeanGate(words)) served.push(words) }
    await tryAll([${JSON.stringify(alone)}])
    Object.assign(process.env, { COUNTERSIGN_URL: 'http://127.0.0.1:9', COUNTERSIGN_KEY: 'key' })
    await tryAll(${JSON.stringify([...refused, ...notTaken])})
    process.on('exit', () => process.stdout.write(JSON.stringify(served)))`
  const out = execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: root,
    env: { PATH: process.env['PATH'], HOME: home },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  assert.equal(out.toString(), '[]')
})

test('the program answers such words as the command line does, with its sentence and exit code', async () => {
  const cli = inProcess({ home })
  for (const words of [refused[1]!, notTaken[3]!]) {
    const { code, out, err } = await runPiped(words, { env: { HOME: home }, cwd: home })
    assert.deepEqual({ code, out, err }, await cli.run(words))
    assert.equal(code, 2)
  }
})

/** Tells, when the process ends, every file that it has loaded. */
const HOOK = `import { registerHooks } from 'node:module'
import { writeFileSync } from 'node:fs'
const loaded = []
registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
process.on('exit', () => writeFileSync(process.env.LOADED, loaded.join('\\n')))
`

test('a gate loads no commands and no operations, and its server gets no variable of Countersign', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({ default: 'allow' })
  const { command, args } = toolServer(world.file)
  const [hook, list] = [join(home, 'hook.mjs'), join(home, 'loaded')]
  writeFileSync(hook, HOOK)
  const client = new Client({ name: 'test', version: '1' })
  const gate = ['gate', '--name', 'files', '--env', 'OWN=yes', '--env', 'NAMED', '--', command, ...args]
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: ['--import', hook, join(root, 'bin', 'countersign.js'), ...gate],
      env: {
        PATH: process.env['PATH']!,
        HOME: home,
        LOADED: list,
        NAMED: 'too',
        OTHER: 'no',
        COUNTERSIGN_URL: world.url,
        COUNTERSIGN_KEY: world.keys.devin,
      },
    }),
  )
  assert.equal((await callTool(client, 'echo', { a: 1 })).content[0]!.text, 'echo {"a":1}')
  await client.close()
  const [run] = world.runs()
  assert.ok(run!.env.includes('OWN') && run!.env.includes('NAMED'))
  assert.deepEqual(
    run!.env.filter((name) => name === 'OTHER' || /^COUNTERSIGN_(?:KEY|URL)/.test(name)),
    [],
  )
  const loaded = readFileSync(list, 'utf8').split('\n')
  assert.ok(loaded.some((url) => url.endsWith('/src/apps/cli/gate/lean.ts')))
  assert.deepEqual(
    loaded.filter((url) =>
      /\/src\/(protocols\/\w+\/(index|operations)|stores|contracts|bindings|apps\/cli\/(commands|program))\b/.test(url),
    ),
    [],
  )
})
