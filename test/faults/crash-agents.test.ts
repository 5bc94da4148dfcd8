// kill -9 of the agent, of the server and of both, at every step of the reference flow: the processes come back, the flow goes on to
// its end, and everything that it leaves behind is there exactly once.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { until } from '../support/as-processes/agents.ts'
import { sampleOf } from '../support/as-processes/postgres-stores.ts'
import { openLane, type Cut, type Kind, type Lane } from '../support/faults/crash-lane.ts'
import type { Moment, Passing } from '../support/faults/crash-proxy.ts'

const ROUNDS = Number(process.env['CRASH_ROUNDS'] ?? 50)
/** Chosen at random by each run; all of them in `npm run test:long`. */
const ROUNDS_USUAL = 15
const AT_ONCE = 4
/** Processes come back in less than a second, and on a busy machine when they can. */
const PATIENCE = { everyMs: 25, lateMs: 60_000 }
const PROJECT = 'project_default'

// --- What is cut where -----------------------------------------------------------------------------------------------------------

type Step = { readonly name: string; readonly by: 'agent' | 'person'; readonly moments: readonly Moment[]; is(call: Passing): boolean }

const BOTH: readonly Moment[] = ['request', 'answer']
const step = (by: Step['by'], operation: string, key?: string): Step => ({
  name: key === undefined ? operation : `${operation} ${key}`,
  by,
  moments: BOTH,
  is: (call) => call.operation === operation && (key === undefined || call.input.key === key),
})
/** A message on its way to the agent. The call waits long before there is one, so only its answer belongs to the flow. */
const delivery = (kind: string): Step => ({
  name: `the delivery of a ${kind}`,
  by: 'agent',
  moments: ['answer'],
  is: ({ operation, output }) =>
    operation === 'delegation/mailbox.take' && output?.items?.some(({ messages }: any) => messages.some((one: any) => one.kind === kind)),
})

const steps: readonly Step[] = [
  step('person', 'collaboration/task.create'),
  step('person', 'collaboration/task.assign'),
  delivery('run'),
  step('agent', 'delegation/run.start'),
  step('agent', 'delegation/memo.put', 'memo:effect'),
  step('agent', 'execution/request.create'),
  step('agent', 'delegation/memo.put', 'ask#1'),
  step('person', 'collaboration/checkpoint.resolve'),
  delivery('resume'),
  step('agent', 'execution/request.get'),
  step('agent', 'delegation/run.progress'),
  step('agent', 'collaboration/ledger.write'),
  step('agent', 'delegation/memo.put', 'ledger#1'),
  step('agent', 'collaboration/artifact.commit'),
  step('person', 'collaboration/review.submit'),
]
const kinds: readonly Kind[] = ['agent', 'server', 'both']

/** A restarted process cannot know whether an effect happened that was not noted yet. */
function effectsAfter(kind: Kind, isBeforeNote: boolean): number[] {
  if (!isBeforeNote) return [1]
  return kind === 'server' ? [1, 2] : [2]
}

type Round = Cut & { readonly title: string; readonly effects: readonly number[] }
/** Three passes over the steps kill each kind at each; the moments alternate, so that three more passes bring all there is. */
function roundOf(number: number): Round {
  const [pass, place] = [Math.floor(number / steps.length), number % steps.length]
  const { name, by, moments, is } = steps[place]!
  const kind = kinds[pass % kinds.length]!
  const moment = moments[(place + pass) % moments.length]!
  return {
    title: `round ${number}: kill -9 of ${kind === 'both' ? kind : `the ${kind}`} when the ${moment} of ${name} is under way`,
    kind,
    moment,
    isAt: (call, caller) => caller === by && is(call),
    effects: effectsAfter(kind, moment === 'request' && name.endsWith('memo:effect')),
  }
}

// --- The flow, from the side of the person -----------------------------------------------------------------------------------------

type Flow = { readonly goal: string; readonly task_id: string; readonly artifact_id: string }
async function flow({ person, agent_id }: Lane, goal: string): Promise<Flow> {
  const { collaboration } = person
  const { task } = await collaboration.task.create({ spec: { goal } })
  const task_id = task.id
  await collaboration.task.assign({ task_id, assignee: agent_id })
  const stateIs = (state: string) =>
    until(
      async () => {
        const now = (await collaboration.task.get({ task_id })).task
        return now.state === state && now
      },
      `the task is ${state}`,
      PATIENCE,
    )
  const { pending_checkpoint } = await stateIs('blocked')
  await collaboration.checkpoint.resolve({ checkpoint_id: pending_checkpoint!, action: 'approve', comment: `yes to ${goal}` })
  const { artifacts } = await stateIs('review_ready')
  const artifact_id = artifacts[0]!
  await collaboration.review.submit({ task_id, artifact_id, verdict: 'approved' })
  await stateIs('completed')
  return { goal, task_id, artifact_id }
}

// --- What it leaves behind -------------------------------------------------------------------------------------------------------

const PROGRESS = 'run.progress'
async function actionsOf({ person }: Lane, task_id: string): Promise<string[]> {
  const { items } = await person.collaboration.audit.query({ root_task_id: task_id, limit: 200 })
  return items.map(({ action }) => action)
}

async function assertOnce(lane: Lane, { goal, task_id, artifact_id }: Flow, effects: readonly number[]): Promise<void> {
  const { collaboration, delegation } = lane.person
  const runs = (await delegation.run.list({ task_id })).items
  assert.deepEqual(
    runs.map(({ state, parent_run, result }) => ({ state, parent_run, result })),
    [{ state: 'completed', parent_run: null, result: { artifact_id, version: 'v1' } }],
  )
  const run_id = runs[0]!.id

  const written = lane.effectsOf(run_id)
  assert.ok(effects.includes(written.length), `the effect was done ${written.length} times`)
  expected.push({ lane, run_id, effects: written.length })
  const { value: effect } = await lane.agent.delegation.memo.get({ run_id, key: 'memo:effect' })
  assert.equal(effect, written.at(-1), 'what is remembered is the last that was done')

  const { items: checkpoints } = await collaboration.checkpoint.list({ task_id })
  assert.deepEqual(
    checkpoints.map(({ state, resolution }) => [state, resolution?.action, resolution?.comment]),
    [['resolved', 'approve', `yes to ${goal}`]],
  )
  const { task } = await collaboration.task.get({ task_id })
  assert.deepEqual(task.artifacts, [artifact_id])
  const { artifact: newest } = await collaboration.artifact.get({ artifact_id })
  assert.equal(newest.version, 'v1', 'there is one version')
  const { bytes } = await lane.person.download('collaboration/artifact.download', { artifact_id })
  assert.equal(Buffer.from(bytes).toString(), effect)
  const { items: entries } = await collaboration.ledger.history({ key: goal })
  assert.deepEqual(
    entries.map(({ value }) => value),
    [{ effect, comment: `yes to ${goal}` }],
  )
}

async function assertWhole({ person, admin }: Lane, task_id: string): Promise<void> {
  const { matches, difference } = await person.collaboration.audit.replay({ task_id })
  assert.equal(matches, true, JSON.stringify(difference))
  for (const project_id of [PROJECT, 'system']) {
    for (let cursor: string | null = ''; cursor !== null;) {
      const verified: any = await admin.collaboration.audit.verify({ project_id, ...(cursor === '' ? {} : { cursor }) })
      assert.equal(verified.valid, true, JSON.stringify(verified.difference))
      cursor = verified.next_cursor
    }
  }
}

// --- The rounds --------------------------------------------------------------------------------------------------------------------

const free: Lane[] = []
const expected: { readonly lane: Lane; readonly run_id: string; readonly effects: number }[] = []
after(() => Promise.all(free.map((lane) => lane.close())))

/** A lane continues to the next round only where it came through this one. */
async function inLane(play: (lane: Lane) => Promise<void>): Promise<void> {
  const lane = free.pop() ?? (await openLane())
  try {
    await play(lane)
  } catch (error) {
    await lane.close()
    throw error
  }
  free.push(lane)
}

let undisturbed: string[]
test('without a kill the flow leaves each step once', () =>
  inLane(async (lane) => {
    const done = await flow(lane, 'undisturbed')
    await assertOnce(lane, done, [1])
    await assertWhole(lane, done.task_id)
    undisturbed = await actionsOf(lane, done.task_id)
    assert.equal(undisturbed.filter((action) => action === PROGRESS).length, 1)
  }))

describe('killed at any step, the flow comes to the same end', { concurrency: AT_ONCE }, () => {
  const all = Array.from({ length: ROUNDS }, (_, number) => number)
  for (const number of sampleOf(all, ROUNDS_USUAL)) {
    const round = roundOf(number)
    test(round.title, () =>
      inLane(async (lane) => {
        lane.arm(round)
        const done = await flow(lane, `round-${number}`)
        await lane.recovered()
        await assertOnce(lane, done, round.effects)
        await assertWhole(lane, done.task_id)
        const actions = await actionsOf(lane, done.task_id)
        const isProgress = (action: string): boolean => action === PROGRESS
        const [often, once] = [actions.filter(isProgress), actions.filter((action) => !isProgress(action))]
        // A restarted handler may report its progress again: a report is not an effect.
        assert.ok(often.length === 1 || often.length === 2, `progress was reported ${often.length} times`)
        assert.deepEqual(
          once,
          undisturbed.filter((action) => !isProgress(action)),
        )
      }),
    )
  }
})

test('nor was anything done again afterwards', () => {
  const late = expected.filter(({ lane, run_id, effects }) => free.includes(lane) && lane.effectsOf(run_id).length !== effects)
  assert.deepEqual(
    late.map(({ run_id }) => run_id),
    [],
  )
})
