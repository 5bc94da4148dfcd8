// The safety gate (HCP 1.0, L3; C18): every submission passes these checks in this order, and the first that fails is the answer.
import { Refusal } from '#kernel/declare/errors.ts'
import { refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { parse } from '#kernel/declare/schema.ts'
import type { Payload } from '../envelope.ts'
import { Submission, type Caller, type Capability, type DataClass, type Rejection, type Risk, type Snapshot } from '../schema.ts'
import { isSealed } from '../session/session-work.ts'
import { adviceFor, assess, ceilingOf, isAbove, needsPeople, rankOf } from './risk.ts'
import { isInRange } from './versions.ts'

export const gateCodes = [
  'unauthorized',
  'forbidden',
  'capability_not_found',
  'version_unsupported',
  'invalid_input',
  'classification_denied',
  'risk_too_high',
  'busy',
  'approval_denied',
] as const
export type GateCode = (typeof gateCodes)[number]

const classes = ['T1', 'T2', 'T3', 'T4'] as const

/** All inputs of the gate other than the submission. */
export type Gate = {
  /** The sender that the broker names; null: it names none. */
  readonly sender: string | null
  readonly caller: Caller | null
  readonly capability: Capability | null
  /** Whether the link is private: TLS, or this machine. */
  readonly isPrivate: boolean
  readonly now: string
  readonly busyResources: ReadonlySet<string>
  readonly openSessions: number
  /** Why the agent takes no work at present; null: it does. */
  readonly agentBusy: string | null
  /** The snapshot that resume_from names; undefined: nothing was named, null: there is no such snapshot of this caller. */
  readonly resumed: Snapshot | null | undefined
  readonly approvers: readonly string[]
}

export type Passed = {
  readonly submission: Submission
  readonly risk_level: Risk
  readonly data: DataClass
  readonly asks: { readonly n: number; readonly of: readonly string[] } | null
}
type Rejected = Omit<Rejection, 'reason_code'> & { readonly reason_code: GateCode }
export type Verdict = { readonly passed: Passed } | { readonly rejected: Rejected }

class Stop extends Error {
  readonly rejection: Rejected
  constructor(rejection: Rejected) {
    super(rejection.reason_message)
    this.rejection = rejection
  }
}
function refuse(
  reason_code: GateCode,
  reason_message: string,
  more: Omit<Partial<Rejection>, 'reason_code' | 'reason_message'> = {},
): never {
  throw new Stop({ reason_code, reason_message, ...more })
}

export function judge(payload: Payload, gate: Gate): Verdict {
  try {
    return { passed: pass(payload, gate) }
  } catch (error) {
    if (error instanceof Stop) return { rejected: error.rejection }
    throw error
  }
}

function pass(payload: Payload, gate: Gate): Passed {
  const { sender, caller, capability } = gate
  if (sender === null || payload['caller_id'] !== sender)
    refuse('unauthorized', 'caller_id is not the broker user that sent the message', {
      suggestion: 'connect as the user whose name is caller_id, and set the user_id property to it',
    })
  const name = payload['capability']
  if (typeof name === 'string') {
    if (caller === null || caller.disallowed || !(caller.capabilities.includes(name) || caller.capabilities.includes('*')))
      refuse('forbidden', `${sender} may not use ${name}`, { suggestion: 'ask the operator of this harness to allow it (harness allow)' })
    if (capability === null || capability.withdrawn) refuse('capability_not_found', `there is no capability ${name}`)
    if (!suits(payload['capability_version'], capability))
      refuse('version_unsupported', `${name} is offered in version ${capability.capability.version}`, {
        suggestion: `ask for a range that holds ${capability.capability.version}, or leave capability_version out`,
      })
  }
  const submission = parseSubmission(payload, gate)
  const of = capability!
  const data = submission.constraints?.data_classification ?? 'T1'
  refuseClass(data, caller!, gate)
  const { risk_level, asks } = atRisk(submission, of, caller!, data, gate)
  const limit = of.capability.constraints?.concurrent_limit
  if (limit !== undefined && gate.openSessions >= limit)
    refuse('busy', `${of.id} works on ${limit} sessions at a time, and as many are open`, {
      assessed_risk_level: risk_level,
      suggestion: 'submit again when one of them has ended',
    })
  if (gate.agentBusy !== null) refuse('busy', gate.agentBusy, { assessed_risk_level: risk_level, suggestion: 'submit again later' })
  if (asks !== null && asks.of.length < asks.n)
    refuse('approval_denied', `${asks.n} people must approve, and ${asks.of.length} may: nobody was asked`, {
      assessed_risk_level: risk_level,
    })
  return { submission, risk_level, data, asks }
}

/** An invalid range passes here: the input check refuses it later. */
const suits = (range: unknown, { capability }: Capability): boolean =>
  typeof range !== 'string' || isInRange(capability.version, range) !== false

/** The payload's own shape, its durations, the declared input_schema, and a snapshot to continue from. */
function parseSubmission(payload: Payload, { capability, resumed }: Gate): Submission {
  try {
    const submission = parse(Submission, payload)
    if (submission.capability_version !== undefined && isInRange('1.0.0', submission.capability_version) === null)
      throw new Refusal('INVALID_REQUEST', 'capability_version must be a range of versions such as ^1.2.0')
    const { max_duration } = submission.constraints ?? {}
    if (max_duration !== undefined) durationMs(max_duration, 'INVALID_REQUEST', 'constraints.max_duration')
    const schema = submission.expected_output?.schema
    if (schema !== undefined) refuseUnusable(schema)
    if (capability?.capability.input_schema)
      refuseMismatch(capability.capability.input_schema, submission.inputs ?? {}, 'INVALID_REQUEST', 'inputs')
    if (resumed === null) throw new Refusal('INVALID_REQUEST', 'resume_from names no snapshot of a session of this caller that ended')
    return submission
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return refuse('invalid_input', error.message, { suggestion: `change the task: ${error.message}` })
  }
}
function refuseUnusable(schema: object): void {
  try {
    refuseMismatch(schema, {}, 'UNUSABLE', 'expected_output.schema')
  } catch (error) {
    // An absent value that fails to match is no fault of the schema.
    if (error instanceof Refusal && error.message.startsWith('the schema of')) throw new Refusal('INVALID_REQUEST', error.message)
  }
}

function refuseClass(data: DataClass, { data_max, caller_id }: Caller, { isPrivate }: Gate): void {
  if (classes.indexOf(data) > classes.indexOf(data_max))
    refuse('classification_denied', `${caller_id} may send data up to ${data_max}, and this is ${data}`, {
      suggestion: `set constraints.data_classification to ${data_max} or below, if the data allows it`,
    })
  // C29: confidential data is encrypted on its way.
  if (!isPrivate && classes.indexOf(data) >= 2)
    refuse('classification_denied', `${data} needs an encrypted connection, and this harness reaches its broker without TLS`, {
      suggestion: 'use amqps on both sides',
    })
}

function atRisk(submission: Submission, of: Capability, caller: Caller, data: DataClass, gate: Gate): Pick<Passed, 'risk_level' | 'asks'> {
  const assessment = assess(of, submission.inputs ?? {}, { now: gate.now, busy: gate.busyResources, hides: isSealed(data) })
  const { level } = assessment
  for (const [max, whose] of [
    [caller.risk_max, `${caller.caller_id} may submit work up to`],
    [ceilingOf(of.capability), `${of.id} takes work up to`],
  ] as const)
    if (isAbove(level, max)) {
      const advice = adviceFor(assessment, max)
      refuse('risk_too_high', `the task is ${level}, and ${whose} ${max}`, {
        assessed_risk_level: level,
        suggestion: advice ?? `the capability itself is ${level}: ask its operator for a higher limit`,
      })
    }
  if (!needsPeople(of, level, data)) return { risk_level: level, asks: null }
  return { risk_level: level, asks: { n: rankOf(level) >= rankOf('R5') ? 2 : 1, of: gate.approvers } }
}
