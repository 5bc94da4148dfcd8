// The test runner: failures are told when they happen, no port of the user is reached, and nothing is left behind.
import assert from 'node:assert/strict'
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { inOrder, longest } from '../../scripts/test-order.ts'
import { openRun } from '../../scripts/test-run.ts'
import { root, temporary } from '../support/as-processes/cli.ts'

/** As a process that no test run has started. */
const outside = (): Record<string, string> => {
  const { NODE_TEST_CONTEXT: _, NODE_OPTIONS: __, COUNTERSIGN_TEST_GUARD: ___, ...env } = process.env
  return env as Record<string, string>
}

/** Runs files of this code, in the order in which they are named. */
function running(
  files: Readonly<Record<string, string>>,
  own: Record<string, string> = {},
): { folder: string; child: ChildProcess; said(): string } {
  const folder = temporary('runner')
  for (const [name, code] of Object.entries(files))
    writeFileSync(
      join(folder, name),
      `import assert from 'node:assert/strict'\nimport { writeFileSync } from 'node:fs'\nimport { test } from 'node:test'\nwriteFileSync('${folder}/${name}.pid', String(process.pid))\n${code}\n`,
    )
  const args = [join(root, 'scripts', 'test-files.ts'), ...Object.keys(files)]
  const child = spawn(process.execPath, args, { cwd: folder, env: { ...outside(), ...own }, stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => (said += part))
  return { folder, child, said: () => said }
}

/** Waits until a file is there. */
async function appearing(path: string): Promise<string> {
  while (!existsSync(path) || readFileSync(path, 'utf8') === '') await setTimeout(50)
  return readFileSync(path, 'utf8')
}

test('a failure is reported with its reason while other files still run, and again at the end', async () => {
  const { folder, child, said } = running({
    'slow.test.mjs': "setInterval(() => undefined, 1e6).unref()\ntest('it waits', () => new Promise((go) => process.on('SIGUSR2', go)))",
    'bad.test.mjs': "test('it adds', () => assert.equal(1 + 1, 3))",
  })
  const ended = once(child, 'close')
  while (!/✖ bad\.test\.mjs: it adds\n[^]*2 !== 3/.test(said())) await setTimeout(50)
  process.kill(Number(await appearing(join(folder, 'slow.test.mjs.pid'))), 'SIGUSR2')
  const [code] = await ended
  assert.equal(code, 1)
  assert.match(said(), /✔ slow\.test\.mjs[^]*\n✖ bad\.test\.mjs: it adds\n$/)
  assert.equal(said().split('it adds').length - 1, 2, said())
})

test('the files begin in the order in which they are named, and a run that is interrupted names those that did not end', async () => {
  const hangs = "console.log('said before')\ntest('it hangs', () => new Promise(() => undefined))\nsetInterval(() => undefined, 1e6)"
  const names = ['z', 'y', 'm']
  const hanging = Object.fromEntries(names.map((name) => [`${name}.test.mjs`, hangs]))
  const { folder, child, said } = running({ ...hanging, 'a.test.mjs': "test('it is', () => undefined)" })
  const ended = once(child, 'close')
  for (const name of names) await appearing(join(folder, `${name}.test.mjs.pid`))
  child.kill('SIGTERM')
  const [code] = await ended
  assert.equal(code, 1)
  assert.equal(existsSync(join(folder, 'a.test.mjs.pid')), false)
  const unended = said()
    .split('\n')
    .filter((line) => line.includes('did not end'))
  assert.deepEqual(unended.map((line) => line.slice(0, 14)).sort(), ['✖ m.test.mjs: ', '✖ y.test.mjs: ', '✖ z.test.mjs: '])
})

test('in a whole run a file that failed is run once more alone: a defect stays red, and an unstable file is named', async () => {
  const bad = "test('it adds', () => assert.equal(1 + 1, 3))"
  const moody = `import { existsSync } from 'node:fs'\ntest('it moods', () => { const was = existsSync('seen'); writeFileSync('seen', ''); assert.ok(was) })`
  const both = running({ 'bad.test.mjs': bad, 'moody.test.mjs': moody }, { COUNTERSIGN_TEST_AGAIN: 'first' })
  assert.deepEqual(await once(both.child, 'close'), [1, null])
  assert.doesNotMatch(both.said(), /UNSTABLE/)
  const one = running({ 'moody.test.mjs': moody }, { COUNTERSIGN_TEST_AGAIN: 'first' })
  assert.deepEqual(await once(one.child, 'close'), [0, null])
  assert.match(one.said(), /it moods[^]*once more, alone: moody\.test\.mjs[^]*UNSTABLE: moody\.test\.mjs failed and then passed alone/)
  const without = running({ 'moody.test.mjs': moody })
  assert.deepEqual(await once(without.child, 'close'), [1, null])
})

test('the files that take longest are run first', () => {
  for (const file of longest) assert.ok(existsSync(join(root, file)), `${file} is not there: scripts/test-order.ts`)
  const [first, last] = ['test/a.test.ts', 'test/z.test.ts']
  assert.deepEqual(inOrder([last, ...longest.toReversed(), first]), [...longest, first, last])
})

test('a test that is left out is named with its reason', async () => {
  const folder = temporary('runner')
  writeFileSync(
    join(folder, 'some.test.mjs'),
    "import { test } from 'node:test'\ntest('it runs', () => undefined)\ntest('it counts snakes', (t) => t.skip('there is no python3 here'))\n",
  )
  const args = [join(root, 'scripts', 'test-files.ts'), 'some.test.mjs']
  const said = execFileSync(process.execPath, args, { cwd: folder, env: outside(), encoding: 'utf8' })
  assert.match(said, /^- some\.test\.mjs: it counts snakes: left out, there is no python3 here$/m)
})

describe('a run of the tests', () => {
  const tries = (port: number): string =>
    `fetch('http://localhost:${port}/').then((answer) => console.log(answer.status), (error) => console.log(error.cause.message))`

  test('reaches the servers that it has opened, and no other, from any of its processes', async () => {
    // Outside of the run that is tested, as the user's own server is.
    const server = createServer((_, response) => response.end('theirs')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const theirs = (server.address() as AddressInfo).port
    const run = openRun()
    const own = `require('node:http').createServer((_, response) => response.end()).listen(0, function () {
      const { port } = this.address()
      const code = ${JSON.stringify(tries(0))}.replace(':0/', ':' + port + '/')
      // A child with an environment of its own, which asks through a shell.
      const child = require('node:child_process').spawn('sh', ['-c', '"$0" -e "$1"', process.execPath, code], { env: {}, stdio: 'inherit' })
      child.on('exit', () => this.close())
    })`
    const node = async (code: string): Promise<string> => {
      const child = spawn(process.execPath, ['-e', code], { env: { ...outside(), ...run.env }, stdio: ['ignore', 'pipe', 'inherit'] })
      let said = ''
      child.stdout.on('data', (part) => (said += String(part)))
      await once(child, 'close')
      return said
    }
    const message = `a test connects to port ${theirs}, which this test run has not opened`
    assert.equal(await node(own), '200\n')
    assert.equal(await node(tries(theirs)), `${message}\n`)
    const nested = `process.stdout.write(require('node:child_process').execFileSync(process.execPath, ['-e', ${JSON.stringify(tries(theirs))}], { env: {} }))`
    assert.equal(await node(nested), `${message}\n`)
    server.close()
    const said = run.close()
    assert.equal(said.length, 1, said.join('\n'))
    assert.ok(said[0]!.startsWith(message), said.join())
  })

  test('hands what was compiled on to children with an environment of their own', () => {
    const run = openRun()
    const say = 'console.log(process.env.NODE_COMPILE_CACHE)'
    const args = ['-e', `process.stdout.write(require('node:child_process').execFileSync(process.execPath, ['-e', '${say}'], { env: {} }))`]
    const said = execFileSync(process.execPath, args, { env: { ...outside(), ...run.env }, encoding: 'utf8' })
    assert.equal(said, `${run.env.NODE_COMPILE_CACHE}\n`)
    assert.deepEqual(run.close(), [])
  })

  test('names whatever it leaves in the temporary folder', () => {
    const run = openRun()
    const write = "require('node:fs').mkdirSync(require('node:os').tmpdir() + '/forgotten')"
    execFileSync(process.execPath, ['-e', write], { env: { ...outside(), ...run.env } })
    assert.deepEqual(run.close(), ['left behind in the temporary folder: forgotten'])
    assert.equal(existsSync(run.env.TMPDIR), false)
    assert.deepEqual(openRun().close(), [])
  })
})
