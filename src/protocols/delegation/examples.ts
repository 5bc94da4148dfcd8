// Scenes that the examples and the derived tests of this protocol start from. The cast is the one of collaboration: alice answers
// for devin and robin, agents of project_default.
import type { Step } from '#kernel/declare/operation.ts'

const DAY_MS = 24 * 3_600_000

/** Robin declares its capabilities. */
const offered: Step[] = [
  {
    as: 'robin',
    call: 'delegation/agent.publish',
    input: {
      name: 'Robin',
      capabilities: [{ capability_id: 'cap:code-review', version: '2.1.0' }],
      tags: ['typescript'],
      endpoint: 'https://robin.example/a2a',
      protocol: 'a2a',
    },
  },
]
/** A run without a task: devin asked robin. */
const delegated: Step[] = [
  ...offered,
  { as: 'devin', call: 'delegation/agent.delegate', input: { to_agent: 'agent_robin', input: { diff: 'a.patch' } } },
]
const taken: Step[] = [...delegated, { as: 'robin', call: 'delegation/mailbox.take', input: { worker: 'robin-1' } }]
const ended: Step[] = [
  ...delegated,
  { as: 'robin', call: 'delegation/memo.put', input: ({ run }) => ({ run_id: run.id, key: 'clone', value: 1 }) },
  { as: 'robin', call: 'delegation/run.complete', input: ({ run }) => ({ run_id: run.id }) },
  { advanceMs: 2 * DAY_MS },
]
/** Robin gets its messages by webhook. In `posted`, devin has delegated a run to it. */
const hooked: Step[] = [
  {
    as: 'robin',
    call: 'delegation/agent.publish',
    input: { name: 'Robin', reach: 'webhook', endpoint: 'https://robin.example/hook' },
  },
]
const posted: Step[] = [...hooked, { as: 'devin', call: 'delegation/agent.delegate', input: { to_agent: 'agent_robin', input: {} } }]
/** Devin sent robin a message over A2A; in `pushed`, it named an address that hears of changes. */
const messaged: Step[] = [
  ...offered,
  {
    as: 'devin',
    call: 'delegation/agent.delegate',
    input: {
      to_agent: 'agent_robin',
      input: { goal: 'Review', a2a: { context_id: 'ctx_1', message_id: 'm-1', parts: [{ text: 'Review' }] } },
    },
  },
]
const pushed: Step[] = [
  ...messaged,
  {
    as: 'devin',
    call: 'delegation/push.set',
    input: ({ run }) => ({ work_id: run.id, to_agent: 'agent_robin', id: 'mine', endpoint: 'https://partner.example/hook' }),
  },
]
/** A run that the runtime started, without a task or a delegating agent. */
const running: Step[] = [{ as: 'system', call: 'delegation/agent.delegate', input: { to_agent: 'agent_devin', input: {} } }]
const waiting: Step[] = [
  ...running,
  {
    as: 'system',
    call: 'delegation/agent.block',
    input: ({ run }) => ({ run_id: run.id, reason: 'approval', checkpoint_id: 'ckpt_1' }),
  },
]

/** Robin's run, and something that it can invoke. */
const offering: Step[] = [
  ...delegated,
  {
    as: 'system',
    call: 'delegation/capability.offer',
    input: {
      source: 'web',
      projects: ['project_default'],
      manifests: [
        {
          capability_id: 'cap:web-search',
          version: '2.1.0',
          kind: 'tool',
          name: 'Web search',
          description: 'Searches the web.',
          input_schema: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
          output_schema: { type: 'object', properties: { hits: { type: 'array' } }, required: ['hits'] },
          prompt_template: null,
          resources: [],
          required_permissions: [],
        },
      ],
    },
  },
]
const invoked: Step[] = [
  ...offering,
  {
    as: 'robin',
    call: 'delegation/capability.invoke',
    input: ({ run }) => ({ run_id: run.id, ref: { capability_id: 'cap:web-search', version: '2.1.0' }, input: { query: 'countersign' } }),
  },
]

/** A task that devin works on, and its run. */
const working: Step[] = [
  {
    as: 'alice',
    call: 'collaboration/task.create',
    input: { type: 'code', spec: { goal: 'Fix the login bug' }, reviewers: ['user_rita'], delegable: true },
  },
  { as: 'alice', call: 'collaboration/task.assign', input: ({ task }) => ({ task_id: task.id, assignee: 'agent_devin' }) },
  { as: 'devin', call: 'collaboration/task.start', input: ({ task }) => ({ task_id: task.id }) },
  { as: 'devin', call: 'delegation/mailbox.take', input: { worker: 'devin-1' } },
  { as: 'devin', call: 'delegation/run.progress', input: ({ items }) => ({ run_id: items[0].run.id, attempt: 1, message: 'Reading.' }) },
]

/** Robin has a run, and was switched off since. */
const switched_off: Step[] = [
  ...delegated,
  { as: 'system', call: 'identity/agent.update', input: { agent_id: 'agent_robin', disabled: true } },
]

export const scenes = {
  empty: [],
  offered,
  delegated,
  switched_off,
  taken,
  ended,
  hooked,
  posted,
  messaged,
  pushed,
  running,
  waiting,
  working,
  offering,
  invoked,
}
