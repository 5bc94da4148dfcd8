// `ask verify`: whether a claim holds, by its evidence.
import { flag } from '../derive/flags.ts'
import { spec } from '../derive/command.ts'
import { ask, commonFlags, first } from './ask.ts'

export const verify = spec(
  'ask verify',
  'Ask a person whether a claim holds; `confirmed`, `refuted` or `cannot_tell` is printed. Only `confirmed` is exit code 0; the others, and a declined question, are exit code 5.',
  {
    positionals: [first('claim', 'the claim')],
    flags: [
      flag('evidence', 'text', 'text, an address (https://...), or artifact:<id>@<version>; repeat for more, at most 20', { many: true }),
      ...commonFlags,
    ],
    examples: [
      "countersign ask verify 'The invoice matches the order' --evidence https://files.example.com/invoice.pdf",
      "countersign ask verify 'The backup can be restored' --evidence 'restored 4,211 of 4,211 rows' && ./drop-old.sh",
    ],
    run: (context, given) =>
      ask(context, given, 'VERIFY', {
        claim: given.get('claim'),
        evidence: ((given.get('evidence') ?? []) as string[]).map(evidenceOf),
      }),
  },
)

const ARTIFACT = /^artifact:([^@\s]+)@(\S+)$/
function evidenceOf(text: string): object {
  const [, artifact_id, version] = ARTIFACT.exec(text) ?? []
  if (artifact_id !== undefined) return { kind: 'artifact', artifact_id, version }
  return /^https?:\/\/\S+$/.test(text) ? { kind: 'link', uri: text } : { kind: 'text', text }
}
