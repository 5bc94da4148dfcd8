// In which order the test files are run: those that take longest come first, so that none of them is left alone at the end.

/** The files that take longer than about twenty seconds on a machine with two cores, the longest first. */
export const longest: readonly string[] = [
  'test/simulation/simulation.test.ts',
  'test/tours.test.ts',
  'test/crash-agents.test.ts',
  'test/cli-inbox.test.ts',
  'test/cli-flows.test.ts',
  'test/derived.test.ts',
  'test/bindings.test.ts',
  'test/crash.test.ts',
  'test/agents-docs.test.ts',
  'test/agent-run.test.ts',
  'test/cli-inbox-screen.test.ts',
  'test/data-folder.test.ts',
  'test/full-disk.test.ts',
  'test/development.test.ts',
  'test/execution/crash.test.ts',
  'test/execution/canary.test.ts',
  'test/capabilities-server.test.ts',
  'test/capabilities.test.ts',
]

const rankOf = (file: string): number => (longest.includes(file) ? longest.indexOf(file) : longest.length)

export const inOrder = (files: readonly string[]): string[] =>
  files.toSorted((one, other) => rankOf(one) - rankOf(other) || (one < other ? -1 : 1))
