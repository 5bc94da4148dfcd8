// The type of an action of HXP: everything that differs between DECIDE, APPROVE and the others is a field of one object. index.ts is the table.
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { either, t, type Static, type TSchema } from '#kernel/declare/schema.ts'
import { alikeIn, refuseHostile } from '../asking/hostile-text.ts'

export const Fallback = either('pause', 'fail', 'default')
export type Fallback = Static<typeof Fallback>

/** The artifact that a person gave; the newest version unless one is named. */
export type FileResult = { readonly artifact_id: string; readonly version?: string }
export type Result = string | number | (string | number)[] | FileResult

type ArtifactReference = { readonly artifact_id: string; readonly version: string }

/** `P`: its stored payload. Methods, so that actions with different payloads fit one table. */
export type HumanAction<P extends object = object> = {
  /** Its word in inboxes, filters and metrics. */
  readonly asks: string
  readonly payload: TSchema
  /** `{ payload }` as a client sends it. */
  readonly input: TSchema
  /** The payload of a new request, with the checks that a schema cannot express. */
  read(input: unknown, fallback: Fallback): P
  /** The question as one text. */
  question(payload: P): string
  /** The answers to choose from; null: there is no list. */
  options(payload: P): readonly (string | number)[] | null
  /** Further text of the agent that people are warned about. */
  texts?(payload: P): readonly string[]
  /** The value as the receipt holds it, or a refusal. */
  result(payload: P, value: unknown): Result
  /** Whether this result needs a reason. */
  needsReason?(payload: P, result: Result): boolean
  /** The consequences of an answer: clauses about the agent. Without `reject` there is no no. */
  readonly effects: { readonly approve: string; readonly reject?: string }
  /** The kind of checkpoint that a request within a task raises. */
  readonly checkpoint: 'approval' | 'choice' | 'input'
  /** The answer is a yes or a no. Only such actions have grants, edits, batches and typed targets. */
  readonly isVerdict?: true
  /** The result with which a script continues: any other is a no. */
  readonly yes?: string
  /** A timeout can take a default. */
  readonly takesDefault?: true
  /** The noun that several people vote for; absent: one person answers. */
  readonly votesFor?: string
  /** Only the agent gets its result. */
  readonly isPrivate?: true
  /** The label of an answer in metrics; absent: the result itself. */
  readonly counted?: string
  /** The artifact versions that it names: the agent must be able to read them. */
  artifacts?(payload: P): readonly ArtifactReference[]
  /** The question as one of the draft's actions, for pages that know no others. */
  asKnown?(payload: P): { readonly action: 'DECIDE' | 'APPROVE' | 'PROVIDE'; readonly payload: object }
}

export const text = (maxLength: number) => t.String({ minLength: 1, maxLength })
export const Context = t.Optional(t.String({ maxLength: limits.contextCharsMax, description: 'background, as the agent tells it' }))

export function refuse(message: string, place: string): never {
  throw new Refusal('INVALID_REQUEST', `payload.${place} ${message}`, { field: `payload.${place}` })
}
export function refuseResult(message: string, field = 'result'): never {
  throw new Refusal('INVALID_RESULT', `${field} ${message}`, { field })
}
export const oneOf = (allowed: readonly string[], value: unknown): string =>
  typeof value === 'string' && allowed.includes(value) ? value : refuseResult(`must be one of: ${allowed.join(', ')}`)

/** Refuses a text for people that is blank or has deceptive characters. */
export function refuseUnreadable(text: string, place: string, check = refuseHostile): void {
  if (text.trim() === '') refuse('must not be blank', place)
  check(text, `payload.${place}`)
}

export function refuseAlike(labels: readonly string[], place: string): void {
  const alike = alikeIn(labels)
  if (!alike) return
  const [one, other] = alike
  const isSame = labels[one] === labels[other]
  refuse(`must be distinct: ${one + 1} and ${other + 1} ${isSame ? 'are the same' : 'look the same to people'}`, place)
}
