// The order of the test files: those that take longest come first, so that none of them is left alone at the end.

/** The files that take longer than about twenty seconds on a machine with two cores, the longest first. */
export const longest: readonly string[] = [
  'test/docs/tours.test.ts',
  'test/simulation/simulation.test.ts',
  'test/faults/servers.test.ts',
  'test/faults/servers-bad-cases.test.ts',
  'test/apps/server/servers-as-one.test.ts',
  'test/apps/server/servers.test.ts',
  'test/stores/postgres.test.ts',
  'test/apps/server/postgres-versions.test.ts',
  'test/scripts/tarball.test.ts',
  'test/faults/crash-agents.test.ts',
  'test/laws/derived.test.ts',
  'test/laws/bindings.test.ts',
  'test/faults/overload.test.ts',
  'test/web/inbox.test.ts',
  'test/web/safety.test.ts',
  'test/web/pages.test.ts',
  'test/web/refusals.test.ts',
  'test/web/hostile.test.ts',
  'test/web/kinds.test.ts',
  'test/docs/own-project.test.ts',
  'test/faults/tampering.test.ts',
  'test/apps/server/server.test.ts',
  'test/laws/races.test.ts',
  'test/apps/cli/inbox.test.ts',
  'test/stores/stores.test.ts',
  'test/apps/cli/flows.test.ts',
  'test/faults/crash-harness.test.ts',
  'test/bridges/hcp/exchange.test.ts',
  'test/bridges/hcp/broker-rights.test.ts',
  'test/apps/harness.test.ts',
  'test/scripts/broker.test.ts',
  'test/faults/crash.test.ts',
  'test/docs/agents.test.ts',
  'test/apps/cli/agent-run.test.ts',
  'test/apps/cli/inbox/screen.test.ts',
  'test/apps/cli/inbox/deciding.test.ts',
  'test/apps/server/data-folder.test.ts',
  'test/faults/full-disk.test.ts',
  'test/apps/server/development.test.ts',
  'test/faults/crash-execution.test.ts',
  'test/faults/leaked-secrets.test.ts',
  'test/capabilities/server.test.ts',
  'test/capabilities/capabilities.test.ts',
]

const rankOf = (file: string): number => (longest.includes(file) ? longest.indexOf(file) : longest.length)

export const inOrder = (files: readonly string[]): string[] =>
  files.toSorted((one, other) => rankOf(one) - rankOf(other) || (one < other ? -1 : 1))
