// Reports of an agent about its run: start, progress, completion or failure, and reports of its harness.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { system, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Context, type Read } from '#kernel/declare/operation.ts'
import { either, t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { extendLease, putMailbox, leaseAgain } from '../runs/mailbox.ts'
import { isInTime, restraintOf } from '../runs/task-limits.ts'
import {
  allows,
  Attempt,
  fencedBy,
  hasNoDelegate,
  isItsRun,
  isNotEnded,
  isPresentAttempt,
  isPresentFor,
  isRunning,
  runAgent,
  runOf,
  type OfRun,
} from '../access.ts'
import { begunBy, endings, endingsOf, familyOf, runsAbove, boundsAgainstNewRuns } from '../runs/runs.ts'
import { Id, Open, Report, ReportType, Run } from '../schema.ts'
import { allowsEvent } from '../states.ts'

const output = t.Object({ run: Run.schema })

/** The run with the limits on its agent. */
async function atWork(read: Read, { run_id }: { run_id: string }, { actor, now }: Context) {
  const loaded = await runOf(read, run_id, actor)
  return { ...loaded, ...(await restraintOf(read, loaded.run.task_id, { now })) }
}

const start = command({
  name: 'run.start',
  summary: 'Say that work on the run has begun; a task that waits for it starts with it.',
  draft: 'AAP 0.1.0, Event Stream (run.started)',
  input: t.Object({ run_id: Id, attempt: Attempt }),
  output,
  callers: [system, runAgent],
  requires: [
    isNotEnded,
    isInTime,
    isRunning,
    rule<OfRun>('INVALID_TRANSITION', 'the run has not started yet', ({ run }) => run.started_at === null, 'the run has started already'),
    isPresentAttempt,
    hasNoDelegate,
  ],
  audit: 'run.started',
  load: atWork,
  decide({ run }, _, { now }) {
    const next: Run = { ...run, started_at: now }
    return { facts: [fact('run.started', [image(Run, next)])], output: { run: next } }
  },
  example: { given: 'delegated', as: 'robin', input: ({ run }) => ({ run_id: run.id }) },
})

const progress = command({
  name: 'run.progress',
  summary: 'Report the progress of a run. A report keeps the run for another lease.',
  draft: 'AAP 0.1.0, Event Stream (run.progress)',
  input: t.Object({
    run_id: Id,
    attempt: Attempt,
    message: t.Optional(t.String({ maxLength: limits.textCharsMax })),
    percent: t.Optional(t.Number({ minimum: 0, maximum: 100 })),
  }),
  output,
  callers: [system, runAgent],
  requires: [
    isNotEnded,
    isInTime,
    isRunning,
    isPresentAttempt,
    rule<OfRun>(
      'QUOTA_EXCEEDED',
      `a run reports its progress at most ${limits.progressPerRunMax} times`,
      ({ run }) => (run.progress?.count ?? 0) < limits.progressPerRunMax,
      `the run reported its progress ${limits.progressPerRunMax} times, which is the most`,
    ),
  ],
  audit: 'run.progress',
  load: atWork,
  decide({ run, mailbox }, { message = null, percent = null }, { actor, now }) {
    const begun = begunBy(run, { actor, now })
    const next: Run = { ...begun.run, progress: { message, percent, at: now, count: (run.progress?.count ?? 0) + 1 } }
    const isHeld = mailbox !== null && mailbox.attempt > 0
    return {
      facts: begun.facts([fact('run.progress', [image(Run, next)], { detail: { percent } })]),
      puts: isHeld ? [putMailbox(extendLease(mailbox, leaseAgain(mailbox, now)))] : [],
      output: { run: next },
    }
  },
  example: {
    given: 'delegated',
    as: 'robin',
    input: ({ run }) => ({ run_id: run.id, message: 'Half of the files are read.', percent: 50 }),
  },
})

const ask = command({
  name: 'run.ask',
  summary: 'Ask the delegator of the run by message, without a checkpoint. The run continues, and the next steering message is the answer.',
  draft: 'ours: AAP has no question below a checkpoint',
  input: t.Object({ run_id: Id, attempt: Attempt, message: t.String({ minLength: 1, maxLength: limits.textCharsMax }) }),
  output,
  callers: [runAgent],
  requires: [isNotEnded, isInTime, isRunning, isPresentAttempt, hasNoDelegate],
  audit: 'run.asked',
  load: atWork,
  decide({ run, mailbox }, { message }, { actor, now }) {
    const begun = begunBy(run, { actor, now })
    const next: Run = { ...begun.run, asked: { message, at: now } }
    const isHeld = mailbox !== null && mailbox.attempt > 0
    return {
      facts: begun.facts([fact('run.asked', [image(Run, next)])]),
      puts: isHeld ? [putMailbox(extendLease(mailbox, leaseAgain(mailbox, now)))] : [],
      output: { run: next },
    }
  },
  example: { given: 'delegated', as: 'robin', input: ({ run }) => ({ run_id: run.id, message: 'Which branch?' }) },
})

/** An agent completes only a running run; a delivery also completes a blocked one. */
const completionEvent = ({ kind }: Actor): string => (kind === 'system' ? 'run.complete/delivered' : 'run.complete')

const complete = command({
  name: 'run.complete',
  summary: 'End a run that is done. A task that it leaves without anything to review comes back to its people.',
  draft: 'AAP 0.1.0, Event Stream (run.completed)',
  input: t.Object({ run_id: Id, attempt: Attempt, result: t.Optional(Open) }),
  output,
  callers: [system, runAgent],
  requires: [
    rule<OfRun>(
      'INVALID_TRANSITION',
      "the run's state allows run.complete",
      ({ run }, _, { actor }) => allowsEvent(run.state, completionEvent(actor)),
      "the run's state does not allow run.complete",
    ),
    isPresentAttempt,
    hasNoDelegate,
  ],
  audit: 'run.completed',
  async load(read, { run_id }, { actor }) {
    const loaded = await runOf(read, run_id, actor)
    // Under a task, a delivery completes all runs above that waited for it; an agent's report completes only its own run.
    const isFamily = loaded.run.task_id === null
    const line = isFamily ? await familyOf(read, loaded) : actor.kind === 'system' ? await runsAbove(read, loaded) : [loaded]
    return { ...loaded, line, isFamily }
  },
  decide({ line: [first, ...rest], work, isFamily }, { result = null }, { actor, now }) {
    if (Buffer.byteLength(canonical(result)) > limits.runResultBytesMax)
      throw new Refusal('INVALID_REQUEST', `result is at most ${limits.runResultBytesMax} bytes: deliver an artifact`, { field: 'result' })
    // Only the innermost run can ask, so the runs above it are never blocked.
    const ended = isFamily ? endingsOf : endings
    const begun = begunBy(first!.run, { actor, now })
    const line = [{ ...first!, run: begun.run }, ...rest]
    // If a person delivers while the agent waits, the agent must be told to stop.
    const word = first!.run.state === 'blocked' ? { reason: 'delivered', why: 'A person took over and has delivered the task.' } : null
    const { runs, facts, puts } = ended(line, work, { event: completionEvent(actor), reason: null, result, word, now })
    return { facts: begun.facts(facts), puts, atMost: isFamily ? boundsAgainstNewRuns(line) : [], output: { run: runs[0]! } }
  },
  example: { given: 'delegated', as: 'robin', input: ({ run }) => ({ run_id: run.id, result: { findings: 0 } }) },
})

const fail = command({
  name: 'run.fail',
  summary: 'End a run that cannot continue. The people of its task decide what to do.',
  draft: 'AAP 0.1.0, Delegation; Event Stream (run.failed)',
  input: t.Object({
    run_id: Id,
    attempt: Attempt,
    error: t.String({ minLength: 1, maxLength: limits.textCharsMax }),
    reason: t.Optional(either('failed', 'refused', 'unreachable')),
  }),
  output,
  callers: [system, runAgent],
  requires: [allows('run.fail'), isPresentAttempt, hasNoDelegate],
  audit: 'run.failed',
  async load(read, { run_id }, { actor }) {
    const loaded = await runOf(read, run_id, actor)
    return { ...loaded, line: loaded.run.task_id === null ? await familyOf(read, loaded) : [loaded] }
  },
  decide({ run, line: [first, ...rest], work }, { error, reason = 'failed' }, { actor, now }) {
    const begun = begunBy(run, { actor, now })
    const line = [{ ...first!, run: begun.run }, ...rest]
    const { runs, facts, puts } = endingsOf(line, work, { event: 'run.fail', reason, error, word: null, now })
    return { facts: begun.facts(facts), puts, atMost: run.task_id === null ? boundsAgainstNewRuns(line) : [], output: { run: runs[0]! } }
  },
  example: { given: 'delegated', as: 'robin', input: ({ run }) => ({ run_id: run.id, error: 'The repository is empty.' }) },
})

const report = command({
  name: 'run.report',
  summary: 'Pass on an event of a harness: a question becomes a checkpoint of the task, a result an artifact, in the same batch.',
  draft: 'ours: harness events (needs_approval, needs_choice, needs_input, artifact) seen from the task',
  input: t.Object({ run_id: Id, attempt: Attempt, type: ReportType, payload: Open }),
  output: t.Object({ run: Run.schema, report: Report.schema }),
  callers: [runAgent],
  requires: [
    rule<OfRun>('PRECONDITION_FAILED', 'the run has a task', ({ run }) => run.task_id !== null, 'the run has no task'),
    isNotEnded,
    isInTime,
    isRunning,
    isPresentAttempt,
    hasNoDelegate,
  ],
  audit: 'run.reported',
  asks: true,
  load: atWork,
  decide(state, { type, payload }, { actor, now, newId }) {
    const begun = begunBy(state.run, { actor, now })
    const { run } = begun
    const { id: run_id, project_id, root_task_id } = run
    const newReport = { id: newId('rep'), run_id, task_id: run.task_id!, project_id, root_task_id, type, payload, at: now }
    const reported = fact('run.reported', [image(Report, newReport), image(Run, run)], { detail: { type } })
    return { facts: begun.facts([reported]), output: { run, report: newReport } }
  },
  example: {
    given: 'working',
    as: 'devin',
    input: ({ run }) => ({ run_id: run.id, attempt: 1, type: 'needs_approval', payload: { prompt: 'Deploy to production?' } }),
  },
})

const fence = command({
  name: 'run.fence',
  summary: 'Refuse acts of a process on a task after another process has taken its run. The system calls it in the same batch.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({ task_id: Id, agent_id: Id, run_id: t.Optional(Id), attempt: Attempt }),
  output: t.Object({ fenced: t.Boolean({ description: 'false: the task has no run of the agent' }) }),
  callers: [system],
  requires: [isItsRun, isPresentFor],
  audit: null,
  load: (read, { task_id, agent_id, run_id }) => fencedBy(read, task_id, agent_id, run_id),
  decide: ({ run }) => ({ facts: [], output: { fenced: run !== null } }),
  example: {
    given: 'working',
    as: 'system',
    input: ({ task, run }) => ({ task_id: task.id, agent_id: 'agent_devin', run_id: run.id, attempt: 1 }),
  },
})

export const runOperations = [start, progress, ask, complete, fail, report, fence]
