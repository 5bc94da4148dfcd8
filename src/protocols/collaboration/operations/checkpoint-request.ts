// Checkpoints of requests: an agent's question from another protocol blocks its task here and is answered there.
// Only contracts raise them, so that no agent can name a request that is not its own.
import { image } from '#kernel/declare/facts.ts'
import { system, SYSTEM_ID } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { either, t } from '#kernel/declare/schema.ts'
import type { KnownRequest } from '#kernel/ports/requests.ts'
import { ByRun, byRun } from '#kernel/declare/run-fence.ts'
import { fact } from '../events.ts'
import { applyAnswer } from '../task/answering.ts'
import { plainQuestion, raisedOn } from '../task/checkpoints.ts'
import { allows, isPending, isWithinTime, principal, reviewer } from '../access.ts'
import { Checkpoint, CheckpointOption, Id, Task, type CheckpointAnswer } from '../schema.ts'

type Asking = { readonly task: Task }

export const ask = command({
  name: 'checkpoint.ask',
  summary: 'Let a task wait for the answer to a request of its own executor. The system calls it when the request is made.',
  draft: 'ours: a request that names its task is a checkpoint of it',
  input: t.Object({
    task_id: Id,
    checkpoint_id: Id,
    request_id: Id,
    raised_by: Id,
    kind: either('approval', 'choice', 'input'),
    prompt: t.String({ minLength: 1, maxLength: limits.promptCharsMax }),
    options: t.Optional(t.Array(CheckpointOption, { maxItems: limits.optionsMax })),
    takes_default: t.Optional(t.Boolean({ description: 'without an answer in time it takes a default' })),
    ...ByRun,
  }),
  output: t.Object({ checkpoint: Checkpoint.schema, task: Task.schema }),
  callers: [system],
  requires: [
    rule<Asking, { raised_by: string }>(
      'PRECONDITION_FAILED',
      'the executor of the task asks',
      ({ task }, { raised_by }) => task.executor === raised_by,
      'only the agent that works on the task asks for it',
    ),
    isWithinTime,
    allows('checkpoint.raise'),
    // The principal's limits on answers without a person apply to every way of asking.
    rule<Asking, { takes_default?: boolean }>(
      'INVALID_SPEC',
      "the task's spec allows on_expiry default (constraints.on_expiry)",
      ({ task }, { takes_default = false }) => !takes_default || (task.spec.constraints.on_expiry?.includes('default') ?? true),
      "the task's spec does not allow on_expiry default (constraints.on_expiry): leave the default out",
    ),
  ],
  audit: 'task.checkpoint.raised',
  load: async (read, { task_id }) => ({ task: await read(Task, task_id) }),
  decide({ task }, { checkpoint_id, request_id, raised_by, kind, prompt, options = [], ...run }, { now, terms: { asksOpenMax: max } }) {
    const raised = raisedOn(
      task,
      checkpoint_id,
      // The checkpoint needs no deadline: the request has its own.
      { ...plainQuestion(kind, prompt, raised_by), options, request_id },
      now,
    )
    const message = `at most ${max} questions of one agent may be open`
    return {
      facts: [fact('task.checkpoint.raised', [image(Checkpoint, raised.checkpoint), image(Task, raised.task)], byRun(run))],
      atMost: max === null ? [] : [{ doc: Checkpoint, index: 'open', prefix: [raised_by], max, message }],
      output: raised,
    }
  },
  example: {
    given: 'in_progress',
    as: 'system',
    input: ({ task }) => ({
      task_id: task.id,
      checkpoint_id: 'ckpt_01M7GMWX16CYD5TMA0423FKEE4',
      request_id: 'hxp_01M7GMWX16CYD5TMA0423FKEE4',
      raised_by: 'agent_devin',
      kind: 'approval',
      prompt: 'Deploy to production?',
    }),
  },
})

type Answering = { readonly checkpoint: Checkpoint; readonly task: Task; readonly request: KnownRequest | null }

export const answer = command({
  name: 'checkpoint.settle',
  summary: 'Continue a task with the answer to the request that it waits for. It follows from the answer, in the same batch.',
  draft: 'ours: "rejected" answers a request and does not end its task',
  input: t.Object({
    checkpoint_id: Id,
    action: either('approve', 'choose', 'provide'),
    choice: t.Optional(t.String({ maxLength: limits.idCharsMax })),
    input: t.Optional(t.String({ maxLength: limits.textCharsMax })),
    comment: t.Optional(t.String({ maxLength: limits.textCharsMax })),
  }),
  output: t.Object({ checkpoint: Checkpoint.schema, task: Task.schema }),
  callers: [principal, reviewer, system],
  requires: [
    isPending,
    rule<Answering>(
      'PRECONDITION_FAILED',
      'the checkpoint has a request',
      ({ checkpoint }) => checkpoint.request_id !== undefined,
      'the checkpoint has no request behind it: answer it with checkpoint.resolve',
    ),
    rule<Answering>(
      'PRECONDITION_FAILED',
      'the request was answered',
      ({ request }) => request !== null && request.status !== 'pending' && request.status !== 'assigned',
      'the request behind the checkpoint is not answered yet',
    ),
  ],
  audit: 'task.checkpoint.resolved',
  async load(read, { checkpoint_id }) {
    const checkpoint = await read(Checkpoint, checkpoint_id)
    const task = await read(Task, checkpoint.task_id)
    const { request_id } = checkpoint
    const request = request_id === undefined ? null : await read.ports.requests.request(read, request_id)
    return { checkpoint, task, request }
  },
  decide({ checkpoint, task }, { checkpoint_id: _, ...given }, { actor, now }) {
    const whose = task.ownership.principal
    const isDefault = given.action === 'choose'
    const by = actor.kind !== 'system' ? actor.id : isDefault ? whose : SYSTEM_ID
    const done = applyAnswer({ checkpoint, task }, given satisfies CheckpointAnswer, by, now)
    const right =
      actor.kind !== 'system'
        ? {}
        : isDefault
          ? { basis: { kind: 'default', id: 'fallback/default' } as const, behalf: whose }
          : { basis: { kind: 'timer', id: 'fallback/fail' } as const }
    return {
      facts: [fact('task.checkpoint.resolved', [image(Checkpoint, done.checkpoint), image(Task, done.task)], right)],
      output: done,
    }
  },
  // This call follows from the answer to a request; without one it has nothing to answer.
  example: {
    given: 'blocked',
    as: 'alice',
    input: ({ checkpoint }) => ({ checkpoint_id: checkpoint.id, action: 'approve' }),
    refused: 'PRECONDITION_FAILED',
  },
})

export const checkpointRequestOperations = [ask, answer]
