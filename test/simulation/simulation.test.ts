// The whole core under faults, three servers on one store, and, so that we know that they would tell us, the same with mistakes planted in
// the source: a part of each every time (choice.ts), all of it with `npm run test:long`.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { protocols } from '#protocols/index.ts'
import { chosenBy, VARIABLE, wordsFor } from './choice.ts'
import { foundAt, mistakes, patched } from './mistakes.ts'
import { explain, report, runSeeds, type Kind } from './seeds.ts'

/** Within so many histories a planted mistake is found. */
const FOUND_WITHIN = 2_000
const PART = 200
const choice = chosenBy(process.env[VARIABLE])
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
/** Of three servers on one store. */
const serverFaults = [
  'pause',
  'cut',
  'kill',
  'stop',
  'clock step',
  'hint lost',
  'hint twice',
  'lost on the way',
  'answer of the database lost',
  'statement refused',
  'answer lost',
  'duplicate',
]
/** Called by contracts, timers and workers only; their facts are looked for instead. */
const bySystem = new Set([
  'delegation/run.admit',
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
    'card.declare',
    'card.pin',
    'agent.retire',
    'run.abandon',
    'run.forget',
    'run.fence',
    'capability.conclude',
    'capability.offer',
    'capability.withdraw',
    'webhook.rotate',
    'mailbox.push',
    'delivery.record',
    'delivery.forget',
    // Work over A2A has no place in the histories.
    'push.set',
    'push.remove',
    'push.ring',
    'push.record',
    'push.tidy',
  ].map((name) => `delegation/${name}`),
])

/** Acts of people and agents on requests, and the outcomes of these. */
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

/** Acts of people and agents about being told, and many answers in one call. */
const told = ['channel.add', 'channel.test', 'channel.remove', 'channel.rotate', 'inbox.resolve']

async function run(...args: string[]): Promise<{ code: number; output: string }> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.resolve('./run.ts')), ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output += part))
  const [code] = (await once(child, 'close')) as [number]
  return { code, output: output.trim() }
}

/** A simulation in which something never happens proves nothing about it. */
function assertHappened(happened: ReadonlySet<string>): void {
  const isMissing = (what: string): boolean => !happened.has(what)
  // A law about a denied capability says nothing if none is denied.
  assert.deepEqual([...faults, 'fact delegation/capability.denied'].filter(isMissing), [], 'it happened at least once')
  if (!choice.isAll) return
  const commands = protocols
    .filter(({ name }) => name === 'collaboration' || name === 'delegation')
    .flatMap(({ name: protocol, operations }) =>
      operations
        .filter((op) => op.kind === 'command')
        .map(({ name, audit }) => ({ name: `${protocol}/${name}`, fact: audit && `fact ${protocol}/${audit}` })),
    )
  const wanted = [
    ...commands.filter(({ name }) => !bySystem.has(name)).map(({ name }) => `${name} ok`),
    ...commands.flatMap(({ fact, name }) => (name === 'delegation/webhook.rotate' ? [] : (fact ?? []))),
    'fact kernel/authorization.denied',
    ...asked.map((name) => `execution/request.${name} ok`),
    ...['RESOLVED', 'CLAIMED', 'VOTED'].map((what) => `execution/request.resolve ALREADY_${what}`),
    ...['EXPIRED', 'CHANGED', 'INVALID_RESULT', 'NOT_FOUND'].map((code) => `execution/request.resolve ${code}`),
    ...became.map((name) => `fact execution/request.${name}`),
    ...['taken', 'expired'].map((name) => `fact execution/secret.${name}`),
    ...told.map((name) => `execution/${name} ok`),
    ...['receiver', 'agent'].flatMap((who) =>
      ['takes it', 'refuses', 'does not answer in time', 'answers too late', 'is gone'].map((fate) => `${who} ${fate}`),
    ),
    'approved action',
    ...['add', 'remove'].map((name) => `identity/substitute.${name} ok`),
    'fact execution/channel.disabled',
    ...['push', 'mail'].flatMap((what) => ['takes it', 'refuses', 'is gone'].map((fate) => `${what} ${fate}`)),
    'notice waits',
    'critical at night',
    'floor under a risk',
    ...['channel.confirm', 'policy.set'].map((name) => `execution/${name} ok`),
  ]
  assert.deepEqual(wanted.filter(isMissing), [], 'it happened at least once')
}

/** In parts, so that none of them takes long on a busy machine. */
function histories(kind: Kind, happened: Set<string>): void {
  const { from: first, count } = choice.histories
  for (let from = first; from < first + count; from += PART) {
    const length = Math.min(PART, first + count - from)
    test(`seeds ${from} to ${from + length - 1} keep every promise`, async (context) => {
      context.diagnostic(wordsFor(choice))
      const result = await runSeeds({ from, count: length, kind })
      context.diagnostic(report(result))
      for (const what of result.happened.keys()) happened.add(what)
      if (result.failed) assert.fail(explain(result.failed, kind))
    })
  }
}

describe(`${choice.histories.count} histories with faults`, () => {
  const happened = new Set<string>()
  histories('core', happened)
  test('every fault happened in them, and in all of them every operation', () => assertHappened(happened))
})

describe(`${choice.histories.count} histories of three servers on one store`, () => {
  const happened = new Set<string>()
  histories('servers', happened)
  test('every fault happened in them', () => {
    const missing = serverFaults.filter((what) => !happened.has(what))
    assert.deepEqual(missing, [], 'it happened at least once')
  })
})

test('a seed gives the same history each time, in every process', async () => {
  for (const [seed, kind] of [
    [3, 'core'],
    [78, 'core'],
    [1_234, 'servers'],
  ] as const) {
    const first = await runSeeds({ from: seed, count: 1, kind })
    const second = await runSeeds({ from: seed, count: 1, kind })
    assert.equal(second.last.hash, first.last.hash)
    const { output } = await run('--kind', kind, '--seed', String(seed))
    assert.ok(output.includes(`hash ${first.last.hash}`), output)
  }
  const [one, other] = [await runSeeds({ from: 1, count: 1 }), await runSeeds({ from: 2, count: 1 })]
  assert.notEqual(one.last.hash, other.last.hash)
})

test('every mistake can be planted, also those that are not planted this time', () => {
  const stale = mistakes.flatMap((mistake) => {
    try {
      patched(mistake)
      return []
    } catch (error) {
      return `${mistake.name}: ${(error as Error).message}`
    }
  })
  assert.deepEqual(stale, [])
  const unknown = Object.keys(foundAt).filter((name) => !mistakes.some((mistake) => mistake.name === name))
  assert.deepEqual(unknown, [], 'found.json names mistakes that there are not')
})

test('a choice is a tenth, the same for the same number, and over many numbers leaves nothing out', () => {
  const many = Array.from({ length: 200 }, (_, number) => chosenBy(String(number)))
  assert.deepEqual(chosenBy('17'), many[17])
  for (const { histories, mistakes: chosen } of many) {
    assert.equal(histories.count, 200)
    assert.equal(new Set(chosen).size, Math.ceil(mistakes.length / 10))
  }
  assert.equal(new Set(many.map(({ histories }) => histories.from)).size, 10)
  assert.equal(new Set(many.flatMap(({ mistakes: chosen }) => chosen)).size, mistakes.length)
  const all = chosenBy('all')
  assert.deepEqual([all.histories, all.mistakes], [{ from: 1, count: 2_000 }, mistakes])
  assert.throws(() => chosenBy('some'), /COUNTERSIGN_TEST_CHOICE is "some": give a number/)
})

describe('a planted mistake is found', { concurrency: 2 }, () => {
  for (const { name } of choice.mistakes) {
    // One whose place in found.json has moved on is searched for from there.
    test(name.replaceAll('-', ' '), { timeout: 300_000 }, async (context) => {
      const { code, output } = await run('--mistake', name, '--seeds', String(FOUND_WITHIN))
      context.diagnostic(output)
      assert.equal(code, 0, output)
    })
  }
})
