// What each answer will do, and what happens without one. People read it before they answer, and the receipt covers it.
import type { Request } from './schema.ts'

export type Effects = { readonly approve: string; readonly reject: string; readonly timeout: string }
type Answers = Pick<Effects, 'approve' | 'reject'>

const TOLD = 'The agent is told your answer and goes on.'
const ENDS = 'It ends the task.'
const ONLY_CANCEL = 'There is no rejecting here: cancelling the task ends it.'

/** By kind: what another protocol asks has consequences there. */
const answers: Readonly<Record<Request['kind'], Answers>> = {
  request: { approve: TOLD, reject: 'The agent is told no and goes on.' },
  approval: { approve: 'The task goes on.', reject: ENDS },
  choice: { approve: 'The task goes on with what you choose.', reject: ONLY_CANCEL },
  input: { approve: 'The task goes on with what you provide.', reject: ONLY_CANCEL },
  escalation: { approve: 'The task goes on; what you add as a reason is told to whoever works on it.', reject: ENDS },
  interrupt: { approve: 'The agent goes on; what you add as a reason steers it.', reject: ENDS },
  review: {
    approve: 'Approved, the task is completed; with changes requested it goes back to whoever worked on it.',
    reject: 'Rejected, the task ends without a result.',
  },
}

function answersOf({ kind, action, task_id, artifact, payload }: Request): Answers {
  const own = answers[kind]
  if (kind === 'request') {
    const approve = task_id === undefined ? own.approve : `${own.approve} The task goes on.`
    const reject = task_id === undefined ? own.reject : 'The agent is told no and goes on: the task does not end.'
    return { approve, reject: action === 'APPROVE' ? reject : 'There is no rejecting here: choose or provide something else.' }
  }
  if (kind === 'escalation' && action !== 'APPROVE') return action === 'DECIDE' ? answers.choice : answers.input
  const isPlan = kind === 'review' && artifact !== undefined && !(payload as { options: string[] }).options.includes('rejected')
  return isPlan
    ? { approve: 'Approved, the work goes on by the plan; else the plan goes back.', reject: 'A plan is not rejected: ask for changes.' }
    : own
}

const WAITS = 'It waits until somebody answers.'

function timeoutOf({ kind, expires_at, fallback, on_expiry, payload, task_id }: Request): string {
  if (kind !== 'request') {
    if (expires_at === null || on_expiry === undefined || on_expiry === 'hold') return WAITS
    if (on_expiry === 'escalate') return 'The next person of the task is asked.'
    return on_expiry === 'fail' ? 'It ends the task.' : 'The task goes on with the default that was stated.'
  }
  if (expires_at === null || fallback === 'pause') return WAITS
  if (fallback === 'default') return `It takes "${(payload as { default_option?: string }).default_option}".`
  return `It fails: the agent is told that nobody answered${task_id === undefined ? '' : ', and goes on'}.`
}

export function effectsOf(request: Request): Effects {
  return { ...answersOf(request), timeout: timeoutOf(request) }
}
