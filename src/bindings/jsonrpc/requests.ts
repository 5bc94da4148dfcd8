// One message: its check as a request, and the line that answers it.
import { isObject } from '#kernel/codec/strict-json.ts'
import * as answers from './responses.ts'
import type { Failure, Id } from './responses.ts'
import type { Failed } from '../shared/handle.ts'
import type { Called, RpcSession } from './session.ts'

type Request = { readonly method: string; readonly params?: object }

/** Says the line to answer with, null for a notification. */
export function answerTo(session: RpcSession, message: unknown, say: (line: string | null) => void): void {
  const id = idIn(message)
  const problem = problemOf(message)
  if (problem) return say(answers.failureLine(id ?? null, problem))
  const { method, params = {} } = message as Request
  const known = session.shared.methods.get(method)
  if (!known) return say(id === undefined ? null : answers.failureLine(id, answers.noMethod(method)))
  void known({ session, id, params, parts: null }).then(say)
}

/** A result can exceed the longest possible string. The call was carried out, but its caller gets an error. */
export const lineOf = ({ id }: Called, result: string): string | null => (id === undefined ? null : answers.resultLine(id, result))

/** Any exception as a response to a request. */
export function failureAnswer(error: unknown, { session, id }: Called, method: string): Failed<string | null> {
  const failure = explain(session, error, method)
  return { code: failure.data.code, answer: id === undefined ? null : answers.failureLine(id, failure) }
}

/** A message that the decoder refused: only its id is read. */
export function refusedLine(message: unknown, repeatsId: boolean, reason: string): string | null {
  const id = repeatsId ? null : idIn(message)
  if (id === undefined && problemOf(message) === null) return null
  // A number that a double cannot hold would not match the id that was sent.
  const isLost = typeof id === 'number' && Math.abs(id) > Number.MAX_SAFE_INTEGER
  return answers.failureLine(isLost ? null : (id ?? null), answers.notParams(reason))
}

/** undefined: there is none, so no answer is due. */
function idIn(message: unknown): Id | undefined {
  if (typeof message !== 'object' || message === null || !Object.hasOwn(message, 'id')) return undefined
  const { id } = message as { id: unknown }
  return typeof id === 'string' || typeof id === 'number' ? id : null
}

function problemOf(message: unknown): Failure | null {
  if (!isObject(message)) return answers.notRequest('a request is an object')
  const { jsonrpc, method, params, id } = message
  if (jsonrpc !== '2.0') return answers.notRequest('jsonrpc must be "2.0"')
  if (typeof method !== 'string') return answers.notRequest('method must be a string')
  if (id !== undefined && id !== null && typeof id !== 'string' && typeof id !== 'number')
    return answers.notRequest('id must be a string, a number or null')
  if (params === undefined) return null
  if (typeof params !== 'object' || params === null) return answers.notRequest('params must be an object')
  return Array.isArray(params) ? answers.notParams('params must be an object, not an array') : null
}

/** Any exception as a response. An unexpected error is logged with its cause; the response omits the cause. */
export function explain({ shared }: RpcSession, error: unknown, method: string): Failure {
  const failure = answers.failureOf(error, shared.kernel.codes)
  if (failure) return failure
  shared.log.error({ err: error, method }, 'a call failed')
  return answers.internal
}
