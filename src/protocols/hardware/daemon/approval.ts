// Approvals of hardware tasks: the question that people get, and whether a receipt answers just that question (W30, W31, W42, W43).
import { Refusal } from '#kernel/declare/errors.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import type { Value } from '#kernel/log/store.ts'
import type { DaemonPorts, ParsedStep } from './ports.ts'
import type { Policy } from './policy.ts'

const ARGUMENT_CHARS_MAX = 1_000
const digestOf = (value: unknown): string => `sha256:${sha256Hex(canonical(value))}`

/** The arguments as people are shown them: a long one as its hash and length. */
const shownArgs = (args: Value): Value =>
  Object.fromEntries(
    Object.entries(args).map(([name, value]) => {
      const text = typeof value === 'string' ? value : canonical(value)
      return [name, text.length > ARGUMENT_CHARS_MAX ? { sha256: sha256Hex(text), length: text.length } : value]
    }),
  )

export const approvalDigest = (device_id: string, policy: string, expires_at: string, steps: readonly ParsedStep[]): string =>
  digestOf({ device_id, policy, expires_at, steps: steps.map(({ tool, args }) => ({ tool: tool.name, args })) })

/** Z2: maps the draft's risk levels to the scale of all protocols. */
function riskOf(steps: readonly ParsedStep[]): string {
  const ranks = steps.map(({ risk_level, tool }) =>
    risk_level >= 3 ? 5 : risk_level === 2 ? (tool.supports_rollback ? 3 : 4) : risk_level + 1,
  )
  return `R${Math.max(...ranks)}`
}

const ITEM_CHARS_MAX = limits.questionCharsMax
function itemOf(device_id: string, steps: readonly ParsedStep[]): string {
  const acts = steps.map(({ tool, target, args }) => `${tool.name} ${target}${'value' in args ? ` to ${String(args['value'])}` : ''}`)
  const more = acts.length > 3 ? `, and ${acts.length - 3} more` : ''
  const text = `${acts.slice(0, 3).join(', then ')}${more} on ${device_id}`
  return text.length > ITEM_CHARS_MAX ? `${text.slice(0, ITEM_CHARS_MAX - 1)}…` : text
}

type Details = { readonly expires_at: string; readonly steps: readonly Value[] } & Value
export type ApprovalBody = {
  readonly action: 'APPROVE'
  readonly risk: string
  readonly payload: { readonly item: string; readonly details: Details; readonly reject_requires_reason: boolean }
  readonly timeout_seconds: number
  readonly fallback: 'fail'
}

const secondsOf = (policy: Policy): number => Math.min(policy.approval_seconds, limits.approvalSecondsMax)

/** The body for `POST /hxp/v1/requests`. Refused as `risk_cap` if it is too large to be asked. */
export async function approvalBody(ports: DaemonPorts, policy: Policy, steps: readonly ParsedStep[], now: string): Promise<ApprovalBody> {
  const expires_at = new Date(Date.parse(now) + secondsOf(policy) * 1_000).toISOString()
  const before = await Promise.all(steps.map((step) => ports.valueBefore(step, policy)))
  const body = bodyOf(ports.device_id, policy, steps, expires_at, before)
  if (canonical(body.payload.details).length > limits.detailsBytesMax)
    throw new Refusal('RISK_CAP', 'the steps are too large to be put before a person: submit fewer of them', {
      reason: `a request to people has at most ${limits.detailsBytesMax} bytes of details`,
    })
  return body
}

function bodyOf(
  device_id: string,
  policy: Policy,
  steps: readonly ParsedStep[],
  expires_at: string,
  before: readonly unknown[],
): ApprovalBody {
  const stepViews = steps.map(({ tool, args, risk_level, target }, i) => ({
    tool: tool.name,
    args: shownArgs(args),
    risk_level,
    target,
    before: before[i] ?? null,
    reversible: tool.supports_rollback,
  }))
  const digest = approvalDigest(device_id, policy.name, expires_at, steps)
  return {
    action: 'APPROVE',
    risk: riskOf(steps),
    payload: {
      item: itemOf(device_id, steps),
      details: { device_id, policy: policy.name, digest, expires_at, steps: stepViews },
      reject_requires_reason: false,
    },
    timeout_seconds: secondsOf(policy),
    fallback: 'fail',
  }
}

export type SubmittedApproval = { readonly receipt: unknown; readonly request: unknown }
export type Approval = { readonly receipt_id: string; readonly request_id: string; readonly before: unknown[] } & {
  readonly iss: string
  readonly aud: string
}

const approvalRefusal = (code: string, message: string): Refusal => new Refusal(code, message, { reason: message })
const fieldsOf = (value: unknown): Value => (typeof value === 'object' && value !== null ? (value as Value) : {})

/** Checked offline, in this order: signature and request, result, device, policy and steps, expiry. That it is unused is checked at the commit. */
export async function approvalFor(
  ports: DaemonPorts,
  policy: Policy,
  steps: readonly ParsedStep[],
  { receipt, request: submitted }: SubmittedApproval,
  now: string,
): Promise<Approval> {
  const request = fieldsOf(fieldsOf(submitted)['request'] ?? submitted)
  const verdict = await ports.verify(receipt, request)
  if (!verdict.ok) throw approvalRefusal('APPROVAL_INVALID', `the receipt does not count: ${verdict.message}`)
  const { claims } = verdict
  if (fieldsOf(claims['decided_by'])['kind'] !== 'human') throw approvalRefusal('APPROVAL_INVALID', 'it was not decided by a person')
  if (fieldsOf(claims['basis'])['kind'] !== 'role')
    throw approvalRefusal('APPROVAL_INVALID', 'it was decided beforehand: a standing grant does not count for hardware')
  if (claims['status'] !== 'completed' || claims['result'] !== 'approved')
    throw approvalRefusal('APPROVAL_REJECTED', 'the people who were asked did not approve it')
  if (claims['edited'] !== undefined || fieldsOf(receipt)['edited'] !== undefined)
    throw approvalRefusal('APPROVAL_MISMATCH', 'it was edited when it was approved: submit what was asked')
  const payload = fieldsOf(request['payload'])
  const details = fieldsOf(payload['details'])
  const expires_at = typeof details['expires_at'] === 'string' ? details['expires_at'] : ''
  const valuesBefore = Array.isArray(details['steps'])
    ? (details['steps'] as unknown[]).map((step) => fieldsOf(step)['before'] ?? null)
    : []
  const expected = bodyOf(ports.device_id, policy, steps, expires_at, valuesBefore)
  const { item, details: expectedDetails } = expected.payload
  if (canonical({ item, details: expectedDetails }) !== canonical({ item: payload['item'] ?? null, details }))
    throw approvalRefusal('APPROVAL_MISMATCH', 'the approval is for another device, policy, step or argument than those submitted')
  const latest = Date.parse(String(request['created_at'])) + secondsOf(policy) * 1_000
  if (!(Date.parse(expires_at) <= latest + CLOCK_MS))
    throw approvalRefusal('APPROVAL_MISMATCH', 'it was asked for a longer time than the policy allows')
  if (!(expires_at > now)) throw approvalRefusal('APPROVAL_EXPIRED', `the approval counted until ${expires_at}`)
  return {
    receipt_id: String(claims['jti']),
    request_id: String(claims['request_id']),
    before: valuesBefore,
    iss: String(claims['iss']),
    aud: String(claims['aud']),
  }
}
/** Between the daemon's clock, which sets the expiry, and the server's, which sets `created_at`. */
const CLOCK_MS = 60_000
