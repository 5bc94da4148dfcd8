// Lines on the wire: results, failures, items of a stream, each one line. Only here does a class of refusal become a JSON-RPC code;
// `data.code` is the code that every binding shares.
import { Refusal, type Fault } from '#kernel/declare/errors.ts'

export type Id = string | number | null

const PARSE = -32_700
const INVALID_REQUEST = -32_600
const METHOD_NOT_FOUND = -32_601
const INVALID_PARAMS = -32_602
const INTERNAL = -32_603
const APPLICATION = -32_000

const codes: Readonly<Record<Fault, number>> = {
  invalid: INVALID_PARAMS,
  unauthenticated: APPLICATION,
  forbidden: APPLICATION,
  missing: APPLICATION,
  conflict: APPLICATION,
  gone: APPLICATION,
  late: APPLICATION,
  unfit: APPLICATION,
  too_large: APPLICATION,
  quota: APPLICATION,
  busy: APPLICATION,
  internal: INTERNAL,
}

export type Failure = {
  readonly code: number
  readonly message: string
  readonly data: { readonly code: string; readonly fault: Fault; readonly details: Readonly<Record<string, unknown>> }
}

const failure = (code: number, message: string, name: string, fault: Fault): Failure => ({
  code,
  message,
  data: { code: name, fault, details: {} },
})
export const notJson = (message: string): Failure => failure(PARSE, message, 'INVALID_REQUEST', 'invalid')
export const notRequest = (message: string): Failure => failure(INVALID_REQUEST, message, 'INVALID_REQUEST', 'invalid')
export const tooLarge = (message: string): Failure => failure(INVALID_REQUEST, message, 'TOO_LARGE', 'too_large')
export const notParams = (message: string): Failure => failure(INVALID_PARAMS, message, 'INVALID_REQUEST', 'invalid')
export const noMethod = (name: string): Failure =>
  failure(METHOD_NOT_FOUND, `there is no method ${JSON.stringify(name.slice(0, 100))}`, 'NOT_FOUND', 'missing')
export const unavailable = (message: string): Failure => failure(APPLICATION, message, 'UNAVAILABLE', 'busy')
export const internal: Failure = failure(INTERNAL, 'an internal error occurred; it was logged', 'INTERNAL', 'internal')

/** A refusal as a response; null for any other error, which is a bug. */
export function failureOf(error: unknown, faults: Readonly<Record<string, Fault>>): Failure | null {
  if (!(error instanceof Refusal)) return null
  const fault = faults[error.code]
  if (fault === undefined || fault === 'internal') return null
  const { code, message, details = {} } = error
  return { code: codes[fault], message, data: { code, fault, details } }
}

export const resultLine = (id: Id, result: string): string =>
  `{"jsonrpc":"2.0","id":${typeof id === 'number' ? id : JSON.stringify(id)},"result":${result}}`
export const failureLine = (id: Id, error: Failure): string => JSON.stringify({ jsonrpc: '2.0', id, error })
export const itemLine = (id: number, cursor: string, item: unknown): string =>
  `{"jsonrpc":"2.0","method":"rpc.item","params":{"id":${id},"cursor":${JSON.stringify(cursor)},"item":${JSON.stringify(item)}}}`
/** The end of a stream; with an error unless the client asked for the end. */
export const endLine = (id: number, error: Failure | null): string =>
  JSON.stringify({ jsonrpc: '2.0', method: 'rpc.end', params: { id, error } })
