// CAP: invoking a capability for a run. The intent is recorded, the port acts, the outcome is recorded; the caller waits.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { schemaProblem, refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Bound } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import {
  Capability,
  capabilityKey,
  Invocation,
  InvokeOutcome,
  InvokeResult,
  type Approval,
  type InvokeCode,
  type InvokeRequest,
} from '../capabilities/manifest.ts'
import { approvalKey, objectionTo, permissionFor, usedScopes, type PermissionSource } from '../capabilities/permission.ts'
import { isInTime, restraintOf, type Restraint } from '../runs/task-limits.ts'
import { Attempt, hasNoDelegate, isNotEnded, isPresentAttempt, isRunning, runAgent, runOf, type OfRun } from '../access.ts'
import { begunBy } from '../runs/runs.ts'
import { CapabilityRef, Id, type Run } from '../schema.ts'
import { capabilityFor } from './capability.ts'

type Invoking = OfRun & Restraint & { readonly capability: Capability | null; readonly permission: PermissionSource | null }

const mayAct = rule<Invoking>(
  'PRECONDITION_FAILED',
  'the task may be acted on (its autonomy is read_only)',
  ({ autonomy }) => autonomy !== 'read_only',
  'the task may not be acted on: its autonomy is read_only',
)

/** Validates a value against its schema; returns the error message, or null. */
function mismatch(schema: object, value: unknown, field: string): string | null {
  try {
    refuseMismatch(schema, value, 'INVALID_INPUT', field)
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
}

const failureResult = (
  code: InvokeCode,
  message: string,
  of: Pick<InvokeResult, 'invocation_id' | 'ref'> | null = null,
  duration_ms = 0,
): InvokeResult => ({
  ok: false,
  output: null,
  error: { code, message },
  duration_ms,
  invocation_id: of?.invocation_id ?? null,
  ref: of?.ref ?? null,
})

const UNKNOWN = 'the outcome is unknown: the server ended while it was under way'

function timeoutIn(timeout: string | undefined): number {
  const ms = timeout === undefined ? limits.invokeMsDefault : durationMs(timeout, 'INVALID_REQUEST', 'timeout')
  if (ms > limits.invokeMsMax)
    throw new Refusal('INVALID_REQUEST', `timeout is at most ${limits.invokeMsMax / 60_000} minutes`, { field: 'timeout' })
  return ms
}

const hashOf = (value: unknown): string => `sha256:${Buffer.from(sha256(canonical(value)), 'base64url').toString('hex')}`

function invocationOf(
  id: string,
  run: Run,
  capability: Capability,
  { scopes, approval }: { readonly scopes: string[]; readonly approval: Approval | null },
  input: unknown,
  timeout_ms: number,
  now: string,
): Invocation {
  const { capability_id, version, source } = capability
  return {
    id,
    run_id: run.id,
    agent_id: run.agent_id,
    project_id: run.project_id,
    correlation_id: run.correlation_id,
    root_task_id: run.root_task_id,
    task_id: run.task_id,
    ref: { capability_id, version },
    source,
    permissions: scopes,
    ...(approval === null ? {} : { approval }),
    input_hash: hashOf(input),
    timeout_ms,
    state: 'begun',
    begun_at: now,
    ended_at: null,
    duration_ms: null,
    error: null,
    reason: null,
    output_hash: null,
    output_bytes: null,
  }
}

const boundOf = (name: string, part: string, max: number, message: string): Bound => ({
  doc: Invocation,
  index: name,
  prefix: [part],
  max,
  message,
})

/** Bounds the running invocations of an agent and of all agents, and the recorded ones of a run. */
const boundsOf = (run: Run, approval?: Approval): Bound[] => [
  boundOf('run', run.id, limits.invocationsPerRunMax, `a run invokes capabilities at most ${limits.invocationsPerRunMax} times`),
  boundOf(
    'agent',
    run.agent_id,
    limits.invocationsPerAgentMax,
    `an agent invokes at most ${limits.invocationsPerAgentMax} capabilities concurrently`,
  ),
  boundOf('open', 'all', limits.invocationsMax, `at most ${limits.invocationsMax} capabilities are invoked concurrently`),
  ...(approval ? [boundOf('approval', approvalKey(approval), 1, 'an approved action is carried out once')] : []),
]

const invoke = command({
  name: 'capability.invoke',
  summary: 'Invoke a capability for a run and wait for its result. A refusal by the capability layer is a result with ok: false.',
  draft: 'CAP: capability.invoke(ref, input) -> InvokeResult',
  input: t.Object({
    run_id: Id,
    attempt: Attempt,
    ref: CapabilityRef,
    input: t.Optional(t.Unknown({ description: 'the input that its input_schema describes; {} by default' })),
    timeout: t.Optional(t.String({ maxLength: 40, description: 'an ISO 8601 duration of at most 5 minutes; PT30S by default' })),
  }),
  output: InvokeResult,
  callers: [runAgent],
  requires: [isNotEnded, isInTime, isRunning, isPresentAttempt, hasNoDelegate, mayAct],
  audit: 'capability.invoked',
  // A later attempt that repeats the call gets the first result; the capability is not invoked twice.
  besides: ['attempt'],
  effect: { port: 'capability', conclude: 'delegation/capability.conclude' },
  async load(read, { run_id, ref, input = {} }, { actor, now }): Promise<Invoking> {
    const loaded = await runOf(read, run_id, actor)
    const { project_id, task_id } = loaded.run
    const capability = await capabilityFor(read, ref, ({ projects }) => projects.includes(project_id))
    const restraint = await restraintOf(read, task_id, { now })
    const { autonomy } = restraint
    const permission = capability && (await permissionFor(read, { run: loaded.run, capability, input, autonomy }, now))
    return { ...loaded, ...restraint, capability, permission }
  },
  decide({ run, capability, permission }, { ref, input = {}, timeout }, { actor, now, newId }) {
    const timeout_ms = timeoutIn(timeout)
    if (!capability || !permission)
      return { facts: [], output: failureResult('NOT_FOUND', `there is no capability ${ref.capability_id} ${ref.version}`) }
    const id = newId('inv')
    const begun = invocationOf(
      id,
      run,
      capability,
      { scopes: usedScopes(permission), approval: permission.approval },
      input,
      timeout_ms,
      now,
    )
    const of = { invocation_id: id, ref: begun.ref }
    const detail = { ...begun.ref }
    const objection = objectionTo(permission)
    if (objection !== null) {
      const { scope, isDenied } = objection
      const { approval: _, ...tried } = begun
      const denied: Invocation = { ...tried, state: 'failed', ended_at: now, duration_ms: 0, error: 'PERMISSION_DENIED', reason: 'denied' }
      return {
        facts: [fact('capability.denied', [image(Invocation, denied)], { detail: { ...detail, scope } })],
        atMost: boundsOf(run).slice(0, 1),
        output: failureResult(
          'PERMISSION_DENIED',
          `${ref.capability_id} ${isDenied ? 'is stopped by a deny of the task, or of one above it,' : 'needs a grant of the task'} for ${scope}`,
          of,
        ),
      }
    }
    // Without a usable schema the input cannot be checked, so the capability is not invoked.
    const unusable =
      schemaProblem(capability.input_schema, 'input') ?? (capability.output_schema && schemaProblem(capability.output_schema, 'output'))
    if (unusable !== null)
      return { facts: [], output: failureResult('EXECUTION_FAILED', unusable, { invocation_id: null, ref: begun.ref }) }
    const wrong = mismatch(capability.input_schema, input, 'input')
    if (wrong !== null) return { facts: [], output: failureResult('INVALID_INPUT', wrong, { invocation_id: null, ref: begun.ref }) }
    const first = permission.scopes.find(({ isNeeded }) => isNeeded)
    const basis = first?.grant ? { basis: { kind: 'grant', id: first.grant.id } as const } : {}
    return {
      facts: begunBy(run, { actor, now }).facts([
        fact('capability.invoked', [image(Invocation, begun)], { detail: { ...detail, ...begun.approval }, ...basis }),
      ]),
      atMost: boundsOf(run, begun.approval),
      effect: {
        id,
        request: {
          invocation_id: id,
          run_id: run.id,
          source: capability.source,
          ref: begun.ref,
          input,
          timeout_ms,
        } satisfies InvokeRequest,
      },
      output: failureResult('EXECUTION_FAILED', UNKNOWN, of),
    }
  },
  example: {
    given: 'offering',
    as: 'robin',
    input: ({ run }) => ({ run_id: run.id, ref: { capability_id: 'cap:web-search', version: '2.0.0' }, input: { query: 'countersign' } }),
  },
})

/** The outcome, checked against the capability's schema and our bounds. */
function checkOutcome(outcome: InvokeOutcome | null, { output_schema }: Capability): InvokeOutcome {
  if (outcome === null) return { duration_ms: 0, error: { code: 'EXECUTION_FAILED', reason: 'unknown', message: UNKNOWN } }
  const { duration_ms } = outcome
  if (outcome.error) return outcome
  const output = outcome.output ?? null
  const no = (reason: 'output_too_large' | 'output_invalid', message: string): InvokeOutcome => ({
    duration_ms,
    error: { code: 'EXECUTION_FAILED', reason, message },
  })
  if (Buffer.byteLength(canonical(output)) > limits.invokeOutputBytesMax)
    return no('output_too_large', `the output is larger than ${limits.invokeOutputBytesMax} bytes`)
  const wrong = output_schema === null ? null : mismatch(output_schema, output, 'output')
  return wrong === null ? { duration_ms, output } : no('output_invalid', `its answer does not fit its output_schema: ${wrong}`)
}

const conclude = command({
  name: 'capability.conclude',
  summary:
    'Record the outcome of an invocation. The server calls it once; without an outcome it is recorded as unknown and not tried again.',
  draft: 'CAP: InvokeResult; output against output_schema where declared',
  input: t.Object({ id: Id, outcome: t.Optional(InvokeOutcome) }),
  output: InvokeResult,
  callers: [system],
  requires: [],
  audit: 'capability.completed',
  async load(read, { id }) {
    const begun = await read(Invocation, id)
    return { begun, capability: (await read.raw(Capability, capabilityKey(begun.ref)))! }
  },
  decide({ begun, capability }, { outcome: reported = null }, { now }) {
    const { output = null, error, duration_ms } = checkOutcome(reported, capability)
    const of = { invocation_id: begun.id, ref: begun.ref }
    const ended = { ...begun, ended_at: now, duration_ms: reported === null ? null : duration_ms }
    if (error) {
      const { code, reason, message } = error
      const next: Invocation = { ...ended, state: 'failed', error: code, reason }
      const detail = { ...begun.ref, code, reason }
      return {
        facts: [fact('capability.failed', [image(Invocation, next)], { detail })],
        output: failureResult(code, message, of, duration_ms),
      }
    }
    const text = canonical(output)
    const next: Invocation = { ...ended, state: 'succeeded', output_hash: hashOf(output), output_bytes: Buffer.byteLength(text) }
    return {
      facts: [fact('capability.completed', [image(Invocation, next)], { detail: { ...begun.ref } })],
      output: { ok: true, output, error: null, duration_ms, ...of },
    }
  },
  example: {
    given: 'invoked',
    as: 'system',
    refused: 'PRECONDITION_FAILED',
    input: ({ invocation_id }) => ({ id: invocation_id, outcome: { output: { hits: [] }, duration_ms: 12 } }),
  },
})

export const invokeOperations = [invoke, conclude]
