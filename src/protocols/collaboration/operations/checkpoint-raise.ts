// Raising checkpoints: an agent's questions to the people of its task.
import { canonical } from '#kernel/log/canonical-json.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { Evidence } from '#kernel/declare/evidence.ts'
import { refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { limits } from '#kernel/limits.ts'
import { command } from '#kernel/declare/operation.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { durationMs, futureTimestamp } from '#kernel/codec/timestamps.ts'
import { ByRun, byRun } from '#kernel/declare/run-fence.ts'
import { fact } from '../events.ts'
import { fittingDefault, raisedOn, type Asked } from '../task/checkpoints.ts'
import { allows, executor, isInTime, refuseBlank, isAtRevision } from '../access.ts'
import {
  CheckpointAnswer,
  Checkpoint,
  CheckpointKind,
  CheckpointOption,
  Duration,
  ExpiryPolicy,
  Id,
  ProposedAction,
  Task,
  Timestamp,
  ExpectedRevision,
} from '../schema.ts'
import { readableVersion } from '../artifact/versions.ts'

const RaiseInput = t.Object({
  ...ExpectedRevision,
  task_id: Id,
  kind: CheckpointKind,
  prompt: t.String({ minLength: 1, maxLength: limits.promptCharsMax }),
  options: t.Optional(t.Array(CheckpointOption, { maxItems: limits.optionsMax })),
  context: t.Optional(t.Array(Evidence, { maxItems: limits.evidenceMax })),
  proposed_actions: t.Optional(t.Array(ProposedAction, { maxItems: limits.actionsMax })),
  state: t.Optional(t.Unknown({ description: 'the state that the agent would continue from; the person can patch it' })),
  state_schema: t.Optional(
    t.Object({}, { additionalProperties: true, description: 'a JSON Schema (2020-12) that a patched state must match' }),
  ),
  expires_at: t.Optional(t.Union([Timestamp, t.Null()])),
  expires_in: t.Optional(Duration),
  on_expiry: t.Optional(ExpiryPolicy),
  default: t.Optional(CheckpointAnswer),
  ...ByRun,
})

export const raise = command({
  name: 'checkpoint.raise',
  summary: 'Ask the people of the task to decide; the task is blocked until they do.',
  draft: 'HACP 0.1.0, Checkpoint; Operation Preconditions',
  input: RaiseInput,
  output: t.Object({ checkpoint: Checkpoint.schema, task: Task.schema }),
  callers: [executor],
  requires: [isAtRevision, isInTime, allows('checkpoint.raise')],
  audit: 'task.checkpoint.raised',
  asks: true,
  besides: ['attempt', 'expected_task_revision'],
  async load(read, { task_id, context = [] }, { actor }) {
    const task = await read(Task, task_id)
    for (const evidence of context) {
      if (evidence.kind === 'artifact' && !(await readableVersion(read, evidence.artifact_id, evidence.version, actor))) {
        throw new Refusal('INVALID_SPEC', `context: there is no artifact ${evidence.artifact_id} ${evidence.version}`, { field: 'context' })
      }
    }
    return { task }
  },
  decide({ task }, input, { actor, now, newId, terms: { asksOpenMax: max } }) {
    const raised = raisedOn(task, newId('ckpt'), askedBy(actor.id, task, input, now), now)
    const message = `at most ${max} questions of one agent may be open`
    return {
      facts: [fact('task.checkpoint.raised', [image(Checkpoint, raised.checkpoint), image(Task, raised.task)], byRun(input))],
      atMost: max === null ? [] : [{ doc: Checkpoint, index: 'open', prefix: [actor.id], max, message }],
      output: raised,
    }
  },
  example: {
    given: 'in_progress',
    as: 'devin',
    input: ({ task }) => ({
      task_id: task.id,
      kind: 'approval',
      prompt: 'Deploy to production?',
      context: [{ kind: 'text', text: 'All tests pass.' }],
    }),
  },
})

function askedBy(raised_by: string, task: Task, input: Static<typeof RaiseInput>, now: string): Asked {
  const { kind, prompt, options = [], context = [], proposed_actions = [], on_expiry = 'hold' } = input
  const wrong = (message: string, field: string): never => {
    throw new Refusal('INVALID_SPEC', message, { field })
  }
  refuseBlank(prompt, 'prompt')
  if (kind === 'choice' && options.length === 0) wrong('options are required for a choice', 'options')
  if (new Set(options.map((option) => option.id)).size < options.length) wrong('two options have the same id', 'options')
  const expires_at = expiryOf(input, now)
  // Waiting and escalating are always safe. Ending or answering without a person needs the principal's permission.
  const allowed = ['hold', 'escalate', ...(task.spec.constraints.on_expiry ?? [])]
  if (!allowed.includes(on_expiry)) wrong(`the task's spec does not allow on_expiry ${on_expiry} (constraints.on_expiry)`, 'on_expiry')
  if (on_expiry !== 'hold' && expires_at === null) wrong(`on_expiry ${on_expiry} needs expires_at or expires_in`, 'expires_at')
  if ((on_expiry === 'default') !== (input.default !== undefined)) wrong('default belongs to on_expiry default', 'default')
  if (new Set(proposed_actions.map((action) => action.id)).size < proposed_actions.length)
    wrong('two proposed actions have the same id', 'proposed_actions')
  const state_shown = input.state ?? null
  const state_schema = input.state_schema ?? null
  if (Buffer.byteLength(canonical([state_shown, state_schema])) > limits.stateBytesMax)
    wrong(`state and its schema are at most ${limits.stateBytesMax} bytes`, 'state')
  if (state_schema !== null) refuseMismatch(state_schema, state_shown, 'INVALID_SPEC', 'state')
  const answer = input.default ? fittingDefault({ kind, options, proposed_actions, raised_by }, input.default) : null
  return {
    kind,
    prompt,
    options,
    context,
    proposed_actions,
    state_shown,
    state_schema,
    expires_at,
    on_expiry,
    default: answer,
    raised_by,
    takeover: false,
  }
}

function expiryOf({ expires_at, expires_in }: Static<typeof RaiseInput>, now: string): string | null {
  if (expires_at && expires_in !== undefined)
    throw new Refusal('INVALID_SPEC', 'give expires_at or expires_in, not both', { field: 'expires_in' })
  if (expires_in !== undefined) return timestampOf(Date.parse(now) + durationMs(expires_in, 'INVALID_SPEC', 'expires_in'))
  return expires_at === undefined || expires_at === null ? null : futureTimestamp(expires_at, now, 'INVALID_SPEC', 'expires_at')
}
