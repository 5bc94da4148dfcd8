// Idempotency keys: the id of a remembered answer, the part of the input that a retry must repeat, and the part of the answer that is remembered.
import type { Actor } from '../declare/access.ts'
import type { Command } from '../declare/operation.ts'
import type { Value } from '../log/store.ts'

/** The id of a remembered answer: of one actor, under one key. A credential for some projects only has separate answers. */
export const replyIdOf = ({ id, narrowed, projects }: Actor, key: string): string =>
  `${id}/${narrowed && projects !== 'all' ? `${[...projects.keys()].join()}/` : ''}${key}`

/** The part of an input that a retry must repeat, whichever process sends it. */
export function askedFor({ besides = [], understood }: Command, input: unknown): unknown {
  const meaning = understood ? understood(input) : input
  return besides.length === 0 ? meaning : Object.fromEntries(Object.entries(meaning as object).filter(([name]) => !besides.includes(name)))
}

/** A secret that is shown once is not stored: a retry gets null in its place. */
export function withoutSecrets(op: Command, output: Value): Value {
  return op.once ? { ...output, ...Object.fromEntries(op.once.map((field) => [field, null])) } : output
}
