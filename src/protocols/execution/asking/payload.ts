// The payload of a request, for each of the three actions: its shape, and the rules that a shape cannot say.
import { isObject } from '#kernel/codec/strict-json.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { refuseMismatch, schemaProblem } from '#kernel/declare/foreign-schema.ts'
import { linearPattern } from '#kernel/foreign/linear-pattern.ts'
import { limits } from '#kernel/limits.ts'
import { either, parse, t, type Static, type TSchema } from '#kernel/declare/schema.ts'
import { refuseUnknown, unknownFields } from '#kernel/declare/unknown-fields.ts'
import { resultProblem } from '../answering/result.ts'
import { alikeIn, refuseHostile, refuseHostileLabel } from './hostile-text.ts'

export const Action = either('DECIDE', 'APPROVE', 'PROVIDE')
export type Action = Static<typeof Action>
export const Fallback = either('pause', 'fail', 'default')
export type Fallback = Static<typeof Fallback>

const text = (maxLength: number) => t.String({ minLength: 1, maxLength })
const Context = t.Optional(t.String({ maxLength: limits.contextCharsMax, description: 'background, as the agent tells it' }))

export const DecidePayload = t.Object({
  question: text(limits.questionCharsMax),
  options: t.Array(text(limits.choiceCharsMax), { minItems: limits.choicesMin, maxItems: limits.choicesMax }),
  context: Context,
  default_option: t.Optional(text(limits.choiceCharsMax)),
})
export const ApprovePayload = t.Object({
  item: text(limits.questionCharsMax),
  details: t.Object({}, { additionalProperties: true }),
  context: Context,
  reject_requires_reason: t.Optional(t.Boolean()),
  details_schema: t.Optional(
    t.Object({}, { additionalProperties: true, description: 'ours: a JSON Schema; the person may edit the details within it and approve' }),
  ),
  scope: t.Optional(
    t.String({ minLength: 1, maxLength: limits.nameCharsMax, description: 'ours: the scope of a grant that may answer it' }),
  ),
})
const Validation = t.Object({
  pattern: t.Optional(t.String({ description: 'RE2 syntax; it is searched for, so write ^ and $ for the whole text' })),
  min: t.Optional(t.Number({ description: 'the least number, or the least length of a text' })),
  max: t.Optional(t.Number()),
  allowed_values: t.Optional(t.Array(t.Union([t.String(), t.Number()]), { minItems: 1, maxItems: limits.allowedValuesMax })),
  max_bytes: t.Optional(t.Integer({ minimum: 1, maximum: limits.blobBytesMax })),
  media_types: t.Optional(t.Array(t.String(), { minItems: 1, maxItems: limits.mediaTypesMax })),
  multiple: t.Optional(t.Boolean()),
})
export type Validation = Static<typeof Validation>
export const InputType = either('text', 'number', 'url', 'email', 'file', 'selection')
export type InputType = Static<typeof InputType>
export const ProvidePayload = t.Object({
  prompt: text(limits.questionCharsMax),
  input_type: InputType,
  context: Context,
  placeholder: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
  validation: t.Optional(Validation),
  sensitive: t.Optional(t.Boolean({ description: 'ours: the answer is a secret' })),
})
export type DecidePayload = Static<typeof DecidePayload>
export type ApprovePayload = Static<typeof ApprovePayload>
export type ProvidePayload = Static<typeof ProvidePayload>

/** As it is stored and shown. The first field of each is in no other. */
export const Payload = t.Union([DecidePayload, ApprovePayload, ProvidePayload])
export type Payload = Static<typeof Payload>

// --- As it comes in --------------------------------------------------------------------------------------------------------

const DecideInput = t.Object({ payload: DecidePayload })
const ApproveInput = t.Object({
  payload: t.Object({ ...ApprovePayload.properties, details: t.Optional(ApprovePayload.properties.details) }),
})
const ProvideInput = t.Object({
  payload: t.Object({
    ...ProvidePayload.properties,
    validation: t.Optional(t.Object({ ...Validation.properties, regex: Validation.properties.pattern })),
  }),
})

function refuse(words: string, place: string): never {
  throw new Refusal('INVALID_REQUEST', `payload.${place} ${words}`, { field: `payload.${place}` })
}

const inputs = { DECIDE: DecideInput, APPROVE: ApproveInput, PROVIDE: ProvideInput }
/** The schema of a payload as it comes in. */
export const payloadInput = (action: Action): TSchema => inputs[action]

/** The payload of a new request, checked; unknown fields are refused. */
export function payloadOf(action: Action, raw: unknown, fallback: Fallback): Payload {
  const input = { payload: isObject(raw) ? withoutNulls(raw) : raw }
  refuseForeignDefault(action, input.payload, fallback)
  const payload = readAs(action, input, fallback)
  refuseUnknown(unknownFields(payloadInput(action), input))
  return payload
}

function readAs(action: Action, input: { readonly payload: unknown }, fallback: Fallback): Payload {
  if (action === 'DECIDE') return decided(parse(DecideInput, input).payload, fallback)
  return action === 'APPROVE' ? approved(parse(ApproveInput, input).payload) : provided(parse(ProvideInput, input).payload)
}

/** Many clients write what they do not say as null. */
function withoutNulls(raw: Record<string, unknown>): Record<string, unknown> {
  if (!Object.values(raw).includes(null) && !isObject(raw['validation'])) return raw
  const said = Object.entries(raw).filter(([, value]) => value !== null)
  return Object.fromEntries(said.map(([name, value]) => [name, name === 'validation' && isObject(value) ? withoutNulls(value) : value]))
}

function refuseForeignDefault(action: Action, payload: unknown, fallback: Fallback): void {
  if (action === 'DECIDE') return
  if (fallback === 'default')
    throw new Refusal('INVALID_REQUEST', `fallback default is for DECIDE: nobody is taken to have answered ${action}`, {
      field: 'fallback',
    })
  if (isObject(payload) && Object.hasOwn(payload, 'default_option')) refuse(`is for DECIDE, not for ${action}`, 'default_option')
}

/** Words that people read before they decide: not blank, and nothing in them that deceives. */
function refuseUnreadable(words: string, place: string, check = refuseHostile): void {
  if (words.trim() === '') refuse('must not be blank', place)
  check(words, `payload.${place}`)
}

function decided(payload: DecidePayload, fallback: Fallback): DecidePayload {
  refuseUnreadable(payload.question, 'question')
  for (const [place, option] of payload.options.entries()) refuseUnreadable(option, `options.${place}`, refuseHostileLabel)
  refuseAlike(payload.options, 'options')
  const { default_option } = payload
  if (default_option !== undefined && !payload.options.includes(default_option)) refuse('must be one of the options', 'default_option')
  if (default_option === undefined && fallback === 'default') refuse('is required when the fallback is default', 'default_option')
  return payload
}

function refuseAlike(labels: readonly string[], place: string): void {
  const alike = alikeIn(labels)
  if (!alike) return
  const [one, other] = alike
  const isSame = labels[one] === labels[other]
  refuse(`must be distinct: ${one + 1} and ${other + 1} ${isSame ? 'are the same' : 'look the same to people'}`, place)
}

function approved({ details = {}, ...payload }: Omit<ApprovePayload, 'details'> & { details?: object }): ApprovePayload {
  refuseUnreadable(payload.item, 'item')
  if (payload.scope !== undefined) refuseUnreadable(payload.scope, 'scope', refuseHostileLabel)
  refuseOddDetails(details, 'payload.details')
  const { details_schema } = payload
  if (details_schema !== undefined) {
    if (bytesIn(details_schema) > limits.detailsBytesMax) refuse(`is larger than ${limits.detailsBytesMax} bytes`, 'details_schema')
    const problem = schemaProblem(details_schema, 'payload.details')
    if (problem !== null) throw new Refusal('INVALID_REQUEST', problem, { field: 'payload.details_schema' })
    // A schema that its own details do not fit would let nobody edit them.
    refuseMismatch(details_schema, details, 'INVALID_REQUEST', 'payload.details')
  }
  return { ...payload, details }
}
/** Not larger and not deeper than what people can be asked to approve. */
export function refuseOddDetails(details: object, field: string): void {
  const wrong = (words: string): never => {
    throw new Refusal('INVALID_REQUEST', `${field} ${words}`, { field })
  }
  if (isDeeper(details, limits.detailsDepthMax)) wrong(`is nested more than ${limits.detailsDepthMax} deep`)
  if (bytesIn(details) > limits.detailsBytesMax) wrong(`is larger than ${limits.detailsBytesMax} bytes`)
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' && value !== null && (levels === 0 || Object.values(value).some((held) => isDeeper(held, levels - 1)))

function bytesIn(details: object): number {
  try {
    return new TextEncoder().encode(canonical(details)).length
  } catch {
    return refuse('is not JSON', 'details')
  }
}

// --- What people may fill in -----------------------------------------------------------------------------------------------

const keysOf: Readonly<Record<InputType, readonly (keyof Validation)[]>> = {
  text: ['pattern', 'min', 'max', 'allowed_values'],
  number: ['min', 'max', 'allowed_values'],
  url: ['pattern', 'min', 'max', 'allowed_values'],
  email: ['pattern', 'min', 'max', 'allowed_values'],
  file: ['max_bytes', 'media_types'],
  selection: ['allowed_values', 'multiple'],
}
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,126})$/

type ProvideInput = Omit<ProvidePayload, 'validation'> & { validation?: Validation & { regex?: string } }

function provided({ validation: asked, ...rest }: ProvideInput): ProvidePayload {
  refuseUnreadable(rest.prompt, 'prompt')
  if (rest.placeholder !== undefined) refuseHostile(rest.placeholder, 'payload.placeholder')
  if (rest.sensitive === true && (rest.input_type === 'file' || rest.input_type === 'selection'))
    refuse(`is for typed values, not for ${rest.input_type}`, 'sensitive')
  const validation = asked === undefined ? {} : validationOf(rest.input_type, asked)
  if (rest.input_type === 'selection' && validation.allowed_values === undefined)
    refuse('is required for a selection', 'validation.allowed_values')
  const payload = asked === undefined ? rest : { ...rest, validation }
  for (const [place, value] of (validation.allowed_values ?? []).entries()) refuseImpossible(payload, value, place)
  return payload
}

function validationOf(type: InputType, { regex, ...rest }: Validation & { regex?: string }): Validation {
  if (regex !== undefined && rest.pattern !== undefined) refuse('and regex are the same thing: send one of them', 'validation.pattern')
  const pattern = regex ?? rest.pattern
  const validation: Validation = pattern === undefined ? rest : { ...rest, pattern }
  const foreign = Object.keys(validation).find((key) => !keysOf[type].includes(key as keyof Validation))
  if (foreign !== undefined) refuse(`does not apply to ${type}, only: ${keysOf[type].join(', ')}`, `validation.${foreign}`)
  if (pattern !== undefined) linearPattern(pattern, 'INVALID_REQUEST', 'payload.validation.pattern')
  refuseBadBounds(type, validation)
  if (validation.allowed_values) refuseBadValues(type, validation.allowed_values)
  return validation.media_types ? { ...validation, media_types: mediaTypesOf(validation.media_types) } : validation
}

function refuseBadBounds(type: InputType, { min, max }: Validation): void {
  for (const [name, bound] of Object.entries({ min, max })) {
    if (bound === undefined || type === 'number') continue
    if (!Number.isInteger(bound) || bound < 0 || bound > limits.textCharsMax)
      refuse(`must be a whole number from 0 to ${limits.textCharsMax}: it bounds the length of the text`, `validation.${name}`)
  }
  if (min !== undefined && max !== undefined && min > max) refuse('is greater than max', 'validation.min')
  if (type !== 'number' && max === 0) refuse('leaves no text that could be given', 'validation.max')
}

function refuseBadValues(type: InputType, values: readonly (string | number)[]): void {
  const place = 'validation.allowed_values'
  for (const [at, value] of values.entries()) {
    if (type !== 'selection' && typeof value !== (type === 'number' ? 'number' : 'string'))
      refuse(`must be a ${type === 'number' ? 'number' : 'text'}`, `${place}.${at}`)
    if (typeof value !== 'string') continue
    if (Array.from(value).length > limits.labelCharsMax) refuse(`has more than ${limits.labelCharsMax} characters`, `${place}.${at}`)
    refuseUnreadable(value, `${place}.${at}`, refuseHostileLabel)
  }
  // The number 1 and the text 1 are one choice for people.
  refuseAlike(values.map(String), place)
}

function mediaTypesOf(types: readonly string[]): string[] {
  const lower = types.map((type) => type.toLowerCase())
  const wrong = lower.findIndex((type, at) => !MEDIA_TYPE.test(type) || lower.indexOf(type) !== at)
  if (wrong !== -1) refuse('must be a media type such as image/png or image/*, each once', `validation.media_types.${wrong}`)
  return lower
}

/** A value that people may choose but that would then be refused is a trap. */
function refuseImpossible(payload: ProvidePayload, value: string | number, place: number): void {
  const problem = payload.input_type === 'selection' ? null : resultProblem(payload, value)
  if (problem !== null) refuse(`could never be given: it ${problem}`, `validation.allowed_values.${place}`)
}
