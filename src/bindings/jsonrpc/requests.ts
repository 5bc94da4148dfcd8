// One message: whether it is a request at all, and the line that answers it.
import * as answers from './responses.ts'
import type { Failure, Id } from './responses.ts'
import type { Session } from './connection.ts'

type Request = { readonly method: string; readonly params?: object }

/** Says the line to answer with, null for a notification. A callback: one promise less for each call. */
export function answerTo(session: Session, message: unknown, say: (line: string | null) => void): void {
  const id = idIn(message)
  const problem = problemOf(message)
  if (problem) return say(answers.failureLine(id ?? null, problem))
  const { method, params = {} } = message as Request
  const known = session.shared.methods.get(method)
  if (!known) return say(id === undefined ? null : answers.failureLine(id, answers.noMethod(method)))
  const began = performance.now()
  const refused = (error: unknown): void => {
    const failure = explain(session, error, method)
    known.meter.count(failure.data.code, performance.now() - began)
    say(id === undefined ? null : answers.failureLine(id, failure))
  }
  const done = (result: unknown): void => {
    let line: string | null
    try {
      line = id === undefined ? null : answers.resultLine(id, known.text(result))
    } catch (error) {
      // Longer than a text can be: the call was carried out, and whoever made it still waits for an answer.
      return refused(error)
    }
    known.meter.count('OK', performance.now() - began)
    say(line)
  }
  try {
    known.run(session, params).then(done, refused)
  } catch (error) {
    refused(error)
  }
}

/** undefined: there is none, so nobody waits for an answer. */
function idIn(message: unknown): Id | undefined {
  if (typeof message !== 'object' || message === null || !Object.hasOwn(message, 'id')) return undefined
  const { id } = message as { id: unknown }
  return typeof id === 'string' || typeof id === 'number' ? id : null
}

function problemOf(message: unknown): Failure | null {
  if (typeof message !== 'object' || message === null || Array.isArray(message)) return answers.notRequest('a request is an object')
  const { jsonrpc, method, params, id } = message as Record<string, unknown>
  if (jsonrpc !== '2.0') return answers.notRequest('jsonrpc must be "2.0"')
  if (typeof method !== 'string') return answers.notRequest('method must be a string')
  if (id !== undefined && id !== null && typeof id !== 'string' && typeof id !== 'number')
    return answers.notRequest('id must be a string, a number or null')
  if (params === undefined) return null
  if (typeof params !== 'object' || params === null) return answers.notRequest('params must be an object')
  return Array.isArray(params) ? answers.notParams('params must be an object, not an array') : null
}

/** Whatever was thrown, as an answer. What is not expected is logged with its cause and answered without it. */
export function explain({ shared }: Session, error: unknown, method: string): Failure {
  const failure = answers.failureOf(error, shared.kernel.codes)
  if (failure) return failure
  shared.log.error({ err: error, method }, 'a call failed')
  return answers.internal
}
