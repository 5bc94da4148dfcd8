// Checkpoints: the agent asks, a person answers, and people are notified when a question stays unanswered.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { administrator, anyone, idsActedFor, system, SYSTEM_ID, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import { command, query, rule, type ListPage, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { AssertionField } from '#kernel/signing/input.ts'
import { fact } from '../events.ts'
import { applyAnswer, answeredAlong, broughtBy, type Resolving } from '../task/answering.ts'
import { expireCheckpoint, familyOf, withoutChildren } from '../task/cancellation.ts'
import { fitAnswer, peopleAfter, peopleLeft, plainQuestion, successorOf, supersededBy } from '../task/checkpoints.ts'
import { askAbout } from '../task/ask-people.ts'
import { signableAnswer, signedIn } from '../task/signed-answers.ts'
import {
  agentFor,
  hasTimeToTryAgain,
  isNotExpired,
  isOfSystem,
  isPending,
  principal,
  refuseBlank,
  reviewer,
  isAtRevision,
} from '../access.ts'
import { CheckpointAnswer, ArtifactHead, ArtifactVersion, Checkpoint, Digest, Id, Task, versionId, ExpectedRevision } from '../schema.ts'
import { raise } from './checkpoint-raise.ts'

async function checkpointAndTask(read: Read, checkpoint_id: string): Promise<Resolving> {
  const checkpoint = await read(Checkpoint, checkpoint_id)
  return { checkpoint, task: await read(Task, checkpoint.task_id) }
}

const resolve = command({
  name: 'checkpoint.resolve',
  summary: 'Answer a pending checkpoint: the task continues, or ends if it is rejected.',
  draft: 'HACP 0.1.0, Checkpoint; Operation Preconditions',
  input: t.Object({ checkpoint_id: Id, ...ExpectedRevision, ...CheckpointAnswer.properties, digest: Digest, ...AssertionField }),
  output: t.Object({ checkpoint: Checkpoint.schema, task: Task.schema }),
  callers: [principal, reviewer],
  requires: [isAtRevision, isNotExpired, isPending, hasTimeToTryAgain],
  audit: 'task.checkpoint.resolved',
  besides: ['expected_task_revision'],
  async load(read, { checkpoint_id, action, reassign_to, edited_artifact_ref }) {
    const loaded = await checkpointAndTask(read, checkpoint_id)
    if (action === 'reassign' && reassign_to !== undefined) await agentFor(read, reassign_to, loaded.task.project_id)
    if (edited_artifact_ref) {
      const { artifact_id, version } = edited_artifact_ref
      const edited = await read.maybe(ArtifactVersion, versionId(artifact_id, version))
      if (edited?.provenance.produced_by !== loaded.task.id)
        throw new Refusal('NOT_FOUND', `there is no version ${version} of ${artifact_id} of this task`)
      const head = await read.maybe(ArtifactHead, artifact_id)
      if (head && head.version !== version)
        throw new Refusal('CONFLICT', `${version} is not the newest version of ${artifact_id}: that is ${head.version}`, {
          head: head.version,
        })
    }
    // A reject also ends the descendants of the task.
    const isEnd = action === 'reject'
    return {
      ...loaded,
      family: isEnd ? await familyOf(read, loaded.task) : null,
      brought: isEnd ? [] : await broughtBy(read, loaded.checkpoint),
      item: await read.ports.requests.itemOfCheckpoint(read, loaded.checkpoint),
    }
  },
  signs({ item, task, checkpoint }, { assertion: _, checkpoint_id, digest: __, expected_task_revision: ___, ...answer }) {
    // An approval of none of the proposed actions is a no, and its receipt says so.
    const isNone = checkpoint.proposed_actions.length > 0 && answer.approved_actions?.length === 0
    const word = answer.action === 'approve' && isNone ? 'reject' : answer.action
    return signableAnswer({ ...task, about: { checkpoint_id }, item, risk: 'R1', word, answer })
  },
  decide({ family, brought, item: _, ...state }, { checkpoint_id: __, assertion: ___, digest, ...answer }, { actor, now, signature }) {
    const { checkpoint, task } = applyAnswer(state, fitAnswer(state.checkpoint, answer), actor.id, now)
    const detail = { ...definedFields({ digest }), ...signedIn(signature) }
    const facts = [fact('task.checkpoint.resolved', [image(Checkpoint, checkpoint), image(Task, task)], { detail })]
    if (task.outcome) facts.push(fact('task.completed', [image(Task, task)], { detail: { outcome: task.outcome }, cause: 0 }))
    return {
      facts: family ? withoutChildren(family, facts, now) : answeredAlong(brought, facts, actor.id, now),
      output: { checkpoint, task },
    }
  },
  example: {
    given: 'blocked',
    as: 'alice',
    input: ({ checkpoint }) => ({ checkpoint_id: checkpoint.id, action: 'approve', comment: 'Go.' }),
  },
})

/** A checkpoint never expires early. The administrator can expire one without a deadline at any time. */
const isDue = rule<Resolving>(
  'PRECONDITION_FAILED',
  'the checkpoint is due',
  ({ checkpoint }, _, { now }) => checkpoint.expires_at === null || checkpoint.expires_at <= now,
  'the checkpoint is not due yet: only its deadline lets the system expire it',
)

const expire = command({
  name: 'checkpoint.expire',
  summary:
    'End a checkpoint whose time is up: the system by its policy (ask the next person, end the task, take the stated default), the administrator by asking the next person.',
  draft: 'HACP 0.1.0, Operations; Checkpoint ("expiration MUST emit an audit event")',
  input: t.Object({ checkpoint_id: Id, ...ExpectedRevision }),
  output: t.Object({ checkpoint: Checkpoint.schema, task: Task.schema }),
  callers: [system, administrator],
  requires: [
    isAtRevision,
    rule<Resolving>(
      'CHECKPOINT_EXPIRED',
      'the checkpoint has not expired yet',
      ({ checkpoint }) => checkpoint.state !== 'expired',
      'the checkpoint has expired already',
    ),
    isPending,
    isDue,
  ],
  audit: 'task.checkpoint.expired',
  besides: ['expected_task_revision'],
  async load(read, { checkpoint_id }) {
    const loaded = await checkpointAndTask(read, checkpoint_id)
    return { ...loaded, people: await peopleAfter(read, loaded.checkpoint, loaded.task) }
  },
  decide({ people, ...state }, _, { actor, now, newId }) {
    const { checkpoint, task } = state
    // The policy applies only at the deadline. A checkpoint that the administrator expires gets no answer and ends no task.
    const policy = actor.kind === 'system' ? checkpoint.on_expiry : null
    const right = policy === null ? {} : { basis: { kind: 'policy', id: `on_expiry/${policy}` } as const }
    if (policy === 'default' && checkpoint.default) {
      // The principal allowed the default in the spec, so it counts as their answer.
      const done = applyAnswer(state, checkpoint.default, task.ownership.principal, now)
      const facts = [
        fact('task.checkpoint.resolved', [image(Checkpoint, done.checkpoint), image(Task, done.task)], {
          ...right,
          behalf: task.ownership.principal,
        }),
      ]
      return { facts, output: done }
    }
    const over = expireCheckpoint(checkpoint)
    const freed: Task = { ...task, pending_checkpoint: null }
    const detail = { on_expiry: policy }
    const ended = fact('task.checkpoint.expired', [image(Checkpoint, over), image(Task, freed)], { ...right, detail })
    // With `fail` a contract cancels the task in the same batch.
    if (policy === 'fail') return { facts: [ended], output: { checkpoint: over, task: freed } }
    const next = successorOf(checkpoint, freed, people, newId('ckpt'), now)
    return {
      facts: [ended, fact('task.checkpoint.raised', [image(Checkpoint, next.checkpoint), image(Task, next.task)], { ...right, cause: 0 })],
      output: { checkpoint: over, task: next.task },
    }
  },
  example: { given: 'blocked', as: 'system', input: ({ checkpoint }) => ({ checkpoint_id: checkpoint.id }) },
})

type Declining = Resolving & { readonly people: readonly string[]; readonly name: string }

const decline = command({
  name: 'checkpoint.decline',
  summary:
    'Decline to answer a checkpoint, with a reason: the next person of the task is asked; if nobody is left, the principal decides about the task.',
  draft: 'ours: the draft has no word for a person who will not answer (H7: it escalates)',
  input: t.Object({
    checkpoint_id: Id,
    ...ExpectedRevision,
    reason: t.String({ minLength: 1, maxLength: limits.reasonCharsMax, description: 'why you will not answer: the agent reads it' }),
    digest: Digest,
  }),
  output: t.Object({ checkpoint: Checkpoint.schema, task: Task.schema }),
  callers: [principal, reviewer],
  requires: [
    isAtRevision,
    isNotExpired,
    isPending,
    rule<Declining>(
      'PRECONDITION_FAILED',
      'no request is behind the checkpoint',
      ({ checkpoint }) => checkpoint.request_id === undefined,
      'a request is behind the checkpoint: decline it with request.decline',
    ),
    // Otherwise no person would be left to decide about the task.
    rule<Declining>(
      'PRECONDITION_FAILED',
      'the agent asked it, or another person can answer it',
      ({ checkpoint, people }) => people.length > 0 || !(isOfSystem(checkpoint) || checkpoint.kind === 'interrupt'),
      'nobody else of the task can answer it: continue the task, hand it to another agent, or end it',
    ),
  ],
  audit: 'task.checkpoint.declined',
  besides: ['expected_task_revision'],
  async load(read, { checkpoint_id, reason }, { actor }) {
    refuseBlank(reason, 'reason')
    const loaded = await checkpointAndTask(read, checkpoint_id)
    // A substitute declines for the person in whose place they answer.
    const { ownership, reviewers } = loaded.task
    const seat = [ownership.principal, ...reviewers].includes(actor.id) ? actor.id : loaded.checkpoint.routed_to
    const people = await peopleLeft(read, loaded.checkpoint, loaded.task, seat)
    return { ...loaded, people, seat, name: (await read.ports.names.named(read, actor.id))?.name ?? actor.id }
  },
  decide({ checkpoint, task, people, seat, name }, { reason, digest }, { now, newId }) {
    const declined = [...(checkpoint.declined ?? []), { by: seat, reason, at: now }]
    const over: Checkpoint = { ...expireCheckpoint(checkpoint), reason: 'declined', declined }
    const freed: Task = { ...task, pending_checkpoint: null }
    const id = newId('ckpt')
    const message = `${name} declined: "${reason}"\nNobody else can answer: ${checkpoint.prompt}`
    const next =
      people.length > 0
        ? successorOf({ ...checkpoint, declined }, freed, people, id, now)
        : supersededBy(checkpoint, freed, id, plainQuestion('escalation', cutTo(message, limits.promptCharsMax), SYSTEM_ID), now)
    return {
      facts: [
        fact('task.checkpoint.declined', [image(Checkpoint, over), image(Task, freed)], digest ? { detail: { digest } } : {}),
        fact('task.checkpoint.raised', [image(Checkpoint, next.checkpoint), image(Task, next.task)], { cause: 0 }),
      ],
      output: { checkpoint: over, task: next.task },
    }
  },
  example: {
    given: 'blocked',
    as: 'alice',
    input: ({ checkpoint }) => ({ checkpoint_id: checkpoint.id, reason: 'This is for the finance team to decide.' }),
  },
})

const overdue = command({
  name: 'checkpoint.overdue',
  summary: 'Note that a checkpoint on hold has waited past its time; it stays pending. The system calls it by timer.',
  draft: 'ours: pure suspension, as the draft recommends (Open Issues)',
  input: t.Object({ checkpoint_id: Id }),
  output: t.Object({ checkpoint: Checkpoint.schema }),
  callers: [system],
  requires: [
    isPending,
    rule<Resolving>(
      'PRECONDITION_FAILED',
      'its time has passed',
      ({ checkpoint }, _, { now }) => checkpoint.expires_at !== null && checkpoint.expires_at <= now,
      'the deadline of the checkpoint has not passed yet, or it has none',
    ),
    rule<Resolving>(
      'PRECONDITION_FAILED',
      'nobody was told yet',
      ({ checkpoint }) => !checkpoint.overdue,
      'the checkpoint was reported as overdue already',
    ),
  ],
  audit: 'task.checkpoint.overdue',
  load: async (read, { checkpoint_id }) => checkpointAndTask(read, checkpoint_id),
  decide({ checkpoint }) {
    const next: Checkpoint = { ...checkpoint, overdue: true }
    return {
      facts: [fact('task.checkpoint.overdue', [image(Checkpoint, next)])],
      output: { checkpoint: next },
    }
  },
  example: { given: 'waiting', as: 'system', input: ({ checkpoint }) => ({ checkpoint_id: checkpoint.id }) },
})

const escalate = command({
  name: 'checkpoint.escalate',
  summary: 'Ask the people of a task how to continue when its executor cannot. The system calls it.',
  draft: 'ours: the draft has no state for work that failed',
  input: t.Object({ task_id: Id, prompt: t.String({ minLength: 1, maxLength: limits.promptCharsMax }) }),
  output: t.Object({ checkpoint: Checkpoint.schema, task: Task.schema }),
  callers: [system],
  requires: [
    rule<{ task: Task }>(
      'PRECONDITION_FAILED',
      'the task is being worked on',
      ({ task }) => ['assigned', 'in_progress', 'blocked'].includes(task.state),
      'the task is not being worked on: only a task that is assigned, in progress or blocked can ask',
    ),
  ],
  audit: 'task.checkpoint.raised',
  async load(read, { task_id }) {
    const task = await read(Task, task_id)
    return { task, pending: task.pending_checkpoint === null ? null : await read(Checkpoint, task.pending_checkpoint) }
  },
  decide({ task, pending }, { prompt }, { now, newId }) {
    const asked = askAbout(task, pending, prompt, newId('ckpt'), now, null)
    return {
      facts: asked.facts,
      output: { checkpoint: asked.checkpoint!, task: asked.task },
    }
  },
  example: { given: 'in_progress', as: 'system', input: ({ task }) => ({ task_id: task.id, prompt: 'The agent failed. Try again?' }) },
})

const get = query({
  name: 'checkpoint.get',
  summary: 'Fetch one checkpoint.',
  draft: 'ours: reading',
  input: t.Object({ checkpoint_id: Id }),
  output: t.Object({ checkpoint: Checkpoint.schema }),
  callers: [anyone],
  load: async (read, { checkpoint_id }) => ({ checkpoint: await read(Checkpoint, checkpoint_id) }),
  view: ({ checkpoint }) => ({ checkpoint }),
  example: { given: 'blocked', as: 'alice', input: ({ checkpoint }) => ({ checkpoint_id: checkpoint.id }) },
})

async function ofTask(read: Read, task_id: string, page: ListPage) {
  await read(Task, task_id)
  return readListed(read, Checkpoint, await read.list(Checkpoint, 'task', [[task_id]], page))
}

/** Checkpoints that the actor can answer, even if routed to another person. Substitutes also get the checkpoints of the people they replace. */
async function waitingFor(read: Read, actor: Actor, page: ListPage) {
  const whose = idsActedFor(actor).map((who) => [who])
  const listed = await read.list(Task, 'waiting', whose, page)
  const items: Checkpoint[] = []
  for (const [i, { id }] of listed.entries()) {
    const task = await read.maybe(Task, id)
    const isTheirs = task !== null && (principal.is(actor, { task }) || reviewer.is(actor, { task }))
    const found = isTheirs && task.pending_checkpoint !== null ? await read.maybe(Checkpoint, task.pending_checkpoint) : null
    if (found !== null) items.push(found)
    if (read.isFull() && i + 1 < listed.length) return { listed: listed.slice(0, i + 1), items, isCut: true }
  }
  return { listed, items, isCut: false }
}

const list = query({
  name: 'checkpoint.list',
  summary: 'List the checkpoints of a task, or those that you may answer.',
  draft: 'ours: reading',
  input: t.Object({ task_id: t.Optional(Id), ...pageInput }),
  output: t.Object({ items: t.Array(Checkpoint.schema), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const page = pageIn('checkpoint.list', input)
    return input.task_id === undefined ? waitingFor(read, actor, page) : ofTask(read, input.task_id, page)
  },
  view: ({ listed, items, isCut }, input) => pageOf('checkpoint.list', input, listed, items, isCut),
  example: { given: 'blocked', as: 'alice', input: {} },
})

export const checkpointOperations = [raise, resolve, decline, expire, overdue, escalate, get, list]
