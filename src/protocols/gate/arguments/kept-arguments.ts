// Stored arguments of calls, for rehearsals: sealed under the key of the server, without what is redacted.
import type { Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Proposed, Ruling } from '#kernel/policy/evaluate.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import { redact } from './redaction.ts'
import { SealedArguments, type Call } from '../schema.ts'

/** The text to keep; null: the rule keeps nothing, or the arguments are longer than the shown part. */
export async function sealedBy(
  { rule, redact: hidden }: Ruling,
  { arguments: args, redact: more = [] }: { readonly arguments: object; readonly redact?: readonly string[] },
  notary: Notary,
): Promise<string | null> {
  if (rule?.record !== 'sealed') return null
  const text = canonical(redact(args, [...hidden, ...more]))
  return Buffer.byteLength(text) > limits.gateShownBytesMax ? null : notary.seal(text, null)
}

const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean'
/** The two claims that rules can ask for. */
export function hintsIn(hints: object = {}): Call['hints'] {
  const { readOnlyHint, destructiveHint } = hints as Readonly<Record<string, unknown>>
  const found = { ...(isBoolean(readOnlyHint) ? { readOnlyHint } : {}), ...(isBoolean(destructiveHint) ? { destructiveHint } : {}) }
  return Object.keys(found).length === 0 ? undefined : found
}

/** One pointer leads to the other, or to a part of it. */
const overlaps = (a: string, b: string): boolean => a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`)

/** A recorded call as rules see it, with its stored arguments. */
export async function recordedCall(
  read: Read,
  call: Call,
  notary: Notary,
): Promise<Proposed & { readonly isKept: (at: string) => boolean }> {
  const kept = await read.raw(SealedArguments, call.id)
  const { kind, server, tool, agent_id, project_id, hints = {}, redact: hidden } = call
  return {
    kind,
    name: `${server}/${tool}`,
    agent: agent_id,
    project: project_id,
    arguments: kept === null ? undefined : (JSON.parse(await notary.open(kept.sealed)) as unknown),
    hints,
    isKept: (at) => kept !== null && !hidden.some((pointer) => overlaps(at, pointer)),
  }
}
