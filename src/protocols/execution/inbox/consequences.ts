// Consequences of each answer, and of none: the server's own words, so that nobody has to believe the agent's.
import { t, type Static } from '#kernel/declare/schema.ts'
import type { KnownTask } from '#kernel/ports/tasks.ts'
import type { Request } from '../schema.ts'

export const Effects = t.Object({ approve: t.String(), reject: t.String(), timeout: t.String() })
export type Effects = Static<typeof Effects>
type Answers = Pick<Effects, 'approve' | 'reject'>

const ENDS = 'the task ends'
const ONLY_ANSWERED = 'not possible: it can only be answered or left'

/** A question of another protocol has consequences there. */
const elsewhere: Readonly<Record<Exclude<Request['kind'], 'request'>, Answers>> = {
  approval: { approve: 'the task goes on', reject: ENDS },
  choice: { approve: 'the task goes on with the option that you choose', reject: `${ONLY_ANSWERED}; cancelling the task ends it` },
  input: { approve: 'the task goes on with the value that you provide', reject: `${ONLY_ANSWERED}; cancelling the task ends it` },
  escalation: { approve: 'the task goes on; its executor gets your reason', reject: ENDS },
  interrupt: { approve: 'the agent goes on; your reason steers it', reject: ENDS },
  review: {
    approve: 'the task is completed (changes_requested sends it back to its executor)',
    reject: 'the task ends as rejected',
  },
}
const plan: Answers = {
  approve: 'the work goes on by the plan (changes_requested asks for another plan)',
  reject: 'not possible: a plan can only be sent back',
}

function answersOf({ kind, action, payload }: Request, task: KnownTask | null): Answers {
  if (kind === 'request') {
    // A "rejected" is only an answer here (H6): the task goes on with it.
    const told = (what: string): string => `the agent ${what}${task === null ? '' : `, and task ${task.id} goes on`}`
    const what = { DECIDE: 'gets the option that you choose', APPROVE: 'may go ahead', PROVIDE: 'gets the value that you provide' }
    return { approve: told(what[action]), reject: action === 'APPROVE' ? told('may not go ahead') : ONLY_ANSWERED }
  }
  if (kind === 'escalation' && action !== 'APPROVE') return elsewhere[action === 'DECIDE' ? 'choice' : 'input']
  const isPlan = kind === 'review' && 'options' in payload && !payload.options.includes('rejected')
  return isPlan ? plan : elsewhere[kind]
}

/** X27: whoever sees it so cannot answer it. */
function withoutDecider({ gone = [], project_id }: Request): Answers {
  const words = `nobody can answer it: name a substitute for ${gone.join(' or ')} in ${project_id} (identity/substitute.add)`
  return { approve: words, reject: words }
}

export function effectsOf(request: Request, task: KnownTask | null): Effects {
  return { ...(request.no_decider === true ? withoutDecider(request) : answersOf(request, task)), timeout: timeoutOf(request) }
}

function timeoutOf({ kind, expires_at, fallback, on_expiry = 'hold', payload, overdue, task_id }: Request): string {
  if (expires_at === null) return 'it waits until somebody answers'
  if (overdue) return 'its deadline has passed: it is marked as overdue and waits until somebody answers'
  if (kind === 'request' ? fallback === 'pause' : on_expiry === 'hold')
    return `at ${expires_at} it is marked as overdue and goes on waiting`
  if (kind !== 'request') {
    if (on_expiry === 'escalate') return `at ${expires_at} the next person of the task is asked`
    return on_expiry === 'fail' ? `at ${expires_at} the task ends` : `at ${expires_at} the task goes on with the default that was stated`
  }
  const goesOn = task_id === undefined ? '' : ' and goes on'
  if (fallback === 'fail') return `at ${expires_at} it fails, and the agent is told that nobody answered${goesOn}`
  return `at ${expires_at} its default is taken: ${(payload as { default_option?: string }).default_option ?? ''}`
}
