// Agents against a real server: runs that are taken, asked about, delegated, cancelled and steered, over every transport, and
// processes that are killed in the middle of it.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { DelegationFailed, Ended, Rejected, serve, type Handler, type Run, type ServeOptions, type Steer } from 'countersign/agent'
import { localTransport } from 'countersign/local'
import { authenticateAgain } from '#protocols/identity/authenticate.ts'
import { createClient, CountersignError, httpTransport, type Client, type Transport } from '#sdk/index.ts'
import { socketTransport } from '#sdk/transport/jsonrpc.ts'
import { openStage, until, type Agent, type Stage } from '../support/as-processes/agents.ts'

let stage: Stage
let owner: Client
before(async () => {
  stage = await openStage()
  owner = stage.owner
})
after(() => stage.close())

const fast = { leaseMs: 3_000, waitMs: 5_000, graceMs: 1_000, onError: () => undefined }
function serving(t: TestContext, agent: Agent, handler: Handler<any>, options: ServeOptions = {}): ReturnType<typeof serve> {
  const own = serve(agent.id, handler, { url: stage.server.url, key: agent.key, ...fast, ...options })
  own.done.catch(() => undefined)
  t.after(() => own.stop())
  return own
}
const resolve = async (
  task_id: string,
  answer: Parameters<Client['collaboration']['checkpoint']['resolve']>[0] | object,
): Promise<void> => {
  const { id } = await stage.question(task_id)
  await owner.collaboration.checkpoint.resolve({ checkpoint_id: id, ...answer } as never)
}
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString()
async function delivered(task_id: string): Promise<string> {
  const { artifacts } = await stage.taskIn(task_id, 'review_ready')
  return textOf((await owner.download('collaboration/artifact.download', { artifact_id: artifacts[0] })).bytes)
}
const aborted = (signal: AbortSignal): Promise<unknown> =>
  signal.aborted ? Promise.resolve() : new Promise((done) => signal.addEventListener('abort', done))
const aWhile = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))

// --- The whole flow --------------------------------------------------------------------------------------------------------------

const local = (agent: Agent): ServeOptions => {
  const { kernel } = stage.server
  const actor = () => authenticateAgain(kernel.store, { subject: agent.id, credential: null, until: null }, kernel.now())
  return { transport: localTransport(kernel, actor) }
}
for (const [name, connection] of [
  ['HTTP', () => ({})],
  ['a Unix socket', ({ key }: Agent) => ({ transport: socketTransport({ path: stage.socket, key }) })],
  ['the kernel of the same process', local],
] as [string, (agent: Agent) => ServeOptions][]) {
  describe(`an agent over ${name}`, () => {
    test('starts the task, asks in three ways, reports, delivers, and takes up what the review asks for', async (t) => {
      const agent = await stage.agent()
      const seen: unknown[] = []
      const handle = async (run: Run<{ goal: string }>): Promise<void> => {
        seen.push(run.input.goal, run.task?.state, run.context)
        if (run.context) return void (await run.commit('better'))
        await run.ask.approve('Shall I begin?')
        const { result: choice } = await run.ask.decide('Which colour?', ['red', { id: 'blue', label: 'Blue', risk: 'high' }])
        const { result: input, resolution } = await run.ask.provide('Which branch?')
        await run.progress(`on ${input}`, 50)
        await run.ledger.write('colour', choice)
        seen.push(choice, input, resolution.by, await run.ledger.read('colour'), await run.ledger.read('nothing'))
        await run.commit('good', { type: 'patch' })
      }
      serving(t, agent, handle, connection(agent))
      const task_id = await stage.assign(agent)
      await resolve(task_id, { action: 'approve' })
      await resolve(task_id, { action: 'choose', choice: 'blue' })
      await resolve(task_id, { action: 'provide', input: 'main' })
      assert.equal(await delivered(task_id), 'good')
      const { artifacts } = await stage.taskIn(task_id, 'review_ready')
      const changes = { verdict: 'changes_requested' as const, requested_changes: ['Make it better.'] }
      const { review } = await owner.collaboration.review.submit({ task_id, artifact_id: artifacts[0], ...changes })
      await until(async () => (await owner.collaboration.task.get({ task_id })).task.artifacts.length === 2, 'a second artifact')
      const { artifacts: both } = await stage.taskIn(task_id, 'review_ready')
      await owner.collaboration.review.submit({ task_id, artifact_id: both[1], verdict: 'approved' })
      await stage.taskIn(task_id, 'completed')
      const goal = 'Fix the login bug'
      assert.deepEqual(seen.slice(0, 8), [goal, 'in_progress', null, 'blue', 'main', 'user_owner', 'blue', undefined])
      assert.deepEqual(seen.slice(8, 10), [goal, 'in_progress'])
      assert.equal((seen[10] as { review: { review_id: string } }).review.review_id, review.id)
      const runs = await stage.runsOf(task_id)
      assert.deepEqual(
        runs.map(({ state, progress, result }) => [state, progress?.message ?? null, result.version]),
        [
          ['completed', 'on main', 'v1'],
          ['completed', null, 'v1'],
        ],
      )
    })
  })
}

test('without a task the return value is the result, and a throw is the reason of the failure', async (t) => {
  const [caller, worker] = [await stage.agent('caller'), await stage.agent()]
  serving(t, worker, async (run: Run<{ n?: number }>) => {
    if (run.input.n === undefined) throw new Error('n is missing')
    await assert.rejects(run.ask.approve('May I?'), TypeError)
    await assert.rejects(run.commit('x'), TypeError)
    return run.input.n * 2
  })
  const client = createClient({ url: stage.server.url, key: caller.key })
  t.after(client.close)
  const ended = async (input: object) => {
    const { run } = await client.delegation.agent.delegate({ to_agent: worker.id, input })
    return until(async () => {
      const { run: now } = await stage.system('delegation/run.get', { run_id: run.id })
      return now.ended_at !== null && now
    }, 'the end of the run')
  }
  const good = await ended({ n: 21 })
  assert.deepEqual([good.state, good.result], ['completed', { value: 42 }])
  const bad = await ended({})
  assert.deepEqual([bad.state, bad.reason, bad.error], ['failed', 'failed', 'n is missing'])
})

test('bytes of every size are uploaded, and another agent of the task reads them', async (t) => {
  const agent = await stage.agent()
  const bytes = new Uint8Array(300_000).map((_, i) => i % 251)
  let read: Uint8Array | null = null
  serving(t, agent, async (run) => {
    const small = await run.commit(new Uint8Array([0, 255, 10]), { final: false })
    const { artifact_id, version } = await run.commit(bytes, { name: 'data.bin', final: false })
    read = await run.open(artifact_id, version)
    assert.deepEqual([...(await run.open(small.artifact_id))], [0, 255, 10])
    await run.commit('The data is there.')
  })
  const task_id = await stage.assign(agent)
  await stage.taskIn(task_id, 'review_ready')
  assert.deepEqual(read, bytes)
})

// --- What people say meanwhile -----------------------------------------------------------------------------------------------------

test('a no throws Rejected, ends the task, and nothing more is reported', async (t) => {
  const agent = await stage.agent()
  const seen: unknown[] = []
  const errors: unknown[] = []
  serving(
    t,
    agent,
    async (run) => {
      try {
        await run.ask.approve('Deploy to production?')
      } catch (error) {
        seen.push(error, run.signal.aborted)
        throw error
      }
    },
    { onError: (error) => errors.push(error) },
  )
  const task_id = await stage.assign(agent)
  await resolve(task_id, { action: 'reject', comment: 'Not on a Friday.' })
  const [error, isAborted] = await until(() => seen.length > 0 && seen, 'the handler hears it')
  assert.ok(error instanceof Rejected)
  assert.deepEqual([error.message, error.resolution.by, isAborted], ['Not on a Friday.', 'user_owner', true])
  await aWhile(100)
  const [run] = await stage.runsOf(task_id)
  assert.deepEqual([run.state, run.reason, errors], ['failed', 'cancelled', []])
})

test('a cancelled task aborts the signal and settles the message; what the handler does then is not reported', async (t) => {
  const agent = await stage.agent()
  let reason: unknown
  serving(t, agent, async (run) => {
    await run.progress('working')
    await aborted(run.signal)
    reason = run.signal.reason
    await assert.rejects(run.progress('still here'), Ended)
    throw new Error('after the end')
  })
  const task_id = await stage.assign(agent)
  await until(async () => (await stage.runsOf(task_id))[0]?.progress, 'progress')
  await owner.collaboration.task.cancel({ task_id, reason: 'not needed' })
  await until(() => reason, 'the signal')
  assert.ok(reason instanceof Ended)
  assert.deepEqual([reason.reason, reason.message], ['cancelled', 'not needed'])
  const [run] = await stage.runsOf(task_id)
  assert.deepEqual([run.state, run.reason, run.error], ['failed', 'cancelled', 'not needed'])
  await until(
    async () => (await stage.system('delegation/mailbox.take', { agent_id: agent.id, run_id: run.id })).items.length === 0,
    'settled',
  )
})

test('steering is read as it comes, in order', async (t) => {
  const agent = await stage.agent()
  const heard: Steer[] = []
  let snapshot = 0
  serving(t, agent, async (run) => {
    await run.progress('working')
    for await (const steer of run.steers()) {
      heard.push(steer)
      if (steer.text === 'That is all.') break
    }
    snapshot = run.steering.length
    await run.commit('done')
  })
  const task_id = await stage.assign(agent)
  await until(async () => (await stage.runsOf(task_id))[0]?.progress, 'progress')
  await owner.collaboration.task.amend({ task_id, text: 'Leave the old API alone.', intent: 'constrain' })
  await owner.collaboration.task.amend({ task_id, text: 'That is all.', intent: 'clarify' })
  await stage.taskIn(task_id, 'review_ready')
  assert.deepEqual(
    heard.map(({ text, intent }) => [text, intent]),
    [
      ['Leave the old API alone.', 'constrain'],
      ['That is all.', 'clarify'],
    ],
  )
  assert.equal(snapshot, 2)
})

test('an interrupt pauses what the handler does next, until the person lets it go on', async (t) => {
  const agent = await stage.agent()
  const gate = Promise.withResolvers<void>()
  const steps: string[] = []
  let run: Run | null = null
  serving(t, agent, async (own) => {
    run = own
    await own.progress('first')
    await gate.promise
    await own.progress('second')
    steps.push('second')
    await own.commit('done')
  })
  const task_id = await stage.assign(agent)
  await until(async () => (await stage.runsOf(task_id))[0]?.progress, 'progress')
  await owner.collaboration.task.interrupt({ task_id, reason: 'Wait.' })
  await until(() => run?.isPaused, 'the pause')
  gate.resolve()
  await aWhile(200)
  assert.deepEqual(steps, [])
  await resolve(task_id, { action: 'approve' })
  await stage.taskIn(task_id, 'review_ready')
})

test('a question that nobody answers in time goes to the next person, and their answer is the answer', async (t) => {
  const agent = await stage.agent()
  const seen: unknown[] = []
  serving(t, agent, async (run) => {
    const { reason } = await run.ask.approve('Shall I?', { expires_in: 'PT0.3S', on_expiry: 'escalate' })
    seen.push(reason)
    await run.commit('done')
  })
  const task_id = await stage.assign(agent)
  const first = await stage.question(task_id)
  await until(async () => (await stage.question(task_id)).id !== first.id, 'the successor')
  await resolve(task_id, { action: 'approve', comment: 'Go.' })
  await stage.taskIn(task_id, 'review_ready')
  assert.deepEqual(seen, ['Go.'])
})

// --- Delegating --------------------------------------------------------------------------------------------------------------------

describe('a planner delegates to two workers', () => {
  const reads = async (run: Run, { result }: { result: unknown }): Promise<string> => {
    const { artifact_id, version } = result as { artifact_id: string; version: string }
    return textOf(await run.open(artifact_id, version))
  }

  test('under a task each gets a child task, and the planner reads what they deliver', async (t) => {
    const [planner, left, right] = [await stage.agent('planner'), await stage.agent('left'), await stage.agent('right')]
    for (const worker of [left, right])
      serving(t, worker, async (run: Run<{ goal: string }>) => {
        if (worker === right) await run.ask.approve(`May I ${run.input.goal}?`)
        await run.commit(`${run.input.goal} done`)
      })
    serving(t, planner, async (run) => {
      const parts = await Promise.all([
        run.delegate({ to: left.id, spec: { goal: 'backend' }, key: 'left' }),
        run.delegate({ to: right.id, spec: { goal: 'frontend' }, key: 'right' }),
      ])
      await run.commit((await Promise.all(parts.map((part) => reads(run, part)))).join(' and '))
    })
    const task_id = await stage.assign(planner, 'Build it', { delegable: true })
    const children = await until(async () => {
      const { task } = await owner.collaboration.task.get({ task_id })
      return task.children.length === 2 && task.children
    }, 'two child tasks')
    const asked = await until(async () => {
      const all = await Promise.all(children.map((id) => owner.collaboration.task.get({ task_id: id })))
      return all.find(({ task }) => task.state === 'blocked')
    }, 'a question of a worker')
    await resolve(asked.task.id, { action: 'approve' })
    assert.equal(await delivered(task_id), 'backend done and frontend done')
    const { items } = await owner.delegation.run.list({ root_task_id: task_id })
    const [parent] = await stage.runsOf(task_id)
    assert.deepEqual(
      items
        .filter(({ parent_run }) => parent_run === parent.id)
        .map(({ agent_id }) => agent_id)
        .toSorted(),
      [left.id, right.id],
    )
  })

  test('delegated runs without a task are children of the agent’s own run, and a capability goes to an agent with room', async (t) => {
    const [caller, planner, busy, free] = await Promise.all(['caller', 'planner', 'busy', 'free'].map((name) => stage.agent(name)))
    const capability = { capability_id: 'cap:double', version: '1.2.0' }
    const card = (agent: Agent, concurrency: number | null) => ({
      agent_id: agent.id,
      name: agent.id,
      capabilities: [capability],
      concurrency,
    })
    const client = createClient({ url: stage.server.url, key: caller!.key })
    t.after(client.close)
    await stage.system('delegation/agent.publish', card(busy!, 1))
    await client.delegation.agent.delegate({ to_agent: busy!.id, input: {} })
    const worker = serve<{ goal: string }>(card(free!, null), (run) => ({ answer: `${run.input.goal}!` }), {
      url: stage.server.url,
      key: free!.key,
      ...fast,
    })
    t.after(() => worker.stop())
    await until(() => stage.system('delegation/agent.card', { agent_id: free!.id }).catch(() => null), 'its card')
    serving(t, planner!, async (run) => {
      const wanted = { capability_id: 'cap:double', version: '1.0.0' }
      const one = await run.delegate({ capability: wanted, spec: { goal: 'one' } })
      const two = await run.delegate({ to: free!.id, spec: { goal: 'two' } })
      await assert.rejects(
        run.delegate({ capability: { capability_id: 'cap:none', version: '1.0.0' }, spec: { goal: 'x' } }),
        DelegationFailed,
      )
      return { one: one.result, two: two.result }
    })
    const { run } = await client.delegation.agent.delegate({ to_agent: planner!.id, input: {} })
    const done = await until(async () => {
      const { run: now } = await stage.system('delegation/run.get', { run_id: run.id })
      return now.ended_at !== null && now
    }, 'the end of the plan')
    assert.deepEqual([done.state, done.error, done.result], ['completed', null, { one: { answer: 'one!' }, two: { answer: 'two!' } }])
  })

  test('a failed child run throws in its parent', async (t) => {
    const [caller, planner, worker] = [await stage.agent('caller'), await stage.agent('planner'), await stage.agent()]
    serving(t, worker, () => Promise.reject(new Error('cannot')))
    let thrown: unknown
    serving(t, planner, async (run) => {
      try {
        await run.delegate({ to: worker.id, spec: { goal: 'x' } })
      } catch (error) {
        thrown = error
      }
    })
    const client = createClient({ url: stage.server.url, key: caller.key })
    t.after(client.close)
    await client.delegation.agent.delegate({ to_agent: planner.id, input: {} })
    await until(() => thrown, 'the failure')
    assert.ok(thrown instanceof DelegationFailed)
    assert.deepEqual([thrown.message, thrown.reason], ['cannot', 'failed'])
  })
})

// --- Concurrency ------------------------------------------------------------------------------------------------------------------

test('handlers run concurrently up to the limit, and those that wait for a person do not count', async (t) => {
  const agent = await stage.agent()
  let [now, most, begun] = [0, 0, 0]
  const gates: (() => void)[] = []
  serving(
    t,
    agent,
    async (run) => {
      begun++
      most = Math.max(most, ++now)
      await new Promise<void>((done) => gates.push(done))
      now--
      await run.ask.approve('Go on?')
      most = Math.max(most, ++now)
      await aWhile(20)
      now--
      await run.commit('done')
    },
    { concurrency: 2 },
  )
  const tasks = await Promise.all(Array.from({ length: 6 }, () => stage.assign(agent)))
  for (let released = 0; released < 6;) {
    await until(() => gates.length > 0, 'a handler')
    gates.shift()!()
    released++
  }
  assert.equal(begun, 6, 'all were begun though none is answered')
  await Promise.all(tasks.map((task_id) => resolve(task_id, { action: 'approve' })))
  await Promise.all(tasks.map((task_id) => stage.taskIn(task_id, 'review_ready')))
  assert.equal(most, 2)
})

test('a process that has no room still hears what comes for the runs that it has', async (t) => {
  const agent = await stage.agent()
  let reason: unknown
  serving(t, agent, async (run) => {
    await run.progress('working')
    await aborted(run.signal)
    reason = run.signal.reason
  })
  const task_id = await stage.assign(agent)
  const waits = await stage.assign(agent)
  await until(async () => (await stage.runsOf(task_id))[0]?.progress ?? (await stage.runsOf(waits))[0]?.progress, 'progress')
  const own = (await stage.runsOf(task_id))[0]?.progress ? task_id : waits
  await owner.collaboration.task.cancel({ task_id: own })
  await until(() => reason, 'the signal')
})

// --- Ends, crashes and beginnings ----------------------------------------------------------------------------------------------------

test('an invalid key, or one of another agent, ends it with the reason', async (t) => {
  const [agent, other] = [await stage.agent(), await stage.agent()]
  await assert.rejects(serving(t, { ...agent, key: `cs_${'0'.repeat(26)}_${'a'.repeat(43)}` }, () => null).done, {
    code: 'UNAUTHENTICATED',
  })
  await assert.rejects(serving(t, { ...agent, key: other.key }, () => null).done, { code: 'UNAUTHORIZED' })
  assert.throws(() => serve(agent.id, () => null, { url: stage.server.url }), TypeError)
  const own = serving(t, agent, () => null)
  await until(() => stage.server.kernel.stats().waiting === 1, 'it waits')
  await owner.identity.key.revoke({ key_id: agent.key_id })
  await assert.rejects(own.done, (error) => error instanceof CountersignError && error.code === 'UNAUTHENTICATED')
})

test('a stop lets handlers finish and releases the other runs, which the next process takes immediately', async (t) => {
  const agent = await stage.agent()
  const first = serving(
    t,
    agent,
    async (run: Run<{ goal: string }>) => {
      await run.progress('working')
      if (run.input.goal === 'long') await aborted(run.signal)
      else await aWhile(300)
      await run.commit('by the first')
    },
    { concurrency: 3, leaseMs: 60_000 },
  )
  const [short, long] = [await stage.assign(agent, 'short'), await stage.assign(agent, 'long')]
  for (const task_id of [short, long]) await until(async () => (await stage.runsOf(task_id))[0]?.progress, 'progress')
  await first.stop()
  await first.done
  assert.equal(await delivered(short), 'by the first')
  const began = performance.now()
  serving(t, agent, async (run) => void (await run.commit(`by the next, attempt ${run.attempt}`)))
  assert.equal(await delivered(long), 'by the next, attempt 2')
  assert.ok(performance.now() - began < 5_000, 'long before the end of the lease')
})

for (const [does, act] of Object.entries<(run: Run) => Promise<unknown>>({
  'reports its progress': (run) => run.progress('the first, too late'),
  delivers: (run) => run.commit('the first, too late'),
  asks: (run) => run.ask.approve('the first, too late'),
  'writes to the ledger': (run) => run.ledger.write('late', true),
})) {
  test(`an attempt that another process has taken over stops when it ${does}, and is not heard`, async (t) => {
    const agent = await stage.agent()
    const gate = Promise.withResolvers<void>()
    const reasons: unknown[] = []
    const handle = async (run: Run): Promise<void> => {
      await run.progress('the first')
      await gate.promise
      await act(run).catch((error: unknown) => reasons.push(error))
      reasons.push(run.signal.reason)
      await run.commit('by the first')
    }
    serving(t, agent, handle, { leaseMs: 60_000 })
    const task_id = await stage.assign(agent)
    await until(async () => (await stage.runsOf(task_id))[0]?.progress, 'progress')
    const client = createClient({ url: stage.server.url, key: agent.key })
    t.after(client.close)
    const [{ id: run_id }] = (await stage.runsOf(task_id)) as [{ id: string }]
    // The lease has expired: another process takes the run, and this one is not notified.
    const taken = client.delegation.mailbox.take({ worker: 'another', run_id, wait: 'PT5S', lease: 'PT1H' })
    await client.delegation.mailbox.release({ runs: [{ run_id, attempt: 1 }] })
    const { items } = await taken
    const attempt = items[0]?.attempt ?? (await client.delegation.mailbox.take({ worker: 'another', run_id })).items[0]?.attempt
    assert.equal(attempt, 2)
    gate.resolve()
    await until(() => reasons.length === 2, 'it stops')
    for (const reason of reasons) assert.ok(reason instanceof Ended && reason.reason === 'stale')
    await client.delegation.run.progress({ run_id, attempt: 2, message: 'the second' })
    const [run] = await stage.runsOf(task_id)
    assert.deepEqual([run.state, run.progress.message], ['running', 'the second'])
    const { task } = await owner.collaboration.task.get({ task_id })
    assert.deepEqual([task.state, task.artifacts, task.checkpoints], ['in_progress', [], []])
    await assert.rejects(owner.collaboration.ledger.read({ key: 'late' }), { code: 'NOT_FOUND' })
  })
}

test('an agent outlives its server: it waits for the server and resumes', async (t) => {
  const agent = await stage.agent()
  let begun = 0
  serving(t, agent, async (run) => {
    begun++
    await run.ask.approve('Shall I?')
    await run.commit('done')
  })
  const task_id = await stage.assign(agent)
  await stage.question(task_id)
  await stage.restart()
  await resolve(task_id, { action: 'approve' })
  assert.equal(await delivered(task_id), 'done')
  const next = await stage.assign(agent)
  await resolve(next, { action: 'approve' })
  assert.equal(await delivered(next), 'done')
  assert.equal(begun, 2)
})

describe('an answer with messages that was lost on the way and is given again, late', () => {
  /** Gives an answer again, as the server does for a call whose answer was lost. */
  function repeating(agent: Agent): { transport: Transport; again: (kind: string) => void; given: () => boolean } {
    const http = httpTransport({ url: stage.server.url, key: agent.key })
    const answers = new Map<string, unknown>()
    let next: unknown = null
    const bell = new EventTarget()
    // Nothing of what comes meanwhile is lost: it is what the next call is answered with.
    const asked = new Map<unknown, Promise<unknown>>()
    async function take(...call: Parameters<Transport['call']>): Promise<unknown> {
      const { held } = call[1] as { held?: true }
      const rung = new Promise<void>((done) => bell.addEventListener('again', () => done(), { once: true }))
      const coming = asked.get(held) ?? http.call(...call)
      asked.set(held, coming)
      const answer = await Promise.race([rung.then(() => next), coming])
      if (answer === next) next = null
      else asked.delete(held)
      for (const { messages } of (answer as any)?.items ?? [])
        for (const { kind } of messages) if (!answers.has(kind)) answers.set(kind, answer)
      return answer ?? { items: [] }
    }
    return {
      transport: { ...http, call: (...call) => (call[0] === 'delegation/mailbox.take' ? take(...call) : http.call(...call)) },
      again(kind) {
        next = answers.get(kind)
        assert.ok(next, kind)
        bell.dispatchEvent(new Event('again'))
      },
      given: () => next === null,
    }
  }

  test('does not begin a run that has ended since', async (t) => {
    const agent = await stage.agent()
    const { transport, again, given } = repeating(agent)
    let [begun, effects] = [0, 0]
    const handle = async (run: Run): Promise<void> => {
      begun++
      await run.memo('effect', () => ++effects)
      await run.ask.approve('Shall I?')
      await run.commit('done')
    }
    serving(t, agent, handle, { transport })
    const task_id = await stage.assign(agent)
    await resolve(task_id, { action: 'approve' })
    await stage.taskIn(task_id, 'review_ready')
    for (const kind of ['run', 'resume']) {
      again(kind)
      await until(given, 'it is given again')
      // The handler that works on it holds up what comes next.
      const next = await stage.assign(agent)
      await resolve(next, { action: 'approve' })
      await stage.taskIn(next, 'review_ready')
    }
    assert.deepEqual([begun, effects], [3, 3], 'three tasks, each once')
  })

  test('does not stop who works on it in a later attempt', async (t) => {
    const agent = await stage.agent()
    const { transport, again, given } = repeating(agent)
    const gate = Promise.withResolvers<void>()
    let [begun, attempt] = [0, () => 0]
    const handle = async (run: Run): Promise<void> => {
      begun++
      attempt = () => run.attempt
      await run.memo('effect', () => null)
      await gate.promise
      await run.commit('done')
    }
    serving(t, agent, handle, { transport, concurrency: 2, leaseMs: 60_000 })
    const task_id = await stage.assign(agent)
    await until(() => begun, 'it began')
    const client = createClient({ url: stage.server.url, key: agent.key })
    t.after(client.close)
    const [{ id: run_id }] = (await stage.runsOf(task_id)) as [{ id: string }]
    await client.delegation.mailbox.release({ runs: [{ run_id, attempt: 1 }] })
    await owner.collaboration.task.amend({ task_id, text: 'Hurry.', intent: 'clarify' })
    await until(() => attempt() === 2, 'the next attempt')
    again('run')
    await until(given, 'it is given again')
    await aWhile(50)
    gate.resolve()
    assert.equal(await delivered(task_id), 'done')
    assert.equal(begun, 1)
  })
})

describe('a process that is killed', () => {
  const PROGRAM = join(import.meta.dirname, '../support/as-processes/agent-process.ts')
  async function start(agent: Agent, file: string): Promise<ChildProcess> {
    const env = { PATH: process.env['PATH'], COUNTERSIGN_URL: stage.server.url, COUNTERSIGN_KEY: agent.key }
    const child = spawn(process.execPath, [PROGRAM, agent.id, file, '600'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    return child
  }
  async function kill(child: ChildProcess, signal: NodeJS.Signals): Promise<NodeJS.Signals | null> {
    const gone = once(child, 'exit')
    child.kill(signal)
    return (await gone)[1] as NodeJS.Signals | null
  }
  const linesOf = (file: string): string[] => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [])

  test('resumes after a restart while it waits for a person and between two questions; each effect happens once', async () => {
    const agent = await stage.agent()
    const file = join(stage.folder, `${agent.id}.log`)
    let child = await start(agent, file)
    const task_id = await stage.assign(agent, 'the roof')
    const first = await stage.question(task_id)
    await kill(child, 'SIGKILL')
    // Answered while no process of the agent is there.
    await resolve(task_id, { action: 'approve', comment: 'Yes.' })
    child = await start(agent, file)
    const second = await stage.question(task_id)
    await kill(child, 'SIGKILL')
    child = await start(agent, file)
    await resolve(task_id, { action: 'provide', input: 'main' })
    assert.equal(await delivered(task_id), 'plan for the roof on main')
    await until(() => linesOf(file).includes('delivered'), 'the last line')
    await kill(child, 'SIGTERM')
    const lines = linesOf(file)
    assert.equal(lines.filter((line) => line === 'planned').length, 1)
    assert.deepEqual(lines.filter((line) => line.startsWith('begun')).length, 3)
    const { items } = await owner.collaboration.checkpoint.list({ task_id })
    assert.deepEqual(
      items.map(({ id, state }) => `${id} ${state}`).toSorted(),
      [`${first.id} resolved`, `${second.id} resolved`].toSorted(),
    )
    const { task } = await owner.collaboration.task.get({ task_id })
    assert.equal(task.artifacts.length, 1)
    const history = await owner.collaboration.ledger.history({ key: 'branch' })
    assert.deepEqual(
      history.items.map(({ value }) => value),
      ['main'],
    )
  })

  test('by SIGTERM gives back what it has, and ends by the signal', async () => {
    const agent = await stage.agent()
    const child = await start(agent, join(stage.folder, `${agent.id}.log`))
    await until(() => stage.server.kernel.stats().waiting === 1, 'it waits')
    assert.equal(await kill(child, 'SIGTERM'), 'SIGTERM')
    await until(() => stage.server.kernel.stats().waiting === 0, 'nobody waits')
  })
})
