// The Python client against a real server that is restarted under it: questions, agents, errors, and receipts verified offline.
import assert from 'node:assert/strict'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test, type TestContext } from 'node:test'
import { canonical } from '#kernel/log/canonical-json.ts'
import { createClient, type Client } from '#sdk/index.ts'
import { createAuthenticator, type Authenticator } from '../support/passkeys/authenticator.ts'
import { openStage, until, type Stage } from '../support/as-processes/agents.ts'

const FOLDER = join(import.meta.dirname, '../../clients/python')
const found = spawnSync('python3', ['-c', 'import sys; print(sys.version_info >= (3, 9))'], { encoding: 'utf8' })
const missing = found.stdout?.trim() === 'True' ? false : 'python3 3.9 or newer is not installed: the Python client was not tried'

let stage: Stage
before(async () => {
  if (missing === false) stage = await openStage()
})
after(() => stage?.close())

type Program = {
  readonly child: ChildProcess
  readonly lines: Record<string, any>[]
  readonly errors: () => string
  /** The first line that has this field. */
  line(field: string): Promise<any>
  readonly ended: Promise<number | null>
}

function program(t: TestContext, name: string, key: string, env: Record<string, string> = {}): Program {
  const child = spawn('python3', [join(FOLDER, 'tests/program.py'), name], {
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      PYTHONPATH: FOLDER,
      PYTHONDONTWRITEBYTECODE: '1',
      COUNTERSIGN_URL: stage.server.url,
      COUNTERSIGN_KEY: key,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.after(() => void child.kill('SIGKILL'))
  const lines: Record<string, any>[] = []
  let said = ''
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(JSON.parse(line)))
  child.stderr.on('data', (part) => (said += String(part)))
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return {
    child,
    lines,
    errors: () => said,
    ended,
    line: (field) => until(() => lines.find((one) => field in one), `${field} of ${name}: ${said}`),
  }
}

/** Answers that the owner signs with a passkey of each algorithm. */
async function signedReceipts(client: Client): Promise<object[]> {
  const { passkey } = stage.owner.identity
  const origin = `http://localhost:${new URL(stage.server.url).port}`
  const found: object[] = []
  for (const alg of ['ES256', 'EdDSA'] as const) {
    const device = createAuthenticator(alg)
    const fresh = await passkey.challenge({ operation: 'passkey.add', input: {} })
    const credential = device.create(fresh.challenge, { origin })
    const vouched = found.length === 0 ? {} : { assertion: await sign(devices[0]!, 'passkey.add', { credential }, origin) }
    devices.push(device)
    await passkey.add({ credential, ...vouched })
    const { request } = await client.execution.request.create({ action: 'APPROVE', payload: { item: 'Pay', details: { alg } } })
    const answer = { request_id: request.id, result: 'rejected', reason: 'Too much.' }
    await stage.owner.execution.request.resolve({ ...answer, assertion: await sign(device, 'request.resolve', answer, origin) })
    found.push({ request, receipt: (await client.execution.request.get({ request_id: request.id })).receipt })
  }
  return found
}
const devices: Authenticator[] = []
async function sign(device: Authenticator, operation: string, input: object, origin: string) {
  const { challenge, nonce } = await stage.owner.identity.passkey.challenge({ operation, input: { ...input } })
  return { ...device.get(challenge, { origin }), nonce }
}

describe('the Python client', { skip: missing }, () => {
  test('a question outlives the server and the program that asked it', async (t) => {
    const agent = await stage.agent()
    const first = program(t, 'ask', agent.key)
    const { asked } = await first.line('asked')
    await stage.restart()
    first.child.kill('SIGKILL')
    const second = program(t, 'ask', agent.key)
    assert.equal((await second.line('asked')).asked, asked)
    await stage.owner.execution.request.resolve({ request_id: asked, result: 'blue' })
    const { result, verified } = await second.line('result')
    assert.equal(result, 'blue')
    assert.equal(await second.ended, 0)
    if (!verified) t.diagnostic('the Python package cryptography is not installed: receipts were not verified')
  })

  test('refusals have a class, a code and a reason each', async (t) => {
    const agent = await stage.agent()
    const refused = program(t, 'refused', agent.key)
    const { asked } = await refused.line('asked')
    await stage.owner.execution.request.resolve({ request_id: asked, result: 'rejected', reason: 'too much' })
    const second = await until(() => refused.lines.filter((one) => 'asked' in one)[1], 'the second question')
    await stage.owner.execution.request.decline({ request_id: second['asked'], reason: 'not mine' })
    assert.equal(await refused.ended, 0, refused.errors())
    assert.deepEqual(
      refused.lines.filter((one) => 'error' in one),
      [
        { error: 'NotApproved', reason: 'too much', receipt: asked },
        { error: 'Declined', said: 'not mine' },
        { error: 'NotAnswered', status: 'cancelled' },
        { error: 'INVALID_SPEC', status: 400, retryable: false },
        { error: 'NOT_FOUND', status: 404, retryable: false },
      ],
    )
  })

  test('a person reads pages, follows the record, and gives the fields of an object directly', async (t) => {
    const { key } = await stage.system('identity/key.issue', { subject: 'user_owner' })
    const owner = program(t, 'owner', key)
    assert.equal(await owner.ended, 0, owner.errors())
    const [, error, task, event] = owner.lines
    assert.match(error!['error'], /give `spec` or its fields \(goal\), not both/)
    assert.ok(['Count', 'Page 0', 'Page 1', 'Page 2'].every((goal) => (task!['goals'] as string[]).length >= 4 && goal !== ''))
    assert.deepEqual(event, { event: 'task.created', cursor: true })
  })

  test('an agent that is killed while it asks finds its question and its memo again, and delivers', async (t) => {
    const agent = await stage.agent()
    const first = program(t, 'agent', agent.key, { AGENT: agent.id })
    const task_id = await stage.assign(agent, 'ask')
    const question = await stage.question(task_id)
    const began = await first.line('working')
    first.child.kill('SIGKILL')
    await first.ended
    await stage.restart()
    const second = program(t, 'agent', agent.key, { AGENT: agent.id })
    await stage.owner.collaboration.checkpoint.resolve({ checkpoint_id: question.id, action: 'approve' })
    const again = await second.line('working')
    assert.deepEqual([again.working, again.first], [began.working, began.pid])
    assert.ok(again.attempt > began.attempt)
    assert.equal((await second.line('committed')).committed, 'approved')
    const { artifacts } = await stage.taskIn(task_id, 'review_ready')
    const { bytes, name } = await stage.owner.download('collaboration/artifact.download', { artifact_id: artifacts[0] })
    assert.deepEqual([bytes.length, name], [200_000, 'big.bin'])
    second.child.kill('SIGTERM')
    assert.equal(await second.ended, 0, second.errors())
  })

  test('handlers that throw, fork or hang end as one failed run, one result, and a run that the next process gets', async (t) => {
    const [caller, agent] = [await stage.agent('caller'), await stage.agent()]
    const serving = program(t, 'agent', agent.key, { AGENT: agent.id })
    const client = createClient({ url: stage.server.url, key: caller.key })
    t.after(client.close)
    const delegate = async (input: object): Promise<string> =>
      (await client.delegation.agent.delegate({ to_agent: agent.id, input })).run.id
    const ended = async (input: object): Promise<any> => {
      const run_id = await delegate(input)
      return until(async () => {
        const { run } = await stage.system('delegation/run.get', { run_id })
        return run.ended_at !== null && run
      }, 'the end of the run')
    }
    assert.deepEqual((await ended({ n: 21 })).result, { doubled: 42 })
    const thrown = await ended({ do: 'throw' })
    assert.deepEqual([thrown.state, thrown.error], ['failed', 'the file is missing'])
    assert.deepEqual((await serving.line('failed')).failed, 'the file is missing')
    assert.deepEqual((await ended({ do: 'fork' })).result, { parent: true })
    assert.match(serving.errors(), /a handler returned in the child of a fork/)
    const run_id = await delegate({ do: 'hang' })
    await serving.line('hanging')
    serving.child.kill('SIGTERM')
    assert.equal(await serving.ended, 0, serving.errors())
    const { items } = await createClient({ url: stage.server.url, key: agent.key }).delegation.mailbox.take({ worker: 'next' })
    assert.deepEqual(
      items.map(({ run, attempt }) => [run.id, attempt]),
      [[run_id, 2]],
    )
  })

  test('a refused key and a key of another agent end serving with a sentence', async (t) => {
    const [agent, other] = [await stage.agent(), await stage.agent('other')]
    const wrong = program(t, 'agent', other.key, { AGENT: agent.id })
    assert.equal(await wrong.ended, 1)
    assert.match(wrong.errors(), new RegExp(`this key is ${other.id}'s, not ${agent.id}'s`))
    const invalid = program(t, 'agent', 'csk_none', { AGENT: agent.id })
    assert.equal(await invalid.ended, 1)
    assert.match(invalid.errors(), /refuses the key of .*countersign key issue/)
  })

  test('coroutines serve, and ask many questions at a time', async (t) => {
    const agent = await stage.agent()
    const serving = program(t, 'agent_async', agent.key, { AGENT: agent.id })
    const task_id = await stage.assign(agent, 'choose')
    const { id } = await stage.question(task_id)
    await stage.owner.collaboration.checkpoint.resolve({ checkpoint_id: id, action: 'choose', choice: 'b' })
    await stage.taskIn(task_id, 'review_ready')
    serving.child.kill('SIGINT')
    const asker = await stage.agent()
    const many = program(t, 'many', asker.key, { COUNT: '64' })
    await until(async () => {
      const { items } = await stage.owner.execution.inbox.list({ agent_id: asker.id, limit: 50 })
      const ids = items.flatMap((item) => ('request_id' in item ? [item.request_id] : []))
      for (const request_id of ids) await stage.owner.execution.request.resolve({ request_id, result: 'approved' }).catch(() => undefined)
      return many.lines.some((line) => 'answers' in line)
    }, 'the answers')
    const { seconds, ...answered } = await many.line('answers')
    assert.ok(seconds > 0)
    assert.deepEqual(answered, { answers: 64, results: ['approved'], me: asker.id })
    assert.equal(await many.ended, 0, many.errors())
  })

  test('the unit tests of the client pass on texts and receipts of the server', async (t) => {
    const agent = await stage.agent()
    const client = createClient({ url: stage.server.url, key: agent.key })
    t.after(client.close)
    const receipts = await Promise.all(
      [{ n: 1.5e-7 }, { text: 'ü\u2028', nested: [null, true, 2 ** 53 - 1] }].map(async (details) => {
        const { request } = await client.execution.request.create({ action: 'APPROVE', payload: { item: 'Pay', details } })
        await stage.owner.execution.request.resolve({ request_id: request.id, result: 'approved' })
        return { request, receipt: (await client.execution.request.get({ request_id: request.id })).receipt }
      }),
    )
    const signedOnes = await signedReceipts(client)
    const { items: passkeys } = await stage.owner.identity.passkey.list()
    const jwks = await (await fetch(`${stage.server.url}/.well-known/jwks.json`)).json()
    const [receiptFile, textFile] = [join(stage.folder, 'receipts.json'), join(stage.folder, 'canonical.json')]
    writeFileSync(receiptFile, JSON.stringify({ jwks, receipts: [...receipts, ...signedOnes], signed: signedOnes.length, passkeys }))
    writeFileSync(textFile, JSON.stringify(canonicalTexts()))
    const env = {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONPATH: '.',
      COUNTERSIGN_RECEIPTS: receiptFile,
      COUNTERSIGN_CANONICAL: textFile,
    }
    const child = spawn('python3', ['-m', 'unittest', 'discover', 'tests'], { cwd: FOLDER, env, stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.on('data', (part) => (said += String(part)))
    const [code] = await once(child, 'close')
    assert.equal(code, 0, said)
    assert.match(said, /Ran \d\d+ tests/)
    const skipped = /skipped=(\d+)/.exec(said)
    if (skipped) t.diagnostic(`left out ${skipped[1]} unit tests: the Python package cryptography is not installed`)
  })
})

/** Numbers at the edges of their notations, and texts. */
function canonicalTexts(): string[] {
  const numbers = Array.from({ length: 700 }, (_, i) => Number(`${(i * 7919) % 9973}.${(i * 104729) % 99991}e${(i % 330) - 320}`))
  return [...numbers, 2 ** 53, -(2 ** 53), 1e21, 1e-7].map((number) => canonical({ number, 'ключ\n': [`${number}`] }))
}
