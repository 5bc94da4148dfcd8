// Incoming commands of other harnesses: task_submit passes the gate, abort goes to its session, and a repeated submission gets its first
// answer again.
import { limits } from '#kernel/limits.ts'
import { image, put, putNew } from '#kernel/declare/facts.ts'
import type { Bound, Change, Context, Made, Read } from '#kernel/declare/operation.ts'
import { Delivery, deliveryId } from '#kernel/log/outbox-document.ts'
import { fact } from '../events.ts'
import { harnessIn, whole } from '../access.ts'
import { digestOf, EVENTS, eventKey, isHarnessId, isUuid, uuidOf, type Envelope, type Payload } from '../envelope.ts'
import { judge, type Gate, type Passed, type Verdict } from '../gate/gate.ts'
import { Answer, answerId, Caller, Capability, Cursor, Session, Snapshot, Stranger, Task, type Rejection } from '../schema.ts'
import { isEnded } from '../states.ts'
import type { DeadReason } from '../message-decoder.ts'
import { accept, beginAbort, reject, tokenFor, wait } from './acceptance.ts'
import {
  AMQP,
  sealConfidential,
  deliveryOf,
  outcomeOf,
  envelopeOf,
  isSealed,
  newCursor,
  sessionWork,
  sealedOf,
  type MaybeSealed,
  type Outgoing,
} from './session-work.ts'

export type Outcome = {
  readonly outcome: 'taken' | 'duplicate' | 'dead' | 'dropped'
  readonly reason: DeadReason | null
  readonly detail: string | null
}
export type Plan = {
  readonly facts: readonly Made[]
  readonly puts: readonly Change[]
  readonly output: Outcome
  readonly atMost?: readonly Bound[]
}

const planOf = (output: Outcome): Plan => ({ facts: [], puts: [], output })
export const dead = (reason: DeadReason, detail: string): Plan => planOf({ outcome: 'dead', reason, detail })
export const TAKEN: Outcome = { outcome: 'taken', reason: null, detail: null }
export const DUPLICATE: Plan = planOf({ outcome: 'duplicate', reason: null, detail: null })

/** An unauthorized broker user has used up its refusals for this minute: the message is acknowledged and dropped. */
const DROPPED: Plan = planOf({
  outcome: 'dropped',
  reason: 'unauthorized',
  detail: `more than ${limits.harnessStrangersPerMinute} refused messages a minute`,
})

/** `in_reply_to`: the submission that it answers, from its payload or its header. */
export type Incoming = { readonly user_id: string | null; readonly envelope: Envelope; readonly in_reply_to: string | null }

/** The sender as the broker names it; if that check is off, as the message names it. */
export const senderOf = ({ user_id }: Incoming, claimed: unknown, { terms }: Context): string | null =>
  harnessIn({ terms }).checksSenders ? user_id : isHarnessId(claimed) ? claimed : null

// --- task_submit -----------------------------------------------------------------------------------------------------------

export async function takeSubmission(read: Read, incoming: Incoming, context: Context): Promise<Plan> {
  const { payload, message_id } = incoming.envelope
  const sender = senderOf(incoming, payload['caller_id'], context)
  if (sender === null || sender !== payload['caller_id']) return refuseUnauthorized(read, incoming, context)
  const known = await read.raw(Answer, answerId(sender, message_id))
  if (known !== null) return again(read, known, payload, context)
  const gate = await gateFor(read, payload, sender, context)
  const isStranger = gate.caller === null || gate.caller.disallowed
  const counted = isStranger ? await refusalCounted(read, sender, context) : []
  if (counted === null) return DROPPED
  const plan = await openSession(read, incoming.envelope, gate, judge(payload, gate), isStranger, context)
  return { ...plan, puts: [...plan.puts, ...counted] }
}

/** One more refusal of a broker user without rights here; null: it has had as many in this minute as it gets. */
export async function refusalCounted(read: Read, user: string, context: Context): Promise<Change[] | null> {
  // If the broker proves no sender, names are only claims: all senders are counted as one.
  const id = harnessIn(context).checksSenders ? user : '*'
  const before = await read.raw(Stranger, id)
  const isSame = before !== null && Date.parse(context.now) - Date.parse(before.since) < MINUTE_MS
  const next = isSame ? { ...before, count: before.count + 1 } : { id, since: context.now, count: 1 }
  return next.count > limits.harnessStrangersPerMinute ? null : [put(Stranger, id, next)]
}
const MINUTE_MS = 60_000

/** The first answer once more, byte by byte; another task under the same id is no repetition (C24). */
async function again(read: Read, known: Answer, payload: Payload, { now }: Context): Promise<Plan> {
  if (known.digest !== digestOf(payload)) return dead('message_id_reused', 'the message_id was used before with another payload')
  const cursor = known.session === null ? null : await read.raw(Cursor, known.session)
  if (cursor === null) return DUPLICATE
  // An answer that has not left yet need not be sent twice.
  if ((await read.raw(Delivery, deliveryId(AMQP, cursor.id, String(cursor.sent).padStart(9, '0')))) !== null) return DUPLICATE
  const sent = known.deliveries as Outgoing[]
  return {
    facts: [],
    puts: [
      ...sent.map((outgoing, i) => deliveryOf(cursor.id, cursor.sent + 1 + i, outgoing, now)),
      put(Cursor, cursor.id, { ...cursor, sent: cursor.sent + sent.length }),
    ],
    output: DUPLICATE.output,
  }
}

/** C19: creates no session. The answer goes to the broker user; to a known named caller only if the broker names no user. */
async function refuseUnauthorized(read: Read, { user_id, envelope }: Incoming, context: Context): Promise<Plan> {
  const named = envelope.payload['caller_id']
  const isKnown = isHarnessId(named) && (await read.raw(Caller, named)) !== null
  const to = isHarnessId(user_id) ? user_id : user_id === null && isKnown ? named : null
  const rejection = {
    reason_code: 'unauthorized',
    reason_message:
      user_id === null ? 'the message does not name its sender (user_id)' : 'caller_id is not the broker user that sent the message',
    suggestion: 'connect as the user whose name is caller_id, and set the user_id property to it',
  }
  if (to === null) return planOf(TAKEN)
  const counted = await refusalCounted(read, to, context)
  if (counted === null) return DROPPED
  return { facts: [], puts: [strangerAnswer(to, envelope.message_id, rejection, context), ...counted], output: TAKEN }
}

/** An answer without a session carries a random session id. */
export function strangerAnswer(to: string, in_reply_to: string, rejection: Rejection, context: Context): Change {
  const { id: from } = harnessIn(context)
  const session_id = uuidOf(context.secret())
  const envelope = envelopeOf('task_rejected', session_id, { ...rejection, in_reply_to }, context)
  const outgoing: Outgoing = {
    exchange: EVENTS,
    key: eventKey(to, session_id, 'task_rejected'),
    from,
    envelope,
    sealed: {},
    session: null,
    stranger: true,
  }
  // One lane for each stranger, however much it sends.
  const [lane, order] = [`stranger/${to}`, `${context.now}-${session_id}`]
  const id = deliveryId(AMQP, lane, order)
  return putNew(Delivery, id, { id, channel: AMQP, lane, due: context.now, attempt: 0, body: outgoing, error: null })
}

async function gateFor(read: Read, payload: Payload, sender: string, { now, terms }: Context): Promise<Gate> {
  const name = typeof payload['capability'] === 'string' ? payload['capability'] : ''
  const [caller, capability] = await Promise.all([read.raw(Caller, sender), name === '' ? null : read.raw(Capability, name)])
  const resources = capability === null ? [] : resourcesOf(capability)
  const counts = await Promise.all(
    resources.map(async (resource) => [resource, await read.count(Session, 'resource', [resource])] as const),
  )
  return {
    sender,
    caller,
    capability,
    isPrivate: terms.harness!.isPrivate,
    now,
    busyResources: new Set(counts.filter(([, count]) => count > 0).map(([resource]) => resource)),
    openSessions: capability === null ? 0 : await read.count(Session, 'open', [capability.id]),
    agentBusy: capability === null ? null : await busyOf(read, capability.agent_id),
    resumed: await resumedBy(read, payload, sender),
    approvers: capability === null ? [] : await approversOf(read, capability),
  }
}

export const resourcesOf = ({ capability, context_rules }: Capability): string[] => [
  ...new Set([
    ...(capability.safety?.resource_types ?? []),
    ...context_rules.flatMap((rule) => (rule.kind === 'resource' ? [rule.resource] : [])),
  ]),
]

/** Why an agent takes no work: disabled, unavailable, or at its limit of runs. */
export async function busyOf(read: Read, agent_id: string): Promise<string | null> {
  const subject = await read.subject(agent_id)
  if (subject === null || subject.kind !== 'agent' || subject.disabled || subject.projects.size === 0)
    return 'the agent of the capability is switched off'
  const { runs } = read.ports
  const card = await runs.card(read, agent_id)
  if (card?.available === false) return 'the agent of the capability takes no new work'
  if (card !== null && card.concurrency !== null && (await runs.running(read, agent_id)) >= card.concurrency)
    return 'the agent of the capability works on as many runs as it takes at a time'
  return null
}

/** The named people, or the agent's owner if none of them can approve. */
export async function approversOf(read: Read, { approvers, agent_id }: Capability): Promise<string[]> {
  const owner = (await read.subject(agent_id))?.owner
  return approvers.length > 0 ? approvers : owner ? [owner] : []
}

/** The named snapshot of an ended session of the same caller; by default the newest one that can be resumed. */
async function resumedBy(read: Read, payload: Payload, sender: string): Promise<Snapshot | null | undefined> {
  const from = payload['resume_from'] as { session_id?: unknown; checkpoint_id?: unknown } | null | undefined
  if (from === undefined) return undefined
  if (typeof from !== 'object' || from === null || !isUuid(from.session_id)) return null
  const session = await read.raw(Session, from.session_id)
  if (session === null || session.role !== 'callee' || session.caller_id !== sender || !isEnded(session.state)) return null
  const wanted = from.checkpoint_id ?? (await read.raw(Cursor, session.id))?.snapshot ?? null
  const snapshot = typeof wanted === 'string' ? await read.raw(Snapshot, `${session.id}/${wanted}`) : null
  return snapshot?.resumable === true ? snapshot : null
}

const CONFIDENTIAL = ['intent', 'inputs', 'context', 'expected_output'] as const

/** Opens a session for every submission at the gate: it waits, runs, or was rejected (C19). */
async function openSession(
  read: Read,
  envelope: Envelope,
  gate: Gate,
  verdict: Verdict,
  isStranger: boolean,
  context: Context,
): Promise<Plan> {
  const session = await sessionFor(read, envelope, gate, verdict, context)
  const work = sessionWork(session, newCursor(session), context)
  if (isStranger) work.stranger = true
  const passed = 'passed' in verdict ? verdict.passed : null
  const task = await taskFor(work.session, envelope.payload, passed, gate, context)
  let outgoing: Outgoing
  let token: string | null = null
  let begun: Made | null = null
  if (passed === null) {
    outgoing = reject(work, (verdict as { rejected: Rejection }).rejected, false)
  } else if (passed.asks !== null) {
    outgoing = wait(work, gate.capability!)
    begun = fact('session.waiting', [image(Session, work.session)], { detail: { risk: passed.risk_level, data: passed.data } })
  } else {
    token = await tokenFor(session, gate.capability!, passed.submission.constraints?.max_duration, context)
    outgoing = accept(work, gate.capability!, passed.submission.constraints, token)
  }
  const answer: Answer = {
    id: answerId(gate.sender!, envelope.message_id),
    session: session.id,
    digest: digestOf(envelope.payload),
    deliveries: [outgoing],
    token,
  }
  const done = outcomeOf(work)
  const first = fact('session.opened', [image(Session, { ...session, waiting_for: null }), image(Task, task)], {
    detail: { capability: session.capability, caller_id: session.caller_id, data: session.data_classification },
  })
  return {
    facts: [first, ...(begun === null ? [] : [begun]), ...done.facts],
    puts: [...done.puts, put(Answer, answer.id, answer)],
    output: TAKEN,
    atMost: passed === null ? [] : boundOf(gate.capability!),
  }
}

/** Checked at the commit: of two concurrent submissions the second decides again, and is refused as busy. */
function boundOf({ id, capability }: Capability): Bound[] {
  const max = capability.constraints?.concurrent_limit
  if (max === undefined) return []
  return [{ doc: Session, index: 'open', prefix: [id], max, message: `${id} works on ${max} sessions at a time`, decidesAgain: true }]
}

async function sessionFor(read: Read, { payload, message_id }: Envelope, gate: Gate, verdict: Verdict, context: Context): Promise<Session> {
  const { now, secret } = context
  const id = uuidOf(secret())
  const passed = 'passed' in verdict ? verdict.passed : null
  const agent_id = gate.capability?.agent_id ?? null
  const projects = agent_id === null ? null : (await read.subject(agent_id))?.projects
  const claimed = (payload['constraints'] as { data_classification?: unknown } | undefined)?.data_classification
  const data = passed?.data ?? (claimed === 'T2' || claimed === 'T3' || claimed === 'T4' ? claimed : 'T1')
  return {
    ...blankSession,
    id,
    session_id: id,
    role: 'callee',
    risk_level: passed?.risk_level ?? null,
    data_classification: data,
    caller_id: gate.sender!,
    callee_id: harnessIn(context).id,
    submit_id: message_id,
    capability: typeof payload['capability'] === 'string' ? payload['capability'].slice(0, 200) : '',
    created_at: now,
    updated_at: now,
    project_id: [...(projects?.keys() ?? [])][0] ?? 'project_default',
    agent_id: passed === null ? null : agent_id,
    resources: gate.capability === null ? [] : resourcesOf(gate.capability),
  }
}

export const blankSession = {
  state: 'PENDING',
  reason: null,
  waiting_for: null,
  risk_level: null,
  accepted_at: null,
  ended_at: null,
  outputs: null,
  outputs_valid: null,
  partial_outputs: null,
  artifacts: [],
  error: null,
  error_details: null,
  execution_summary: null,
  rejection: null,
  metadata: {},
  submitted_by: null,
  agent_id: null,
  run_id: null,
  task_id: null,
  abort_reason: null,
  deadline: null,
  resources: [],
  sealed: null,
} satisfies Partial<Session>

/** The submitted task, as the run's input and the people who are asked will see it. */
async function taskFor(
  { id, project_id, data_classification }: Session,
  payload: Payload,
  passed: Passed | null,
  gate: Gate,
  context: Context,
): Promise<Task> {
  const submission: Payload = passed === null ? {} : { ...passed.submission }
  if (passed !== null && gate.resumed)
    submission['snapshot'] = { session_id: gate.resumed.session, checkpoint_id: gate.resumed.checkpoint_id }
  return { id, project_id, ...(await sealedFields(submission, data_classification, context)), declaration: gate.capability }
}

export async function sealedFields(
  submission: Payload,
  data: Session['data_classification'],
  context: Context,
): Promise<Pick<Task, 'submission' | 'sealed'>> {
  if (!isSealed(data)) return { submission, sealed: null }
  const confided: Record<string, MaybeSealed> = {}
  const plain = { ...submission }
  for (const name of CONFIDENTIAL) {
    if (plain[name] === undefined) continue
    confided[name] = await sealConfidential(context, data, plain[name])
    delete plain[name]
  }
  return { submission: plain, sealed: sealedOf(confided) }
}

// --- abort -----------------------------------------------------------------------------------------------------------------

export async function takeAbort(read: Read, incoming: Incoming, context: Context): Promise<Plan> {
  const { session_id, payload, message_id } = incoming.envelope
  const session = await read.raw(Session, session_id!)
  const { checksSenders } = harnessIn(context)
  if (checksSenders && incoming.user_id === null) return dead('unauthorized', 'the message does not name its sender (user_id)')
  if (session === null || session.role !== 'callee') return dead('unknown_session', `there is no session ${session_id}`)
  if (checksSenders && incoming.user_id !== session.caller_id) return dead('foreign_session', 'the session is another caller’s')
  const token = payload['session_token']
  // While people decide there is no token yet, so the caller cannot present one.
  const isShown = token !== undefined || (!checksSenders && session.state !== 'PENDING')
  if (isShown) {
    const claims = typeof token === 'string' ? await context.notary.granted(token) : null
    if (claims === null || claims['sid'] !== session.id || claims['sub'] !== session.caller_id)
      return dead('invalid_token', 'session_token is missing, or is not the token of this session')
  }
  if (isEnded(session.state) || session.state === 'ABORTING') return DUPLICATE
  const state = await whole(read, session)
  if (state.cursor.seen.some((entry) => entry.message_id === message_id)) return DUPLICATE
  const work = sessionWork(session, { ...state.cursor, seen: [...state.cursor.seen, { message_id, digest: '' }].slice(-20) }, context)
  const reason = typeof payload['reason'] === 'string' ? payload['reason'].slice(0, 1_000) : 'the caller aborted it'
  beginAbort(work, state.task.declaration!, reason)
  return { ...outcomeOf(work), output: TAKEN }
}
