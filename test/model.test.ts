// The life of a task against a small model of it that shares no code with it: whatever anybody tries, in whatever order, the answer
// is the one that the model gives, on every store.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import fc from 'fast-check'
import { createWorld, stateHash, storeMakers, type World } from './support/world.ts'

type ModelTask = {
  state: string
  readonly reviewers: readonly string[]
  delegable: boolean
  executor: string | null
  executors: Set<string>
  depth: number
  /** The last question: what kind it is and what became of it. */
  question: { kind: string; state: 'pending' | 'resolved' | 'expired' } | null
  /** How many versions each artifact has. */
  artifacts: number[]
}
type Model = { tasks: ModelTask[] }
/** The ids that the installation gave to what the model counts. */
type Real = { readonly world: World; readonly tasks: { id: string; question: string; artifacts: string[] }[] }

const PRINCIPAL = 'alice'
const agents = ['devin', 'robin'] as const
const actors = [PRINCIPAL, 'rita', 'bob', ...agents, 'mallory', 'spy'] as const
const FAILED = 'PRECONDITION_FAILED'
const isOver = (state: string): boolean => state === 'completed' || state === 'rejected'
const sees = (task: ModelTask, who: string): boolean => who === PRINCIPAL || task.reviewers.includes(who) || task.executors.has(who)
const decides = (task: ModelTask, who: string): boolean => who === PRINCIPAL || (task.reviewers.includes(who) && who !== task.executor)
const idOf = (name: string): string => `${agents.includes(name as 'devin') ? 'agent' : 'user'}_${name}`

/** What somebody tries on a task: what the model says to it (a code, or null with its effect), and the call itself. */
type Try = {
  readonly words: string
  readonly as: string
  expected(task: ModelTask): string | null
  effect(task: ModelTask): void
  call(ids: Real['tasks'][number], world: World, task: ModelTask): Promise<any>
}

const call = (world: World, as: string, op: string, input: object): Promise<any> => world.call(as, `collaboration/${op}`, input)
const give = (task: ModelTask, to: string): void => {
  task.executor = to
  task.executors.add(to)
}

const assign = (as: string, to: string): Try => ({
  words: `${as} assigns it to ${to}`,
  as,
  expected: (task) => (as !== PRINCIPAL ? 'UNAUTHORIZED' : task.state !== 'created' ? FAILED : null),
  effect(task) {
    task.state = 'assigned'
    give(task, to)
  },
  call: ({ id }, world) => call(world, as, 'task.assign', { task_id: id, assignee: idOf(to) }),
})

const start = (as: string): Try => ({
  words: `${as} starts it`,
  as,
  expected: (task) => (as !== task.executor ? 'UNAUTHORIZED' : task.state !== 'assigned' ? FAILED : null),
  effect: (task) => void (task.state = 'in_progress'),
  call: ({ id }, world) => call(world, as, 'task.start', { task_id: id }),
})

const raise = (as: string, kind: string): Try => ({
  words: `${as} asks for ${kind}`,
  as,
  expected: (task) => (as !== task.executor ? 'UNAUTHORIZED' : task.state !== 'in_progress' ? FAILED : null),
  effect(task) {
    task.state = 'blocked'
    task.question = { kind, state: 'pending' }
  },
  call({ id }, world) {
    const options = kind === 'choice' ? [{ id: 'a', label: 'A', risk: 'low' }] : []
    return call(world, as, 'checkpoint.raise', { task_id: id, kind, prompt: '?', options })
  },
})

const fits: Record<string, readonly string[]> = {
  approval: ['approve', 'reject', 'reassign'],
  choice: ['choose', 'reject', 'reassign'],
  input: ['provide', 'reject', 'reassign'],
  escalation: ['approve', 'choose', 'provide', 'reject', 'reassign'],
}
const resolve = (as: string, action: string, to: string): Try => ({
  words: `${as} answers ${action}`,
  as,
  expected({ question, ...task }) {
    if (question === null) return 'NOT_FOUND'
    if (!decides({ question, ...task }, as)) return 'UNAUTHORIZED'
    if (question.state !== 'pending') return question.state === 'expired' ? 'CHECKPOINT_EXPIRED' : FAILED
    const isEmptyChoice = action === 'choose' && question.kind === 'escalation'
    return fits[question.kind]!.includes(action) && !isEmptyChoice ? null : 'INVALID_SPEC'
  },
  effect(task) {
    task.question!.state = 'resolved'
    task.state = action === 'reject' ? 'completed' : 'in_progress'
    if (action === 'reassign') give(task, to)
  },
  call({ question }, world) {
    return call(world, as, 'checkpoint.resolve', { checkpoint_id: question, action, choice: 'a', input: 'yes', reassign_to: idOf(to) })
  },
})

const cancel = (as: string): Try => ({
  words: `${as} cancels it`,
  as,
  expected: ({ state }) =>
    as !== PRINCIPAL ? 'UNAUTHORIZED' : ['created', 'assigned', 'in_progress', 'blocked'].includes(state) ? null : FAILED,
  effect(task) {
    task.state = 'completed'
    if (task.question?.state === 'pending') task.question.state = 'expired'
  },
  call: ({ id }, world) => call(world, as, 'task.cancel', { task_id: id }),
})

const commit = (as: string, final: boolean, parent: 'none' | 'head' | 'first'): Try => ({
  words: `${as} commits ${final ? 'for review' : 'on the way'}, parent ${parent}`,
  as,
  expected(task) {
    if (as !== task.executor) return 'UNAUTHORIZED'
    if (task.state !== 'in_progress') return FAILED
    return parent === 'first' && task.artifacts.length > 0 && task.artifacts[0]! > 1 ? 'CONFLICT' : null
  },
  effect(task) {
    if (parent === 'none' || task.artifacts.length === 0) task.artifacts.push(1)
    else task.artifacts[0]!++
    if (final) task.state = 'review_ready'
  },
  call({ id, artifacts }, world, task) {
    const version = parent === 'head' ? `v${task.artifacts[0]}` : 'v1'
    const next = parent === 'none' || artifacts.length === 0 ? {} : { artifact_id: artifacts[0], parent_version: version }
    return call(world, as, 'artifact.commit', { task_id: id, payload: { kind: 'inline', uri: 'data:,x' }, final, ...next })
  },
})

const review = (as: string, verdict: string): Try => ({
  words: `${as} says ${verdict}`,
  as,
  // Existence comes before authority.
  expected: (task) =>
    task.artifacts.length === 0 ? 'NOT_FOUND' : !decides(task, as) ? 'UNAUTHORIZED' : task.state !== 'review_ready' ? FAILED : null,
  effect: (task) => void (task.state = { approved: 'completed', changes_requested: 'in_progress' }[verdict] ?? 'rejected'),
  call: ({ id, artifacts }, world) =>
    call(world, as, 'review.submit', { task_id: id, artifact_id: artifacts.at(-1) ?? 'art_none', verdict, requested_changes: ['more'] }),
})

const delegate = (as: string, to: string): Try => ({
  words: `${as} delegates it to ${to}`,
  as,
  expected(task) {
    if (as !== task.executor) return 'UNAUTHORIZED'
    const isHeld = task.state === 'assigned' || task.state === 'in_progress'
    return task.delegable && isHeld && task.depth < 3 && to !== as ? null : FAILED
  },
  effect(task) {
    task.depth++
    give(task, to)
  },
  call: ({ id }, world) => call(world, as, 'ownership.delegate', { task_id: id, to: idOf(to) }),
})

const transfer = (to: string): Try => ({
  words: `the administrator hands it to ${to}`,
  as: 'admin',
  expected: (task) => (isOver(task.state) || task.executor === null || task.executor === to ? FAILED : null),
  effect: (task) => give(task, to),
  call: ({ id }, world) => call(world, 'admin', 'ownership.transfer', { task_id: id, to: idOf(to) }),
})

type Command = fc.AsyncCommand<Model, Real>
const nothing: ModelTask = {
  state: 'created',
  reviewers: [],
  delegable: false,
  executor: null,
  executors: new Set(),
  depth: 0,
  question: null,
  artifacts: [],
}
/** How often each kind of try worked: a model that refuses everything proves nothing. */
const worked = new Map<string, number>()

const creating = (as: string, reviewers: readonly string[], delegable: boolean): Command => ({
  check: () => true,
  async run(model, { world, tasks }) {
    const expected = as === 'mallory' || as === 'spy' ? 'NOT_FOUND' : agents.includes(as as 'devin') ? 'UNAUTHORIZED' : null
    // Tasks of other people would only be more of the same.
    if (expected === null && as !== PRINCIPAL) return
    const input = { spec: { goal: 'g' }, reviewers: reviewers.map(idOf), delegable }
    const { code, output } = await outcomeOf(call(world, as, 'task.create', input))
    assert.equal(code, expected)
    if (expected !== null) return
    tasks.push({ id: output.task.id, question: 'ckpt_none', artifacts: [] })
    model.tasks.push({ ...nothing, reviewers, delegable, executors: new Set(), artifacts: [] })
  },
  toString: () => `${as} creates a task`,
})

/** The try is made when its turn comes: only then is it known who works on the task. */
const trying = (which: number, make: (task: ModelTask) => Try): Command => ({
  check: ({ tasks }) => tasks.length > 0,
  async run(model, { world, tasks }) {
    const index = which % model.tasks.length
    const [task, ids] = [model.tasks[index]!, tasks[index]!]
    const tried = make(task)
    const wanted = tried.as === 'admin' || sees(task, tried.as) ? tried.expected(task) : 'NOT_FOUND'
    const { code, output } = await outcomeOf(tried.call(ids, world, task))
    assert.equal(code, wanted, `${tried.words} while it is ${task.state}`)
    if (wanted === null) {
      tried.effect(task)
      const kind = tried.words.slice(tried.words.indexOf(' ') + 1)
      worked.set(kind, (worked.get(kind) ?? 0) + 1)
    }
    if (output?.checkpoint) ids.question = output.checkpoint.id
    if (output?.task) ids.artifacts = output.task.artifacts
    await compare(world, task, ids.id)
  },
  toString: () => `on task ${which}: ${make({ ...nothing, executor: EXECUTOR }).words}`,
})

async function outcomeOf(calling: Promise<any>): Promise<{ code: string | null; output?: any }> {
  try {
    return { code: null, output: await calling }
  } catch (error) {
    return { code: (error as { code?: string }).code ?? String(error) }
  }
}

async function compare(world: World, task: ModelTask, task_id: string): Promise<void> {
  const { task: real } = await call(world, PRINCIPAL, 'task.get', { task_id })
  const holder = task.state === 'assigned' || task.state === 'in_progress' ? task.executor! : PRINCIPAL
  assert.deepEqual(
    { state: real.state, assignee: real.ownership.assignee, waits: real.pending_checkpoint !== null, artifacts: real.artifacts.length },
    { state: task.state, assignee: idOf(holder), waits: task.question?.state === 'pending', artifacts: task.artifacts.length },
  )
}

const EXECUTOR = 'its executor'
const actor = fc.constantFrom(...actors)
const agent = fc.constantFrom(...agents)
// Most tries come from somebody who may: otherwise few histories would get far.
const worker = fc.oneof({ weight: 6, arbitrary: fc.constant(EXECUTOR) }, { weight: 1, arbitrary: actor })
const person = fc.oneof({ weight: 5, arbitrary: fc.constantFrom(PRINCIPAL, PRINCIPAL, 'rita') }, { weight: 1, arbitrary: actor })

/** Somebody tries something with a detail of its own on one of the first tasks. */
function on<T>(who: fc.Arbitrary<string>, detail: fc.Arbitrary<T>, make: (as: string, detail: T) => Try): fc.Arbitrary<Command> {
  return fc
    .tuple(fc.nat(1), who, detail)
    .map(([which, name, more]) => trying(which, (task) => make(name === EXECUTOR ? (task.executor ?? 'devin') : name, more)))
}
const none = fc.constant(null)
const creates = fc
  .tuple(person, fc.constantFrom([], ['rita']), fc.boolean())
  .map(([as, reviewers, delegable]) => creating(as, reviewers, delegable))
const assigns = on(person, agent, assign)
const starts = on(worker, none, start)
const raises = on(worker, fc.constantFrom('approval', 'choice', 'input', 'escalation'), raise)
const answers = fc.tuple(fc.constantFrom('approve', 'approve', 'choose', 'provide', 'reassign', 'reject'), agent)
const resolves = on(person, answers, (as, [action, to]) => resolve(as, action, to))
const commits = on(worker, fc.tuple(fc.boolean(), fc.constantFrom('none', 'head', 'first')), (as, [final, parent]) =>
  commit(as, final, parent),
)
const reviews = on(person, fc.constantFrom('changes_requested', 'changes_requested', 'approved', 'rejected'), review)
const others = [on(worker, agent, delegate), on(fc.constant('admin'), agent, (_, to) => transfer(to)), on(actor, none, cancel)]

// What moves a task on stands here more than once, so that it is tried more often.
const tries = [creates, assigns, assigns, starts, starts, raises, raises, resolves, resolves, resolves, commits, commits, reviews, reviews]
const histories = fc.commands([...tries, ...others], { maxCommands: 40, size: 'max' })

describe('the model of a task', () => {
  const [memory, sqlite] = storeMakers() as [ReturnType<typeof storeMakers>[0], ReturnType<typeof storeMakers>[0]]
  after(() => sqlite.dispose())

  async function play(commands: Iterable<Command>, world: World): Promise<string> {
    const real: Real = { world, tasks: [] }
    await fc.asyncModelRun(() => ({ model: { tasks: [] }, real }), commands)
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
      fc.asyncProperty(histories, async (commands) => void (await play(commands, await createWorld({ store: memory.open() })))),
      { numRuns: 300 },
    )
    assert.ok(worked.size > 25, `of all that can be tried, only this ever worked: ${[...worked.keys()].join(', ')}`)
  })

  test('answers as the installation does, on SQLite, and leaves the same documents as on memory', async () => {
    await fc.assert(
      fc.asyncProperty(histories, async (commands) => {
        const first = await play(commands, await createWorld({ store: memory.open() }))
        assert.equal(await play(commands, await createWorld({ store: sqlite.open() })), first)
      }),
      { numRuns: 40 },
    )
  })
})
