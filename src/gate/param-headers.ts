// Arguments as headers: a server of 2026-07-28 over HTTP refuses a call that does not repeat the marked arguments in headers.
import { isObject } from '#kernel/codec/strict-json.ts'
import type { Result } from './upstream.ts'

const MARK = 'x-mcp-header'
const PREFIX = 'Mcp-Param-'
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}$/
const DEPTH_MAX = 16

/** A value that would not survive as the text of a header. */
const isUnsafe = (text: string): boolean =>
  text === '' || text !== text.trim() || !/^[\t\x20-\x7e]*$/.test(text) || (text.startsWith('=?base64?') && text.endsWith('?='))

function headerText(value: unknown): string | null {
  if (!['string', 'boolean', 'number'].includes(typeof value)) return null
  const text = String(value)
  return isUnsafe(text) ? `=?base64?${Buffer.from(text).toString('base64')}?=` : text
}

/** The headers for the marked arguments of a call; the schema says which are marked. */
export function paramHeaders(schema: unknown, args: unknown, depth = 0): Record<string, string> {
  if (!isObject(schema) || !isObject(schema['properties']) || !isObject(args) || depth > DEPTH_MAX) return {}
  const headers: Record<string, string> = {}
  for (const [key, property] of Object.entries(schema['properties'] as Result)) {
    if (!isObject(property) || !Object.hasOwn(args, key)) continue
    const [name, text] = [property[MARK], headerText(args[key])]
    if (typeof name === 'string' && NAME.test(name) && text !== null) headers[`${PREFIX}${name}`] = text
    Object.assign(headers, paramHeaders(property, args[key], depth + 1))
  }
  return headers
}
