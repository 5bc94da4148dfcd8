// The whole core under faults, 2,000 histories each time; and, so that we know that it would tell us, the same with mistakes
// planted in the source.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { protocols } from '#protocols/index.ts'
import { mistakes } from './mistakes.ts'
import { explain, report, runSeeds } from './seeds.ts'

const SEEDS = 2_000
const PART = 500
const faults = [
  'disk full',
  'write refused',
  'fsync error',
  'crash before the write',
  'crash after the write',
  'kill',
  'clock step',
  'time passes',
  'answer lost',
  'duplicate',
  'retry',
  'repeated after its answer',
  'sweep',
]
/** Called by contracts, timers and workers only; their facts are looked for instead. */
const bySystem = new Set([
  ...[
    'task.complete',
    'task.overdue',
    'checkpoint.overdue',
    'checkpoint.escalate',
    'checkpoint.ask',
    'checkpoint.settle',
    'upload.expire',
  ].map((name) => `collaboration/${name}`),
  ...[
    'agent.block',
    'agent.resume',
    'agent.steer',
    'agent.cancel',
    'card.sync',
    'agent.retire',
    'run.abandon',
    'run.forget',
    'run.fence',
    'capability.conclude',
    'capability.offer',
    'capability.withdraw',
    // Webhooks need somebody who takes them: test/webhook.test.ts.
    'webhook.rotate',
    'inbox.push',
    'delivery.record',
    'delivery.forget',
  ].map((name) => `delegation/${name}`),
])

/** What people and agents do with requests, and what becomes of these. */
const asked = [
  'create',
  'resolve',
  'cancel',
  'get',
  'claim',
  'release',
  'extend',
  'assign',
  'escalate',
  'snooze',
  'unsnooze',
  'question',
  'reply',
]
const became = [
  'created',
  'completed',
  'failed',
  'cancelled',
  'expired',
  'voted',
  'claimed',
  'released',
  'extended',
  'assigned',
  'escalated',
  'reminded',
  'snoozed',
  'unsnoozed',
  'woken',
  'questioned',
  'replied',
  'rerouted',
  'bound',
]

async function run(...args: string[]): Promise<{ code: number; output: string }> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.resolve('./run.ts')), ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output += part))
  const [code] = (await once(child, 'close')) as [number]
  return { code, output: output.trim() }
}

/** A simulation in which something never happens proves nothing about it. */
function assertHappened(happened: ReadonlySet<string>): void {
  const commands = protocols
    .filter(({ name }) => name === 'collaboration' || name === 'delegation')
    .flatMap(({ name: protocol, operations }) =>
      operations
        .filter((op) => op.kind === 'command')
        .map(({ name, audit }) => ({ name: `${protocol}/${name}`, fact: audit && `fact ${protocol}/${audit}` })),
    )
  const wanted = [
    ...faults,
    ...commands.filter(({ name }) => !bySystem.has(name)).map(({ name }) => `${name} ok`),
    ...commands.flatMap(({ fact, name }) => (name === 'delegation/webhook.rotate' ? [] : (fact ?? []))),
    'fact kernel/authorization.denied',
    ...asked.map((name) => `execution/request.${name} ok`),
    ...['RESOLVED', 'CLAIMED', 'VOTED'].map((what) => `execution/request.resolve ALREADY_${what}`),
    ...['EXPIRED', 'CHANGED', 'INVALID_RESULT', 'NOT_FOUND'].map((code) => `execution/request.resolve ${code}`),
    ...became.map((name) => `fact execution/request.${name}`),
    ...['taken', 'expired'].map((name) => `fact execution/secret.${name}`),
  ]
  assert.deepEqual(
    wanted.filter((what) => !happened.has(what)),
    [],
    'it happened at least once',
  )
}

describe(`${SEEDS} histories with faults`, () => {
  const happened = new Set<string>()
  // In parts, so that none of them takes long on a busy machine.
  for (let from = 1; from <= SEEDS; from += PART) {
    test(`seeds ${from} to ${from + PART - 1} keep every promise`, async (context) => {
      const result = await runSeeds({ from, count: PART })
      context.diagnostic(report(result))
      for (const what of result.happened.keys()) happened.add(what)
      if (result.failed) assert.fail(explain(result.failed))
    })
  }
  test('every operation and every fault happened in them', () => assertHappened(happened))
})

test('a seed gives the same history each time, in every process', async () => {
  for (const seed of [3, 77, 1_234]) {
    const first = await runSeeds({ from: seed, count: 1 })
    const second = await runSeeds({ from: seed, count: 1 })
    assert.equal(second.last.hash, first.last.hash)
    const { output } = await run('--seed', String(seed))
    assert.ok(output.includes(`hash ${first.last.hash}`), output)
  }
  const [one, other] = [await runSeeds({ from: 1, count: 1 }), await runSeeds({ from: 2, count: 1 })]
  assert.notEqual(one.last.hash, other.last.hash)
})

/** Where to begin for mistakes that few histories show: `run.ts --mistake <name>` finds the place anew when histories have changed. */
const rare: Readonly<Record<string, number>> = { 'timer-set-anew-is-lost': 3_500, 'expires-before-its-time': 2_800 }

describe('a planted mistake is found', { concurrency: 2 }, () => {
  for (const { name } of mistakes) {
    test(name.replaceAll('-', ' '), async (context) => {
      const from = rare[name] ?? 1
      const { code, output } = await run('--mistake', name, '--from', String(from), '--seeds', String(SEEDS))
      context.diagnostic(output)
      assert.equal(code, 0, output)
    })
  }
})
