// A run of a task as a session of an ACP agent: permissions, refusals, amendments, restarts and deliveries.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, describe, test } from 'node:test'
import { readAgents } from '#apps/server/settings/agents-file.ts'
import { realClock } from '#apps/server/clock.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { runProgramAgents } from '#agents/programs/agents.ts'
import { silent } from '../../support/in-process/worker-world.ts'
import { createWorld } from '../../support/in-process/world.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-acp-test-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const isLong = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all'
const fake = join(import.meta.dirname, '../../support/acp/misbehaving-agent.ts')

/** A failed test leaves nothing open either: a worker would hold the file. */
const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const stop of opened.splice(0).toReversed()) await stop()
})

type Given = {
  steps: string[]
  env?: Record<string, string>
  waitMs?: number
  entry?: object
  goal?: string
  command?: string[]
  rules?: object[]
}

async function until<T>(look: () => Promise<T | false | undefined | null> | T | false | undefined | null, looks = 2_000): Promise<T> {
  for (let i = 0; i < looks; i++) {
    const found = await look()
    if (found) return found
    await new Promise((done) => setTimeout(done, 10))
  }
  throw new Error('it did not happen')
}

const idOf = (item: any): string => item.request_id ?? item.id

async function employ({
  steps,
  env = {},
  waitMs = 60_000,
  entry = {},
  goal = 'Fix it',
  command = [process.execPath, fake],
  rules = [],
}: Given) {
  const at = mkdtempSync(join(folder, 'agent-'))
  const cwd = join(at, 'work')
  mkdirSync(cwd)
  writeFileSync(join(cwd, 'old.txt'), 'old\n')
  writeFileSync(join(at, 'steps'), steps.join('\n'))
  const files = { EFFECTS: join(at, 'effects'), HEARD: join(at, 'heard'), STEPS: join(at, 'steps'), SESSIONS: join(at, 'sessions') }
  const path = join(at, 'agents.json')
  writeFileSync(
    path,
    JSON.stringify({ agents: { agent_devin: { profile: 'acp', command, cwd, tries: 1, env: { ...files, ...env }, ...entry } } }),
  )
  const [agent] = readAgents(path, { PATH: process.env['PATH'] })
  const blobs = await openBlobs(mkdtempSync(join(folder, 'blobs-')), { fatal: () => undefined })
  const world = await createWorld({ now: Date.now, sleep: realClock.sleep, blobs })
  await world.call('devin', 'delegation/agent.publish', { name: 'Devin', reach: 'process' })
  opened.push(() => Promise.resolve(world.kernel.release()))
  const open = () => {
    const worker = runProgramAgents(world.kernel, blobs, [{ ...agent!, plan: { ...agent!.plan, waitMs, graceMs: 300 } }], realClock, silent)
    opened.push(() => worker.stop())
    return worker
  }
  await world.call('owner', 'execution/policy.set', { installation: true, gate: { version: 1, rules } })
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal }, reviewers: ['user_rita'] })
  const task_id = task.id as string
  await world.call('alice', 'collaboration/task.assign', { task_id, assignee: 'agent_devin' })
  const linesIn = (name: string): string[] =>
    existsSync(join(at, name)) ? readFileSync(join(at, name), 'utf8').split('\n').slice(0, -1) : []
  const workers = [open()]
  return {
    world,
    task_id,
    cwd,
    worker: workers[0]!,
    open,
    effects: () => linesIn('effects'),
    heard: () => linesIn('heard'),
    prompts: () => linesIn('steps.prompts').map((line) => JSON.parse(line) as string),
    run: async (): Promise<any> => (await world.call('alice', 'delegation/run.list', { task_id })).items.at(-1),
    ended: (looks?: number): Promise<any> =>
      until(async () => {
        const run = (await world.call('alice', 'delegation/run.list', { task_id })).items.at(-1)
        return ['completed', 'failed'].includes(run.state) && run
      }, looks),
    item: (): Promise<any> => until(async () => (await world.call('alice', 'execution/inbox.list', {})).items[0]),
    answer: async (action: 'approved' | 'rejected', reason?: string): Promise<any> => {
      const item = await until(async () => (await world.call('alice', 'execution/inbox.list', {})).items[0])
      await world.call('alice', 'execution/request.resolve', {
        request_id: item.request_id ?? item.id,
        result: action,
        ...(reason ? { reason } : {}),
      })
      return item
    },
    artifacts: async (): Promise<{ type: string; text: string }[]> => {
      const { task: now } = await world.call('alice', 'collaboration/task.get', { task_id })
      return Promise.all(
        now.artifacts.map(async (artifact_id: string) => {
          const { artifact } = await world.call('alice', 'collaboration/artifact.get', { artifact_id })
          return { type: artifact.type, text: Buffer.from(artifact.payload.uri.split(',')[1], 'base64').toString() }
        }),
      )
    },
  }
}

const call = (on: Awaited<ReturnType<typeof employ>>, as: string, operation: string, input: object): Promise<any> =>
  on.world.call(as, operation, input)

describe('a run as a session', () => {
  test('the agent is prompted, asks a person, runs once and delivers its words and a patch', async () => {
    const on = await employ({ steps: ['say Looking. ; plan read it; run make ; write new.txt ; say Done.'] })
    const item = await on.answer('approved')
    const { arguments: shown } = item.card.payload.details
    assert.deepEqual([item.task_id, item.card.payload.scope], [on.task_id, 'gate:acp/agent_devin/execute'])
    assert.match(shown.caution, /ACP shows what the agent says, not what will run/)
    assert.deepEqual([shown.title, shown.input], ['make', { command: 'make' }], 'joined with the earlier update')
    const run = await on.ended()
    assert.deepEqual([run.state, run.error], ['completed', null])
    assert.deepEqual([on.effects(), on.heard()], [['make'], ['make o_allow_once']])
    const [said, patch] = await on.artifacts()
    assert.match(said!.text, /^Looking\.\s+Done\.$/)
    assert.equal(patch!.type, 'patch')
    assert.match(patch!.text, /diff --git a\/new\.txt b\/new\.txt[^]*\+written by s_/)
    assert.doesNotMatch(patch!.text, /old\.txt/)
    const { items } = await call(on, 'devin', 'gate/call.list', {})
    assert.deepEqual(
      items.map((one: any) => [one.state, one.outcome]),
      [['ended', 'succeeded']],
    )
  })

  test('a refusal is no delivery: its reason is the next prompt, whichever way the turn ends', async () => {
    for (const step of ['runOrEnd drop', 'runOrCancelled drop']) {
      const on = await employ({ steps: [step, 'say Used a migration.'] })
      await on.answer('rejected', 'use a migration')
      assert.equal((await on.ended()).state, 'completed')
      assert.deepEqual([on.effects(), on.heard()], [[], ['drop o_reject_once']])
      assert.match(on.prompts()[1]!, /A person rejected "drop": use a migration/)
      assert.deepEqual(
        (await on.artifacts()).map(({ text }) => text),
        ['Used a migration.'],
      )
    }
  })

  test('parallel permissions queue behind one another', async () => {
    const on = await employ({ steps: ['both one+two; say ok', 'say ok'] })
    const first = await on.answer('approved')
    const second = await until(async () => {
      const [item] = (await call(on, 'alice', 'execution/inbox.list', {})).items
      return item !== undefined && idOf(item) !== idOf(first) && item
    })
    assert.deepEqual(on.effects(), ['one'])
    await call(on, 'alice', 'execution/request.resolve', { request_id: idOf(second), result: 'rejected', reason: 'enough' })
    await on.ended()
    assert.deepEqual([on.effects(), on.heard()], [['one'], ['one o_allow_once', 'two o_reject_once']])
  })

  test('a question without an answer is never a rejection: it is cancelled before the turn, and the next prompt says so', async () => {
    const on = await employ({ steps: ['run make', 'run test; say Without.'] })
    await on.item()
    const { items } = await call(on, 'devin', 'gate/call.list', {})
    await call(on, 'devin', 'gate/call.cancel', { call_id: items[0].call_id, reason: 'withdrawn' })
    await until(() => on.prompts().length === 2)
    await on.answer('approved')
    assert.equal((await on.ended()).state, 'completed')
    assert.deepEqual([on.effects(), on.heard().toSorted()], [['test'], ['cancel with 0 open', 'make cancelled', 'test o_allow_once']])
    assert.match(on.prompts()[1]!, /Nobody answered your question about "make"[^]*nobody rejected it/)
  })

  test('a grant of the task allows the next call without a question', async () => {
    const on = await employ({ steps: ['run one; run two; say ok'] })
    const item = await on.item()
    await call(on, 'alice', 'collaboration/grant.add', {
      task_id: on.task_id,
      scope: item.card.payload.scope,
      decision: 'allow',
      until: 'task',
    })
    await on.answer('approved')
    await on.ended()
    assert.deepEqual(on.effects(), ['one', 'two'])
    const { items } = await call(on, 'devin', 'gate/call.list', {})
    assert.deepEqual(items.map((one: any) => one.basis.kind).toSorted(), ['grant', 'human'])
  })
})

describe('a misbehaving agent', () => {
  test('options without an id, the same id twice, and a foreign session are refused, and no person is asked', async () => {
    const on = await employ({ steps: ['noId; twice; foreign; stray; junk; say ok'] })
    assert.equal((await on.ended()).state, 'completed')
    assert.deepEqual(on.heard(), ['noId error -32602', 'twice error -32602', 'foreign error -32602'])
    assert.deepEqual([on.effects(), (await on.artifacts())[0]!.text], [[], 'ok'])
    assert.deepEqual((await call(on, 'devin', 'gate/call.list', {})).items, [])
  })

  test('an edit outside of the folder is rejected without a question', async () => {
    const on = await employ({ steps: ['outside ../other.txt', 'say ok'] })
    await on.ended()
    assert.deepEqual([on.effects(), on.heard()], [[], ['edit o_reject_once']])
    assert.match(on.prompts()[1]!, /\.\.\/other\.txt is outside of the folder/)
  })

  test('an agent of another version of the protocol gets no session', async () => {
    const on = await employ({ steps: ['run make'], env: { ABILITIES: 'future' } })
    const { error } = await on.ended()
    assert.match(error, /the agent speaks version 99 of ACP, not 1/)
    assert.deepEqual([on.prompts(), on.effects()], [[], []])
  })

  test('a question with 2 MB of arguments is not run, and no person is asked', async () => {
    const on = await employ({ steps: ['large 2000000', 'say ok'] })
    assert.equal((await on.ended()).state, 'completed')
    assert.deepEqual(
      [on.effects(), (await call(on, 'alice', 'execution/inbox.list', {})).items.filter((one: any) => one.kind !== 'review')],
      [[], []],
    )
    assert.ok(
      on.heard().some((line) => /^large (o_reject_once|cancelled)$/.test(line)),
      on.heard().join(),
    )
  })

  test('an agent that offers only to allow always is not allowed', async () => {
    const on = await employ({ steps: ['onlyAlways', 'say ok'] })
    await on.answer('approved')
    await on.ended()
    assert.ok(on.effects().length === 0 && on.heard().includes('onlyAlways cancelled'))
  })

  test('a question without arguments says so, and has a tool of its own', async () => {
    const on = await employ({ steps: ['bare thing; say ok'] })
    const item = await on.answer('approved')
    assert.equal(item.card.payload.scope, 'gate:acp/agent_devin/unknown')
    assert.match(item.card.payload.details.arguments.caution, /gave no arguments/)
    await on.ended()
  })

  test('a line of 9 MB ends the run, and other ends of a turn fail it', async () => {
    const long = await employ({ steps: ['long; say ok'] })
    const tooLong = await long.ended()
    assert.match(tooLong.error, /a line of more than 8192 KiB/)
    const on = await employ({ steps: ['stop refusal'] })
    assert.match((await on.ended()).error, /ended its turn with refusal/)
  })
})

/** Every shape of message that an agent sends, with a part of it out of place. */
test('messages of every kind of an agent allow nothing, and the run still ends', async (t) => {
  // The SDK prints each message that it cannot take.
  t.mock.method(console, 'error', () => undefined)
  const count = isLong ? 200_000 : 1_000
  const seed = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  const on = await employ({ steps: [`fuzz ${seed} ${count}; say ok`, 'say ok'], rules: [{ id: 'no', tool: 'acp/*/*', then: 'deny' }] })
  assert.equal((await on.ended(30_000)).state, 'completed', `FUZZ_SEED=${seed}`)
  assert.deepEqual(on.effects(), [], `FUZZ_SEED=${seed}`)
  const { items } = await call(on, 'devin', 'gate/call.list', {})
  assert.ok(
    items.every((one: any) => one.state === 'denied' || one.state === 'cancelled'),
    `FUZZ_SEED=${seed}`,
  )
})

describe('files of the client', () => {
  const allow = (tool: string) => ({ id: tool, tool: `acp/agent_devin/${tool}`, then: 'allow' })

  test('a file in the folder is read and written by the policy, and each call is on the record', async () => {
    const at = (name: string) => join(folder, name)
    mkdirSync(at('files'))
    writeFileSync(at('files/in.txt'), 'one\ntwo\n')
    const on = await employ({
      steps: [`read ${at('files/in.txt')}; put ${at('files/out.txt')}; say ok`, 'say ok'],
      entry: { files: true, cwd: at('files') },
      rules: [allow('read_text_file')],
    })
    const item = await on.answer('approved')
    const { arguments: shown } = item.card.payload.details
    assert.deepEqual([shown.path, shown.content.startsWith('put by s_')], ['out.txt', true])
    assert.equal((await on.ended()).state, 'completed')
    assert.deepEqual(on.heard(), ['read "one\\ntwo\\n"', 'put ok'])
    assert.match(readFileSync(at('files/out.txt'), 'utf8'), /^put by s_/)
    const { items } = await call(on, 'devin', 'gate/call.list', {})
    assert.deepEqual(items.map((one: any) => [one.tool, one.state, one.outcome]).toSorted(), [
      ['agent_devin/read_text_file', 'ended', 'succeeded'],
      ['agent_devin/write_text_file', 'ended', 'succeeded'],
    ])
  })

  test('a path outside of the folder, also behind a link, is refused without a question; a denied one is not written', async () => {
    const at = (name: string) => join(folder, name)
    mkdirSync(at('linked'))
    mkdirSync(at('elsewhere'))
    writeFileSync(at('elsewhere/secret'), 'secret')
    symlinkSync(at('elsewhere'), at('linked/out'))
    symlinkSync(at('elsewhere/secret'), at('linked/secret'))
    const tries = ['elsewhere/secret', 'linked/../elsewhere/secret', 'linked/out/secret', 'linked/secret'].map(at)
    const steps = [
      ...tries.flatMap((path) => [`read ${path}`, `put ${path}`]),
      'read x',
      `read ${at('linked/none')}`,
      `put ${at('linked/new')}`,
    ]
    const on = await employ({
      steps: [`${steps.join('; ')}; say ok`, 'say ok'],
      entry: { files: true, cwd: at('linked') },
      rules: [{ id: 'no', tool: 'acp/*/write_text_file', then: 'deny', reason: 'never' }, allow('read_text_file')],
    })
    assert.equal((await on.ended()).state, 'completed')
    assert.ok(
      on.heard().every((line) => /^(read|put) error -32(602|002)$/.test(line)),
      on.heard().join(),
    )
    assert.equal(on.heard().length, steps.length)
    assert.equal(readFileSync(at('elsewhere/secret'), 'utf8'), 'secret')
    assert.ok(!existsSync(at('linked/new')))
    const { items } = await call(on, 'devin', 'gate/call.list', {})
    assert.deepEqual(
      items.map((one: any) => [one.tool, one.state]),
      [['agent_devin/write_text_file', 'denied']],
    )
    assert.match(on.prompts()[1]!, /rejected writing new: never/)
  })

  test('a file that becomes a link or a pipe while a person decides is neither read nor written', async () => {
    const at = (name: string) => join(folder, name)
    mkdirSync(at('swapped'))
    writeFileSync(at('hidden'), 'hidden')
    writeFileSync(at('swapped/a'), 'a')
    writeFileSync(at('swapped/b'), 'b')
    const on = await employ({
      steps: [`read ${at('swapped/a')}; put ${at('swapped/b')}; say ok`, 'say ok'],
      entry: { files: true, cwd: at('swapped') },
      rules: [{ id: 'ask', tool: 'acp/*/*', then: 'ask' }],
    })
    await on.item()
    for (const name of ['a', 'b']) {
      rmSync(at(`swapped/${name}`))
      symlinkSync(at('hidden'), at(`swapped/${name}`))
    }
    await on.answer('approved')
    await on.answer('approved')
    await on.ended()
    assert.deepEqual(on.heard(), ['read error -32602', 'put error -32602'])
    assert.equal(readFileSync(at('hidden'), 'utf8'), 'hidden')
  })

  test('a text that no person could read is not written', async () => {
    const cwd = join(folder, 'large')
    mkdirSync(cwd)
    const on = await employ({ steps: [`fill ${join(cwd, 'x')}; say ok`, 'say ok'], entry: { files: true, cwd } })
    await on.ended()
    assert.deepEqual([on.heard()[0], existsSync(join(cwd, 'x'))], ['fill error -32602', false])
  })

  test('without the setting nothing is offered', async () => {
    const on = await employ({ steps: ['read /etc/hostname; put /tmp/x; say ok'] })
    await on.ended()
    assert.deepEqual(on.heard(), ['read error -32601', 'put error -32601'])
  })
})

describe('memory and restarts', () => {
  test('a rework continues the session, in the mode that asks; a fresh one gets the record', async () => {
    for (const fresh of [false, true]) {
      const on = await employ({
        steps: ['say First.', 'recall'],
        env: { MODES: 'auto,default' },
        entry: { fresh },
        goal: 'codeword pelican',
      })
      await on.ended()
      const { task } = await call(on, 'alice', 'collaboration/task.get', { task_id: on.task_id })
      const review = {
        task_id: on.task_id,
        verdict: 'changes_requested',
        requested_changes: ['shorter'],
        artifact_id: task.artifacts[0],
        artifact_version: 'v1',
      }
      await call(on, 'rita', 'collaboration/review.submit', review)
      await until(async () => (await call(on, 'alice', 'collaboration/task.get', { task_id: on.task_id })).task.artifacts.length === 2)
      assert.deepEqual(on.heard(), ['mode default', 'mode default'])
      assert.match(on.prompts()[1]!, /shorter/)
      const [, second] = await on.artifacts()
      assert.match(second!.text, /pelican/)
      const runs = (await call(on, 'alice', 'delegation/run.list', { task_id: on.task_id })).items
      const sessions = await Promise.all(
        runs.map(
          async ({ id }: any) => (await call(on, 'devin', 'delegation/memo.get', { run_id: id, key: 'session/1' })).value.session_id,
        ),
      )
      assert.equal(sessions[0] === sessions[1], !fresh)
    }
  })

  test('an answer after the process made room continues the session, and the same yes is used once', async () => {
    const on = await employ({ steps: ['run make; say ok', 'run make; say done'], waitMs: 50 })
    await on.item()
    await until(async () => (await call(on, 'devin', 'gate/call.list', {})).items[0]?.unattended === true)
    await on.answer('approved')
    assert.equal((await on.ended()).state, 'completed')
    assert.deepEqual(on.effects(), ['make'])
    assert.match(on.prompts()[1]!, /A person approved your call of kind execute while you were stopped[^]*exactly the same arguments/)
    assert.equal((await call(on, 'devin', 'gate/call.list', {})).items.length, 1)
  })

  test('a server that stops while a question waits asks it once, and the next server runs it once', async () => {
    const on = await employ({ steps: ['run make; say ok', 'run make; say done'] })
    await on.item()
    await on.worker.stop()
    await on.answer('approved')
    assert.deepEqual(on.effects(), [])
    on.open()
    assert.equal((await on.ended()).state, 'completed')
    assert.deepEqual(on.effects(), ['make'])
  })

  test('an agent that is killed after a permission learns that the outcome is unknown', async () => {
    const on = await employ({ steps: ['run make; die', 'say done'], entry: { tries: 2 } })
    await on.answer('approved')
    assert.equal((await on.ended()).state, 'completed')
    assert.deepEqual(on.effects(), ['make'])
  })

  // The session is loaded in the minute after it began, because an agent was seen to empty it before.
  test('late parts of a replay are not delivered', { skip: !isLong }, async () => {
    const on = await employ({ steps: ['run make; say no', 'rest 600; say new'], waitMs: 50, env: { ABILITIES: 'load' } })
    await on.item()
    await until(async () => (await call(on, 'devin', 'gate/call.list', {})).items[0]?.unattended === true)
    await on.answer('rejected', 'no')
    await on.ended(10_000)
    assert.deepEqual(
      (await on.artifacts()).map(({ text }) => text),
      ['new'],
    )
  })
})

describe('people who interrupt and amend', () => {
  test('an amendment is the next prompt and never runs beside another; an agent that can be steered gets it immediately', async () => {
    for (const [ABILITIES, prompts] of [
      ['resume', 2],
      ['resume,steer', 1],
    ] as const) {
      const on = await employ({ steps: ['run make; say ok'], env: { ABILITIES } })
      await on.item()
      await call(on, 'alice', 'collaboration/task.amend', { task_id: on.task_id, text: 'use blue', intent: 'constrain' })
      if (ABILITIES !== 'resume') await until(() => on.heard().includes('steering use blue'))
      await on.answer('approved')
      await until(() => on.effects().length > 0)
      if (ABILITIES === 'resume') await on.answer('approved')
      await on.ended()
      assert.equal(on.prompts().length, prompts)
      if (prompts === 2) assert.match(on.prompts()[1]!, /use blue/)
      assert.ok(!on.heard().some((line) => line.startsWith('cancel')))
    }
  })

  test('an interrupt cancels the turn, and the answer continues the session', async () => {
    const on = await employ({ steps: ['idle; run make; say ok', 'say continued'] })
    await until(() => on.prompts().length === 1)
    const { checkpoint } = await call(on, 'alice', 'collaboration/task.interrupt', { task_id: on.task_id })
    await until(() => on.heard().includes('cancel with 0 open'))
    await call(on, 'alice', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
    assert.equal((await on.ended()).state, 'completed')
    assert.deepEqual([on.effects(), on.heard()], [[], ['cancel with 0 open']])
    assert.match(on.prompts()[1]!, /You were interrupted/)
  })

  test('a cancelled task ends the agent, with its question answered first', async () => {
    const on = await employ({ steps: ['run make; say ok'] })
    await on.item()
    await call(on, 'alice', 'collaboration/task.cancel', { task_id: on.task_id, reason: 'enough' })
    await until(() => on.heard().includes('cancel with 0 open'))
    assert.deepEqual([on.effects(), on.heard().toSorted()], [[], ['cancel with 0 open', 'make cancelled']])
  })
})
