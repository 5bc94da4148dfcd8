// Runs for all operations that create or end them.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { limits } from '#kernel/limits.ts'
import type { Bound, Change, Context, Made, Read } from '#kernel/declare/operation.ts'
import { fact } from '../events.ts'
import { closeMailbox, openMailbox } from './mailbox.ts'
import { admission, isBoundedAgent, takePlace, askForPlace, type Room } from './places.ts'
import { Mailbox, Memo, Request, Run, Work, type Card } from '../schema.ts'
import { after, isActive } from '../states.ts'

type NewlyMade = { readonly run: Run; readonly facts: Made[]; readonly puts: Change[]; readonly atMost: Bound[] }

export type NewRun = {
  readonly id: string
  readonly agent_id: string
  readonly project_id: string
  /** null: the run begins a new correlation. */
  readonly correlation_id: string | null
  readonly task_id: string | null
  readonly root_task_id: string | null
  readonly parent: Run | null
  readonly continues: string | null
  readonly capability: Run['capability']
  readonly delegable: boolean
  /** The agent that delegates it without a run of its own; null: no agent. */
  readonly delegated_by: string | null
  /** Without a task: the owners of its agents. */
  readonly owners: readonly string[]
  /** The steering log of the task so far. */
  readonly amendments: readonly object[]
  /** The tasks below its task that have ended before it. */
  readonly ended_parts: readonly object[]
  readonly input: Request['input']
  readonly context: Request['context']
  readonly session_id?: string
  readonly sealed?: Record<string, string>
  readonly now: string
}

/** A run with its request, its place among the runs of its correlation, and its first message. */
export function newRun(given: NewRun, work: Work | null, card: Card | null, room: Room, isBounded: boolean): NewlyMade {
  const run = runFrom(given)
  const { id, agent_id, project_id, correlation_id, root_task_id, task_id, capability, parent_run } = run
  const request: Request = {
    id,
    project_id,
    correlation_id,
    root_task_id,
    to_agent: agent_id,
    task_id,
    capability,
    input: given.input,
    parent_run,
    context: contextOf(given),
    ...(given.sealed === undefined ? {} : { sealed: given.sealed }),
  }
  const place = workWith(work, run, given.parent)
  const images = [image(Run, run), image(Request, request), ...(place === null ? [] : [image(Work, place)])] as const
  const max = isBounded ? (card?.concurrency ?? null) : null
  const message = `${agent_id} works on as many runs as it takes at a time`
  return {
    run,
    facts: [fact('run.delegated', [images[0], ...images.slice(1)], { detail: { to_agent: agent_id, continues: run.continues } })],
    puts: [...openMailbox(run, card?.reach ?? 'pull', room, given.now), ...askForPlace(room, given.now)],
    atMost:
      max === null ? takePlace(room) : [{ doc: Run, index: 'agent', prefix: [agent_id, 'running'], max, message, decidesAgain: true }],
  }
}

/**
 * `amendments` come from people, with their names, and `ended_parts` from the server. Both are read from the record, never taken from an
 * agent that hands the work on.
 */
function contextOf({ context, amendments, ended_parts }: NewRun): Request['context'] {
  const { amendments: _, ended_parts: __, ...rest } = (context ?? {}) as Record<string, unknown>
  const known = { ...(amendments.length > 0 ? { amendments } : {}), ...(ended_parts.length > 0 ? { ended_parts } : {}) }
  return context === null && Object.keys(known).length === 0 ? null : { ...rest, ...known }
}

function runFrom(given: NewRun): Run {
  const { id, parent, agent_id, project_id, task_id, continues, capability, delegable, delegated_by, owners, now } = given
  const correlation_id = given.correlation_id ?? id
  const above = parent ? [...parent.chain, { run_id: parent.id, agent_id: parent.agent_id, correlation_id: parent.correlation_id }] : []
  return {
    id,
    run_id: id,
    agent_id,
    correlation_id,
    state: 'running',
    created_at: now,
    project_id,
    task_id,
    root_task_id: given.root_task_id ?? correlation_id,
    parent_run: parent?.id ?? null,
    chain: above,
    ...(delegated_by === null ? {} : { delegated_by }),
    ...(task_id === null ? { owners: [...owners] } : {}),
    continues,
    capability,
    delegable,
    ...(given.session_id === undefined ? {} : { session_id: given.session_id }),
    started_at: null,
    ended_at: null,
    checkpoint_id: null,
    reason: null,
    error: null,
    result: null,
    progress: null,
  }
}

/** A task has one current run at a time. Without a task only the root is recorded, and the runs below it work in parallel. */
function workWith(work: Work | null, run: Run, parent: Run | null): Work | null {
  const isRoot = parent?.correlation_id !== run.correlation_id
  if (run.task_id === null && !isRoot) return null
  const { correlation_id, project_id, root_task_id, task_id, id } = run
  return {
    id: correlation_id,
    project_id,
    root_task_id,
    task_id,
    root_run: isRoot ? id : (work?.root_run ?? null),
    current_run: id,
    last_run: id,
  }
}

// --- Beginning ---------------------------------------------------------------------------------------------------------------

type Begun = { readonly run: Run; facts(after: readonly Made[]): Made[] }
/** A run whose start was not reported starts with the first act of its agent, right before that act. */
export function begunBy(run: Run, { actor, now }: Pick<Context, 'actor' | 'now'>): Begun {
  if (run.state !== 'running' || run.started_at !== null || actor.id !== run.agent_id) return { run, facts: (after) => [...after] }
  const next: Run = { ...run, started_at: now }
  const causedLater = (caused: Made): Made => (caused.cause === null ? caused : { ...caused, cause: caused.cause + 1 })
  return { run: next, facts: (after) => [fact('run.started', [image(Run, next)]), ...after.map(causedLater)] }
}

// --- Ending ------------------------------------------------------------------------------------------------------------------

export type Kept = { readonly run: Run; readonly mailbox: Mailbox | null; readonly memos: number; readonly isBounded: boolean }

/** null: there is no such run, or it has ended. */
async function keptOf(read: Read, id: string): Promise<Kept | null> {
  const run = await read.raw(Run, id)
  if (run === null || !isActive(run.state)) return null
  const [mailbox, memos] = [await read.raw(Mailbox, id), await read.count(Memo, 'run', [id])]
  return { run, mailbox, memos, isBounded: await isBoundedAgent(read, run.agent_id) }
}

/** A run and those above it that wait for it under the same correlation id. */
export async function runsAbove(read: Read, kept: Kept): Promise<Kept[]> {
  const above = kept.run.chain.filter(({ correlation_id }) => correlation_id === kept.run.correlation_id)
  const found = await Promise.all(above.map(({ run_id }) => keptOf(read, run_id)))
  return [kept, ...found.filter((one) => one !== null).reverse()]
}

/** A run without a task and all runs that work for it, outermost first. */
export async function familyOf(read: Read, start: Kept): Promise<Kept[]> {
  const family = [start]
  // The loop appends to `family` while it iterates.
  for (const { run } of family) {
    const below = await read.list(Run, 'below', [[run.id]], { limit: limits.cascadeMax })
    for (const { id } of below) {
      const kept = await keptOf(read, id)
      if (kept !== null) family.push(kept)
    }
    if (family.length > limits.cascadeMax)
      throw new Refusal('PRECONDITION_FAILED', `more than ${limits.cascadeMax} runs work for it: cancel those first`)
  }
  return family
}

/** Keeps other runs from starting under a run while it ends. */
export const boundsAgainstNewRuns = (family: readonly Kept[]): Bound[] =>
  family.map(({ run }) => ({
    doc: Run,
    index: 'below',
    prefix: [run.id],
    max: 0,
    message: 'another run began to work for it just now: try again',
  }))

export type Ending = {
  readonly event: string
  readonly reason: string | null
  readonly error?: string | null
  readonly result?: unknown
  /** The message to the agent; null if the agent knows already. */
  readonly word: Record<string, unknown> | null
  readonly now: string
}

export function endRun(run: Run, { event, reason, error = null, result = null, now }: Ending): Run {
  return { ...run, state: after(run.state, event), ended_at: now, checkpoint_id: null, reason, error, result }
}

/** Facts, one for each run that ends, innermost first; the first one also names who has the work now. */
export function endings(line: readonly Kept[], work: Work | null, ending: Ending): { runs: Run[]; facts: Made[]; puts: Change[] } {
  const runs = line.map(({ run }) => endRun(run, ending))
  const ids = runs.map(({ id }) => id)
  const isGone = (id: string | null): boolean => id !== null && ids.includes(id)
  const isPlaced = work !== null && (isGone(work.root_run) || isGone(work.current_run))
  const place: Work | null = isPlaced
    ? {
        ...work,
        root_run: isGone(work.root_run) ? null : work.root_run,
        current_run: isGone(work.current_run) ? null : work.current_run,
      }
    : null
  const action = runs[0]!.state === 'completed' ? 'run.completed' : 'run.failed'
  const detail = ending.reason === null ? {} : { detail: { reason: ending.reason } }
  return {
    runs,
    facts: runs.map((run, i) =>
      fact(action, i === 0 && place ? [image(Run, run), image(Work, place)] : [image(Run, run)], {
        ...detail,
        ...(i > 0 ? { cause: 0 } : {}),
      }),
    ),
    puts: line.flatMap(({ run, mailbox, memos, isBounded }) => [
      ...closeMailbox(mailbox, memos, ending.word, ending.now),
      ...(isBounded ? [admission(run.agent_id, ending.now)] : []),
    ]),
  }
}

/** Ends a run without a task and all runs that work for it, and notifies their agents. */
export function endingsOf(family: readonly Kept[], work: Work | null, ending: Ending): ReturnType<typeof endings> {
  const first = endings(family.slice(0, 1), work, ending)
  if (family.length === 1) return first
  const word = { reason: 'cancelled', why: 'parent_ended' }
  const rest = endings(family.slice(1), null, { event: 'agent.cancel', reason: 'cancelled', error: 'parent_ended', word, now: ending.now })
  return {
    runs: [...first.runs, ...rest.runs],
    facts: [...first.facts, ...rest.facts.map((fact) => ({ ...fact, cause: 0 }))],
    puts: [...first.puts, ...rest.puts],
  }
}

export const isShallow = (parent: Run): boolean => parent.chain.length < limits.delegationDepthMax
