// Control of a run from outside: only the runtime blocks and resumes it; its delegator can also steer and cancel it.
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { answeredByAsking, holdForAsker, postMessage, stopRun } from '../runs/mailbox.ts'
import { admission, roomOf, takePlace, askForPlace } from '../runs/places.ts'
import { allows, delegator, isNotEnded, runOf, type OfRun } from '../access.ts'
import { endings, familyOf, runsAbove, boundsAgainstNewRuns } from '../runs/runs.ts'
import { Id, Open, Run } from '../schema.ts'
import { after } from '../states.ts'

const output = t.Object({ run: Run.schema })

const block = command({
  name: 'agent.block',
  summary: 'Pause a run until a checkpoint is answered. The runtime calls it with the checkpoint.',
  draft: 'AAP 0.1.0, Block and Resume',
  input: t.Object({
    run_id: Id,
    reason: t.String({ minLength: 1, maxLength: limits.labelCharsMax }),
    checkpoint_id: t.String({ minLength: 1, maxLength: limits.idCharsMax }),
    succeeds: t.Optional(t.String({ maxLength: limits.idCharsMax, description: 'the checkpoint whose place it takes' })),
  }),
  output,
  callers: [system],
  requires: [
    rule<OfRun, { succeeds?: string }>(
      'INVALID_TRANSITION',
      "the run's state allows agent.block",
      ({ run }, { succeeds }) =>
        succeeds === undefined ? run.state === 'running' : run.state === 'blocked' && run.checkpoint_id === succeeds,
      "the run's state does not allow agent.block: it is not running, or it waits for another checkpoint",
    ),
  ],
  audit: 'run.blocked',
  load: (read, { run_id }, { actor }) => runOf(read, run_id, actor),
  decide({ run, mailbox, isBounded }, { reason, checkpoint_id, succeeds }, { actor, now }) {
    const state = after(run.state, succeeds === undefined ? 'agent.block' : 'agent.block/successor')
    const next: Run = { ...run, state, reason, checkpoint_id }
    // An agent that asked the question itself waits for the answer; any other agent must stop.
    const isOwn = actor.behalf === run.agent_id
    const told = isOwn ? answeredByAsking(mailbox, now) : stopRun(mailbox, { checkpoint_id, reason }, now)
    return {
      facts: [fact('run.blocked', [image(Run, next)], { detail: { checkpoint_id, reason } })],
      puts: isBounded ? [...told, admission(run.agent_id, now)] : told,
      output: { run: next },
    }
  },
  example: { given: 'running', as: 'system', input: ({ run }) => ({ run_id: run.id, reason: 'approval', checkpoint_id: 'ckpt_1' }) },
})

const resume = command({
  name: 'agent.resume',
  summary: 'Resume a blocked run with the whole resolution of its checkpoint. The runtime calls it; no run resumes itself.',
  draft: 'AAP 0.1.0, Block and Resume',
  input: t.Object({
    run_id: Id,
    checkpoint_id: t.Optional(Id),
    resolution: Open,
    superseded: t.Optional(t.String({ maxLength: limits.idCharsMax, description: 'its own question, which ended without an answer' })),
  }),
  output,
  callers: [system],
  requires: [
    allows('agent.resume'),
    rule<OfRun, { checkpoint_id?: string }>(
      'INVALID_TRANSITION',
      'it is the checkpoint that the run waits for',
      ({ run }, input) => (input.checkpoint_id === undefined ? true : input.checkpoint_id === run.checkpoint_id),
      'the run waits for another checkpoint',
    ),
    rule<OfRun, { resolution: { action?: unknown } }>(
      'INVALID_TRANSITION',
      'the resolution lets the run continue: a reject ends it',
      (_, { resolution }) => typeof resolution.action === 'string' && resolution.action !== 'reject',
      'the resolution is a reject, which ends the run and never resumes it',
    ),
  ],
  audit: 'run.resumed',
  async load(read, { run_id }, { actor }) {
    const loaded = await runOf(read, run_id, actor)
    return { ...loaded, room: await roomOf(read, loaded.run.agent_id) }
  },
  decide({ run, mailbox, room }, { resolution, superseded }, { now }) {
    const { checkpoint_id } = run
    const next: Run = { ...run, state: after(run.state, 'agent.resume'), checkpoint_id: null, reason: null }
    const told = superseded === undefined ? {} : { superseded }
    return {
      facts: [fact('run.resumed', [image(Run, next)], { detail: { checkpoint_id } })],
      puts: [
        ...postMessage(holdForAsker(mailbox, room, now), 'resume', { checkpoint_id, resolution, ...told }, now),
        ...askForPlace(room, now),
      ],
      atMost: takePlace(room),
      output: { run: next },
    }
  },
  example: {
    given: 'waiting',
    as: 'system',
    input: ({ run }) => ({ run_id: run.id, resolution: { by: 'user_alice', action: 'approve', at: '2026-01-01T00:00:00Z' } }),
  },
})

const steer = command({
  name: 'agent.steer',
  summary: 'Send a message to a run without interrupting it. Its state does not change.',
  draft: 'ours: the AAP side of task.amend',
  input: t.Object({
    run_id: Id,
    text: t.String({ minLength: 1, maxLength: limits.textCharsMax }),
    intent: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
    amendment_id: t.Optional(Id),
    ended: t.Optional(
      t.Object(
        { task_id: Id, outcome: t.String({ maxLength: limits.labelCharsMax, description: 'how the task below ended' }) },
        { description: 'the task below that has ended, and how' },
      ),
    ),
  }),
  output,
  callers: [system, delegator],
  requires: [isNotEnded],
  audit: 'run.steered',
  load: (read, { run_id }, { actor }) => runOf(read, run_id, actor),
  decide({ run, mailbox }, { run_id: _, ...note }, { now }) {
    const { asked, ...rest } = run
    // A note about a task below answers nothing.
    const next: Run = note.ended === undefined ? rest : run
    return {
      facts: [fact('run.steered', [image(Run, next)], { detail: { amendment_id: note.amendment_id ?? null } })],
      puts: postMessage(mailbox, 'steer', note, now),
      output: { run: next },
    }
  },
  example: {
    given: 'running',
    as: 'system',
    input: ({ run }) => ({ run_id: run.id, text: 'Leave the old API alone.', intent: 'constrain' }),
  },
})

const cancel = command({
  name: 'agent.cancel',
  summary:
    'End a run before its time: under a task with those above it that wait for it, otherwise with all that work for it. Nobody is asked.',
  draft: 'ours: the draft has no cancel',
  input: t.Object({
    run_id: Id,
    why: t.Optional(t.String({ maxLength: limits.textCharsMax })),
    to_person: t.Optional(t.Boolean({ description: 'it was not given up but handed to a person' })),
  }),
  output,
  callers: [system, delegator],
  requires: [allows('agent.cancel')],
  audit: 'run.failed',
  async load(read, { run_id }, { actor }) {
    const loaded = await runOf(read, run_id, actor)
    return { ...loaded, line: await (loaded.run.task_id === null ? familyOf : runsAbove)(read, loaded) }
  },
  decide({ run, line, work }, { why = null, to_person = false }, { now }) {
    const reason = to_person ? 'handed_off' : 'cancelled'
    const { runs, facts, puts } = endings(line, work, { event: 'agent.cancel', reason, error: why, word: { reason, why }, now })
    return { facts, puts, atMost: run.task_id === null ? boundsAgainstNewRuns(line) : [], output: { run: runs[0]! } }
  },
  example: { given: 'running', as: 'system', input: ({ run }) => ({ run_id: run.id, why: 'no longer needed' }) },
})

export const controlOperations = [block, resume, steer, cancel]
