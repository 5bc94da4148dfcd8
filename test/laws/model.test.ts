// The life of a task against a small model of it that shares no code with it: whatever anybody tries, in whatever order, the answer
// is the one that the model gives, on every store. With it go three laws: an answer counts only for the question, the options and the
// arguments that were shown; what is denied never runs; every open question has a person who can answer it, and who sees it.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import fc from 'fast-check'
import type { Store } from '#kernel/log/store.ts'
import {
  capabilities,
  compareQuestions,
  compareRecipients,
  counting,
  grant,
  invoke,
  leadingOn,
  move,
  offer,
  scopes,
  substitute,
} from '../simulation/decision-model.ts'
import {
  actors,
  agents,
  assign,
  call,
  cancel,
  commit,
  delegate,
  DEPUTY,
  idOf,
  nothing,
  PRINCIPAL,
  raise,
  resolve,
  review,
  sees,
  start,
  systemAsks,
  transfer,
  workers,
  type Model,
  type ModelTask,
  type Real,
  type Try,
} from '../simulation/task-model.ts'
import { isPostgresOff } from '../support/as-processes/postgres.ts'
import { postgresMaker, sampleOf } from '../support/as-processes/postgres-stores.ts'
import { createWorld, stateHash, storeMakers, type World } from '../support/in-process/world.ts'

type Command = fc.AsyncCommand<Model, Real>
/** How often each kind of try worked: a model that refuses everything proves nothing. */
const worked = new Map<string, number>()

const creating = (as: string, reviewers: readonly string[], delegable: boolean, confirms: boolean): Command => ({
  check: () => true,
  async run(model, { world, tasks }) {
    const expected = as === 'mallory' || as === 'spy' ? 'NOT_FOUND' : agents.includes(as as 'devin') ? 'UNAUTHORIZED' : null
    // Tasks of other people would only be more of the same.
    if (expected === null && as !== PRINCIPAL) return
    if ([as, ...reviewers].some((who) => !isThere(model, who))) return
    const constraints = confirms ? { autonomy: 'confirm_each_action' } : {}
    const input = { spec: { goal: 'g', constraints }, reviewers: reviewers.map(idOf), delegable }
    const { code, output } = await outcomeOf(call(world, as, 'task.create', input))
    assert.equal(code, expected)
    if (expected !== null) return
    tasks.push({ id: output.task.id, questions: [], artifacts: [], run: 'run_none' })
    const fresh = { executors: new Set<string>(), questions: [], askers: [], grants: [], approvals: [], artifacts: [] }
    model.tasks.push({ ...nothing, ...fresh, reviewers, delegable, confirms })
  },
  toString: () => `${as} creates a task`,
})

/** The try is made when its turn comes: only then is it known who works on the task. */
const trying = (which: number, make: (task: ModelTask) => Try): Command => ({
  check: ({ tasks }) => tasks.length > 0,
  async run(model, real) {
    const { world, tasks } = real
    const index = which % model.tasks.length
    const [task, ids] = [model.tasks[index]!, tasks[index]!]
    const tried = make(task)
    if (!isThere(model, tried.as) || (tried.to !== undefined && !isThere(model, tried.to))) return
    const isApart = ['admin', 'system', EXECUTOR].includes(tried.as)
    const wanted = isApart || sees(task, tried.as) ? tried.expected(task) : 'NOT_FOUND'
    if (wanted === undefined) return
    const { code, output } = await outcomeOf(tried.call(ids, world, task))
    assert.equal(code, wanted, `${tried.message} while it is ${task.state}`)
    if (wanted === null) {
      tried.effect(task)
      const kind = tried.message.slice(tried.message.indexOf(' ') + 1)
      worked.set(kind, (worked.get(kind) ?? 0) + 1)
    }
    if (output?.task) ids.artifacts = output.task.artifacts
    await compare(world, task, ids)
    await compareRuns(world, task, ids)
    await compareQuestions(world, task, ids)
    await compareRecipients(world, model, task, ids.id)
    assert.equal(real.ran.times, model.tasks.reduce((sum, { ran }) => sum + ran, 0), 'nothing ran but what was allowed') // prettier-ignore
  },
  toString: () => `on task ${which}: ${make({ ...nothing, executor: EXECUTOR }).message}`,
})

/** People who are switched off have no key that counts, and a substitute is one only during an absence. */
const isThere = ({ away, hasDeputy }: Model, who: string): boolean => (who === DEPUTY ? hasDeputy && away.has(PRINCIPAL) : !away.has(who))

/** A person leaves or returns, and every open question still has a person who can answer it. */
const changing = (message: string, change: (model: Model, world: World) => Promise<void>): Command => ({
  check: () => true,
  async run(model, { world, tasks }) {
    await change(model, world)
    for (const [index, { id }] of tasks.entries()) await compareRecipients(world, model, model.tasks[index]!, id)
  },
  toString: () => message,
})

async function outcomeOf(calling: Promise<any>): Promise<{ code: string | null; output?: any }> {
  try {
    return { code: null, output: await calling }
  } catch (error) {
    return { code: (error as { code?: string }).code ?? String(error) }
  }
}

async function compare(world: World, task: ModelTask, ids: Real['tasks'][number]): Promise<void> {
  const { task: real } = await call(world, PRINCIPAL, 'task.get', { task_id: ids.id })
  ids.questions = real.checkpoints
  const isGivenOut = ['created', 'assigned', 'in_progress'].includes(task.state)
  const holder = isGivenOut ? (task.executor ?? PRINCIPAL) : PRINCIPAL
  assert.deepEqual(
    { state: real.state, assignee: real.ownership.assignee, waits: real.pending_checkpoint !== null, artifacts: real.artifacts.length },
    { state: task.state, assignee: idOf(holder), waits: task.questions.at(-1)?.state === 'pending', artifacts: task.artifacts.length },
  )
}

/** A task that an agent works on has one run that the work is with, and above it those who passed it on; every other has none. */
async function compareRuns(world: World, task: ModelTask, ids: Real['tasks'][number]): Promise<void> {
  const { id: task_id } = ids
  const { items } = await world.call('admin', 'delegation/run.list', { task_id })
  const active = items.filter(({ ended_at }: any) => ended_at === null)
  const worksOnIt = ['assigned', 'in_progress', 'blocked'].includes(task.state) && agents.includes(task.executor as 'devin')
  if (!worksOnIt) return assert.deepEqual(active, [])
  const { agent_id, state, chain, correlation_id } = active.at(-1)
  ids.run = active.at(-1).id
  assert.deepEqual(
    { agent_id, correlation_id, state, above: chain.map(({ run_id }: any) => run_id) },
    {
      agent_id: idOf(task.executor!),
      correlation_id: task_id,
      state: task.state === 'blocked' ? 'blocked' : 'running',
      above: active.slice(0, -1).map(({ id }: any) => id),
    },
  )
  for (const { state: other } of active.slice(0, -1)) assert.equal(other, 'running')
}

const EXECUTOR = 'its executor'
const actor = fc.constantFrom(...actors)
const agent = fc.constantFrom(...agents)
// Most attempts come from an authorized actor: otherwise few histories would get far.
const worker = fc.oneof({ weight: 6, arbitrary: fc.constant(EXECUTOR) }, { weight: 1, arbitrary: actor })
const person = fc.oneof({ weight: 5, arbitrary: fc.constantFrom(PRINCIPAL, PRINCIPAL, 'rita', DEPUTY) }, { weight: 1, arbitrary: actor })

/** A random actor tries a random operation on one of the first three tasks. */
function on<T>(who: fc.Arbitrary<string>, detail: fc.Arbitrary<T>, make: (as: string, detail: T) => Try): fc.Arbitrary<Command> {
  return fc
    .tuple(fc.nat(2), who, detail)
    .map(([which, name, more]) => trying(which, (task) => make(name === EXECUTOR ? (task.executor ?? 'devin') : name, more)))
}
const none = fc.constant(null)
const creates = fc
  .tuple(person, fc.constantFrom([], ['rita']), fc.boolean(), fc.boolean())
  .map(([as, reviewers, delegable, confirms]) => creating(as, reviewers, delegable, confirms))
const assigns = on(person, fc.constantFrom(...workers), assign)
const starts = on(worker, none, start)
const proposals = fc.constantFrom([], [], ['read'], ['read', 'drop'])
const questions = fc.tuple(fc.constantFrom('approval', 'choice', 'input', 'escalation'), proposals)
const raises = on(worker, questions, (as, [kind, actions]) => raise(as, kind, actions))
const answers = fc.record({
  action: fc.constantFrom('approve', 'approve', 'choose', 'provide', 'reassign', 'reject'),
  to: agent,
  ago: fc.constantFrom(0, 0, 0, 1),
  choice: fc.constantFrom('a', 'b', 'z'),
  approved: fc.constantFrom(undefined, undefined, ['read'], []),
})
const resolves = on(person, answers, resolve)
const interrupts = on(fc.constant('system'), none, systemAsks)
const grants = on(
  person,
  fc.tuple(fc.constantFrom(...scopes), fc.constantFrom('allow' as const, 'deny' as const)),
  (as, [scope, decision]) => grant(as, scope, decision),
)
const invoked = fc.tuple(fc.constantFrom('cap:open', ...capabilities), fc.constantFrom('read', 'drop'))
const invokes = on(fc.constant('its executor'), invoked, (_, [capability, word]) => invoke(capability, word))
const moves = fc.constantFrom('alice' as const, 'rita' as const).map((who) => changing(`${who} goes or comes`, (model, world) => move(model, world, who))) // prettier-ignore
const substitutes = fc.constant(changing('somebody stands in for alice, or no longer', substitute))
const commits = on(worker, fc.tuple(fc.boolean(), fc.constantFrom('none', 'head', 'first')), (as, [final, parent]) =>
  commit(as, final, parent),
)
const verdicts = fc.tuple(
  fc.constantFrom('changes_requested', 'changes_requested', 'approved', 'rejected'),
  fc.constantFrom('delivered' as const, 'first' as const, 'last' as const),
)
const reviews = on(person, verdicts, (as, [verdict, which]) => review(as, verdict, which))
const others = [on(worker, agent, delegate), on(fc.constant('admin'), agent, (_, to) => transfer(to)), on(actor, none, cancel)]

const leads = fc.tuple(fc.nat(2), fc.nat(1_000)).map(([which, pick]) => trying(which, (task) => leadingOn(task, pick)))

// Half of the time a history moves on, half of the time anybody tries anything.
const tries = [creates, assigns, starts, raises, resolves, interrupts, grants, invokes, moves, substitutes, commits, reviews, ...others]
const histories = fc.commands([...tries, ...tries.map(() => leads)], { maxCommands: 40, size: 'max' })

describe('the model of a task', () => {
  const [memory, sqlite] = storeMakers() as [ReturnType<typeof storeMakers>[0], ReturnType<typeof storeMakers>[0]]
  after(() => sqlite.dispose())

  async function play(commands: Iterable<Command>, store: Store): Promise<string> {
    const ran = { times: 0 }
    const world = await createWorld({ store, perform: counting(ran) })
    await offer(world)
    const real: Real = { world, tasks: [], ran }
    const setup = async () => {
      const model: Model = { tasks: [], away: new Set(), hasDeputy: false }
      await creating(PRINCIPAL, ['rita'], true, false).run(model, real)
      await creating(PRINCIPAL, [], false, true).run(model, real)
      // One of two actions that an agent put before a person was approved.
      const asked = [assign(PRINCIPAL, 'devin'), start('devin'), raise('devin', 'approval', ['read', 'drop'])]
      for (const tried of [...asked, resolve(PRINCIPAL, { action: 'approve', to: 'devin', approved: ['read'] })])
        await trying(1, () => tried).run(model, real)
      return { model, real }
    }
    await fc.asyncModelRun(setup, commands)
    for (const { id } of real.tasks) {
      const { matches, difference } = await call(world, PRINCIPAL, 'audit.replay', { task_id: id })
      assert.ok(matches, JSON.stringify(difference))
    }
    assert.equal((await call(world, 'admin', 'audit.verify', {})).valid, true)
    const hash = await stateHash(world.store)
    await world.close()
    return hash
  }

  // A failure names its seed and path: `fc.assert(..., { seed, path })` plays it again.
  test('answers as the installation does, on memory', async () => {
    await fc.assert(
      fc.asyncProperty(histories, async (commands) => void (await play(commands, memory.open()))),
      { numRuns: 300, unbiased: true },
    )
    assert.ok(worked.size >= 24, `of all that can be tried, only this ever worked: ${[...worked.keys()].join(', ')}`)
  })

  test('answers as the installation does, on SQLite, and leaves the same documents as on memory', async () => {
    await fc.assert(
      fc.asyncProperty(histories, async (commands) => {
        const first = await play(commands, memory.open())
        assert.equal(await play(commands, sqlite.open()), first)
      }),
      { numRuns: 40, unbiased: true },
    )
  })

  test(
    'answers as the installation does, on PostgreSQL, and leaves the same documents as on memory',
    { skip: isPostgresOff },
    async (t) => {
      const postgres = postgresMaker()
      t.after(postgres.dispose)
      await fc.assert(
        fc.asyncProperty(histories, async (commands) => {
          const first = await play(commands, memory.open())
          assert.equal(await play(commands, await postgres.open()), first)
        }),
        { numRuns: sampleOf(Array.from({ length: 40 }), 3).length, unbiased: true },
      )
    },
  )
})
