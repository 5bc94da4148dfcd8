// Laws of every fact, written down a second time from the draft's tables and apart from the code that is tested.
import type { Group } from '#kernel/log/backend.ts'
import type { MemoryDisk } from '#stores/memory.ts'
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'
import { createFamilyLaws } from './family-laws.ts'
import { createItemLaws } from './item-laws.ts'
import { createPlaceLaws } from './place-laws.ts'
import { createQuestionLaws } from './question-laws.ts'
import { createRequestLaws } from './request-laws.ts'
import { createRunLaws, type Acknowledged } from './run-laws.ts'

const TASK = 'collaboration.task/'
const CHECKPOINT = 'collaboration.checkpoint/'
const UPLOAD = 'collaboration.upload/'
const GRANT = 'collaboration.grant/'
const RUN = 'delegation.run/'
const REQUEST = 'execution.request/'
const FORGETTING = 'kernel.errand/forget/'
/** The index of documents that wait for a time. */
const WAITING = '~due\0'

/** Which steps of a task's state each event may show; null: the task is new. */
const steps: Record<string, readonly (readonly [string | null, string])[]> = {
  'task.created': [[null, 'created']],
  'task.assigned': [['created', 'assigned']],
  'task.started': [['assigned', 'in_progress']],
  'task.checkpoint.raised': [
    ['in_progress', 'blocked'],
    ['blocked', 'blocked'],
  ],
  'task.interrupted': [['in_progress', 'blocked']],
  'task.taken_over': [['in_progress', 'blocked']],
  'task.returned': [['in_progress', 'in_progress']],
  'task.amended': [
    ['in_progress', 'in_progress'],
    ['blocked', 'blocked'],
  ],
  'task.checkpoint.resolved': [
    ['blocked', 'in_progress'],
    ['blocked', 'completed'],
  ],
  'task.checkpoint.expired': [['blocked', 'blocked']],
  'task.checkpoint.declined': [['blocked', 'blocked']],
  'task.completed': [
    ['accepted', 'completed'],
    ['completed', 'completed'],
  ],
  'artifact.committed': [
    ['in_progress', 'review_ready'],
    ['in_progress', 'in_progress'],
  ],
  'artifact.edited': [
    ['blocked', 'blocked'],
    ['blocked', 'review_ready'],
  ],
  'review.submitted': [
    ['review_ready', 'in_progress'],
    ['review_ready', 'accepted'],
    ['review_ready', 'rejected'],
  ],
  'task.cancelled': [
    ['created', 'completed'],
    ['assigned', 'completed'],
    ['in_progress', 'completed'],
    ['blocked', 'completed'],
  ],
  'ownership.delegated': [
    ['assigned', 'assigned'],
    ['in_progress', 'in_progress'],
  ],
}
const staysAsItIs = new Set([
  'ownership.transferred',
  'task.extended',
  'task.overdue',
  'task.reviewer_added',
  'task.reviewer_removed',
  'task.child_added',
])
const executorHolds = new Set(['assigned', 'in_progress'])
export const isOver = (state: string): boolean => state === 'completed' || state === 'rejected'

const neverChanges = [
  'collaboration.artifact/',
  'collaboration.review/',
  'collaboration.entry/',
  'collaboration.comment/',
  'collaboration.reference/',
  'collaboration.amendment/',
  'delegation.request/',
  'delegation.report/',
]
/** Decisions that are for people, whatever else happens. */
const forPeople = new Set([
  'task.checkpoint.resolved',
  'task.checkpoint.declined',
  'review.submitted',
  'task.created',
  'task.cancelled',
  'task.extended',
  'task.reviewer_added',
  'task.interrupted',
  'task.taken_over',
  'task.returned',
  'task.amended',
  'grant.added',
  'grant.revoked',
  'artifact.edited',
  'request.completed',
  'request.declined',
  'request.voted',
  'request.claimed',
  'request.assigned',
  'request.questioned',
  'request.snoozed',
])
const SYSTEM = 'agent_system'
const ADMIN = 'service_admin'

export type Laws = {
  judge(fact: SeenFact): void
  /** Laws between documents that hold once a transaction is whole. */
  judgeGroup(group: Group): void
  /** When all is quiet. */
  judgeEnd(now: string): void
}

export function createLaws(disk: MemoryDisk, record: FactRecord, isAcknowledged: Acknowledged, fail: Fail): Laws {
  const activeKeys = new Map<string, Set<string>>()
  const pendingOf = new Map<string, Set<string>>()
  const families = createFamilyLaws(record, fail)
  const items = createItemLaws(record, fail)
  const requests = createRequestLaws(disk, record, fail)
  const questions = createQuestionLaws(record, fail)
  const runs = createRunLaws(disk, record, isAcknowledged, fail)
  const places = createPlaceLaws(disk, record, fail)
  let touched = new Set<string>()
  const waiting = new Map<string, string>()
  for (const entry of disk.entries) noteTime(entry, true)
  const docOf = (key: string): any => record.docs.get(key)?.value ?? null

  function judge(fact: SeenFact): void {
    const { line, images } = fact
    const action = line.action.slice(line.action.indexOf('/') + 1)
    for (const { key, before, after } of images) {
      if (before !== null && neverChanges.some((prefix) => key.startsWith(prefix))) fail(`${action} changes ${key}, which never changes`)
      if (key.startsWith(TASK)) judgeTask(action, before, after, fail)
      if (key.startsWith(CHECKPOINT)) judgeCheckpoint(fact, before, after)
      if (key.startsWith('identity.key/')) noteKey(after)
      if (key.startsWith(GRANT)) judgeGrant(fact, before, after, fail)
      if ([TASK, CHECKPOINT, UPLOAD].some((prefix) => key.startsWith(prefix))) touched.add(key)
    }
    if (action === 'artifact.committed') judgePlan(fact, fail)
    if (action === 'artifact.edited') judgeEdit(fact)
    runs.judge(fact)
    places.judge(fact)
    families.judge(fact)
    items.judge(fact)
    requests.judge(fact)
    questions.judge(fact)
    if (action !== 'authorization.denied') judgeActor(fact, action)
  }

  function noteKey({ id, subject, revoked_at }: { id: string; subject: string; revoked_at: string | null }): void {
    const keys = activeKeys.get(subject) ?? new Set()
    activeKeys.set(subject, keys)
    if (revoked_at === null) keys.add(id)
    else keys.delete(id)
  }

  function judgeCheckpoint({ line }: SeenFact, before: any, after: any): void {
    const what = `${line.action} on ${after.id}`
    if (before !== null && before.state !== 'pending') fail(`${what}: it was ${before.state} already`)
    const open = pendingOf.get(after.task_id) ?? new Set()
    pendingOf.set(after.task_id, open)
    if (after.state === 'pending') open.add(after.id)
    else open.delete(after.id)
    if (after.kind === 'interrupt' && !after.raised_by.startsWith('user_')) fail(`${what}: only people interrupt`)
    const byItsTime = (after.state === 'expired' && line.detail?.['on_expiry'] !== undefined) || (after.overdue && !before?.overdue)
    // The administrator may end what is due; with a stated default it is the principal's policy that answers then.
    const byDefault = after.state === 'resolved' && (line.actor === SYSTEM || line.actor === ADMIN)
    if ((byItsTime || byDefault) && after.expires_at !== null && line.at < after.expires_at) fail(`${what}: before its time`)
    // With a request behind it, it is the request's time that is up, and nothing is approved.
    if (byDefault && after.request_id !== undefined) {
      const { expires_at } = docOf(REQUEST + after.request_id)
      if (expires_at === null || line.at < expires_at || after.resolution.action === 'approve') fail(`${what}: nobody answered it`)
    } else if (byDefault && (after.on_expiry !== 'default' || line.basis.kind !== 'policy'))
      fail(`${what}: ${line.actor} decided without a policy`)
  }

  /** A person delivers what they have taken over, and nobody else does. */
  function judgeEdit({ line, images }: SeenFact): void {
    const task = images.find(({ key }) => key.startsWith(TASK))
    if (task?.after.state !== 'review_ready') return
    const what = `${line.action} delivers ${task.after.id}`
    if (line.actor !== task.after.ownership.principal) fail(`${what} by ${line.actor}, who did not take it over`)
    if (docOf(CHECKPOINT + task.before.pending_checkpoint)?.takeover !== true) fail(`${what}, which nobody took over`)
  }

  /** The identity documents are as they were when the fact was made: facts are judged in the order of the record. */
  function judgeActor({ line, images }: SeenFact, action: string): void {
    const { actor } = line
    if (actor === SYSTEM || actor.startsWith('service_')) {
      if (actor !== SYSTEM && forPeople.has(action) && line.cause === null && line.basis.kind !== 'policy')
        fail(`${actor} decided: ${action}`)
      return
    }
    const person = docOf(`identity.user/${actor}`)
    const known = person ?? docOf(`identity.agent/${actor}`)
    if (known === null) return fail(`${action} by ${actor}, whom nobody registered`)
    if (known.disabled) fail(`${action} by ${actor}, who is switched off`)
    if (!activeKeys.get(actor)?.size) fail(`${action} by ${actor}, whose keys are all revoked`)
    if (person === null && line.cause === null && forPeople.has(action)) fail(`an agent decided: ${action} by ${actor}`)
    // A question that nobody of the project can answer reaches the owner of the installation.
    const isReached = known.role === 'owner' && line.action.startsWith('execution/')
    const isMember = known.projects.some(({ project_id }: { project_id: string }) => project_id === line.scope)
    if (!isReached && !isMember && line.scope !== 'system') fail(`${action} by ${actor}, who is not in ${line.scope}`)
    // A deny is met by those who work on parts of its task as well.
    const below = (action === 'grant.used' ? line.detail?.['below'] : undefined) as string | undefined
    const task = images.find(({ key }) => key.startsWith(TASK))?.before ?? docOf(`${TASK}${below ?? line.task}`)
    if (person === null && task?.state === 'blocked' && (action === 'ledger.written' || action === 'artifact.referenced'))
      fail(`${action} by ${actor}, whose task ${task.id} is blocked`)
    // The laws of runs say whose word on a run it is.
    const isOfRun = line.action.startsWith('delegation/')
    if (line.cause === null && task !== null && !isOfRun && !isParty(action, actor, task))
      fail(`${action} by ${actor}, whose task it is not`)
  }

  function judgeGroup(group: Group): void {
    for (const [i, entry] of group.entries.entries()) noteTime(entry, group.present[i]!)
    for (const { key } of [...group.create, ...group.update])
      if (key.startsWith(FORGETTING) && !docOf(RUN + key.slice(FORGETTING.length))?.ended_at)
        fail(`${key}: it is forgotten while it goes on`)
    runs.judgeGroup()
    places.judgeGroup(group)
    families.judgeGroup()
    items.judgeGroup()
    requests.judgeGroup()
    questions.judgeGroup()
    const all = touched
    touched = new Set()
    for (const key of all) {
      const value = docOf(key)
      if (key.startsWith(TASK)) judgeWaiting(value)
      else if (key.startsWith(UPLOAD)) judgeTime(key, value.state === 'open' ? dayAfter(value.at) : null)
      else judgeTime(key, value.state === 'pending' && !value.overdue ? value.expires_at : null)
    }
  }

  function judgeWaiting(task: any): void {
    const open = pendingOf.get(task.id)?.size ?? 0
    if (open !== (task.state === 'blocked' ? 1 : 0)) fail(`${task.id} is ${task.state} with ${open} pending checkpoints`)
    if ((task.pending_checkpoint === null) !== (open === 0))
      fail(`${task.id} waits for ${task.pending_checkpoint}, and ${open} are pending`)
    if (task.pending_checkpoint !== null && !pendingOf.get(task.id)?.has(task.pending_checkpoint))
      fail(`${task.id} waits for a decided one`)
    // Its executor would be refused for ever, and no timer would tell anybody.
    if (executorHolds.has(task.state) && task.overdue && task.executor !== task.ownership.principal)
      fail(`${task.id} is late and ${task.state}, and nobody will be asked about it`)
    const isTimed = !isOver(task.state) && !task.overdue
    const spentAt =
      task.max_duration === null || task.active_since === null
        ? null
        : Date.parse(task.active_since) + minutes(task.max_duration) - task.active_ms
    const times: string[] = [task.deadline, spentAt === null ? null : new Date(spentAt).toISOString()].filter((at) => at !== null)
    judgeTime(TASK + task.id, isTimed ? (times.toSorted()[0] ?? null) : null)
  }

  function noteTime(entry: string, isThere: boolean): void {
    if (!entry.startsWith(WAITING)) return
    const [, at, key] = entry.split('\0') as [string, string, string]
    if (isThere) waiting.set(key, at)
    else if (waiting.get(key) === at) waiting.delete(key)
  }
  function judgeTime(key: string, due: string | null): void {
    const at = waiting.get(key) ?? null
    if (at !== due) fail(`${key} waits for ${at ?? 'no time'} instead of ${due ?? 'none'}`)
  }

  function judgeEnd(now: string): void {
    requests.judgeEnd(now)
    families.judgeEnd()
    places.judgeEnd()
  }

  return { judge, judgeGroup, judgeEnd }
}

const dayAfter = (at: string): string => new Date(Date.parse(at) + 24 * 3_600_000).toISOString()
const minutes = (duration: string): number => Number(/^PT(\d+)M$/.exec(duration)![1]) * 60_000

function judgeTask(action: string, before: any, after: any, fail: Fail): void {
  const from: string | null = before?.state ?? null
  const isStep = steps[action]?.some(([a, b]) => a === from && b === after.state) ?? (staysAsItIs.has(action) && from === after.state)
  if (!isStep) fail(`${action} takes ${after.id} from ${from} to ${after.state}`)
  const { principal, assignee, chain } = after.ownership
  // The actor to whom a task was transferred before it was assigned has it from then on.
  const isWithExecutor = executorHolds.has(after.state) || (after.state === 'created' && after.executor !== null)
  const holder = isWithExecutor ? after.executor : principal
  if (assignee !== holder) fail(`${after.id} is ${after.state} and held by ${assignee}, not by ${holder}`)
  let hand = principal
  for (const { from: giver, to } of chain) {
    if (giver !== hand) fail(`${after.id}: ${giver} handed on what ${hand} held`)
    hand = to
  }
  if (hand !== assignee) fail(`${after.id}: the chain ends with ${hand}, not with ${assignee}`)
  if (before === null) return
  if (before.ownership.principal !== principal) fail(`${action} changes the principal of ${after.id}`)
  if (JSON.stringify(before.spec) !== JSON.stringify(after.spec)) fail(`${action} changes the spec of ${after.id}`)
  if (JSON.stringify(chain.slice(0, before.ownership.chain.length)) !== JSON.stringify(before.ownership.chain))
    fail(`${action} rewrites the chain of ${after.id}`)
  // A new attempt stands below the rejected task that it names.
  const isTriedAnew = action === 'task.child_added' && before.state === 'rejected'
  if (isOver(before.state) && action !== 'task.completed' && !isTriedAnew) fail(`${action} changes ${after.id}, which has ended`)
}

/** Nothing about a grant changes but how often it was used, and that it was taken back; what has ended is not used. */
function judgeGrant({ line }: SeenFact, before: any, after: any, fail: Fail): void {
  if (before === null) return
  const { used, revoked_at, ...rest } = before
  const what = `${line.action} on ${after.id}`
  if (JSON.stringify(rest) !== JSON.stringify((({ used: _, revoked_at: __, ...same }) => same)(after))) fail(`${what} rewrites it`)
  if (revoked_at !== null) fail(`${what}: it was revoked`)
  if (after.used !== used && (after.used !== used + 1 || line.basis.id !== after.id)) fail(`${what}: it was used ${after.used} times`)
  if (after.uses !== null && after.used > after.uses) fail(`${what}: it was used more often than it may be`)
}

/** Autonomy has teeth. */
function judgePlan({ line, images }: SeenFact, fail: Fail): void {
  const made = images.find(({ key }) => key.startsWith('collaboration.artifact/'))!.after
  const task = images.find(({ key }) => key.startsWith(TASK))!.before
  if (task.spec.constraints.autonomy === 'plan_then_implement' && made.kind !== 'plan' && !task.plan_approved)
    fail(`${line.action} on ${task.id}: delivered before a plan was approved`)
}

/** The actor whose event it is on this task. */
function isParty(action: string, actor: string, task: any): boolean {
  const isPrincipal = actor === task.ownership.principal
  const isReviewer = task.reviewers.includes(actor) && actor !== task.executor
  const isExecutor = actor === task.executor
  if (action === 'request.created') return isExecutor
  if (
    [
      'request.completed',
      'request.declined',
      'task.checkpoint.resolved',
      'task.checkpoint.declined',
      'review.submitted',
      'review.commented',
      'artifact.edited',
    ].includes(action)
  )
    return isPrincipal || isReviewer
  if (action === 'artifact.uploaded') return isPrincipal || isReviewer || isExecutor
  if (action === 'grant.used') return isExecutor
  if (action === 'task.started' || action === 'task.checkpoint.raised' || action === 'artifact.committed') return isExecutor
  if (action === 'ownership.delegated') return isExecutor && task.ownership.delegable
  if (action === 'ledger.written' || action === 'artifact.referenced') return isExecutor || isPrincipal || actor === task.ownership.assignee
  if (action === 'ownership.transferred') return actor === ADMIN || isPrincipal
  if (action === 'task.checkpoint.expired') return actor === ADMIN
  return isPrincipal
}
