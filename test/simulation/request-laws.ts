// Laws of every request without a task, written down a second time and apart from the code that is tested: how it moves, who may end it and
// with what, that time neither approves nor comes early, and that the indexes say the same as the documents.
import { entriesOf, idOf, kindOf } from '#kernel/declare/schema.ts'
import type { MemoryDisk } from '#stores/memory.ts'
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'
import { isUnbound } from './requests.ts'
import { OWNER } from './world.ts'

const REQUEST = 'execution.request/'
const SYSTEM = 'agent_system'

const open = ['pending', 'assigned'] as const
const same = open.map((state) => [state, state] as const)
const from = (end: string): (readonly [string, string])[] => open.map((state) => [state, end])

/** Which steps of its status each event may show; null: the request is new. */
const steps: Record<string, readonly (readonly [string | null, string])[]> = {
  // A pool without people: a person outside it has the request from the start.
  created: [
    [null, 'pending'],
    [null, 'assigned'],
  ],
  completed: from('completed'),
  failed: from('failed'),
  cancelled: from('cancelled'),
  voted: [['pending', 'pending']],
  claimed: from('assigned'),
  released: [['assigned', 'pending']],
  assigned: [...same, ['pending', 'assigned']],
  // A pool has back what somebody had who is gone.
  rerouted: [...same, ['assigned', 'pending']],
}
const staysAsItIs = new Set(['expired', 'extended', 'escalated', 'reminded', 'snoozed', 'unsnoozed', 'woken', 'questioned', 'replied'])
const neverChanges = [
  'kind',
  'action',
  'role',
  'timeout_seconds',
  'fallback',
  'agent_id',
  'requester',
  'project_id',
  'metadata',
  'tags',
  'payload',
  'created_at',
  'owner',
  'quorum',
  'remind_seconds',
]

const isOpen = ({ status }: any): boolean => (open as readonly string[]).includes(status as string)
const after = (at: string, seconds: number): string => new Date(Date.parse(at) + seconds * 1_000).toISOString()
const startsWith = (all: any[] = [], first: any[] = []): boolean => JSON.stringify(all.slice(0, first.length)) === JSON.stringify(first)

export type RequestLaws = {
  judge(fact: SeenFact): void
  judgeGroup(): void
  /** When all is quiet: what time should have done is done. */
  judgeEnd(now: string): void
}

export function createRequestLaws(disk: MemoryDisk, record: FactRecord, fail: Fail): RequestLaws {
  const receipts = new Map<string, string>()
  /** Before the group, by key. */
  let touched = new Map<string, any>()
  const isOf = (who: string, project_id: string): boolean =>
    record.docs.get(`identity.user/${who}`)?.value.projects.some((one: any) => one.project_id === project_id) ?? false

  /** Between the two dates of a substitution, and where it holds. */
  const standsIn = (one: string, who: string, where: string, at: string): boolean =>
    record.docs
      .get(`identity.user/${one}`)
      ?.value.acts_for?.some(
        ({ user_id, from, until, project_id = where }: any) => user_id === who && from <= at && at < until && project_id === where,
      ) === true

  function judge(fact: SeenFact): void {
    for (const { key, before, after: next } of fact.images) {
      if (!key.startsWith(REQUEST)) continue
      if (!touched.has(key)) touched.set(key, before)
      if (next.receipt !== undefined) judgeReceipt(next)
      if (!isUnbound(next)) continue
      const wrong = (message: string): void => fail(`${fact.line.action} on ${next.id} by ${fact.line.actor}: ${message}`)
      judgeStep(fact, before, next, wrong)
      judgeTime(fact, before, next, wrong)
      if (next.receipt !== undefined) judgeEnding(fact, before, next, wrong)
      if (next.quorum !== undefined) judgeQuorum(before, next, wrong)
    }
  }

  function judgeReceipt({ id, receipt }: any): void {
    if ((receipts.get(receipt.receipt_id) ?? id) !== id) fail(`${receipt.receipt_id} is the receipt of ${id} and of another`)
    receipts.set(receipt.receipt_id, id)
  }

  function judgeStep({ line }: SeenFact, before: any, next: any, wrong: Fail): void {
    const action = line.action.slice('execution/request.'.length)
    const was: string | null = before?.status ?? null
    const isStep = steps[action]?.some(([a, b]) => a === was && b === next.status) ?? (staysAsItIs.has(action) && was === next.status)
    if (!isStep) wrong(`it goes from ${was} to ${next.status}`)
    for (const field of neverChanges)
      if (before !== null && JSON.stringify(before[field]) !== JSON.stringify(next[field])) wrong(`its ${field} changes`)
    if (before !== null && (!startsWith(next.thread, before.thread) || !startsWith(next.votes, before.votes)))
      wrong('what was said is taken back')
    if ((next.status === 'assigned') !== (next.role === 'pool' && next.assigned_to !== null && isOpen(next)) && isOpen(next))
      wrong(`it is ${next.status} with ${next.assigned_to}`)
    if (action === 'claimed' && before.assigned_to !== null && before.assigned_to !== line.actor) wrong(`${before.assigned_to} has it`)
    if (action === 'claimed' && next.assigned_to !== line.actor) wrong(`it went to ${next.assigned_to}`)
    // Recipients of before may have left; that they lose it is looked at when all is quiet.
    for (const who of next.people)
      if (before !== null && !before.people.includes(who) && who !== OWNER && !isOf(who, next.project_id))
        wrong(`${who} is not in ${next.project_id}`)
  }

  /** Nothing comes before its time, and nobody gets less of it. */
  function judgeTime({ line }: SeenFact, before: any, next: any, wrong: Fail): void {
    if (before === null) return
    const action = line.action.slice('execution/request.'.length)
    const isTimers = line.actor === SYSTEM
    const early: Record<string, () => string | undefined> = {
      expired: () => before.expires_at,
      reminded: () => after(before.reminded_at ?? before.created_at, before.remind_seconds),
      released: () => before.claimed_until,
      escalated: () => after(before.created_at, before.escalation.after_seconds),
      woken: () => before.snoozed.map(({ until }: any) => until).sort()[0],
    }
    const due = isTimers ? early[action]?.() : undefined
    if (isTimers && early[action] !== undefined && (due === undefined || due === null || line.at < due)) wrong(`before its time, ${due}`)
    if (action === 'reminded' && next.reminders !== (before.reminders ?? 0) + 1) wrong(`${next.reminders} times`)
    if (isTimers && action === 'escalated' && before.escalation.at !== undefined) wrong('a second time')
    if (action === 'extended' && next.expires_at !== null && next.expires_at <= before.expires_at) wrong('it got less time')
    else if (action !== 'extended' && next.expires_at !== before.expires_at) wrong('its deadline moves')
    if (next.overdue && !before.overdue && action !== 'expired') wrong('it is late all of a sudden')
  }

  /** The actor whose act it was, and whether it is one that may end it so. */
  function judgeEnding({ line }: SeenFact, before: any, next: any, wrong: Fail): void {
    const { status, result, by, completed_at, basis } = next.receipt
    const { fallback, expires_at, action, payload, project_id } = before
    if (status !== next.status) wrong(`its receipt says ${status}`)
    const isLate = expires_at !== null && expires_at <= completed_at
    // People are gone, and it cannot be decided any more (X28): a no is never recorded that nobody said.
    if (line.actor === SYSTEM && before.quorum !== undefined && status === 'failed' && next.receipt.reason === 'no_quorum') {
      if (result !== null || by !== SYSTEM) wrong(`nobody has decided it, and it says ${result} by ${by}`)
      return
    }
    if (line.actor === SYSTEM) {
      if (!isLate) wrong(`it ends before its time, ${expires_at}`)
      const isDefault = fallback === 'default' && action === 'DECIDE' && status === 'completed' && result === payload.default_option
      const isFailed = fallback === 'fail' && status === 'failed' && result === null
      if (!isDefault && !isFailed) wrong(`nobody answered it, and it is ${status}: ${result}`)
      if (by !== SYSTEM || basis.kind !== (isDefault ? 'default' : 'timer')) wrong(`its receipt names ${by}, by ${basis.kind}`)
      return
    }
    if (isLate && fallback !== 'pause') wrong(`it was answered at ${completed_at}, and its time was up at ${expires_at}`)
    if (status === 'cancelled') {
      if (line.actor !== next.requester) wrong('it was not theirs to withdraw')
      return
    }
    const isFor = (who: string): boolean => who === line.actor || standsIn(line.actor, who, project_id, completed_at)
    const isTheirs = [before.owner, ...before.people].some(isFor) && (before.quorum?.of.some(isFor) ?? true)
    const isOfPool = before.role === 'pool' && before.status === 'pending' && isOf(line.actor, project_id)
    if (!isTheirs && !isOfPool) wrong('it was not theirs to answer')
    if (status === 'failed' && before.quorum === undefined) wrong('a person does not fail it')
    if (status === 'completed' && by !== line.actor) wrong(`its receipt says that ${by} did`)
    if (status === 'completed' && !isAnswer(action, payload, result)) wrong(`${JSON.stringify(result)} is no answer to ${action}`)
  }

  function judgeQuorum(before: any, next: any, wrong: Fail): void {
    const { n, of } = next.quorum
    const votes: any[] = next.votes ?? []
    const voters = votes.map(({ by, in_place_of = by }) => in_place_of as string)
    if (new Set(voters).size < votes.length || new Set(votes.map(({ by }) => by)).size < votes.length) wrong('somebody has voted twice')
    for (const who of voters) if (!of.includes(who)) wrong(`${who} has no vote`)
    if (votes.length > (before?.votes?.length ?? 0) + 1) wrong('more than one vote at a time')
    const most = Math.max(0, ...[...Map.groupBy(votes, ({ result }) => result).values()].map((those) => those.length))
    const left = of.length - votes.length
    const isBy = next.receipt !== undefined && next.receipt.by !== SYSTEM
    const count = (result: unknown): number => votes.filter((vote) => vote.result === result).length
    const approvals = count('approved')
    if (next.action === 'APPROVE') {
      const should = approvals >= n ? 'approved' : approvals + left < n ? 'rejected' : undefined
      if (isOpen(next) && should !== undefined) wrong(`it is ${should}, and still open`)
      if (isBy && next.status === 'completed' && next.receipt.result !== should) wrong(`${approvals} of ${n} approve it`)
    } else {
      if (isOpen(next) && (most >= n || most + left < n)) wrong('it is decided, and still open')
      if (isBy && next.status === 'completed' && count(next.receipt.result) < n)
        wrong(`only ${count(next.receipt.result)} of ${n} chose it`)
    }
  }

  /** The rows of each request that changed are those of what it is now, and of nothing that it was. */
  function judgeGroup(): void {
    const all = touched
    touched = new Map()
    for (const [key, before] of all) {
      const rows = (value: any): string[] => entriesOf(kindOf(key), idOf(key), value).map(({ entry }) => entry)
      const is = rows(record.docs.get(key)!.value)
      for (const row of is) if (!disk.entries.has(row)) fail(`the index lacks ${row.replaceAll('\0', ' ')}`)
      for (const row of before === null ? [] : rows(before))
        if (!is.includes(row) && disk.entries.has(row)) fail(`the index still holds ${row.replaceAll('\0', ' ')}`)
    }
  }

  function judgeEnd(now: string): void {
    for (const [key, { value }] of record.docs) {
      if (!key.startsWith(REQUEST) || !isUnbound(value) || !isOpen(value)) continue
      const { expires_at, fallback, overdue, claimed_until, escalation, created_at, snoozed = [] } = value
      const isDue = (at: string | undefined | null): boolean => at !== undefined && at !== null && at <= now
      if (isDue(expires_at) && (fallback !== 'pause' || !overdue)) fail(`${key} waits past its time, ${expires_at}, and nothing was done`)
      if (isDue(claimed_until)) fail(`${key} is claimed past the time of its claim`)
      if (escalation && escalation.at === undefined && isDue(after(created_at, escalation.after_seconds)))
        fail(`${key} was never escalated`)
      if (snoozed.some(({ until }: any) => isDue(until))) fail(`${key} is snoozed past its time`)
    }
  }

  return { judge, judgeGroup, judgeEnd }
}

function isAnswer(action: string, payload: any, result: any): boolean {
  if (action === 'APPROVE') return result === 'approved' || result === 'rejected'
  if (action === 'DECIDE') return payload.options.includes(result)
  if (action === 'VERIFY') return ['confirmed', 'refuted', 'cannot_tell'].includes(result as string)
  return payload.sensitive === true ? typeof result?.secret_id === 'string' : typeof result === 'string' && result !== ''
}
