// Delegating and handing off: for the runtime, and for an agent that passes on its own run.
import { Refusal } from '#kernel/declare/errors.ts'
import { forAgentsToo, role, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Context, type Read } from '#kernel/declare/operation.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { isInTime, restraintOf, type Restraint } from '../runs/task-limits.ts'
import { allows, Attempt, availableFor, hasNoDelegate, isPresentAttempt, runAgent, runOf, targetOf, type OfRun } from '../access.ts'
import { amendmentsOf, endedPartsOf, ownersOf, refuseCycle } from '../runs/first-context.ts'
import { roomOf, type Room } from '../runs/places.ts'
import { begunBy, endingsOf, familyOf, isShallow, newRun, boundsAgainstNewRuns, type Kept } from '../runs/runs.ts'
import { CapabilityRef, Id, Open, Request, Run, Work, type Card } from '../schema.ts'

const DelegateInput = t.Object({
  to_agent: Id,
  task_id: t.Optional(Id),
  capability: t.Optional(nullable(CapabilityRef)),
  input: t.Optional(Open),
  parent_run: t.Optional(nullable(Id)),
  attempt: Attempt,
  project_id: t.Optional(Id),
  delegable: t.Optional(t.Boolean()),
  context: t.Optional(Open),
  root_task_id: t.Optional(Id),
  continues: t.Optional(nullable(Id)),
  session_id: t.Optional(Id),
  sealed: t.Optional(t.Record(t.String(), t.String())),
})
type DelegateInput = Static<typeof DelegateInput>
type Delegating = {
  readonly parent: OfRun | null
  readonly work: Work | null
  readonly project_id: string
  readonly correlation_id: string | null
  readonly card: Card | null
  readonly room: Room
  readonly isLate: boolean
  readonly amendments: readonly object[]
  readonly ended_parts: readonly object[]
  readonly owners: readonly string[]
}

const parentAgent = forAgentsToo(
  role<Delegating>('the agent of the parent run', (actor, { parent }) => actor.kind === 'agent' && parent?.run.agent_id === actor.id),
)
const agentOfProject = forAgentsToo(
  role<Delegating>(
    'an agent of the project, without a task',
    (actor, { parent, correlation_id }) => actor.kind === 'agent' && parent === null && correlation_id === null,
  ),
)

/** Loads the state for a delegation. Only the runtime can name a task without a parent run under that task. */
async function loadDelegation(read: Read, input: DelegateInput, { actor, now }: Context): Promise<Delegating> {
  const { to_agent, task_id, capability = null, continues = null } = input
  const parent = input.parent_run ? await runOf(read, input.parent_run, actor) : null
  const project_id = parent?.run.project_id ?? input.project_id ?? 'project_default'
  if (actor.projects !== 'all' && !actor.projects.has(project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
  if (actor.kind === 'agent' && task_id !== undefined && parent?.run.correlation_id !== task_id)
    throw new Refusal('RUN_NOT_FOUND', 'parent_run is a run of yours under the same task', { field: 'parent_run' })
  const correlation_id = task_id ?? parent?.run.correlation_id ?? null
  const work = correlation_id === null ? null : await read.raw(Work, correlation_id)
  const isKnown = actor.kind === 'system' && continues !== null
  const target = isKnown
    ? await availableFor(read, to_agent, project_id)
    : await targetOf(read, to_agent, { project_id, capability }, actor.kind !== 'system')
  // An agent that resumes its own earlier work is not a cycle.
  if (!isKnown) await refuseCycle(read, parent?.run ?? null, to_agent)
  const { isLate } = await restraintOf(read, parent?.run.task_id ?? null, { now })
  const of = (actor.kind === 'system' ? task_id : parent?.run.task_id) ?? null
  const [amendments, ended_parts] = [await amendmentsOf(read, of), await endedPartsOf(read, of)]
  const owners = await ownersOf(read, [to_agent, ...(actor.kind === 'agent' ? [actor.id] : []), ...agentsAbove(parent?.run ?? null)])
  const room = await roomOf(read, to_agent)
  return { parent, work, project_id, correlation_id, card: target.card, room, isLate, amendments, ended_parts, owners }
}

const delegate = command({
  name: 'agent.delegate',
  summary: 'Start a run on another agent and return immediately. Under a task it also passes the task down, by the rules of ownership.',
  draft: 'AAP 0.1.0, Delegation',
  input: DelegateInput,
  output: t.Object({ run: Run.schema }),
  callers: [system, parentAgent, agentOfProject],
  requires: [
    isInTime,
    rule<Delegating>(
      'INVALID_TRANSITION',
      'the parent run is running',
      ({ parent }, _, { actor }) => (parent === null || actor.kind === 'system' ? true : parent.run.state === 'running'),
      'the parent run is not running',
    ),
    rule<Delegating, { attempt?: number }>(
      'CONFLICT',
      isPresentAttempt.message,
      ({ parent }, input, context) => (parent === null ? true : isPresentAttempt.holds(parent, input, context)),
      isPresentAttempt.refusal,
    ),
    rule<Delegating>(
      'PRECONDITION_FAILED',
      'the parent run may be delegated',
      ({ parent }, _, { actor }) => (parent === null || actor.kind === 'system' ? true : parent.run.delegable),
      'the parent run may not be delegated',
    ),
    rule<Delegating>(
      'PRECONDITION_FAILED',
      `work is delegated at most ${limits.delegationDepthMax} deep`,
      // Under a task the ownership rules limit the depth: the count restarts when a person hands the work on.
      ({ parent }) => parent === null || parent.run.task_id !== null || isShallow(parent.run),
      `the work was delegated ${limits.delegationDepthMax} deep, which is the most`,
    ),
    rule<Delegating>(
      'INVALID_TRANSITION',
      'no other run of the task is active',
      ({ parent, work, correlation_id }) =>
        parent !== null && parent.run.correlation_id === correlation_id
          ? parent.run.task_id === null || work?.current_run === null || work?.current_run === parent.run.id
          : work === null || (work.root_run === null && work.current_run === null),
      'another run of the task is active: hand it over or cancel it first',
    ),
  ],
  audit: 'run.delegated',
  load: (read, input, context) => loadDelegation(read, input, context),
  decide({ parent, work, card, room, project_id, correlation_id, amendments, ended_parts, owners }, input, { actor, now, newId }) {
    const begun = parent === null ? null : begunBy(parent.run, { actor, now })
    const above = begun?.run ?? null
    const isRuntime = actor.kind === 'system'
    const created = newRun(
      {
        id: newId('run'),
        agent_id: input.to_agent,
        project_id,
        correlation_id,
        task_id: isRuntime ? (input.task_id ?? null) : (above?.task_id ?? null),
        root_task_id: (isRuntime ? input.root_task_id : undefined) ?? above?.root_task_id ?? null,
        parent: above,
        continues: isRuntime ? (input.continues ?? null) : null,
        capability: input.capability ?? null,
        delegable: isRuntime || above === null ? (input.delegable ?? true) : above.delegable && (input.delegable ?? true),
        delegated_by: isRuntime || above !== null ? null : actor.id,
        owners,
        amendments,
        ended_parts,
        input: input.input ?? {},
        context: input.context ?? null,
        ...(isRuntime && input.session_id !== undefined ? { session_id: input.session_id } : {}),
        ...(isRuntime && input.sealed !== undefined ? { sealed: input.sealed } : {}),
        now,
      },
      work,
      card,
      room,
      !isRuntime || !input.continues,
    )
    return { facts: begun?.facts(created.facts) ?? created.facts, puts: created.puts, atMost: created.atMost, output: { run: created.run } }
  },
  example: {
    given: 'offered',
    as: 'devin',
    input: { to_agent: 'agent_robin', capability: { capability_id: 'cap:code-review', version: '2.0.0' }, input: { diff: 'a.patch' } },
  },
})

type HandingOff = OfRun &
  Restraint & {
    readonly card: Card | null
    readonly room: Room
    readonly request: Request | null
    readonly parent: Run | null
    readonly amendments: readonly object[]
    readonly ended_parts: readonly object[]
    readonly owners: readonly string[]
    readonly line: readonly Kept[]
  }

const agentsAbove = (run: Run | null): string[] => (run === null ? [] : [run.agent_id, ...run.chain.map(({ agent_id }) => agent_id)])

const handoff = command({
  name: 'agent.handoff',
  summary: 'Hand a run to another agent: it gets a run of its own under the same correlation id, the old one stays as history.',
  draft: 'AAP 0.1.0, Handoff',
  input: t.Object({ run_id: Id, to_agent: Id, context: t.Optional(Open), attempt: Attempt }),
  output: t.Object({ run: Run.schema, from: Run.schema }),
  callers: [system, runAgent],
  requires: [
    allows('agent.handoff'),
    isInTime,
    isPresentAttempt,
    hasNoDelegate,
    rule<OfRun>(
      'PRECONDITION_FAILED',
      'the run may be delegated',
      ({ run }, _, { actor }) => actor.kind === 'system' || run.delegable,
      'the run may not be delegated',
    ),
    // While a person decides, the run stays with the agent that asked, because the answer is for that agent.
    rule<OfRun>(
      'PRECONDITION_FAILED',
      'nobody is asked about it',
      ({ run }, _, { actor }) => actor.kind === 'system' || run.state === 'running',
      'the run waits for an answer: it can be handed over when it runs again',
    ),
    rule<OfRun, { to_agent: string }>(
      'PRECONDITION_FAILED',
      'it goes to another agent',
      ({ run }, { to_agent }, { actor }) => (actor.kind === 'system' ? true : run.agent_id !== to_agent),
      'this agent has the run already: name another one',
    ),
  ],
  audit: 'run.delegated',
  async load(read, { run_id, to_agent }, { actor, now }): Promise<HandingOff> {
    const loaded = await runOf(read, run_id, actor)
    const { project_id, capability, parent_run } = loaded.run
    const target =
      actor.kind === 'system'
        ? await availableFor(read, to_agent, project_id)
        : await targetOf(read, to_agent, { project_id, capability }, capability !== null)
    return {
      ...loaded,
      ...(await restraintOf(read, loaded.run.task_id, { now })),
      card: target.card,
      room: await roomOf(read, to_agent),
      request: await read.raw(Request, run_id),
      parent: parent_run === null ? null : await read.raw(Run, parent_run),
      amendments: await amendmentsOf(read, loaded.run.task_id),
      ended_parts: await endedPartsOf(read, loaded.run.task_id),
      owners: [...(loaded.run.owners ?? []), ...(await ownersOf(read, [to_agent]))],
      line: loaded.run.task_id === null ? await familyOf(read, loaded) : [loaded],
    }
  },
  decide(state, { to_agent, context }, { actor, now, newId }) {
    const { work, line, card, room, request, parent, amendments, ended_parts, owners } = state
    const begun = begunBy(state.run, { actor, now })
    const { run } = begun
    const word = { reason: 'handed_off', to_agent }
    const end = endingsOf([{ ...line[0]!, run }, ...line.slice(1)], work, { event: 'agent.handoff', reason: 'handed_off', word, now })
    const created = newRun(
      {
        id: newId('run'),
        agent_id: to_agent,
        project_id: run.project_id,
        correlation_id: run.correlation_id,
        task_id: run.task_id,
        root_task_id: run.root_task_id,
        parent,
        continues: run.id,
        capability: run.capability,
        delegable: run.delegable,
        delegated_by: run.delegated_by ?? null,
        owners: [...new Set(owners)],
        amendments,
        ended_parts,
        input: request?.input ?? {},
        ...(run.session_id === undefined ? {} : { session_id: run.session_id }),
        ...(request?.sealed === undefined ? {} : { sealed: request.sealed }),
        context: context ?? request?.context ?? null,
        now,
      },
      work,
      card,
      room,
      false,
    )
    return {
      facts: begun.facts([...end.facts, ...created.facts.map((fact) => ({ ...fact, cause: 0 }))]),
      puts: [...end.puts, ...created.puts],
      atMost: [...created.atMost, ...(run.task_id === null ? boundsAgainstNewRuns(line) : [])],
      output: { run: created.run, from: end.runs[0]! },
    }
  },
  example: {
    given: 'delegated',
    as: 'robin',
    input: ({ run }) => ({ run_id: run.id, to_agent: 'agent_devin', context: { done: 'half' } }),
  },
})

export const agentOperations = [delegate, handoff]
