// The adapters of examples/frameworks with their frameworks and fake models. The frameworks are installed into the user's cache by the long
// run; `npm test` tests the adapters that need none.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { installedPackages } from '#bench/peers/install.ts'
import { NotApproved } from '#sdk/await-answer.ts'

const root = join(import.meta.dirname, '../..')
const examples = join(root, 'examples/frameworks')
const isLong = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all'

const frameworks = {
  ai: ['ai@7.0.170', 'zod@4.6.7'],
  'openai-agents': ['@openai/agents@0.20.0', 'zod@4.6.7'],
  langgraph: ['@langchain/langgraph@1.4.17', '@langchain/core@1.2.13'],
  mastra: ['@mastra/core@1.71.0', 'zod@4.6.7'],
  'ag-ui': ['@ag-ui/core@1.0.0', 'zod@4.6.7'],
} as const
const names = Object.keys(frameworks) as (keyof typeof frameworks)[]

test('Each adapter compiles and is shorter than 30 lines, and docs/frameworks.md names the version that was tried', async () => {
  const page = readFileSync(join(root, 'docs/frameworks.md'), 'utf8')
  for (const name of names) {
    await promisify(execFile)(process.execPath, ['--check', join(examples, `${name}.mjs`)])
    const lines = readFileSync(join(examples, `${name}.mjs`), 'utf8')
      .trimEnd()
      .split('\n')
    assert.ok(lines.length < 30, `${name} has ${lines.length} lines`)
    const [, version] = /^(.+)@([^@]+)$/.exec(frameworks[name][0])!.slice(1)
    assert.ok(page.includes(`(../examples/frameworks/${name}.mjs)`) && page.includes(version!), name)
  }
})

test('The adapter of the AI SDK denies whatever is not a yes', async () => {
  const { inboxApproval } = (await import(join(examples, 'ai.mjs'))) as {
    inboxApproval: (hxp: object, run: string) => (call: object) => Promise<object>
  }
  const asked = { toolCall: { toolName: 'pay', toolCallId: 'c1', input: { amount: 5 } } }
  const verdict = (approve: () => Promise<unknown>): Promise<object> => inboxApproval({ approve }, 'run_1')(asked)
  assert.deepEqual(await verdict(async () => ({ result: 'approved' })), { type: 'approved' })
  for (const odd of [undefined, {}, { result: 'yes' }, 'approved'])
    assert.deepEqual(await verdict(async () => odd), { type: 'denied', reason: 'the inbox gave no answer' })
  const no = verdict(() => Promise.reject(new NotApproved('too much', null)))
  assert.deepEqual(await no, { type: 'denied', reason: 'too much' })
  await assert.rejects(
    verdict(() => Promise.reject(new Error('unreachable'))),
    /unreachable/,
  )
})

test('An adapter lets nothing run but what was approved', { skip: isLong ? false : 'the long run installs the frameworks' }, async () => {
  for (const name of names) {
    const folder = await installedPackages(`framework-${name}`, frameworks[name])
    if (!existsSync(join(folder, 'node_modules/countersign'))) symlinkSync(root, join(folder, 'node_modules/countersign'))
    copyFileSync(join(examples, `${name}.mjs`), join(folder, `${name}.mjs`))
    copyFileSync(join(import.meta.dirname, 'frameworks/driver.mjs'), join(folder, 'driver.mjs'))
    const run = async (which: string): Promise<{ ran: number[]; keys: string[]; end: string }> => {
      const { stdout } = await promisify(execFile)(process.execPath, ['driver.mjs', name, which], { cwd: folder })
      return JSON.parse(stdout.slice(stdout.lastIndexOf('{"ran"'))) as { ran: number[]; keys: string[]; end: string }
    }
    const yes = await run('yes')
    assert.deepEqual([name, yes.ran], [name, [5]], yes.end)
    assert.equal(new Set((await run('two')).keys).size, 2, name)
    assert.deepEqual([name, (await run('two')).ran], [name, [2]])
    assert.deepEqual([name, (await run('twice')).ran], [name, [5]])
    const no = await run('no')
    assert.deepEqual([name, no.ran], [name, []])
    assert.ok(!no.end.startsWith('threw'), `${name}: ${no.end}`)
    for (const which of ['nothing', 'odd', 'thrown']) assert.deepEqual([name, which, (await run(which)).ran], [name, which, []])
  }
})
