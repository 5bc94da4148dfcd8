// `ask approve`: a yes or a no.
import { flag, objectIn } from '../derive/flags.ts'
import { spec } from '../derive/command.ts'
import { ask, commonFlags, first } from './ask.ts'

export const approve = spec(
  'ask approve',
  'Ask a person for a yes; `approved` or `rejected` is printed, and a no, or a declined question, is exit code 5.',
  {
    positionals: [first('item', 'the thing to approve')],
    flags: [
      flag('details', 'json', 'what the person should know, as a JSON object'),
      flag('details-schema', 'json', 'a JSON Schema: they may edit the details within it; --json shows those as receipt.edited'),
      flag('reject-requires-reason', null, 'a no must say why'),
      flag('scope', 'text', 'the scope of a grant that may answer it'),
      ...commonFlags,
    ],
    examples: [
      `countersign ask approve 'Deploy v2' --details '{"sha":"1f0c"}' && ./deploy.sh`,
      "countersign ask approve 'Delete the old backups' --risk R4 --reject-requires-reason --key backups/2026-11",
    ],
    run: (context, given) =>
      ask(context, given, 'APPROVE', {
        item: given.get('item'),
        details: objectIn(given, 'details'),
        details_schema: objectIn(given, 'details-schema'),
        reject_requires_reason: given.get('reject-requires-reason'),
        scope: given.get('scope'),
      }),
  },
)
