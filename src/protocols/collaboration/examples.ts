// Scenes that the examples and the derived tests of this protocol start from. The cast is registered before every scene: alice,
// rita and bob are people of project_default (bob is on no task), mallory is a person of another project, devin and robin are
// agents of alice in project_default.
import type { Step } from '#kernel/declare/operation.ts'

const HOUR_MS = 3_600_000
const spec = { goal: 'Fix the login bug', acceptance_criteria: ['tests pass'] }

const created: Step[] = [{ as: 'alice', call: 'collaboration/task.create', input: { type: 'code', spec, reviewers: ['user_rita'] } }]
const assigned: Step[] = [
  ...created,
  { as: 'alice', call: 'collaboration/task.assign', input: ({ task }) => ({ task_id: task.id, assignee: 'agent_devin' }) },
]
const start: Step = { as: 'devin', call: 'collaboration/task.start', input: ({ task }) => ({ task_id: task.id }) }
const in_progress: Step[] = [...assigned, start]
const delegable: Step[] = [
  ...created,
  { as: 'alice', call: 'collaboration/task.assign', input: ({ task }) => ({ task_id: task.id, assignee: 'agent_devin', delegable: true }) },
  start,
]
const blocked: Step[] = [
  ...in_progress,
  { as: 'devin', call: 'collaboration/checkpoint.raise', input: ({ task }) => ({ task_id: task.id, kind: 'approval', prompt: 'Deploy?' }) },
]
const blocked_with_artifact: Step[] = [
  ...in_progress,
  {
    as: 'devin',
    call: 'collaboration/artifact.commit',
    input: ({ task }) => ({ task_id: task.id, final: false, payload: { kind: 'inline', uri: 'data:text/plain,hello' } }),
  },
  {
    as: 'devin',
    call: 'collaboration/checkpoint.raise',
    input: ({ task }) => ({ task_id: task.id, kind: 'approval', prompt: 'Like this?' }),
  },
]
const taken_over: Step[] = [
  ...in_progress,
  { as: 'alice', call: 'collaboration/task.takeover', input: ({ task }) => ({ task_id: task.id }) },
]
const granted: Step[] = [
  ...in_progress,
  {
    as: 'alice',
    call: 'collaboration/grant.add',
    input: ({ task }) => ({ task_id: task.id, scope: 'deploy:staging', decision: 'allow', until: 'task' }),
  },
]
/** A checkpoint on hold whose time has passed. */
const waiting: Step[] = [
  ...in_progress,
  {
    as: 'devin',
    call: 'collaboration/checkpoint.raise',
    input: ({ task }) => ({ task_id: task.id, kind: 'approval', prompt: 'Deploy?', expires_in: 'PT1H' }),
  },
  { advanceMs: 2 * HOUR_MS },
]
/** A task in progress whose max_duration is spent. */
const late: Step[] = [
  { as: 'alice', call: 'collaboration/task.create', input: { spec: { ...spec, constraints: { max_duration: 'PT1H' } } } },
  { as: 'alice', call: 'collaboration/task.assign', input: ({ task }) => ({ task_id: task.id, assignee: 'agent_devin' }) },
  start,
  { advanceMs: 2 * HOUR_MS },
]
const review_ready: Step[] = [
  ...in_progress,
  {
    as: 'devin',
    call: 'collaboration/artifact.commit',
    input: ({ task }) => ({ task_id: task.id, type: 'patch', payload: { kind: 'inline', uri: 'data:text/plain,hello' } }),
  },
]
/** An upload that no artifact has named in its time. */
const upload_forgotten: Step[] = [
  ...in_progress,
  {
    as: 'devin',
    call: 'collaboration/artifact.upload',
    input: ({ task }) => ({
      task_id: task.id,
      checksum: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824',
      size: 5,
    }),
  },
  { advanceMs: 25 * HOUR_MS },
]
const reviewSteps = (verdict: string): Step[] => [
  ...review_ready,
  {
    as: 'alice',
    call: 'collaboration/review.submit',
    input: ({ task, artifact }) => ({ task_id: task.id, artifact_id: artifact.id, verdict }),
  },
]
const completed = reviewSteps('approved')
const rejected = reviewSteps('rejected')
const written: Step[] = [
  ...completed,
  {
    as: 'devin',
    call: 'collaboration/ledger.write',
    input: ({ task }) => ({ task_id: task.id, key: 'release', value: { version: '1.2.0' } }),
  },
]

export const scenes = {
  empty: [],
  created,
  assigned,
  in_progress,
  delegable,
  blocked,
  blocked_with_artifact,
  taken_over,
  granted,
  waiting,
  late,
  review_ready,
  upload_forgotten,
  completed,
  rejected,
  written,
}
