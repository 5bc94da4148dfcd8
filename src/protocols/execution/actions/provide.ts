// PROVIDE: a person gives a value that only they have: text, a number, an address, a file, one of a list, or a secret.
import { linearPattern } from '#kernel/foreign/linear-pattern.ts'
import { limits } from '#kernel/limits.ts'
import { either, parse, t, type Static } from '#kernel/declare/schema.ts'
import { refuseHostile, refuseHostileLabel } from '../asking/hostile-text.ts'
import { Context, refuse, refuseAlike, refuseResult, refuseUnreadable, text, type HumanAction } from './action.ts'
import { plainValue, valueProblem } from './provided-value.ts'

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
const Payload = t.Object({
  prompt: text(limits.questionCharsMax),
  input_type: InputType,
  context: Context,
  placeholder: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
  validation: t.Optional(Validation),
  sensitive: t.Optional(t.Boolean({ description: 'ours: the answer is a secret' })),
})
export type ProvidePayload = Static<typeof Payload>
const Input = t.Object({
  payload: t.Object({
    ...Payload.properties,
    validation: t.Optional(t.Object({ ...Validation.properties, regex: Validation.properties.pattern })),
  }),
})

export const provide = {
  asks: 'input',
  payload: Payload,
  input: Input,
  read(input) {
    const { validation: given, ...rest } = parse(Input, input).payload
    refuseUnreadable(rest.prompt, 'prompt')
    if (rest.placeholder !== undefined) refuseHostile(rest.placeholder, 'payload.placeholder')
    if (rest.sensitive === true && (rest.input_type === 'file' || rest.input_type === 'selection'))
      refuse(`is for typed values, not for ${rest.input_type}`, 'sensitive')
    const validation = given === undefined ? {} : validationOf(rest.input_type, given)
    if (rest.input_type === 'selection' && validation.allowed_values === undefined)
      refuse('is required for a selection', 'validation.allowed_values')
    const payload = given === undefined ? rest : { ...rest, validation }
    for (const [place, value] of (validation.allowed_values ?? []).entries()) refuseImpossible(payload, value, place)
    return payload
  },
  question: ({ prompt }) => prompt,
  options: ({ validation }) => validation?.allowed_values ?? null,
  result(payload, value) {
    const problem = valueProblem(payload, value)
    return problem === null ? plainValue(payload, value) : refuseResult(problem)
  },
  effects: { approve: 'gets the value that you provide' },
  checkpoint: 'input',
  isPrivate: true,
  counted: 'provided',
} as const satisfies HumanAction<ProvidePayload>

/** Whether its answer is a secret: only a PROVIDE has the field. */
export const isSecret = (payload: object): boolean => (payload as Partial<ProvidePayload>).sensitive === true

const keysOf: Readonly<Record<InputType, readonly (keyof Validation)[]>> = {
  text: ['pattern', 'min', 'max', 'allowed_values'],
  number: ['min', 'max', 'allowed_values'],
  url: ['pattern', 'min', 'max', 'allowed_values'],
  email: ['pattern', 'min', 'max', 'allowed_values'],
  file: ['max_bytes', 'media_types'],
  selection: ['allowed_values', 'multiple'],
}
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,126})$/

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

/** Refuses an allowed value that the other rules would refuse as an answer. */
function refuseImpossible(payload: ProvidePayload, value: string | number, place: number): void {
  const problem = payload.input_type === 'selection' ? null : valueProblem(payload, value)
  if (problem !== null) refuse(`could never be given: it ${problem}`, `validation.allowed_values.${place}`)
}
