// The test for a lean hook, apart from the hook itself: `hook install` and its kind are commands like any other.
import { isAgentName } from '#bridges/hooks/dialects.ts'

export const isHook = (argv: readonly string[]): boolean =>
  argv[0] === 'hook' && isAgentName(argv[1]) && !argv.includes('--help') && !argv.includes('-h')
