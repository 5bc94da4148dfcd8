// `countersign up` in the lists and in the help, like all others. The command itself is handed over before anything is parsed.
import { settings } from '../../server/settings/settings.ts'
import { usage } from '../exit-codes.ts'
import { flag } from '../derive/flags.ts'
import { spec } from '../derive/command.ts'

export const upSpec = spec('up', 'Start a server in the foreground; `countersign up --help` shows its options.', {
  isLocal: true,
  flags: Object.entries(settings)
    .filter(([name]) => !['data', 'help', 'version'].includes(name))
    .map(([name, { value, help }]) => flag(name, value === null ? null : value.replaceAll(/[<>]/g, ''), help)),
  examples: ['countersign up', 'countersign up --port 0 --data /var/lib/countersign'],
  run: () => Promise.reject(usage('up comes first: countersign up [options]')),
})
