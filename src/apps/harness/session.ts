// A session as the callee's `run` gets it: the request, and the methods that report on the work.
import type { AnyOutput } from './harness.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { failureCodes } from '#protocols/harness/operations/ending.ts'

type Data = Readonly<Record<string, unknown>>
export type Snapshot = { readonly checkpoint_id: string; readonly state: unknown }
export type ArtifactGiven = {
  readonly name: string
  readonly type?: string
  readonly text?: string
  /** Bytes, or their base64. */
  readonly blob?: Uint8Array | string
}
export type Guarded = { readonly parameter: string; readonly value: number } | { readonly action: string } | { readonly emergency: string }

/** Each method takes the fields of its event as one object, or in this order. */
export type CalleeSession<I extends object = Record<string, unknown>> = {
  readonly id: string
  readonly session_id: string
  readonly capability: string
  readonly intent: string
  readonly inputs: I
  readonly constraints: Data
  readonly expected_output: Data | null
  readonly context: Data | null
  readonly safety_envelope: Data
  /** The snapshot to resume from: of an earlier attempt of this session, or of the session that the task names in resume_from. */
  readonly snapshot: Snapshot | null
  /** Starts at 1 and increases with every restart of the session. */
  readonly attempt: number
  /** Aborts when the caller aborts, the time is up, or this process stops. */
  readonly signal: AbortSignal
  progress(stage: string | { stage: string; percent?: number; message?: string }, percent?: number, message?: string): Promise<void>
  intermediate(
    result_type: string | { result_type: string; data: unknown; is_partial?: boolean },
    data?: unknown,
    is_partial?: boolean,
  ): Promise<void>
  log(
    level: 'info' | 'warn' | 'error' | { level: string; message: string; details?: unknown },
    message?: string,
    details?: unknown,
  ): Promise<void>
  warning(code: string | { code: string; message: string; details?: unknown }, message?: string, details?: unknown): Promise<void>
  error(code: string | { code: string; message: string; recoverable?: boolean }, message?: string, recoverable?: boolean): Promise<void>
  /** Saves the state of the work: the next attempt or a later session resumes from it. */
  checkpoint(
    description: string | { description?: string; state?: unknown; resumable?: boolean },
    state?: unknown,
    resumable?: boolean,
  ): Promise<{ checkpoint_id: string }>
  /** Throws SAFETY_VIOLATION if the safety envelope forbids it. An emergency returns its procedure. */
  guard(asked: Guarded | string, value?: number): Promise<{ allowed?: boolean; procedure?: string }>
  pause(reason?: string): Promise<void>
  resume(reason?: string): Promise<void>
  /** Adds an artifact, which is sent with the end of the session. */
  artifact(given: ArtifactGiven | string, type?: string, content?: string | Uint8Array): void
}

export type Speak = (verb: string, input: object) => Promise<AnyOutput>
export type GivenArtifact = { name: string; type?: string; text?: string; blob?: string }

/** One object, or its fields in order. */
function fieldsOf(names: readonly string[], given: readonly unknown[]): Record<string, unknown> {
  if (isObject(given[0])) return given[0]
  return Object.fromEntries(names.flatMap((name, i) => (given[i] === undefined ? [] : [[name, given[i]]])))
}

export async function createSessionHandle(
  input: Record<string, unknown>,
  attempt: number,
  signal: AbortSignal,
  speak: Speak,
): Promise<{ session: CalleeSession; artifacts: GivenArtifact[] }> {
  const artifacts: GivenArtifact[] = []
  const newest = attempt > 1 ? (await speak('snapshots', { limit: 20 }))['items'] : []
  const latest = (newest as (Snapshot & { resumable: boolean })[]).find(({ resumable }) => resumable)
  const snapshot = latest ?? (input['snapshot'] as Snapshot | undefined) ?? null
  const report =
    (event_type: string, ...names: string[]) =>
    async (...given: unknown[]): Promise<void> => {
      await speak('report', { event_type, data: fieldsOf(names, given) })
    }
  const session: CalleeSession = {
    id: input['session_id'] as string,
    session_id: input['session_id'] as string,
    capability: input['capability'] as string,
    intent: (input['intent'] as string | undefined) ?? '',
    inputs: (input['inputs'] as Data | undefined) ?? {},
    constraints: (input['constraints'] as Data | undefined) ?? {},
    expected_output: (input['expected_output'] as Data | undefined) ?? null,
    context: (input['context'] as Data | undefined) ?? null,
    safety_envelope: (input['safety_envelope'] as Data | undefined) ?? {},
    snapshot: snapshot === null ? null : { checkpoint_id: snapshot.checkpoint_id, state: snapshot.state },
    attempt,
    signal,
    progress: report('progress', 'stage', 'percent', 'message'),
    intermediate: (...given) => {
      const data = fieldsOf(['result_type', 'data', 'is_partial'], given)
      return report('intermediate_result')({ is_partial: true, ...data })
    },
    log: report('log', 'level', 'message', 'details'),
    warning: report('warning', 'code', 'message', 'details'),
    error: report('error', 'code', 'message', 'recoverable'),
    checkpoint: async (...given) => {
      const { checkpoint_id } = await speak('snapshot', fieldsOf(['description', 'state', 'resumable'], given))
      return { checkpoint_id: checkpoint_id as string }
    },
    guard: (...given) => speak('guard', fieldsOf(['parameter', 'value'], given)),
    pause: async (reason) => void (await speak('pause', reason === undefined ? {} : { reason })),
    resume: async (reason) => void (await speak('resume', reason === undefined ? {} : { reason })),
    artifact: (given, type, content) => void artifacts.push(artifactOf(given, type, content)),
  }
  return { session, artifacts }
}

function artifactOf(given: ArtifactGiven | string, type?: string, content?: string | Uint8Array): GivenArtifact {
  if (typeof given === 'string') {
    const bytes = typeof content === 'string' || content === undefined ? { text: content ?? '' } : { blob: content }
    return artifactOf({ name: given, ...(type === undefined ? {} : { type }), ...bytes })
  }
  const { blob, ...rest } = given
  return blob === undefined ? rest : { ...rest, blob: typeof blob === 'string' ? blob : Buffer.from(blob).toString('base64') }
}

/** The failure of a session from any error. The code is the error's own if HCP defines it. */
export function failureOf(error: unknown): Record<string, unknown> {
  const { code, message, details, partial_outputs } = isObject(error) ? error : { message: error }
  const named = (failureCodes as readonly unknown[]).includes(code) ? (code as string) : null
  const violated = error instanceof Refusal && error.code === 'SAFETY_VIOLATION' ? 'safety_violation' : null
  return {
    error_code: named ?? violated ?? 'execution_error',
    error_message: (typeof message === 'string' && message !== '' ? message : 'it failed without a reason').slice(0, limits.textCharsMax),
    ...(isObject(details) && !(error instanceof Refusal) ? { error_details: details } : {}),
    ...(isObject(partial_outputs) ? { partial_outputs } : {}),
  }
}
