// The consequence of each answer, and of no answer, in the server's own words, so that people need not trust the agent's. Each is a clause without a
// capital and a final period; a second sentence may follow.
import { speaksFor, type Actor } from '#kernel/declare/access.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import type { KnownTask } from '#kernel/ports/tasks.ts'
import { actionOf } from '../actions/index.ts'
import { isOpen, type Request } from '../schema.ts'

export const AnswerEffects = t.Object({
  approve: t.String(),
  reject: t.String(),
  decline: t.String(),
  timeout: t.String(),
  changes: t.Optional(t.String({ description: 'of requesting changes, where something is reviewed' })),
})
export type AnswerEffects = Static<typeof AnswerEffects>
type Answers = Omit<AnswerEffects, 'timeout'>
type Judged = Omit<Answers, 'decline'>

/** The reader, the task of the item, and the names of the voters. */
export type Reading = { readonly actor: Actor; readonly task: KnownTask | null; readonly voters: readonly string[] }

const ENDS = 'the task ends'
const ONLY_ANSWERED = 'you cannot reject a question. Decline it with a reason, snooze it or ask back'

/** A question of another protocol has consequences there. */
const elsewhere: Readonly<Record<Exclude<Request['kind'], 'request'>, Judged>> = {
  approval: { approve: 'the task goes on', reject: ENDS },
  choice: { approve: 'the task goes on with the option that you choose', reject: ONLY_ANSWERED },
  input: { approve: 'the task goes on with the value that you provide', reject: ONLY_ANSWERED },
  escalation: { approve: 'the agent goes on and gets your words', reject: ENDS },
  interrupt: { approve: 'the agent goes on and gets your words', reject: ENDS },
  review: {
    approve: 'the task is done',
    changes: 'the agent gets your words and delivers again',
    reject: 'the task ends as rejected',
  },
}
const plan: Judged = {
  approve: 'the work goes on by the plan',
  changes: 'the agent gets your words and makes another plan',
  reject: 'not possible: a plan can only be sent back',
}
const session: Judged = {
  approve: 'the other harness is told that its task begins',
  reject: 'the task is refused, and the other harness is told',
}

const isPlan = ({ kind, payload }: Request): boolean => kind === 'review' && 'options' in payload && !payload.options.includes('rejected')
/** The kind of a request. An escalated question is still answered like the original one. */
function kindOf(request: Request): Request['kind'] {
  const { isVerdict, checkpoint } = actionOf(request)
  return request.kind === 'escalation' && isVerdict !== true ? checkpoint : request.kind
}

/** Whether a rejection of the item ends its task: of a request it is only an answer (H6). */
export function rejectionEndsTask(request: Request): boolean {
  const kind = kindOf(request)
  return request.task_id !== undefined && !['request', 'choice', 'input'].includes(kind) && !isPlan(request)
}

/** Whether the request can be declined. A review has its own no, and the last person left must decide about a stopped task. */
export function isDeclinable({ kind, asked_by, people }: Request): boolean {
  if (kind === 'review') return false
  const isAboutTask = kind === 'interrupt' || (kind === 'escalation' && asked_by === 'system')
  return !isAboutTask || people.length > 1
}

function judgedOf(request: Request, task: KnownTask | null): Judged {
  const { kind, payload, session_id } = request
  if (session_id !== undefined) return session
  if (kind !== 'request') return isPlan(request) ? plan : elsewhere[kindOf(request) as Exclude<Request['kind'], 'request'>]
  const sentenceOf = (what: string): string => `the agent ${what}${task === null ? '' : `, and task ${task.id} goes on`}`
  // A grant would also answer later questions; an answer applies only to this one.
  const once = task !== null && (payload as { scope?: string }).scope !== undefined ? ' this once' : ''
  const { approve, reject } = actionOf(request).effects
  return { approve: sentenceOf(approve + once), reject: reject === undefined ? ONLY_ANSWERED : sentenceOf(reject) }
}

function declineOf(request: Request, { actor, task }: Reading): string {
  const { kind, people, project_id, session_id } = request
  if (session_id !== undefined) return session.reject
  if (kind === 'review') return 'not possible: a review is approved, sent back or rejected'
  if (kind === 'request') return `the agent gets your reason and no answer${task === null ? '' : `, and task ${task.id} goes on`}`
  if (people.some((who) => !speaksFor(actor, who, project_id))) return 'the next person of the task is asked'
  return isDeclinable(request) ? 'nobody else can answer it: you decide about the task' : 'not possible: nobody else can answer it'
}

// --- Quorum --------------------------------------------------------------------------------------------------------------------

const numerals = ['none', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']
const numeralOf = (count: number): string => numerals[count] ?? String(count)
const listNames = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)!}`

/** Each answer is one vote, which decides only if it is the last one needed. */
function votedOf(request: Request, once: Judged, voters: readonly string[]): Answers {
  const { votes = [] } = request
  const { isVerdict, votesFor } = actionOf(request)
  const { n, of } = request.quorum!
  const left = of.length - votes.length - 1
  const enough = `${numeralOf(n)} of ${listNames(voters)}`
  if (isVerdict !== true) {
    const approve = `counts as one vote. The agent gets an ${votesFor} when ${enough} have chosen it`
    const decline = `counts as a vote for no ${votesFor}${left + Math.max(0, ...countsIn(request)) < n ? ', and none can be chosen now' : ''}`
    return { approve, reject: once.reject, decline }
  }
  const yes = votes.filter(({ result }) => result === 'approved').length
  const sentence = (clause: string): string => clause.charAt(0).toUpperCase() + clause.slice(1)
  const still = yes + left >= n
  const no = still ? `counts as a no. ${inTime(enough)}` : `counts as a no, and decides it. ${sentence(once.reject)}`
  return {
    approve: `counts as ${yes + 1} of ${n} approvals. ${yes + 1 >= n ? sentence(once.approve) : inTime(enough)}`,
    reject: no,
    decline: still ? no : 'counts as a no, and decides it. The agent gets the reasons and no answer',
  }
}
const inTime = (enough: string): string => `The agent may go ahead when ${enough} have approved`
const countsIn = ({ votes = [] }: Request): number[] =>
  [
    ...Map.groupBy(
      votes.filter(({ declined }) => declined !== true),
      ({ result }) => result,
    ).values(),
  ].map(({ length }) => length)

// ---------------------------------------------------------------------------------------------------------------------------------

/** X27: whoever sees it so cannot answer it. */
function withoutDecider({ gone = [], project_id, approval }: Request): Answers {
  if (gone.length === 0 && approval !== undefined) {
    const ruled = `nobody can answer it: the rules for approvals leave none of its people. Name them as reviewers, or change the rules or their groups in ${project_id}`
    return { approve: ruled, reject: ruled, decline: ruled }
  }
  const message = `nobody can answer it: name a substitute for ${gone.join(' or ')} in ${project_id} (identity/substitute.add)`
  return { approve: message, reject: message, decline: message }
}

function answersOf(request: Request, reading: Reading): Answers {
  if (request.no_decider === true) return withoutDecider(request)
  const judged = judgedOf(request, reading.task)
  if (request.quorum !== undefined && isOpen(request)) return votedOf(request, judged, reading.voters)
  return { ...judged, decline: declineOf(request, reading) }
}

export const effectsOf = (request: Request, reading: Reading): AnswerEffects => ({
  ...answersOf(request, reading),
  timeout: timeoutOf(request),
})

function timeoutOf({ kind, expires_at, fallback, on_expiry = 'hold', payload, overdue, task_id, call_id }: Request): string {
  if (expires_at === null) return 'it waits for an answer'
  if (overdue) return 'its deadline has passed: it is marked as overdue and keeps waiting'
  if (kind === 'request' ? fallback === 'pause' : on_expiry === 'hold')
    return `at ${expires_at} it is marked as overdue and goes on waiting`
  if (kind !== 'request') {
    if (on_expiry === 'escalate') return `at ${expires_at} the next person of the task is asked`
    return on_expiry === 'fail' ? `at ${expires_at} the task ends` : `at ${expires_at} the task goes on with the default that was stated`
  }
  if (call_id !== undefined) return `at ${expires_at} the call expires and does not run. An unused approval expires then too`
  const goesOn = task_id === undefined ? '' : ' and goes on'
  if (fallback === 'fail') return `at ${expires_at} it fails, and the agent is told that nobody answered${goesOn}`
  return `at ${expires_at} its default is taken: ${(payload as { default_option?: string }).default_option ?? ''}`
}
