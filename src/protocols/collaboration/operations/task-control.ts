// Listing tasks, and keeping them from being stranded: time limits, their extension, and reviewers.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, readsProject, idsActedFor, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Made } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { listIn, moreProjects, projectInput, projectsFor } from '#kernel/declare/projects.ts'
import { either, t, type Static } from '#kernel/declare/schema.ts'
import { durationMs, futureTimestamp, hasTime } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import { familyOf, type Family } from '../task/cancellation.ts'
import { askAbout } from '../task/ask-people.ts'
import { isActive, principal, reviewerFor, isAtRevision } from '../access.ts'
import { Checkpoint, Duration, Id, isTerminal, Task, Timestamp, ExpectedRevision } from '../schema.ts'
import { taskStates } from '../states.ts'

const State = either(...taskStates)
const ListInput = t.Object({
  ...projectInput,
  state: t.Optional(t.Union([State, t.Array(State, { minItems: 1, maxItems: taskStates.length })])),
  type: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
  assignee: t.Optional(Id),
  principal: t.Optional(Id),
  parent_task: t.Optional(Id),
  order: t.Optional(either('newest', 'oldest')),
  ...pageInput,
})

const list = query({
  name: 'task.list',
  summary: 'List tasks that you may read, newest first, with filters.',
  draft: 'HACP 0.1.0, Operations',
  input: ListInput,
  output: t.Object({ items: t.Array(Task.schema), next_cursor: nextCursor, ...moreProjects }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { state = [...taskStates], order = 'newest' } = input
    const { ids, more } = await projectsFor(read, input, actor)
    const states = [...new Set(typeof state === 'string' ? [state] : state)]
    const seesAll = (id: string): boolean => actor.projects === 'all' || readsProject(actor, id)
    const whose = idsActedFor(actor)
    const inStates = (id: string): string[][] => states.map((state) => [id, state])
    const ranges = [
      { index: 'state', prefixes: ids.filter(seesAll).flatMap(inStates) },
      {
        index: 'party',
        prefixes: ids.filter((id) => !seesAll(id)).flatMap((id) => inStates(id).flatMap((row) => whose.map((who) => [who, ...row]))),
      },
    ]
    const items: Task[] = []
    let place = placeOf('task.list', input)
    for (let examined = 0; examined < limits.examinedMax;) {
      const limit = pageSize(input)
      const page = await listIn(read, Task, ranges, { after: place, limit, reverse: order === 'newest' })
      for (const { id, at } of page) {
        const task = await read.maybe(Task, id)
        if (task && fits(task, input)) items.push(task)
        place = at
        if (items.length === limit || read.isFull()) return { items, place, more }
      }
      examined += page.length
      if (page.length < limit) return { items, place: undefined, more }
    }
    return { items, place, more }
  },
  view: ({ items, place, more }, input) => ({
    items,
    next_cursor: place === undefined ? null : cursorOf('task.list', input, place),
    ...more,
  }),
  example: { given: 'created', as: 'alice', input: { state: 'created', limit: 10 } },
})

function fits(task: Task, { type, assignee, principal: whose, parent_task }: Static<typeof ListInput>): boolean {
  return (
    (type === undefined || task.type === type) &&
    (assignee === undefined || task.ownership.assignee === assignee) &&
    (whose === undefined || task.ownership.principal === whose) &&
    (parent_task === undefined || task.parent_task === parent_task)
  )
}

const extend = command({
  name: 'task.extend',
  summary: 'Give a task more time: a later deadline (null: none) or a longer max_duration.',
  draft: 'ours: the draft gives deadlines no way on',
  input: t.Object({
    task_id: Id,
    ...ExpectedRevision,
    deadline: t.Optional(t.Union([Timestamp, t.Null()])),
    max_duration: t.Optional(t.Union([Duration, t.Null()])),
  }),
  output: t.Object({ task: Task.schema }),
  callers: [principal],
  requires: [
    isAtRevision,
    isActive,
    rule<unknown, { deadline?: unknown; max_duration?: unknown }>(
      'INVALID_SPEC',
      'deadline or max_duration is given',
      (_, given) => given.deadline !== undefined || given.max_duration !== undefined,
      'neither deadline nor max_duration is given: name at least one',
    ),
  ],
  audit: 'task.extended',
  besides: ['expected_task_revision'],
  async load(read, { task_id }) {
    const task = await read(Task, task_id)
    return { task, family: await familyOf(read, task) }
  },
  decide({ task, family }, input, { now }) {
    const deadline =
      input.deadline === undefined
        ? task.deadline
        : input.deadline === null
          ? null
          : futureTimestamp(input.deadline, now, 'INVALID_SPEC', 'deadline')
    const max_duration = input.max_duration === undefined ? task.max_duration : input.max_duration
    if (input.deadline !== undefined && deadline !== null && task.deadline !== null && deadline <= task.deadline)
      throw new Refusal('INVALID_SPEC', 'deadline is not later than the current one', { field: 'deadline' })
    if (
      max_duration !== null &&
      input.max_duration !== undefined &&
      durationMs(max_duration, 'INVALID_SPEC', 'max_duration') <= task.active_ms
    ) {
      throw new Refusal('INVALID_SPEC', 'max_duration is not longer than the time that is spent already: give a longer one', {
        field: 'max_duration',
      })
    }
    if (input.max_duration && task.max_duration !== null && lengthOf(input.max_duration) <= lengthOf(task.max_duration)) {
      throw new Refusal('INVALID_SPEC', 'max_duration is not longer than the current one', { field: 'max_duration' })
    }
    const extended: Task = { ...task, deadline, max_duration }
    // Only the timer sets `overdue`, together with the question to the person.
    const next = { ...extended, overdue: task.overdue && !hasTime(extended, now) }
    const inherited = input.deadline === undefined ? [] : heirsOf(family, deadline, now)
    return {
      facts: [
        fact('task.extended', [image(Task, next)]),
        ...inherited.map((after) => fact('task.extended', [image(Task, after)], { cause: 0 })),
      ],
      output: { task: next },
    }
  },
  example: { given: 'created', as: 'alice', input: ({ task }) => ({ task_id: task.id, deadline: '2029-06-01T00:00:00Z' }) },
})

/** Child tasks that inherited the parent's deadline from an agent's delegation follow its changes. */
function heirsOf({ task, children }: Family, deadline: string | null, now: string): Task[] {
  return children.flatMap((child) => {
    const { task: before } = child
    const isHeir = before.delegators.length > 0 && before.deadline === task.deadline && task.deadline !== null
    if (!isHeir || isTerminal(before.state)) return []
    const after: Task = { ...before, deadline }
    return [{ ...after, overdue: before.overdue && !hasTime(after, now) }, ...heirsOf(child, deadline, now)]
  })
}

const lengthOf = (duration: string): number => durationMs(duration, 'INVALID_SPEC', 'max_duration')

const overdue = command({
  name: 'task.overdue',
  summary: 'Note that a deadline or max_duration has passed and ask the person what to do. The system calls it by timer.',
  draft: 'ours: the draft’s deadline has no trigger',
  input: t.Object({ task_id: Id }),
  output: t.Object({ task: Task.schema }),
  callers: [system],
  requires: [
    isActive,
    rule<{ task: Task }>(
      'PRECONDITION_FAILED',
      'the time has passed and nobody was told yet',
      ({ task }, _, { now }) => !task.overdue && !hasTime(task, now),
      'the task is not late, or it was reported as overdue already',
    ),
  ],
  audit: 'task.overdue',
  async load(read, { task_id }) {
    const task = await read(Task, task_id)
    return { task, pending: task.pending_checkpoint === null ? null : await read(Checkpoint, task.pending_checkpoint) }
  },
  decide({ task, pending }, _, { now, newId }) {
    const late: Task = { ...task, overdue: true }
    const limit = task.deadline !== null && task.deadline <= now ? 'deadline' : 'max_duration'
    const facts: Made[] = [fact('task.overdue', [image(Task, late)], { detail: { limit } })]
    const message = `The task's ${limit} has passed.\nExtend it and let the agent go on, or end it: without more time it comes back to you.`
    const asked = askAbout(late, pending, message, newId('ckpt'), now, 0)
    return { facts: [...facts, ...asked.facts], output: { task: asked.task } }
  },
  example: { given: 'late', as: 'system', input: ({ task }) => ({ task_id: task.id }) },
})

const reviewerInput = t.Object({ ...ExpectedRevision, task_id: Id, user: Id })

const addReviewer = command({
  name: 'reviewer.add',
  summary: 'Name another person who can resolve checkpoints and review.',
  draft: 'ours: the draft’s "authorized reviewer"',
  input: reviewerInput,
  output: t.Object({ task: Task.schema }),
  callers: [principal],
  requires: [
    isAtRevision,
    isActive,
    rule<{ task: Task }, { user: string }>(
      'PRECONDITION_FAILED',
      'the person is not a reviewer yet',
      ({ task }, { user }) => !task.reviewers.includes(user),
      'this person is a reviewer of the task already',
    ),
    rule<{ task: Task }>(
      'PRECONDITION_FAILED',
      `a task has at most ${limits.reviewersMax} reviewers`,
      ({ task }) => task.reviewers.length < limits.reviewersMax,
      `the task has ${limits.reviewersMax} reviewers, which is the most: remove one first`,
    ),
  ],
  audit: 'task.reviewer_added',
  besides: ['expected_task_revision'],
  async load(read, { task_id, user }) {
    const task = await read(Task, task_id)
    await reviewerFor(read, user, task.project_id)
    return { task }
  },
  decide({ task }, { user }) {
    const next: Task = { ...task, reviewers: [...task.reviewers, user] }
    return { facts: [fact('task.reviewer_added', [image(Task, next)], { detail: { user } })], output: { task: next } }
  },
  example: { given: 'created', as: 'alice', input: ({ task }) => ({ task_id: task.id, user: 'user_bob' }) },
})

const removeReviewer = command({
  name: 'reviewer.remove',
  summary: 'Take a reviewer off a task.',
  draft: 'ours: the draft’s "authorized reviewer"',
  input: reviewerInput,
  output: t.Object({ task: Task.schema }),
  callers: [principal],
  requires: [
    isAtRevision,
    isActive,
    rule<{ task: Task }, { user: string }>(
      'PRECONDITION_FAILED',
      'the person is a reviewer',
      ({ task }, { user }) => task.reviewers.includes(user),
      'this person is not a reviewer of the task',
    ),
    rule<{ task: Task }, { user: string }>(
      'PRECONDITION_FAILED',
      'the review policy does not require the verdict of the person',
      ({ task }, { user }) => !task.spec.review_policy?.required_reviewers.includes(user),
      'the review policy of the task requires the verdict of this person, and a spec never changes',
    ),
  ],
  audit: 'task.reviewer_removed',
  besides: ['expected_task_revision'],
  async load(read, { task_id }) {
    const task = await read(Task, task_id)
    return { task, pending: task.pending_checkpoint === null ? null : await read(Checkpoint, task.pending_checkpoint) }
  },
  decide({ task, pending }, { user }) {
    const next: Task = { ...task, reviewers: task.reviewers.filter((id) => id !== user) }
    // A question routed to the removed reviewer goes back to the principal.
    const rerouted = pending?.routed_to === user ? [image(Checkpoint, { ...pending, routed_to: task.ownership.principal })] : []
    return { facts: [fact('task.reviewer_removed', [image(Task, next), ...rerouted], { detail: { user } })], output: { task: next } }
  },
  example: { given: 'created', as: 'alice', input: ({ task }) => ({ task_id: task.id, user: 'user_rita' }) },
})

export const taskControlOperations = [list, extend, overdue, addReviewer, removeReviewer]
