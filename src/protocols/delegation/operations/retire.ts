// An agent that was switched off or left a project: its runs there end, and the people of their tasks are asked. A batch belongs to one
// project, so each run ends in a separate batch, by an errand.
import { Errand, errand, errandDone } from '#kernel/log/errand.ts'
import { system, type Subject } from '#kernel/declare/access.ts'
import { command } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { runOf } from '../access.ts'
import { endingsOf, familyOf, boundsAgainstNewRuns } from '../runs/runs.ts'
import { Id, Run } from '../schema.ts'
import { isActive } from '../states.ts'

/** Runs handled per batch. */
const PORTION = 200
const RETIRE = 'delegation/agent.retire'

const retire = command({
  name: 'agent.retire',
  summary:
    'See to the active runs of an agent that was switched off or left a project. The system calls it, then page by page by an errand.',
  draft: 'ours: no run stays open without an agent that could work on it',
  input: t.Object({
    agent_id: Id,
    after: t.Optional(t.String({ maxLength: 400, description: 'the place to continue from; without one, an errand begins' })),
  }),
  output: t.Object({ found: t.Integer() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { agent_id, after }) {
    // List the runs in a later batch: before the agent's removal is committed, new runs can begin and a list would miss them.
    if (after === undefined) return { storedErrand: null, listed: null }
    const storedErrand = await read.raw(Errand, `retire/${agent_id}`)
    const states = ['running', 'blocked'].map((state) => [agent_id, state])
    return { storedErrand, listed: await read.list(Run, 'agent', states, { after, limit: PORTION }) }
  },
  decide({ storedErrand, listed }, { agent_id }, { now }) {
    const goingOn = (from: string) => errand(`retire/${agent_id}`, now, RETIRE, { agent_id, after: from })
    if (listed === null) return { facts: [], puts: [goingOn('')], output: { found: 0 } }
    const each = listed.map(({ id }) => errand(`abandon/${id}`, now, 'delegation/run.abandon', { run_id: id }))
    const rest = listed.length === PORTION ? [goingOn(listed.at(-1)!.at)] : storedErrand ? [errandDone(storedErrand.id)] : []
    return { facts: [], puts: [...each, ...rest], output: { found: listed.length } }
  },
  example: { given: 'switched_off', as: 'system', input: { agent_id: 'agent_robin' } },
})

const whyGone = (agent: Subject | null, { agent_id, project_id }: Run): string | null => {
  if (agent === null || agent.disabled) return `${agent_id} was switched off`
  return agent.projects.has(project_id) ? null : `${agent_id} is no longer in the project`
}

const abandon = command({
  name: 'run.abandon',
  summary:
    'Fail a run whose agent was switched off or left the project. The system calls it by an errand; an agent that is back keeps its run.',
  draft: 'ours: no run stays open without an agent that could work on it',
  input: t.Object({ run_id: Id }),
  output: t.Object({ run: Run.schema }),
  callers: [system],
  requires: [],
  audit: 'run.failed',
  async load(read, { run_id }, { actor }) {
    const waiting = await read.raw(Errand, `abandon/${run_id}`)
    const loaded = await runOf(read, run_id, actor)
    const agent = await read.subject(loaded.run.agent_id)
    return { ...loaded, agent, line: loaded.run.task_id === null ? await familyOf(read, loaded) : [loaded], waiting }
  },
  decide({ run, work, line, agent, waiting }, _, { now }) {
    const why = isActive(run.state) ? whyGone(agent, run) : null
    const done = waiting ? [errandDone(waiting.id)] : []
    if (why === null) return { facts: [], puts: done, output: { run } }
    const reason = 'agent_unavailable'
    const { runs, facts, puts } = endingsOf(line, work, { event: 'run.fail', reason, error: why, word: { reason, why }, now })
    return { facts, puts: [...puts, ...done], atMost: run.task_id === null ? boundsAgainstNewRuns(line) : [], output: { run: runs[0]! } }
  },
  example: { given: 'switched_off', as: 'system', input: ({ run }) => ({ run_id: run.id }) },
})

export const retireOperations = [retire, abandon]
