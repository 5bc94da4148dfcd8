// `countersign up` as a process: the settings of scripts/serve, its output, and that it outlives the reader of its output.
import assert from 'node:assert/strict'
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { memoryEnv, memoryFlags } from '#apps/cli/serve.ts'
import { nextSteps } from '#apps/server/next-steps.ts'
import { root, runInTerminal, startUp, temporary } from '../../support/as-processes/cli.ts'

function folder(t: TestContext): string {
  const made = temporary('up')
  t.after(() => rmSync(made, { recursive: true, force: true }))
  return made
}

const argumentsOf = ({ pid }: ChildProcess): string[] =>
  execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { encoding: 'utf8' })
    .trim()
    .split(' ')

test('it runs with the memory of scripts/serve, as the process that was started', async (t) => {
  const script = readFileSync(join(root, 'scripts', 'serve'), 'utf8')
  assert.deepEqual(/\bnode (--\S+(?: --\S+)*) src\/apps\/server\/main\.ts/.exec(script)?.[1]?.split(' '), memoryFlags)
  // The value that a variable has by default there; the compile cache has a place of its own here.
  const variables = [...script.matchAll(/([A-Z_]+)="\$\{\1:-(.*?)\}"/g)].filter(([, name]) => name !== 'NODE_COMPILE_CACHE')
  assert.deepEqual(Object.fromEntries(variables.map(([, name, value]) => [name, value])), memoryEnv)
  const server = await startUp(join(folder(t), 'data'))
  t.after(server.stop)
  assert.deepEqual(argumentsOf(server.process).slice(1, 1 + memoryFlags.length), memoryFlags)
  const environment = `/proc/${server.process.pid}/environ`
  if (!existsSync(environment)) return
  const set = readFileSync(environment, 'utf8').split('\0')
  for (const [name, value] of Object.entries(memoryEnv)) assert.ok(set.includes(`${name}=${process.env[name] ?? value}`), name)
})

test('a memory limit set by the user is kept', async (t) => {
  const server = await startUp(join(folder(t), 'data'), { NODE_OPTIONS: '--max-semi-space-size=16' })
  t.after(server.stop)
  assert.ok(!argumentsOf(server.process).some((word) => word.startsWith('--max-semi-space-size')))
})

test('it prints its address, how to sign in and the next steps, and runs on if its output is not read', async (t) => {
  const data = join(folder(t), 'data')
  const args = [join(root, 'bin', 'countersign.js'), 'up', '--link', '--port', '0', '--data', data, '--log', 'error']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, npm_command: '' } })
  t.after(() => child.kill('SIGKILL'))
  let said = ''
  child.stdout.setEncoding('utf8')
  for await (const part of child.stdout) {
    said += part as string
    if (said.includes('--help')) break
  }
  child.stdout.destroy()
  const url = /^countersign ready (\S+)$/m.exec(said)![1]!
  assert.equal(
    said.replace(/token=\S+/, 'token=TOKEN'),
    `countersign ready ${url}
Log in as the owner in a browser (works once, 15 minutes):
${url}/login?token=TOKEN
The admin key is in ${data}/admin.key
${nextSteps({ url, data, hasOwner: true, hasKey: true }, 'countersign', '/')}`,
  )
  assert.equal((await fetch(`${url}/health`)).status, 200)
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'exit'), [0, null])
})

test('the log comes after what is said to people', async (t) => {
  const command = 'exec "$0" src/apps/server/main.ts --port 0 --data "$1" 2>&1'
  const args = ['-c', command, process.execPath, join(folder(t), 'data')]
  const child = spawn('sh', args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, COUNTERSIGN_LOG: 'info' } })
  t.after(() => child.kill('SIGKILL'))
  let said = ''
  child.stdout.setEncoding('utf8')
  for await (const part of child.stdout) {
    said += part as string
    if (said.includes('"ready"') && said.includes('--help')) break
  }
  assert.match(said, /^countersign ready [^]*--help .*\n\{"level":"info".*"msg":"ready"\}\n$/)
})

test('the next steps can be copied as they are, with paths only where they are not the defaults', () => {
  assert.equal(
    nextSteps({ url: 'http://127.0.0.1:3402', data: '/home/me/data', hasOwner: true, hasKey: true }, 'countersign', '/home/me'),
    `Next, in another terminal:
  countersign login --as user_owner  # log in as the owner
  countersign doctor                 # check the installation
  countersign --help                 # list the commands
`,
  )
  assert.match(
    nextSteps({ url: 'http://127.0.0.1:3402', data: '/home/me/data', hasOwner: true, hasKey: false }, 'countersign', '/home/me'),
    /^Next, in another terminal:\n {2}countersign admin-key +# make an admin key here, .*\n {2}countersign doctor /,
  )
  assert.equal(
    nextSteps({ url: 'http://127.0.0.1:8080', data: "/it's here", hasOwner: false, hasKey: true }, 'npx countersign', '/home/me'),
    `Next, in another terminal:
  export COUNTERSIGN_URL=http://127.0.0.1:8080 COUNTERSIGN_DATA='/it'\\''s here'  # where this server is
  npx countersign doctor                                                         # check the installation
  npx countersign --help                                                         # list the commands
`,
  )
})

test('at a terminal it logs only what needs attention, and Ctrl-C ends it cleanly', async (t) => {
  const home = folder(t)
  const { code, out } = await runInTerminal(['up', '--port', '0', '--data', 'data'], [['--help', '\u0003']], {
    env: { HOME: home },
    cwd: home,
  })
  assert.equal(code, 0, out)
  assert.match(out, /^countersign ready http/)
  assert.doesNotMatch(out, /"level"/)
})
