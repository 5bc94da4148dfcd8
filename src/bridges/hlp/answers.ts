// The wire's versions, its error object and its statuses (HLP 6.1, 6.2, 6.4).
import { Refusal } from '#kernel/declare/errors.ts'
import type { Failure } from '#bindings/http/responses.ts'

export const SPEC_VERSION = '0.2.0-draft'
export const STAMPS = { schema_version: '0.2', profile: 'HLP-industrial' } as const
const versions = { spec_version: SPEC_VERSION, ...STAMPS } as const

export type HttpAnswer = { readonly status: number; readonly text: string; readonly headers: readonly string[] }

/** On every answer: arrays and bare values have no place for the versions. */
const versionHeaders = ['X-HLP-Spec-Version', SPEC_VERSION, 'X-HLP-Schema-Version', STAMPS.schema_version, 'X-HLP-Profile', STAMPS.profile]

export const answerOf = (body: unknown, more: readonly string[] = []): HttpAnswer => ({
  status: 200,
  text: JSON.stringify(body),
  headers: [...versionHeaders, ...more],
})
export const versionAnswer: HttpAnswer = answerOf(versions)
export const feedAnswer = (text: string): HttpAnswer => ({
  status: 200,
  text,
  headers: [...versionHeaders, 'content-type', 'text/event-stream; charset=utf-8'],
})

/** Our codes on this wire; every other code and status stays. */
const table: Readonly<Record<string, readonly [status: number, code: string]>> = {
  INVALID_REQUEST: [400, 'INVALID_SPEC'],
  UNAUTHENTICATED: [401, 'UNAUTHORIZED'],
  UNAUTHORIZED: [401, 'UNAUTHORIZED'],
  OTHER_PERSON: [401, 'UNAUTHORIZED'],
  PROOF_REQUIRED: [401, 'UNAUTHORIZED'],
  READ_ONLY: [401, 'UNAUTHORIZED'],
  DEADLINE_EXCEEDED: [408, 'DEADLINE_EXCEEDED'],
  PRECONDITION_FAILED: [412, 'PRECONDITION_FAILED'],
}
const retryable = new Set(['CONFLICT', 'DEADLINE_EXCEEDED', 'QUOTA_EXCEEDED', 'BUSY', 'UNAVAILABLE'])

export function errorAnswer(failure: Failure, task_id: string | null): HttpAnswer {
  const [status, code] = table[failure.code] ?? [failure.status, failure.code]
  const { message, details } = failure
  const error = { code, message, details, retryable: retryable.has(code), operation_id: null, correlation_id: task_id, ...versions }
  return { status, text: JSON.stringify({ error }), headers: [...versionHeaders, ...Object.entries(failure.headers).flat()] }
}

const FIELDS = Object.entries(versions)
/** A request can name its versions, as a word or a list. If ours is not among them, it is refused before any other check. */
export function refuseOtherVersions(body: Readonly<Record<string, unknown>>): void {
  for (const [field, ours] of FIELDS) {
    const spoken = body[field]
    if (spoken === undefined || [spoken].flat().includes(ours)) continue
    throw new Refusal('VERSION_UNSUPPORTED', `${field} is ${ours} here, and no other`, { field, supported: [ours] })
  }
}
