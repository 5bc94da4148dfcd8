// Races of two people: each call has read and decided before either is written. Exactly one takes effect, the other is told exactly
// why not; if both are possible one after the other, they happen in an order that the record shows.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Line } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import type { Store } from '#kernel/log/store.ts'
import { authenticate } from '#protocols/identity/authenticate.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { mirroredItemId } from '#protocols/execution/mirror/ids.ts'
import { barrier, type Barrier } from '../support/in-process/barrier.ts'
import { isPostgresOff } from '../support/as-processes/postgres.ts'
import { postgresMaker, sampleOf, type PostgresMaker } from '../support/as-processes/postgres-stores.ts'
import { createWorld, storeMakers, type StoreMaker, type World } from '../support/in-process/world.ts'

const roundsOf = (all: number, usual: number): number => sampleOf(Array.from({ length: all }), usual).length
const rounds: Record<string, number> = { memory: roundsOf(200, 60), sqlite: roundsOf(30, 10), postgres: roundsOf(10, 2) }

type Scene = keyof typeof collaboration.scenes
type Racing = { readonly world: World; readonly refs: any; readonly barrier: Barrier }
type Contender = (racing: Racing) => Promise<unknown>
/** The look of each outcome: who won, what the other was told, and the events that the two left, in their order. */
type Race = {
  readonly title: string
  readonly scene: Scene
  readonly contenders: readonly [Contender, Contender]
  /** By which of the two was first. */
  readonly first: readonly [Outcome, Outcome]
}
type Outcome = { readonly codes: readonly [string | null, string | null]; readonly events: readonly string[] }

const by =
  (as: string, op: string, input: (refs: any) => object): Contender =>
  ({ world, refs }) =>
    world.call(as, `collaboration/${op}`, input(refs))
const resolve = (as: string, action: string): Contender =>
  by(as, 'checkpoint.resolve', ({ checkpoint }) => ({ checkpoint_id: checkpoint.id, action }))
/** The same answer, in the inbox. */
const resolveItem =
  (as: string, result: string): Contender =>
  ({ world, refs }) =>
    world.call(as, 'execution/request.resolve', { request_id: mirroredItemId(refs.checkpoint.id as string), result })
const cancel = by('alice', 'task.cancel', ({ task }) => ({ task_id: task.id }))
const commit = by('devin', 'artifact.commit', ({ task }) => ({ task_id: task.id, payload: { kind: 'inline', uri: 'data:,x' } }))
const review = (as: string, verdict: string): Contender =>
  by(as, 'review.submit', ({ task, artifact }) => ({ task_id: task.id, artifact_id: artifact.id, verdict }))

/** The word of the agent about the run that its task's work is with. */
const ofRun =
  (op: string, input: object): Contender =>
  async ({ world, refs }) => {
    const { items } = await world.call('devin', 'delegation/run.list', { task_id: refs.task.id })
    return world.call('devin', `delegation/${op}`, { run_id: items.at(-1).id, ...input })
  }

const FAILED = 'PRECONDITION_FAILED'
const RESOLVED = 'task.checkpoint.resolved'

const races: readonly Race[] = [
  {
    title: 'of two people who answer a checkpoint one wins',
    scene: 'blocked',
    contenders: [resolve('alice', 'approve'), resolve('rita', 'approve')],
    first: [
      { codes: [null, FAILED], events: [RESOLVED] },
      { codes: [FAILED, null], events: [RESOLVED] },
    ],
  },
  {
    title: 'of two people, one at the checkpoint and one in the inbox, one wins',
    scene: 'blocked',
    contenders: [resolve('alice', 'approve'), resolveItem('rita', 'approved')],
    first: [
      { codes: [null, 'ALREADY_RESOLVED'], events: [RESOLVED] },
      { codes: [FAILED, null], events: [RESOLVED] },
    ],
  },
  {
    title: 'an answer in the inbox and a cancellation: the task ends once',
    scene: 'blocked',
    contenders: [resolveItem('alice', 'rejected'), cancel],
    first: [
      { codes: [null, FAILED], events: [RESOLVED, 'task.completed'] },
      { codes: ['ALREADY_RESOLVED', null], events: ['task.cancelled', 'task.checkpoint.expired'] },
    ],
  },
  {
    title: 'an answer and a cancellation: the task ends once',
    scene: 'blocked',
    contenders: [resolve('alice', 'reject'), cancel],
    first: [
      { codes: [null, FAILED], events: [RESOLVED, 'task.completed'] },
      { codes: ['CHECKPOINT_EXPIRED', null], events: ['task.cancelled', 'task.checkpoint.expired'] },
    ],
  },
  {
    title: 'a cancelled task never gains an artifact, a delivered one is not cancelled',
    scene: 'in_progress',
    contenders: [cancel, commit],
    first: [
      { codes: [null, FAILED], events: ['task.cancelled'] },
      { codes: [FAILED, null], events: ['artifact.committed'] },
    ],
  },
  {
    title: 'of two verdicts one counts',
    scene: 'review_ready',
    contenders: [review('alice', 'approved'), review('rita', 'rejected')],
    first: [
      { codes: [null, FAILED], events: ['review.submitted', 'task.completed'] },
      { codes: [FAILED, null], events: ['review.submitted'] },
    ],
  },
  {
    title: 'a task is delegated before it is cancelled or not at all',
    scene: 'delegable',
    contenders: [by('devin', 'ownership.delegate', ({ task }) => ({ task_id: task.id, to: 'agent_robin' })), cancel],
    first: [
      { codes: [null, null], events: ['ownership.delegated', 'task.cancelled'] },
      { codes: [FAILED, null], events: ['task.cancelled'] },
    ],
  },
  {
    title: 'a run that fails asks its person, unless the task was cancelled first',
    scene: 'in_progress',
    contenders: [ofRun('run.fail', { error: 'no' }), cancel],
    first: [
      { codes: [null, null], events: ['task.checkpoint.raised', 'task.cancelled', 'task.checkpoint.expired'] },
      { codes: ['INVALID_TRANSITION', null], events: ['task.cancelled'] },
    ],
  },
  {
    title: 'of two words about one run only the first counts where it changes what the second rests on',
    scene: 'in_progress',
    contenders: [
      ofRun('run.report', { type: 'needs_input', payload: { prompt: 'What?' } }),
      ofRun('run.report', { type: 'artifact', payload: { payload: { kind: 'inline', uri: 'data:,x' } } }),
    ],
    first: [
      { codes: [null, 'INVALID_TRANSITION'], events: ['task.checkpoint.raised'] },
      { codes: ['INVALID_TRANSITION', null], events: ['artifact.committed'] },
    ],
  },
  {
    title: 'a run is handed off before its task is cancelled or not at all',
    scene: 'delegable',
    contenders: [ofRun('agent.handoff', { to_agent: 'agent_robin' }), cancel],
    first: [
      { codes: [null, null], events: ['ownership.transferred', 'task.cancelled'] },
      { codes: ['INVALID_TRANSITION', null], events: ['task.cancelled'] },
    ],
  },
  {
    title: 'a reviewer who was taken off the task decides nothing any more',
    scene: 'blocked',
    contenders: [by('alice', 'reviewer.remove', ({ task }) => ({ task_id: task.id, user: 'user_rita' })), resolve('rita', 'approve')],
    first: [
      { codes: [null, 'NOT_FOUND'], events: ['task.reviewer_removed'] },
      { codes: [null, null], events: [RESOLVED, 'task.reviewer_removed'] },
    ],
  },
]

const codeOf = (result: PromiseSettledResult<unknown>): string | null =>
  result.status === 'fulfilled' ? null : ((result.reason as { code?: string }).code ?? String(result.reason))

async function eventsAfter(store: Store, position: number): Promise<string[]> {
  const facts = await store.facts({ by: 'position' }, { after: position, limit: 100 })
  const actions = facts.map(({ line }) => (JSON.parse(line) as Line).action)
  // The record also has denials, which are not effects.
  // The ends of its runs and of its items in the inbox follow from the task and are held against it elsewhere.
  return actions
    .filter((action) => action !== 'kernel/authorization.denied' && !/^(delegation|execution)\//.test(action))
    .map((action) => action.slice(action.indexOf('/') + 1))
}

async function race(
  racing: Racing,
  contenders: readonly Contender[],
  firstIsLast: boolean,
): Promise<{ codes: (string | null)[]; events: string[]; outputs: unknown[] }> {
  const { world, barrier: gate } = racing
  const before = world.store.stats().position
  gate.arm(contenders.length, firstIsLast)
  const calls: Promise<unknown>[] = []
  // Each has decided before the next begins, so that they wait in their order.
  for (const [i, contender] of contenders.entries()) {
    const waits = gate.arrived(i + 1)
    const calling = contender(racing)
    calls.push(calling)
    await Promise.race([waits, calling.catch(() => undefined)])
  }
  const results = await Promise.allSettled(calls)
  const outputs = results.map((result) => (result.status === 'fulfilled' ? result.value : null))
  return { codes: results.map(codeOf), events: await eventsAfter(world.store, before), outputs }
}

async function racingOn(maker: StoreMaker | PostgresMaker): Promise<Omit<Racing, 'refs'>> {
  const gate = barrier(await maker.open())
  return { world: await createWorld({ store: gate.store }), barrier: gate }
}

for (const maker of [...storeMakers(), postgresMaker()]) {
  const count = rounds[maker.name]!
  describe(`races on ${maker.name}, ${count} times each`, { skip: maker.name === 'postgres' && isPostgresOff }, () => {
    after(() => maker.dispose())

    for (const { title, scene, contenders, first } of races) {
      test(title, async () => {
        const { world, barrier: gate } = await racingOn(maker)
        for (let round = 0; round < count; round++) {
          const refs = await world.play(collaboration.scenes[scene]!)
          const { codes, events } = await race({ world, refs, barrier: gate }, contenders, round % 2 === 1)
          assert.deepEqual({ codes, events }, first[round % 2], `round ${round}`)
        }
        await world.close()
      })
    }

    test('a checkpoint is answered or it expires, never both', async () => {
      const { world, barrier: gate } = await racingOn(maker)
      for (let round = 0; round < count; round++) {
        const refs = await world.play(collaboration.scenes['in_progress']!)
        const input = { task_id: refs['task'].id, kind: 'approval', prompt: '?', expires_in: 'PT1M', on_expiry: 'escalate' }
        Object.assign(refs, await world.call('devin', 'collaboration/checkpoint.raise', input))
        const expire: Contender = () => {
          // The answer was decided in time; the time is up before it is written.
          world.advance(60_000)
          return world.call('system', 'collaboration/checkpoint.expire', { checkpoint_id: refs['checkpoint'].id })
        }
        const { codes, events } = await race({ world, refs, barrier: gate }, [resolve('alice', 'approve'), expire], round % 2 === 1)
        if (round % 2 === 0) assert.deepEqual({ codes, events }, { codes: [null, FAILED], events: [RESOLVED] })
        else {
          assert.deepEqual(codes, ['CHECKPOINT_EXPIRED', null])
          assert.deepEqual(events, ['task.checkpoint.expired', 'task.checkpoint.raised'])
        }
      }
      await world.close()
    })

    test('no agent takes a run while it is cancelled', async () => {
      const { world, barrier: gate } = await racingOn(maker)
      for (let round = 0; round < count; round++) {
        const { run } = await world.call('devin', 'delegation/agent.delegate', { to_agent: 'agent_robin' })
        const cancelRun: Contender = () => world.call('devin', 'delegation/agent.cancel', { run_id: run.id })
        const below: Contender = () => world.call('robin', 'delegation/agent.delegate', { to_agent: 'agent_devin', parent_run: run.id })
        const { codes, outputs } = await race({ world, refs: {}, barrier: gate }, [cancelRun, below], round % 2 === 1)
        // Cancelled first; or the first act of its agent begins the run, so that the cancel is decided again and ends both.
        assert.deepEqual(codes, round % 2 === 0 ? [null, 'INVALID_TRANSITION'] : [null, null])
        if (round % 2 === 0) continue
        const made = (outputs[1] as { run: { id: string } }).run.id
        assert.equal((await world.call('system', 'delegation/run.get', { run_id: made })).run.reason, 'cancelled')
      }
      await world.close()
    })

    test('one idempotency key sent eight times concurrently has one effect and one answer', async () => {
      const { world, barrier: gate } = await racingOn(maker)
      for (let round = 0; round < count; round++) {
        const create: Contender = () => world.call('alice', 'collaboration/task.create', { spec: { goal: 'g' } }, { key: `round-${round}` })
        const { codes, events, outputs } = await race(
          { world, refs: {}, barrier: gate },
          Array.from({ length: 8 }, () => create),
          round % 2 === 1,
        )
        assert.deepEqual(
          codes,
          Array.from({ length: 8 }, () => null),
        )
        assert.deepEqual(events, ['task.created'])
        for (const output of outputs) assert.deepEqual(output, outputs[0])
      }
      await world.close()
    })

    test('a revoked key does nothing after its revocation', async () => {
      const { world, barrier: gate } = await racingOn(maker)
      const { kernel, store } = world
      for (let round = 0; round < count; round++) {
        const refs = await world.play(collaboration.scenes['assigned']!)
        const { key, issued } = await world.call('admin', 'identity/key.issue', { subject: 'agent_devin' })
        const revoke: Contender = () => world.call('admin', 'identity/key.revoke', { key_id: issued.id })
        const caller = () => authenticate(store, { kind: 'bearer', token: key }, kernel.now())
        const use: Contender = () => kernel.call('collaboration/task.start', { task_id: refs['task'].id }, caller)
        const { codes, events } = await race({ world, refs, barrier: gate }, [revoke, use], round % 2 === 1)
        const expected =
          round % 2 === 0
            ? { codes: [null, 'UNAUTHENTICATED'], events: ['key.revoked'] }
            : { codes: [null, null], events: ['task.started', 'key.revoked'] }
        assert.deepEqual({ codes, events }, expected)
      }
      await world.close()
    })

    test('the last free place is given once', async () => {
      const { world, barrier: gate } = await racingOn(maker)
      const issue: Contender = () => world.call('admin', 'identity/key.issue', { subject: 'agent_devin' })
      for (let i = 1; i < limits.keysPerSubjectMax; i++) await issue({ world, refs: {}, barrier: gate })
      for (let round = 0; round < count; round++) {
        const { codes, events, outputs } = await race({ world, refs: {}, barrier: gate }, [issue, issue], round % 2 === 1)
        assert.deepEqual(codes, round % 2 === 0 ? [null, 'QUOTA_EXCEEDED'] : ['QUOTA_EXCEEDED', null])
        assert.deepEqual(events, ['key.issued'])
        const { issued } = outputs.find((output) => output !== null) as { issued: { id: string } }
        await world.call('admin', 'identity/key.revoke', { key_id: issued.id })
      }
      await world.close()
    })
  })
}
