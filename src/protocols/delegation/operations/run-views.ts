// Views of runs: one, a list, their history, and a stream of their events.
import { Refusal } from '#kernel/declare/errors.ts'
import { anyone, readsProject, speaksFor, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, stream, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { leftOut, moreProjects, projectInput, projectsFor, type Projects } from '#kernel/declare/projects.ts'
import { either, t, type Static } from '#kernel/declare/schema.ts'
import type { FactsOf } from '#kernel/log/store.ts'
import { AgentEvent, eventOf, isOfDraft, lineIn, runIn, typeIn } from '../runs/audit-view.ts'
import { isQueued } from '../runs/mailbox.ts'
import { Id, Mailbox, Request, Run, SeenRun, Work } from '../schema.ts'
import { runStates } from '../states.ts'

async function seenRun(read: Read, run_id: string): Promise<Run> {
  const run = await read.maybe(Run, run_id)
  if (!run) throw new Refusal('RUN_NOT_FOUND', `there is no run ${run_id}`)
  return run
}

const runView = async (read: Read, run: Run): Promise<SeenRun> => ({ ...run, queued: isQueued(run, await mailboxOf(read, run)) })
/** A blocked or ended run is never queued, even if its mailbox has messages. */
const mailboxOf = async (read: Read, { id, state }: Run): Promise<Mailbox | null> => (state === 'running' ? read.raw(Mailbox, id) : null)

const get = query({
  name: 'run.get',
  summary: 'Fetch one run and what it was asked to do, also after it has ended.',
  draft: 'AAP 0.1.0, Run; Handoff ("read-only history")',
  input: t.Object({ run_id: Id }),
  output: t.Object({ run: SeenRun, request: Request.schema }),
  callers: [anyone],
  async load(read, { run_id }) {
    return { run: await runView(read, await seenRun(read, run_id)), request: await read(Request, run_id) }
  },
  view: ({ run, request }) => ({ run, request }),
  example: { given: 'delegated', as: 'robin', input: ({ run }) => ({ run_id: run.id }) },
})

const ListInput = t.Object({
  task_id: t.Optional(Id),
  root_task_id: t.Optional(Id),
  agent_id: t.Optional(Id),
  ...projectInput,
  state: t.Optional(either(...runStates)),
  ...pageInput,
})
type ListInput = Static<typeof ListInput>

/** The index and its prefixes. They exclude runs that the caller cannot see, because a cursor would reveal them. */
type Range = { readonly index: string; readonly prefixes: string[][]; readonly more?: Projects['more'] }
async function rangeOf(read: Read, input: ListInput, actor: Actor): Promise<Range> {
  const { task_id, root_task_id } = input
  const states = input.state === undefined ? [...runStates] : [input.state]
  if (task_id !== undefined) {
    const work = await read.maybe(Work, task_id)
    return { index: 'root', prefixes: work ? [[work.root_task_id, task_id]] : [] }
  }
  if (root_task_id !== undefined) return { index: 'root', prefixes: (await read.maybe(Work, root_task_id)) ? [[root_task_id]] : [] }
  // Runs without a task that it delegated to another agent.
  if (actor.kind === 'agent' && input.agent_id !== undefined && input.agent_id !== actor.id)
    return { index: 'delegated', prefixes: [[actor.id, input.agent_id]] }
  if (actor.kind === 'agent') return { index: 'agent', prefixes: states.map((state) => [actor.id, state]) }
  const { ids, more } = await projectsFor(read, input, actor)
  const agent = input.agent_id === undefined ? null : await read.subject(input.agent_id)
  if (agent?.kind === 'agent' && agent.owner !== null && ids.some((id) => speaksFor(actor, agent.owner!, id)))
    return { index: 'agent', prefixes: states.map((state) => [agent.id, state]) }
  const kept = ids.filter((id) => actor.projects === 'all' || readsProject(actor, id))
  if (kept.length > 0)
    return {
      index: 'project',
      prefixes: kept.flatMap((id) => states.map((state) => [id, state])),
      more: leftOut((more.more_projects ?? 0) + ids.length - kept.length),
    }
  throw new Refusal(
    'INVALID_REQUEST',
    'give task_id, root_task_id, or agent_id of an agent of yours: all runs of a project are for its owners',
    { field: 'task_id' },
  )
}

const list = query({
  name: 'run.list',
  summary: 'List the runs of a task, of a task with all below it, of an agent, or of a project, with filters.',
  draft: 'AAP 0.1.0, Handoff ("read-only history")',
  input: ListInput,
  output: t.Object({ items: t.Array(SeenRun), next_cursor: nextCursor, ...moreProjects }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { index, prefixes, more = {} } = await rangeOf(read, input, actor)
    const fits = (run: Run): boolean =>
      (input.state === undefined || run.state === input.state) &&
      (input.agent_id === undefined || run.agent_id === input.agent_id) &&
      (input.project_id === undefined || run.project_id === input.project_id)
    const items: SeenRun[] = []
    const limit = pageSize(input)
    let place = placeOf('run.list', input)
    for (let examined = 0; prefixes.length > 0 && examined < limits.examinedMax;) {
      const page = await read.list(Run, index, prefixes, { after: place, limit })
      for (const { id, at } of page) {
        const run = await read.maybe(Run, id)
        if (run && fits(run)) items.push(await runView(read, run))
        place = at
        if (items.length === limit || read.isFull()) return { items, place, more }
      }
      examined += page.length
      if (page.length < limit) return { items, place: undefined, more }
    }
    return { items, place: prefixes.length > 0 ? place : undefined, more }
  },
  view: ({ items, place, more }, input) => ({
    items,
    next_cursor: place === undefined ? null : cursorOf('run.list', input, place),
    ...more,
  }),
  example: { given: 'working', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

const follow = stream({
  name: 'run.follow',
  summary: 'Follow the events of a run, of a task, or of a task with all below it, from any cursor on, as they become durable.',
  draft: 'AAP 0.1.0, Event Stream',
  input: t.Object({
    run_id: t.Optional(Id),
    task_id: t.Optional(Id),
    root_task_id: t.Optional(Id),
    all: t.Optional(t.Boolean({ description: 'also the events that the draft does not name' })),
  }),
  output: t.Object({ event: AgentEvent }),
  callers: [anyone],
  async load(read, { run_id, task_id, root_task_id }) {
    if ([run_id, task_id, root_task_id].filter((one) => one !== undefined).length !== 1)
      throw new Refusal('INVALID_REQUEST', 'give run_id, task_id or root_task_id', { field: 'run_id' })
    const work = async (id: string): Promise<string> => {
      if (!(await read.maybe(Work, id))) throw new Refusal('RUN_NOT_FOUND', `there is no run of ${id}`)
      return id
    }
    const mayRead = async (id: string | null): Promise<boolean> => id !== null && (await read.maybe(Work, id)) !== null
    const of: FactsOf =
      root_task_id !== undefined
        ? { by: 'root', root: await work(root_task_id) }
        : { by: 'task', task: run_id === undefined ? await work(task_id!) : (await seenRun(read, run_id)).correlation_id }
    return { of, mayRead }
  },
  of: ({ of }) => of,
  wants({ run_id, all = false }, stored) {
    const type = typeIn(lineIn(stored))
    return type !== null && (all || isOfDraft(type)) && (run_id === undefined || runIn(stored) === run_id)
  },
  sees: ({ of, mayRead }) => (of.by === 'root' ? (stored) => mayRead(lineIn(stored).task) : null),
  view: (stored) => ({ event: eventOf(stored) }),
  example: { given: 'working', as: 'alice', input: ({ run }) => ({ run_id: run.id }) },
})

export const runViewOperations = [get, list, follow]
