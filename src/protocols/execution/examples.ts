// Scenes that the examples and the derived tests of this protocol start from. The cast is the one of collaboration: alice answers
// for devin, an agent of project_default.
import type { Step } from '#kernel/declare/operation.ts'

/** Devin asks alice to decide. */
const asked: Step[] = [
  {
    as: 'devin',
    call: 'execution/request.create',
    input: {
      action: 'DECIDE',
      timeout_seconds: 3_600,
      payload: { question: 'Approve the $99/mo plan?', options: ['Approve', 'Deny'], context: 'Needed for payments.' },
    },
  },
]
const answered: Step[] = [
  ...asked,
  { as: 'alice', call: 'execution/request.resolve', input: ({ request }) => ({ request_id: request.id, result: 'Approve' }) },
]
const looked: Step[] = [...asked, { as: 'alice', call: 'execution/inbox.get', input: ({ request }) => ({ request_id: request.id }) }]
const forgotten: Step[] = [...asked, { advanceMs: 2 * 3_600_000 }]

/** Devin asks alice for a file, and she sends one. */
const asked_for_file: Step[] = [
  {
    as: 'devin',
    call: 'execution/request.create',
    input: { action: 'PROVIDE', payload: { prompt: 'The signed contract, please', input_type: 'file' } },
  },
]
const sent_file: Step[] = [
  ...asked_for_file,
  {
    as: 'alice',
    call: 'execution/file.add',
    input: ({ request }) => ({
      request_id: request.id,
      name: 'contract.txt',
      checksum: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824',
      size: 5,
    }),
  },
]
const given_file: Step[] = [
  ...sent_file,
  {
    as: 'alice',
    call: 'execution/request.resolve',
    input: ({ request, artifact_id }) => ({ request_id: request.id, result: { artifact_id } }),
  },
]
const file_forgotten: Step[] = [...sent_file, { advanceMs: 25 * 3_600_000 }]

/** Devin asks alice for a secret, and she gives it. */
const given_secret: Step[] = [
  {
    as: 'devin',
    call: 'execution/request.create',
    input: { action: 'PROVIDE', payload: { prompt: 'The deploy token, please', input_type: 'text', sensitive: true } },
  },
  {
    as: 'alice',
    call: 'execution/request.resolve',
    input: ({ request }) => ({ request_id: request.id, result: 'correct horse battery staple' }),
  },
]
const secret_forgotten: Step[] = [...given_secret, { advanceMs: 3_600_000 }]

/** Alice has a channel, and devin's request is in her inbox. */
const told: Step[] = [
  { as: 'alice', call: 'execution/channel.add', input: { endpoint: 'https://example.com/inbox-hook', label: 'phone' } },
  ...asked,
]
const tried: Step[] = [...told, { as: 'alice', call: 'execution/channel.test', input: ({ channel }) => ({ channel_id: channel.id }) }]

/** A task that devin works on, for alice, with rita as a reviewer. */
const task_in_progress: Step[] = [
  { as: 'alice', call: 'collaboration/task.create', input: { spec: { goal: 'Fix the login bug' }, reviewers: ['user_rita'] } },
  { as: 'alice', call: 'collaboration/task.assign', input: ({ task }) => ({ task_id: task.id, assignee: 'agent_devin' }) },
  { as: 'devin', call: 'collaboration/task.start', input: ({ task }) => ({ task_id: task.id }) },
]
/** The task waits for an approval, which is in the inbox. */
const waiting: Step[] = [
  ...task_in_progress,
  { as: 'devin', call: 'collaboration/checkpoint.raise', input: ({ task }) => ({ task_id: task.id, kind: 'approval', prompt: 'Deploy?' }) },
]
/** Devin asks through HXP within the task, which waits for the answer. */
const bound: Step[] = [
  ...task_in_progress,
  {
    as: 'devin',
    call: 'execution/request.create',
    input: ({ task }) => ({ action: 'APPROVE', metadata: { task_id: task.id }, payload: { item: 'Deploy?', details: {} } }),
  },
]

/** A request without a deadline. */
const patient: Step[] = [
  {
    as: 'devin',
    call: 'execution/request.create',
    input: { action: 'APPROVE', payload: { item: 'Send the newsletter', details: { readers: 1_200 } } },
  },
]
export const MONDAY = '2026-01-05T09:00:00.000Z'
const snoozed: Step[] = [
  ...patient,
  { as: 'alice', call: 'execution/request.snooze', input: ({ request }) => ({ request_id: request.id, until: MONDAY }) },
]
const slept: Step[] = [...snoozed, { advanceMs: 5 * 24 * 3_600_000 }]
const filtered: Step[] = [{ as: 'alice', call: 'execution/filter.save', input: { name: 'urgent', query: { priority: 'critical' } } }]

const approval = { action: 'APPROVE', payload: { item: 'Deploy to production', details: { version: '1.4.2' } } }
const pooled: Step[] = [{ as: 'devin', call: 'execution/request.create', input: { ...approval, role: 'pool' } }]
const claimed: Step[] = [
  ...pooled,
  { as: 'bob', call: 'execution/request.claim', input: ({ request }) => ({ request_id: request.id, lease_seconds: 600 }) },
]
const forgotten_claim: Step[] = [...claimed, { advanceMs: 3_600_000 }]
/** A reminder is due. */
const unheard: Step[] = [
  { as: 'devin', call: 'execution/request.create', input: { ...approval, remind_seconds: 600 } },
  { advanceMs: 3_600_000 },
]
/** Rita must be asked too, now. */
const unanswered: Step[] = [
  { as: 'devin', call: 'execution/request.create', input: { ...approval, escalate: { after_seconds: 600, to: ['user_rita'] } } },
  { advanceMs: 3_600_000 },
]
/** Alice asks back. */
const questioned: Step[] = [
  ...asked,
  { as: 'alice', call: 'execution/request.question', input: ({ request }) => ({ request_id: request.id, text: 'Monthly?' }) },
]
const ruled: Step[] = [{ as: 'alice', call: 'execution/rule.add', input: { action: 'APPROVE', tag: 'finance', delegate_to: 'user_bob' } }]
const streamed: Step[] = [
  {
    as: 'owner',
    call: 'execution/channel.add',
    input: { project_id: 'project_default', kind: 'events', endpoint: 'https://example.com/events', after: 0 },
  },
]
const grouped: Step[] = [{ as: 'owner', call: 'execution/group.set', input: { name: 'on-call', members: ['user_rita', 'user_bob'] } }]

/** Devin calls a tool with arguments that are too long for a card. */
const asked_to_run: Step[] = [
  { as: 'devin', call: 'gate/call.propose', input: { server: 'files', tool: 'write', arguments: { text: 'long '.repeat(3_000) } } },
]

export const scenes = {
  empty: [],
  asked_to_run,
  asked,
  answered,
  looked,
  forgotten,
  patient,
  snoozed,
  slept,
  filtered,
  pooled,
  claimed,
  forgotten_claim,
  unheard,
  unanswered,
  questioned,
  ruled,
  grouped,
  streamed,
  task_in_progress,
  waiting,
  bound,
  asked_for_file,
  given_file,
  file_forgotten,
  given_secret,
  secret_forgotten,
  told,
  tried,
}
