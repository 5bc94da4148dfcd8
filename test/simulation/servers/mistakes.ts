// Mistakes of several servers to plant in the source, one at a time: the simulation of servers must find each of them.
import type { Mistake } from '../mistakes.ts'

const one = (name: string, file: string, find: string, replace: string): Mistake => ({
  name,
  kind: 'servers',
  patches: [{ file, find, replace }],
})

export const serverMistakes: readonly Mistake[] = [
  one('a-seal-follows-nothing', 'kernel/log/sealing.ts', 'sealOf(group.facts, tip.tag, tag)', "sealOf(group.facts, '', tag)"),
  one(
    'no-barrier-before-a-read',
    'kernel/call/query.ts',
    'const barrier = options.store.fresh(since)',
    'const barrier = undefined as Promise<void> | undefined',
  ),
  one(
    'the-cache-is-filled-late',
    'kernel/log/group-commit.ts',
    'if (underWay.get(key) === ticket) {\n        if (entry)',
    'if (ticket) {\n        if (entry)',
  ),
  one(
    'written-without-an-epoch',
    'workers/leases.ts',
    'return { ...SYSTEM, ...more, proof: new Map([[key, found!.version]]) }',
    'return { ...SYSTEM, ...more }',
  ),
  one(
    'the-tag-of-a-commit-is-not-compared',
    'stores/postgres/writing.ts',
    "if (commit.value.command !== 'COMMIT') throw failed?.reason",
    "if (commit.value.command === 'BEGIN') throw failed?.reason",
  ),
  one('an-unknown-outcome-is-guessed-as-done', 'stores/postgres/writing.ts', 'if (await isThere(group, until)) return', 'return'),
  one(
    'an-unknown-outcome-gives-way-to-a-failed-look',
    'kernel/call/command.ts',
    'throw unknown && error instanceof Refusal ? unknown : error',
    'throw error',
  ),
  one('an-unknown-outcome-is-written-again', 'stores/postgres/writing.ts', 'if (await isThere(group, until)) return', ''),
  one(
    'the-effect-of-a-living-server-is-concluded',
    'workers/effect-runner.ts',
    'if (node !== undefined && !others.isEnded(node, epoch!)) continue\n      try {\n        const as = node === undefined ? { ...SYSTEM, behalf } : others.asEnded(node, epoch!, { behalf })',
    'try {\n        const as = { ...SYSTEM, behalf }',
  ),
  one(
    'concluded-though-its-server-came-back',
    'workers/effect-runner.ts',
    'const as = node === undefined ? { ...SYSTEM, behalf } : others.asEnded(node, epoch!, { behalf })',
    'const as = { ...SYSTEM, behalf }',
  ),
  one(
    'a-lease-by-the-wall-clock',
    'workers/leases.ts',
    'const self: Membership = {\n    ...options,\n',
    'const self: Membership = {\n    ...options,\n    monotonic: clock.now,\n',
  ),
  one(
    'sure-before-it-knows-what-it-holds',
    'workers/leases.ts',
    '// Gives up leases that other servers took while this one was paused, before it trusts its leases again.\n',
    'self.kept = began\n',
  ),
  one('a-lost-wait-ends-the-server', 'kernel/call/command.ts', 'outcome.catch(() => undefined)\n    return outcome', 'return outcome'),
  one('a-hint-is-the-truth', 'kernel/log/group-commit.ts', 'fresh: backend.news ? barrier', 'fresh: backend.news === null ? barrier'),
  one('two-hold-a-lease-for-a-moment', 'workers/leases.ts', 'const SURE_MS = (LEASE_MS * 2) / 3', 'const SURE_MS = LEASE_MS * 2'),
  {
    name: 'a-lease-is-taken-for-older-than-it-is',
    kind: 'servers',
    patches: [
      {
        file: 'workers/leases.ts',
        find: 'async function look(self: Membership): Promise<void> {\n',
        replace: 'async function look(self: Membership): Promise<void> {\n  const before = self.monotonic()\n',
      },
      { file: 'workers/leases.ts', find: 'const at = monotonic()', replace: 'const at = before' },
    ],
  },
]
