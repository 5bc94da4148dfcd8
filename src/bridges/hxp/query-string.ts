// The query string. A value that is not understood is refused, an unknown name is ignored.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { isProjectKey } from '#protocols/execution/access.ts'

/** Lists are shorter here than elsewhere: the published OpenAPI says 100. */
const LIST_MAX = 100

/** A number above any count of items: all of them. */
const ENOUGH = 999_999_999

const wrong = (field: string, message: string): Refusal => new Refusal('INVALID_REQUEST', `${field} ${message}`, { field })

function countIn(query: URLSearchParams, name: string, from: number, to: number): number | undefined {
  const value = query.get(name)
  if (value === null || value === '') return undefined
  const count = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
  if (!(count >= from && count <= to))
    throw wrong(name, to >= ENOUGH ? `must be a whole number of at least ${from}` : `must be a whole number from ${from} to ${to}`)
  return count
}
/** Words of the query. An empty one counts as absent: filter fields of pages send it for "all". */
const wordsIn = (query: URLSearchParams, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.flatMap((name) => (query.get(name) ? [[name, query.get(name)!]] : [])))

/** The seconds of `?wait=`: more than the server lets anybody wait is as much as it does. */
export function waitIn(query: string): number {
  if (query === '') return 0
  const seconds = countIn(new URLSearchParams(query), 'wait', 0, ENOUGH) ?? 0
  return Math.min(seconds, limits.waitMsMax / 1_000)
}

export function pageIn(query: string, filters: readonly string[]): Record<string, unknown> {
  const params = new URLSearchParams(query)
  const limit = countIn(params, 'limit', 1, ENOUGH)
  return { ...wordsIn(params, [...filters, 'cursor']), ...(limit === undefined ? {} : { limit: Math.min(limit, LIST_MAX) }) }
}

/** The page of one agent's requests. A project's key has to name the agent. */
export function agentPageIn(query: string, filters: readonly string[], actor: Actor): Record<string, unknown> {
  const page = pageIn(query, [...filters, 'agent_id'])
  if (isProjectKey(actor) && page['agent_id'] === undefined)
    throw wrong('agent_id', 'is required: the key of a project speaks for all of its agents')
  return page
}

/** For clients that count instead of going on from a cursor. */
export const offsetIn = (query: string): number => countIn(new URLSearchParams(query), 'offset', 0, limits.bridgeOffsetMax) ?? 0
