// `ask provide`: a value that only a person has.
import { flag, type FlagValues } from '../derive/flags.ts'
import { spec } from '../derive/command.ts'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { ask, commonFlags, first } from './ask.ts'

export const provide = spec('ask provide', 'Ask a person for a value that only they have; it is printed.', {
  positionals: [first('prompt', 'the thing that is needed')],
  flags: [
    flag('type', 'word', 'its type; text by default', { choices: ['text', 'number', 'url', 'email', 'file', 'selection'] }),
    flag('sensitive', null, 'it is a secret'),
    flag('placeholder', 'text', 'an example of it'),
    flag('pattern', 'text', 'the pattern that it must match, in RE2 syntax'),
    flag('min', 'number', 'the least number, or the least length', { kind: 'number' }),
    flag('max', 'number', 'the greatest number, or the greatest length', { kind: 'number' }),
    flag('value', 'text', 'one of the values that are allowed; repeat', { many: true }),
    flag('multiple', null, 'several of the values may be chosen'),
    ...commonFlags,
  ],
  examples: [
    "countersign ask provide 'The API key of the mail provider' --sensitive",
    "countersign ask provide 'How many seats?' --type number --min 1",
  ],
  run(context, given) {
    const validation = definedFields({
      pattern: given.get('pattern'),
      min: given.get('min'),
      max: given.get('max'),
      allowed_values: valuesOf(given),
      multiple: given.get('multiple'),
    })
    return ask(context, given, 'PROVIDE', {
      prompt: given.get('prompt'),
      input_type: given.get('type') ?? 'text',
      placeholder: given.get('placeholder'),
      sensitive: given.get('sensitive'),
      validation: Object.keys(validation).length === 0 ? undefined : validation,
    })
  },
})

const valuesOf = (given: FlagValues): (string | number)[] | undefined => {
  const values = given.get('value') as string[] | undefined
  return given.get('type') === 'number' ? values?.map(Number) : values
}
