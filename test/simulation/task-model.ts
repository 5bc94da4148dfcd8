// A task's life once more, small and apart from the code that is tested: who may do what in which state, what they are told
// otherwise, and what becomes of the task.
import type { World } from '../support/in-process/world.ts'
import { actionWith } from './world.ts'

export type ModelTask = {
  state: string
  readonly reviewers: readonly string[]
  delegable: boolean
  executor: string | null
  executors: Set<string>
  depth: number
  /** Agents whose runs wait for whoever works on it. */
  above: string[]
  /** Every question that was asked about it, in that order. */
  questions: ModelQuestion[]
  /** By whom, in the same order. */
  askers: string[]
  grants: { readonly scope: string; readonly decision: 'allow' | 'deny' }[]
  /** Whatever its agent does is confirmed beforehand. */
  readonly confirms: boolean
  /** The actions that were approved and not carried out yet: to whom, and with which word. */
  approvals: { readonly agent: string; readonly word: string }[]
  /** How often a capability ran for it. */
  ran: number
  /** How many versions each artifact has. */
  artifacts: number[]
  /** Which of them came to review last. */
  delivered: number | null
}
/** The questions that were asked, and the answers to them. */
export type ModelQuestion = {
  readonly by: 'executor' | 'system'
  readonly kind: string
  state: 'pending' | 'resolved' | 'expired'
  readonly options: readonly string[]
  readonly actions: readonly string[]
  /** The place of the question that ended for it. */
  readonly supersedes: number | null
  answer: { action: string; choice: string | null; approved: readonly string[]; denied: readonly string[] } | null
}
export type Model = {
  tasks: ModelTask[]
  /** Those who are switched off. */
  away: Set<string>
  /** Somebody stands in for the principal. */
  hasDeputy: boolean
}
/** The ids that the installation gave to what the model counts. */
export type Real = {
  readonly world: World
  readonly tasks: { id: string; questions: string[]; artifacts: string[]; run: string }[]
  readonly ran: { times: number }
}

export const PRINCIPAL = 'alice'
export const agents = ['devin', 'robin'] as const
/** A person may be given work too, and then does not review it. */
export const workers = [...agents, 'rita'] as const
export const actors = [PRINCIPAL, 'rita', 'bob', ...agents, 'mallory', 'spy'] as const
const FAILED = 'PRECONDITION_FAILED'
const isOver = (state: string): boolean => state === 'completed' || state === 'rejected'
export const DEPUTY = 'deputy'
export const sees = (task: ModelTask, who: string): boolean =>
  who === PRINCIPAL || who === DEPUTY || task.reviewers.includes(who) || task.executors.has(who)
export const isPrincipal = (who: string): boolean => who === PRINCIPAL || who === DEPUTY
const decides = (task: ModelTask, who: string): boolean => isPrincipal(who) || (task.reviewers.includes(who) && who !== task.executor)
export const isAgent = (name: string): boolean => agents.includes(name as 'devin')
export const idOf = (name: string): string => `${agents.includes(name as 'devin') ? 'agent' : 'user'}_${name}`

/** An attempt of an actor on a task: the model's word about it (a code, or null with its effect), and the call itself. */
export type Try = {
  readonly message: string
  readonly as: string
  /** The executor to be. */
  readonly to?: string
  /** undefined: it is not tried. */
  expected(task: ModelTask): string | null | undefined
  effect(task: ModelTask): void
  call(ids: Real['tasks'][number], world: World, task: ModelTask): Promise<any>
}

export const call = (world: World, as: string, op: string, input: object): Promise<any> => world.call(as, `collaboration/${op}`, input)
const give = (task: ModelTask, to: string): void => {
  task.executor = to
  task.executors.add(to)
}

/** By a person: delegations are counted from here. With a person nobody waits for it any more. */
const handOn = (task: ModelTask, to: string): void => {
  give(task, to)
  task.depth = 0
  if (!isAgent(to)) task.above = []
}

export const assign = (as: string, to: string): Try => ({
  message: `${as} assigns it to ${to}`,
  as,
  to,
  expected: (task) => (!isPrincipal(as) ? 'UNAUTHORIZED' : task.state !== 'created' ? FAILED : null),
  effect(task) {
    task.state = 'assigned'
    give(task, to)
  },
  call: ({ id }, world) => call(world, as, 'task.assign', { task_id: id, assignee: idOf(to) }),
})

export const start = (as: string): Try => ({
  message: `${as} starts it`,
  as,
  expected: (task) => (as !== task.executor ? 'UNAUTHORIZED' : task.state !== 'assigned' ? FAILED : null),
  effect: (task) => void (task.state = 'in_progress'),
  call: ({ id }, world) => call(world, as, 'task.start', { task_id: id }),
})

/** A question of an agent to people: the choices, and the actions that may be approved piece by piece. */
export const raise = (as: string, kind: string, actions: readonly string[] = []): Try => {
  const options = kind === 'choice' ? ['a', 'b'] : []
  return {
    message: `${as} asks for ${kind}`,
    as,
    expected: (task) => (as !== task.executor ? 'UNAUTHORIZED' : task.state !== 'in_progress' ? FAILED : null),
    effect(task) {
      task.state = 'blocked'
      task.questions.push({ by: 'executor', kind, state: 'pending', options, actions, supersedes: null, answer: null })
      task.askers.push(as)
    },
    call: ({ id }, world, { questions }) =>
      call(world, as, 'checkpoint.raise', {
        task_id: id,
        kind,
        prompt: promptOf(questions.length),
        options: options.map((one) => ({ id: one, label: one, risk: 'low' })),
        proposed_actions: actions.map(actionWith),
      }),
  }
}

const fits: Record<string, readonly string[]> = {
  approval: ['approve', 'reject', 'reassign'],
  choice: ['choose', 'reject', 'reassign'],
  input: ['provide', 'reject', 'reassign'],
  escalation: ['approve', 'choose', 'provide', 'reject', 'reassign'],
}
const fitsSystem = ['approve', 'reject', 'reassign']
const answersTo = ({ by, kind }: ModelQuestion): readonly string[] => (by === 'system' ? fitsSystem : fits[kind]!)

/** An answer of a person, and to which question: the last one, or one that they were shown before it. */
export type Said = {
  readonly action: string
  readonly to: string
  readonly ago?: number
  readonly choice?: string
  readonly approved?: readonly string[] | undefined
}

export const resolve = (as: string, { action, to, ago = 0, choice = 'a', approved }: Said): Try => ({
  message: `${as} answers ${action}${ago === 0 ? '' : ' to an earlier question'}`,
  as,
  expected(task) {
    const question = task.questions.at(-1 - ago)
    if (question === undefined) return 'NOT_FOUND'
    if (!decides(task, as)) return 'UNAUTHORIZED'
    if (question.state !== 'pending') return question.state === 'expired' ? 'CHECKPOINT_EXPIRED' : FAILED
    if (!answersTo(question).includes(action)) return 'INVALID_SPEC'
    if (action === 'choose' && !question.options.includes(choice)) return 'INVALID_SPEC'
    if (approved?.some((one) => !question.actions.includes(one))) return 'INVALID_SPEC'
    return action === 'reject' && approved !== undefined && approved.length > 0 ? 'INVALID_SPEC' : null
  },
  effect(task) {
    const question = task.questions.at(-1 - ago)!
    const all = action === 'approve' ? question.actions : []
    const given = question.actions.filter((one) => (approved ?? all).includes(one))
    question.state = 'resolved'
    question.answer = {
      action,
      choice: action === 'choose' ? choice : null,
      approved: given,
      denied: question.actions.filter((one) => !given.includes(one)),
    }
    const agent = task.askers.at(-1 - ago)!
    for (const word of given) task.approvals.push({ agent, word })
    task.state = action === 'reject' ? 'completed' : 'in_progress'
    if (action === 'reassign') handOn(task, to)
  },
  call({ questions }, world) {
    const checkpoint_id = questions.at(-1 - ago) ?? 'ckpt_none'
    const told = approved === undefined ? {} : { approved_actions: approved }
    return call(world, as, 'checkpoint.resolve', { checkpoint_id, action, choice, input: 'yes', reassign_to: idOf(to), ...told })
  },
})

/** The system asks, whatever else is open: that ends without an answer, and nothing of it goes into the new question. */
export const systemAsks = (): Try => ({
  message: 'the system asks',
  as: 'system',
  expected: ({ state }) => (['assigned', 'in_progress', 'blocked'].includes(state) ? null : 'PRECONDITION_FAILED'),
  effect(task) {
    const before = task.questions.at(-1)
    const supersedes = before?.state === 'pending' ? task.questions.length - 1 : null
    if (supersedes !== null) before!.state = 'expired'
    task.questions.push({ by: 'system', kind: 'escalation', state: 'pending', options: [], actions: [], answer: null, supersedes })
    task.askers.push('system')
    task.state = 'blocked'
  },
  call: ({ id }, world, task) =>
    world.call('system', 'collaboration/checkpoint.escalate', { task_id: id, prompt: promptOf(task.questions.length) }),
})

export const promptOf = (index: number): string => `question ${index}`

export const cancel = (as: string): Try => ({
  message: `${as} cancels it`,
  as,
  expected: ({ state }) =>
    as !== PRINCIPAL ? 'UNAUTHORIZED' : ['created', 'assigned', 'in_progress', 'blocked'].includes(state) ? null : FAILED,
  effect(task) {
    task.state = 'completed'
    const question = task.questions.at(-1)
    if (question?.state === 'pending') question.state = 'expired'
  },
  call: ({ id }, world) => call(world, as, 'task.cancel', { task_id: id }),
})

export const commit = (as: string, final: boolean, parent: 'none' | 'head' | 'first'): Try => ({
  message: `${as} commits ${final ? 'for review' : 'on the way'}, parent ${parent}`,
  as,
  expected(task) {
    if (as !== task.executor) return 'UNAUTHORIZED'
    if (task.state !== 'in_progress') return FAILED
    return parent === 'first' && task.artifacts.length > 0 && task.artifacts[0]! > 1 ? 'CONFLICT' : null
  },
  effect(task) {
    if (parent === 'none' || task.artifacts.length === 0) task.artifacts.push(1)
    else task.artifacts[0]!++
    if (final) {
      task.delivered = parent === 'none' || task.artifacts.length === 1 ? task.artifacts.length - 1 : 0
      task.state = 'review_ready'
      task.above = []
    }
  },
  call({ id, artifacts }, world, task) {
    const version = parent === 'head' ? `v${task.artifacts[0]}` : 'v1'
    const next = parent === 'none' || artifacts.length === 0 ? {} : { artifact_id: artifacts[0], parent_version: version }
    return call(world, as, 'artifact.commit', { task_id: id, payload: { kind: 'inline', uri: 'data:,x' }, final, ...next })
  },
})

/** A verdict is about what was delivered; on anything else it would decide without a look at it. */
export const review = (as: string, verdict: string, which: 'delivered' | 'first' | 'last' = 'delivered'): Try => ({
  message: `${as} says ${verdict} to the ${which} artifact`,
  as,
  // Existence comes before authority.
  expected(task) {
    if (task.artifacts.length === 0) return 'NOT_FOUND'
    if (!decides(task, as)) return 'UNAUTHORIZED'
    if (task.state !== 'review_ready') return FAILED
    return reviewed(task, which) === task.delivered ? null : 'CONFLICT'
  },
  effect: (task) => void (task.state = { approved: 'completed', changes_requested: 'in_progress' }[verdict] ?? 'rejected'),
  call: ({ id, artifacts }, world, task) =>
    call(world, as, 'review.submit', {
      task_id: id,
      artifact_id: artifacts[reviewed(task, which)] ?? 'art_none',
      verdict,
      requested_changes: ['more'],
    }),
})
const reviewed = ({ artifacts, delivered }: ModelTask, which: 'delivered' | 'first' | 'last'): number =>
  which === 'first' ? 0 : which === 'delivered' && delivered !== null ? delivered : artifacts.length - 1

export const delegate = (as: string, to: string): Try => ({
  message: `${as} delegates it to ${to}`,
  as,
  expected(task) {
    if (as !== task.executor || !agents.includes(as as 'devin')) return 'UNAUTHORIZED'
    const isHeld = task.state === 'assigned' || task.state === 'in_progress'
    return task.delegable && isHeld && task.depth < 3 && to !== as && !task.above.includes(to) ? null : FAILED
  },
  effect(task) {
    task.depth++
    task.above = [...task.above, as]
    give(task, to)
  },
  call: ({ id }, world) => call(world, as, 'ownership.delegate', { task_id: id, to: idOf(to) }),
})

export const transfer = (to: string): Try => ({
  message: `the administrator hands it to ${to}`,
  as: 'admin',
  expected: (task) => (isOver(task.state) || task.executor === to ? FAILED : null),
  effect: (task) => handOn(task, to),
  call: ({ id }, world) => call(world, 'admin', 'ownership.transfer', { task_id: id, to: idOf(to) }),
})

export const nothing: ModelTask = {
  state: 'created',
  reviewers: [],
  delegable: false,
  executor: null,
  executors: new Set(),
  depth: 0,
  above: [],
  questions: [],
  askers: [],
  grants: [],
  confirms: false,
  approvals: [],
  ran: 0,
  artifacts: [],
  delivered: null,
}

/** One of the steps that lead on from the state in which the task is. */
export function leading(task: ModelTask, pick: number): Try {
  const who = task.executor ?? 'devin'
  const judge = task.reviewers[pick % 2] ?? PRINCIPAL
  const asked = task.questions.at(-1)
  const passing = delegate(who, who === 'devin' ? 'robin' : 'devin')
  const steps: Record<string, readonly Try[]> = {
    created: workers.map((to) => assign(PRINCIPAL, to)),
    assigned: [start(who), start(who), passing],
    in_progress: [
      passing,
      passing,
      ...Object.keys(fits).map((kind) => raise(who, kind, pick % 3 === 0 ? ['read', 'drop'] : [])),
      ...(['none', 'head', 'first'] as const).flatMap((parent) => [commit(who, true, parent), commit(who, false, parent)]),
    ],
    blocked: [
      systemAsks(),
      ...(asked ? answersTo(asked) : []).flatMap((action) => {
        const said = { action, to: agents[pick % 2]! }
        // Somebody may have been shown the question before this one, and nothing since.
        return [resolve(judge, said), resolve(judge, { ...said, ago: 1 })]
      }),
    ],
    review_ready: ['changes_requested', 'approved', 'changes_requested', 'rejected'].map((verdict) => review(judge, verdict)),
  }
  const open = steps[task.state] ?? [cancel(PRINCIPAL)]
  return open[pick % open.length]!
}
