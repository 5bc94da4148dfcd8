// DECIDE: a person chooses one of two to six options.
import { limits } from '#kernel/limits.ts'
import { parse, t, type Static } from '#kernel/declare/schema.ts'
import { refuseHostileLabel } from '../asking/hostile-text.ts'
import { Context, oneOf, refuse, refuseAlike, refuseUnreadable, text, type HumanAction } from './action.ts'

const Payload = t.Object({
  question: text(limits.questionCharsMax),
  options: t.Array(text(limits.choiceCharsMax), { minItems: limits.choicesMin, maxItems: limits.choicesMax }),
  context: Context,
  default_option: t.Optional(text(limits.choiceCharsMax)),
})
export type DecidePayload = Static<typeof Payload>
const Input = t.Object({ payload: Payload })

export const decide = {
  asks: 'choice',
  payload: Payload,
  input: Input,
  read(input, fallback) {
    const { payload } = parse(Input, input)
    refuseUnreadable(payload.question, 'question')
    for (const [place, option] of payload.options.entries()) refuseUnreadable(option, `options.${place}`, refuseHostileLabel)
    refuseAlike(payload.options, 'options')
    const { default_option } = payload
    if (default_option !== undefined && !payload.options.includes(default_option)) refuse('must be one of the options', 'default_option')
    if (default_option === undefined && fallback === 'default') refuse('is required when the fallback is default', 'default_option')
    return payload
  },
  question: ({ question }) => question,
  options: ({ options }) => options,
  result: ({ options }, value) => oneOf(options, value),
  effects: { approve: 'gets the option that you choose' },
  checkpoint: 'choice',
  takesDefault: true,
  votesFor: 'option',
  counted: 'chosen',
} as const satisfies HumanAction<DecidePayload>
