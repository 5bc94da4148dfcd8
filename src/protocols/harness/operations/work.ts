// Work on a session by the agent that executes it: reports, snapshots, the guard of the safety envelope, pauses (HCP 1.0, L2 and L3).
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { either, nullable, parse, t } from '#kernel/declare/schema.ts'
import { Attempt, executedSession, executor, isPresentAttempt, isRunning, isWorkedOn, type AtWork } from '../access.ts'
import { uuidOf } from '../envelope.ts'
import { Id, Open, Snapshot, Words, type SafetyEnvelope } from '../schema.ts'
import {
  changeState,
  sealConfidential,
  updateSession,
  outcomeOf,
  emitEvent,
  sessionWork,
  type SessionWork,
} from '../session/session-work.ts'
import { sessionOutcome, SessionView } from '../session/view.ts'
import type { Context } from '#kernel/declare/operation.ts'

/** The first event of a new attempt says that it continues from a snapshot (C23). */
export function workInProgress({ session, cursor, attempt }: AtWork, context: Context): SessionWork {
  const work = sessionWork(session, cursor, context)
  if (attempt === cursor.attempt) return work
  work.cursor = { ...cursor, attempt }
  const { state } = session
  if (cursor.snapshot !== null)
    emitEvent(work, 'state_changed', {
      from_state: state,
      to_state: state,
      reason: 'recovered_from_checkpoint',
      checkpoint_id: cursor.snapshot,
    })
  return work
}

const label = t.String({ maxLength: limits.labelCharsMax })
/** Made once: a schema is compiled with its first use. */
const dataOf = <S extends Parameters<typeof t.Object>[0]>(fields: S) => t.Object({ data: t.Object(fields) })
const reports = {
  progress: dataOf({ stage: label, percent: t.Optional(t.Number({ minimum: 0, maximum: 100 })), message: t.Optional(Words) }),
  intermediate_result: dataOf({ result_type: label, data: t.Unknown(), is_partial: t.Optional(t.Boolean()) }),
  log: dataOf({ level: either('info', 'warn', 'error'), message: Words, details: t.Optional(t.Unknown()) }),
  warning: dataOf({ code: label, message: Words, details: t.Optional(t.Unknown()) }),
  error: dataOf({ code: label, message: Words, recoverable: t.Optional(t.Boolean()) }),
} as const

const report = command({
  name: 'harness.report',
  summary: 'Report the work on a session to its caller: progress, an intermediate result, a log line, a warning or an error.',
  draft: 'HCP 1.0, L2: Event Types',
  input: t.Object({
    session_id: Id,
    attempt: Attempt,
    event_type: either('progress', 'intermediate_result', 'log', 'warning', 'error'),
    data: { ...Open, description: 'the fields of its type: stage and message of progress, code and message of a warning' },
  }),
  output: t.Object({ sequence: t.Integer() }),
  callers: [system, executor],
  requires: [isWorkedOn, isPresentAttempt],
  audit: 'session.event',
  async load(read, { session_id, data }, context) {
    const state = await executedSession(read, session_id)
    return { ...state, told: await sealConfidential(context, state.session.data_classification, data) }
  },
  decide({ told, ...state }, { event_type, data }, context) {
    parse(reports[event_type], { data })
    const work = workInProgress(state, context)
    emitEvent(work, event_type, told)
    if (event_type === 'progress') work.cursor = { ...work.cursor, steps: work.cursor.steps + 1 }
    if (event_type === 'warning') noteWarning(work, told.sealed === null ? data : { code: (data as { code: string }).code })
    return { ...outcomeOf(work), output: { sequence: work.cursor.sequence } }
  },
  example: {
    given: 'executing',
    as: 'devin',
    input: ({ session: { session_id } }) => ({
      session_id,
      event_type: 'progress',
      data: { stage: 'heating', percent: 20, message: 'The oven heats up.' },
    }),
  },
})

function noteWarning(work: SessionWork, data: object): void {
  work.cursor = { ...work.cursor, warnings: [...work.cursor.warnings, data].slice(-limits.harnessNotesMax) }
}

function noteRisk(work: SessionWork, risk: object): void {
  const risk_events = [...work.cursor.risk_events, { ...risk, at: work.context.now }].slice(-limits.harnessNotesMax)
  work.cursor = { ...work.cursor, risk_events }
}

const snapshot = command({
  name: 'harness.snapshot',
  summary: 'Keep the state of the work, so that a later attempt or session can continue from it. The caller is notified.',
  draft: 'HCP 1.0, L2: Checkpoint and Recovery',
  input: t.Object({
    session_id: Id,
    attempt: Attempt,
    description: t.Optional(Words),
    state: t.Optional(t.Unknown({ description: 'the state that the work continues from' })),
    resumable: t.Optional(t.Boolean({ description: 'true by default: the work can continue from it' })),
  }),
  output: t.Object({ checkpoint_id: Id, sequence: t.Integer() }),
  callers: [executor],
  requires: [
    isWorkedOn,
    isPresentAttempt,
    rule<AtWork>(
      'QUOTA_EXCEEDED',
      `a session keeps at most ${limits.harnessSnapshotsMax} snapshots`,
      ({ cursor }) => cursor.checkpoints < limits.harnessSnapshotsMax,
      `the session keeps ${limits.harnessSnapshotsMax} snapshots, which is the most`,
    ),
  ],
  audit: 'session.event',
  async load(read, { session_id, state }, context) {
    const executed = await executedSession(read, session_id)
    return { ...executed, kept: await sealConfidential(context, executed.session.data_classification, state ?? null) }
  },
  decide({ kept, ...executed }, { description = '', state = null, resumable = true }, context) {
    if (Buffer.byteLength(canonical(state)) > limits.harnessSnapshotBytesMax)
      throw new Refusal('TOO_LARGE', `state is at most ${limits.harnessSnapshotBytesMax} bytes: keep large data as an artifact`, {
        field: 'state',
      })
    const work = workInProgress(executed, context)
    const checkpoint_id = uuidOf(context.secret())
    const { id, project_id } = executed.session
    const created_at = context.now
    const snapshot: Snapshot = {
      id: `${id}/${checkpoint_id}`,
      session: id,
      project_id,
      checkpoint_id,
      description,
      resumable,
      created_at,
      state: kept.plain,
      sealed: kept.sealed,
    }
    emitEvent(work, 'checkpoint_created', { checkpoint_id, description, resumable, created_at })
    const { cursor } = work
    work.cursor = {
      ...cursor,
      checkpoints: cursor.checkpoints + 1,
      last_checkpoint: checkpoint_id,
      snapshot: resumable ? checkpoint_id : cursor.snapshot,
    }
    work.puts.push(put(Snapshot, snapshot.id, snapshot))
    return { ...outcomeOf(work), output: { checkpoint_id, sequence: work.cursor.sequence } }
  },
  example: {
    given: 'executing',
    as: 'devin',
    input: ({ session: { session_id } }) => ({ session_id, description: 'The first layer is grown.', state: { layer: 1 } }),
  },
})

const snapshots = query({
  name: 'harness.snapshots',
  summary: 'List the snapshots of a session, newest first, with their states.',
  draft: 'HCP 1.0, L2: Checkpoint and Recovery',
  input: t.Object({ session_id: Id, attempt: Attempt, ...pageInput }),
  output: t.Object({
    items: t.Array(t.Object({ checkpoint_id: Id, description: Words, resumable: t.Boolean(), created_at: t.String(), state: t.Unknown() })),
    next_cursor: nextCursor,
  }),
  callers: [system, executor],
  async load(read, input, { notary }) {
    const { session, cursor, task, attempt } = await executedSession(read, input.session_id)
    if (input.attempt !== undefined && input.attempt !== attempt)
      throw new Refusal('CONFLICT', 'another process has taken the run since: take it again to continue')
    const listed = await read.list(Snapshot, 'session', [[session.id]], { ...pageIn('harness.snapshots', input), reverse: true })
    const page = await readListed(read, Snapshot, listed)
    const items = await Promise.all(
      page.items.map(async ({ checkpoint_id, description, resumable, created_at, state, sealed }) => ({
        checkpoint_id,
        description,
        resumable,
        created_at,
        state: sealed === null ? state : (JSON.parse(await notary.open(sealed)) as unknown),
      })),
    )
    return { ...page, session, cursor, task, items }
  },
  view: ({ listed, items, isCut }, input) => pageOf('harness.snapshots', input, listed, items, isCut),
  example: { given: 'executing', as: 'devin', input: ({ session: { session_id } }) => ({ session_id }) },
})

/** Why the envelope forbids it; null: it does not. An action that it does not name is not allowed (C36). */
function violation({ parameters = {}, prohibited_actions = [] }: SafetyEnvelope, { parameter, value, action }: Guarded): string | null {
  if (action !== undefined) return prohibited_actions.includes(action) ? `${action} is a prohibited action` : null
  const bounds = Object.hasOwn(parameters, parameter!) ? parameters[parameter!] : undefined
  if (bounds === undefined) return `${parameter} is no parameter of the safety envelope`
  const unit = bounds.unit === undefined ? '' : ` ${bounds.unit}`
  if (bounds.min !== undefined && value! < bounds.min) return `${parameter} must be at least ${bounds.min}${unit}, not ${value}`
  if (bounds.max !== undefined && value! > bounds.max) return `${parameter} must be at most ${bounds.max}${unit}, not ${value}`
  if (typeof bounds.hard_limit === 'number' && value! > bounds.hard_limit)
    return `${parameter} must not be above its hard limit ${bounds.hard_limit}${unit}`
  return null
}

type Guarded = { readonly parameter?: string; readonly value?: number; readonly action?: string; readonly emergency?: string }
function procedureFor({ emergency_procedures: all }: SafetyEnvelope, emergency: string): string {
  if (all === undefined) return 'stop'
  if (typeof all === 'string') return all
  if (Array.isArray(all)) return all.find((level) => level.includes(emergency)) ?? all[0] ?? 'stop'
  const named = all as Readonly<Record<string, string>>
  return Object.hasOwn(named, emergency) ? named[emergency]! : (Object.values(named)[0] ?? 'stop')
}

const guard = command({
  name: 'harness.guard',
  summary: 'Ask before each step whether the safety envelope allows it: a value of a parameter, an action; or what to do in an emergency.',
  draft: 'HCP 1.0, L3: Safety Envelope',
  input: t.Object({
    session_id: Id,
    attempt: Attempt,
    parameter: t.Optional(label),
    value: t.Optional(t.Number({ description: 'the value that is about to be set' })),
    action: t.Optional(label),
    emergency: t.Optional(label),
  }),
  output: t.Object({
    allowed: t.Optional(t.Boolean()),
    procedure: t.Optional(t.String()),
    // Only inside the decision: the caller gets SAFETY_VIOLATION instead.
    violation: t.Optional(t.Object({ problem: t.String(), parameter: nullable(label), action: nullable(label) })),
  }),
  callers: [executor],
  requires: [
    rule<AtWork, Guarded>(
      'INVALID_REQUEST',
      'one thing is asked about: a parameter with its value, an action, or an emergency',
      (_, { parameter, value, action, emergency }) =>
        [parameter, action, emergency].filter((field) => field !== undefined).length === 1 &&
        (parameter === undefined) === (value === undefined),
      'give parameter and value, or action, or emergency',
    ),
    rule<AtWork, Guarded>(
      'PRECONDITION_FAILED',
      'the session is at work; an emergency is one in every state',
      ({ session }, { emergency }) => session.state === 'RUNNING' || (emergency !== undefined && session.ended_at === null),
      'the session is not RUNNING: nothing may be done for it',
    ),
    isPresentAttempt,
  ],
  audit: null,
  load: (read, { session_id }) => executedSession(read, session_id),
  decide(state, { parameter, value, action, emergency }, context) {
    const envelope = state.task.declaration!.safety_envelope
    const work = workInProgress(state, context)
    if (emergency !== undefined) {
      const procedure = procedureFor(envelope, emergency)
      const data = { code: 'emergency', message: emergency, details: { procedure } }
      emitEvent(work, 'warning', data)
      noteWarning(work, data)
      noteRisk(work, { kind: 'emergency', emergency })
      return { ...outcomeOf(work), output: { procedure } }
    }
    const problem = violation(envelope, {
      ...(parameter === undefined ? {} : { parameter, value: value! }),
      ...(action === undefined ? {} : { action }),
    })
    if (problem !== null) {
      // Recorded before the refusal: the summary of the session shows what its agent attempted.
      const about = action === undefined ? { parameter: parameter!, value: value! } : { action }
      noteRisk(work, { kind: 'safety_violation', ...about, message: problem })
      updateSession(work, {}, 'session.safety_violation', about)
      const violation = { problem, parameter: parameter ?? null, action: action ?? null }
      return { ...outcomeOf(work), output: { allowed: false, violation } }
    }
    work.cursor = { ...work.cursor, steps: work.cursor.steps + 1 }
    return { ...outcomeOf(work), output: { allowed: true } }
  },
  finish(output) {
    if (output.violation === undefined) return output
    const { problem, parameter, action } = output.violation
    throw new Refusal('SAFETY_VIOLATION', `${problem}: do not do it`, { parameter, action })
  },
  example: {
    given: 'executing',
    as: 'devin',
    input: ({ session: { session_id } }) => ({ session_id, parameter: 'temperature', value: 700 }),
  },
})

const pause = command({
  name: 'harness.pause',
  summary: 'Pause the work on a session. Only its own side pauses; the caller sees it.',
  draft: 'HCP 1.0, L2: State Machine',
  input: t.Object({ session_id: Id, attempt: Attempt, reason: t.Optional(t.String({ maxLength: limits.labelCharsMax })) }),
  output: t.Object({ session: SessionView }),
  callers: [executor],
  requires: [isRunning, isPresentAttempt],
  audit: 'session.paused',
  load: (read, { session_id }) => executedSession(read, session_id),
  decide(state, { reason = 'paused' }, context) {
    const work = workInProgress(state, context)
    changeState(work, 'PAUSED', reason)
    return sessionOutcome(work)
  },
  example: { given: 'executing', as: 'devin', input: ({ session: { session_id } }) => ({ session_id, reason: 'The gas is changed.' }) },
})

const resume = command({
  name: 'harness.resume',
  summary: 'Go on with a session that was paused.',
  draft: 'HCP 1.0, L2: State Machine',
  input: t.Object({ session_id: Id, attempt: Attempt, reason: t.Optional(t.String({ maxLength: limits.labelCharsMax })) }),
  output: t.Object({ session: SessionView }),
  callers: [executor],
  requires: [
    rule<AtWork>('PRECONDITION_FAILED', 'the session is PAUSED', ({ session }) => session.state === 'PAUSED', 'the session is not PAUSED'),
    isPresentAttempt,
  ],
  audit: 'session.running',
  load: (read, { session_id }) => executedSession(read, session_id),
  decide(state, { reason = 'resumed' }, context) {
    const work = workInProgress(state, context)
    changeState(work, 'RUNNING', reason)
    return sessionOutcome(work)
  },
  example: { given: 'paused', as: 'devin', input: ({ session: { session_id } }) => ({ session_id }) },
})

export const workOperations = [report, snapshot, snapshots, guard, pause, resume]
