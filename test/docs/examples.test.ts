// Every example as a process of its own, against a real server.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { openStage, until, type Stage } from '../support/as-processes/agents.ts'

const root = join(import.meta.dirname, '../..')
let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage.close())

const shown = new Set<string>()
/** Registers the agent and starts its program; ready when it waits for work. */
async function start(t: TestContext, program: string, id: string, ...args: string[]): Promise<void> {
  shown.add(program)
  await stage.system('identity/agent.add', { id, name: id, owner: 'user_owner' })
  const { key } = await stage.system('identity/key.issue', { subject: id })
  const before = stage.server.kernel.stats().waiting
  const env = { PATH: process.env['PATH'], COUNTERSIGN_URL: stage.server.url, COUNTERSIGN_KEY: key as string }
  const child = spawn(process.execPath, [join(root, 'examples', program), ...args], { env, stdio: 'inherit' })
  t.after(async () => {
    const gone = once(child, 'exit')
    child.kill('SIGTERM')
    assert.deepEqual(await gone, [null, 'SIGTERM'])
  })
  await until(() => stage.server.kernel.stats().waiting > before, `${program} waits for work`)
}
async function answered(task_id: string, answer: object): Promise<string> {
  const { id, prompt } = await stage.question(task_id)
  await stage.owner.collaboration.checkpoint.resolve({ checkpoint_id: id, ...answer } as never)
  return prompt
}
async function delivered(task_id: string): Promise<string> {
  const { artifacts } = await stage.taskIn(task_id, 'review_ready')
  return Buffer.from((await stage.owner.download('collaboration/artifact.download', { artifact_id: artifacts[0] })).bytes).toString()
}

test('the reviewer reports what it finds, and asks about what is severe', async (t) => {
  await start(t, 'reviewer.ts', 'agent_reviewer')
  const diffs = { 'login.ts': "+const password = 'secret'\n-console.log(1)\n", 'main.ts': '+start()\n+console.log(2)\n' }
  const inputs = Object.entries(diffs).map(([id, text]) => ({ kind: 'resource', id, uri: `data:,${encodeURIComponent(text)}` }))
  const { task } = await stage.owner.collaboration.task.create({ spec: { goal: 'Review the change', inputs } as never })
  await stage.owner.collaboration.task.assign({ task_id: task.id, assignee: 'agent_reviewer' })
  const prompt = await answered(task.id, { action: 'choose', choice: 'blocker' })
  assert.equal(prompt, '1 of the findings look severe. How shall I report them?')
  assert.equal(await delivered(task.id), 'blocker: login.ts:1: a password in the source\nnote: main.ts:2: a forgotten console.log\n')
})

test('the planner delegates to two writers and puts together what they deliver', async (t) => {
  await start(t, 'writer.ts', 'agent_writer_1', 'agent_writer_1')
  await start(t, 'writer.ts', 'agent_writer_2', 'agent_writer_2')
  await start(t, 'planner.ts', 'agent_planner')
  const spec = { goal: 'the sea and the wind' }
  const { task } = await stage.owner.collaboration.task.create({ spec, delegable: true })
  await stage.owner.collaboration.task.assign({ task_id: task.id, assignee: 'agent_planner' })
  const children = await until(async () => {
    const { task: now } = await stage.owner.collaboration.task.get({ task_id: task.id })
    return now.children.length === 2 && now.children
  }, 'two child tasks')
  const writers: string[] = []
  for (const task_id of children) {
    const { task: child } = await stage.owner.collaboration.task.get({ task_id })
    writers.push(child.executor!)
    await answered(task_id, { action: 'provide', input: `${child.spec.goal.split(' ')[1]} words` })
  }
  assert.equal(await delivered(task.id), 'the sea: sea words\nthe wind: wind words')
  assert.deepEqual(writers.toSorted(), ['agent_writer_1', 'agent_writer_2'], 'each works on one at a time')
})

test('every example was run', () => {
  // README.md shows two harnesses, and test/docs/tours.test.ts runs them as it says.
  const all = globSync('*.ts', { cwd: join(root, 'examples') }).filter((file) => !file.startsWith('harness-'))
  assert.deepEqual([...shown].toSorted(), all.toSorted())
})
