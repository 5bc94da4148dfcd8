// `countersign up`: the server in the foreground, with the options of `npm start`.
import { settings } from '../options.ts'
import { usage } from './exits.ts'
import { flag } from './flags.ts'
import { spec } from './spec.ts'

/** The words behind `up`, wherever `up` stands. The server reads its own options. */
export function wordsForUp(argv: readonly string[]): string[] | null {
  const at = argv.indexOf('up')
  const before = argv.slice(0, Math.max(0, at))
  // Only --data may stand before it: it means the same to both.
  const isFirst = at === 0 || (at === 2 && before[0] === '--data') || (at === 1 && before[0]!.startsWith('--data='))
  return isFirst ? [...before, ...argv.slice(at + 1)] : null
}

/** Resolves when the server runs; the process then ends by a signal. */
export async function up(words: readonly string[]): Promise<void> {
  const { main } = await import('../main.ts')
  await main(words, 'countersign up')
}

/** In the lists like all others. `countersign up` itself is handed over before anything is parsed. */
export const upSpec = spec('up', 'Start a server in the foreground; `countersign up --help` shows its options.', {
  flags: settings
    .filter(({ flag: name }) => !['data', 'help', 'version'].includes(name))
    .map(({ flag: name, value, words }) => flag(name, value === null ? null : value.replaceAll(/[<>]/g, ''), words)),
  examples: ['countersign up', 'countersign up --port 0 --data /var/lib/countersign'],
  run: () => Promise.reject(usage('up comes first: countersign up [options]')),
})
