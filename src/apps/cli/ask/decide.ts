// `ask decide`: one of two to six options.
import { flag } from '../derive/flags.ts'
import { spec } from '../derive/command.ts'
import { ask, commonFlags, first } from './ask.ts'

export const decide = spec('ask decide', 'Ask a person to choose; the option that they choose is printed.', {
  positionals: [first('question', 'the question')],
  flags: [
    { ...flag('option', 'text', 'an option to choose from, two to six; repeat', { many: true }), required: true },
    flag('default-option', 'text', 'the option that is taken when nobody answers in time and the fallback is default'),
    ...commonFlags,
  ],
  examples: [
    "countersign ask decide 'Ship it?' --option yes --option no",
    "countersign ask decide 'Which region?' --option eu --option us --timeout PT1H --fallback default --default-option eu",
  ],
  run: (context, given) =>
    ask(context, given, 'DECIDE', {
      question: given.get('question'),
      options: given.get('option'),
      default_option: given.get('default-option'),
    }),
})
