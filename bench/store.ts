// The gain of group commit: 64 callers whose batches share a transaction, against 64 callers who each get their own. Both are durable (WAL,
// synchronous=FULL), both in this process, in alternating rounds.
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Batch, Store } from '#kernel/log/store.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { cast, createWorld } from '#test/support/in-process/world.ts'
import { quantiles } from './load.ts'
import { median, ms, rate, times, type Bench, type Row } from './report.ts'

const CALLERS = 64
const ROUNDS = 5
const ROUND_MS = 1_500
const DOCUMENTS = 10_000

type Operation = (caller: number, n: number) => Promise<unknown>
type Measured = { readonly perSecond: number; readonly p50: number; readonly p99: number }
type Contest = { readonly name: string; open(store: Store): Promise<Operation> }

async function measure(operation: Operation, forMs: number): Promise<Measured> {
  const spent: number[] = []
  const began = performance.now()
  const until = began + forMs
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      for (let n = 0, now = performance.now(); now < until; n++) {
        await operation(caller, n)
        const after = performance.now()
        spent.push(after - now)
        now = after
      }
    }),
  )
  return { perSecond: spent.length / ((performance.now() - began) / 1_000), ...quantiles(spent) }
}

const filler = 'The quick brown fox jumps over the lazy dog. '.repeat(30)

/** Reads one document of 1 KB by its key, writes it again with a fact that describes it, and moves one index entry. */
const bare: Contest = {
  name: 'bare store: read 1 KB, write it, one fact, one entry',
  async open(store) {
    const keyOf = (n: number): string => `bench.doc/${String(n).padStart(6, '0')}`
    const valueOf = (id: string, n: number) => ({ id, n, text: filler.slice(0, 950) })
    for (let from = 0; from < DOCUMENTS; from += 500) {
      const keys = Array.from({ length: 500 }, (_, i) => keyOf(from + i))
      await store.commit(batchOf({ create: new Set(keys), facts: keys.map((key) => factOf(key, valueOf(key, 0))) }))
    }
    let turn = 0
    return async (caller, n) => {
      // Each caller has documents of its own, so that this measures writing and not conflicts.
      const key = keyOf(((n * CALLERS + caller) * 7) % DOCUMENTS)
      const [found] = await store.read([key])
      const value = valueOf(key, ++turn)
      const add = [`bench.by\0${String(turn).padStart(12, '0')}\0${key}`]
      await store.commit(batchOf({ expect: new Map([[key, found!.version]]), facts: [factOf(key, value)], add }))
    }
  },
}
const batchOf = (batch: Partial<Batch>): Batch => ({
  scope: 'project_bench',
  at: new Date().toISOString(),
  expect: new Map(),
  create: new Set(),
  facts: [],
  puts: [],
  add: [],
  drop: [],
  count: new Map(),
  wakes: [],
  atMost: [],
  ...batch,
})
const factOf = (key: string, value: Record<string, unknown>): Batch['facts'][number] => ({
  id: 'aud_01J0KDK3N6A2BCDEFGHJKMNPQR',
  action: 'bench/document.written',
  actor: 'user_alice',
  behalf: null,
  basis: { kind: 'role', id: 'human' },
  cause: null,
  subject: key,
  task: null,
  root: null,
  detail: null,
  images: [{ key, value, text: JSON.stringify(value) }],
})

const throughKernel: Contest = {
  name: 'kernel: collaboration/task.create',
  async open(store) {
    const { kernel } = await createWorld({ store })
    const input = { type: 'code', spec: { goal: filler.slice(0, 300), acceptance_criteria: ['tests pass', 'no new warnings'] } }
    return () => kernel.call('collaboration/task.create', input, cast['alice']!)
  },
}

/** Calls of fdatasync that this disk completes in a second. */
function syncsPerSecond(folder: string): number {
  const file = openSync(join(folder, 'probe'), 'w')
  const page = Buffer.alloc(4_096, 1)
  const began = performance.now()
  let count = 0
  for (; performance.now() - began < 500; count++) {
    writeSync(file, page)
    fdatasyncSync(file)
  }
  closeSync(file)
  return count / ((performance.now() - began) / 1_000)
}

async function contest({ name, open }: Contest, folder: string, say: (line: string) => void): Promise<Row[]> {
  const stores = {
    single: sqliteStore(join(folder, `${name.length}-single.db`), { groupMax: 1 }),
    grouped: sqliteStore(join(folder, `${name.length}-grouped.db`)),
  }
  const operations = { single: await open(stores.single), grouped: await open(stores.grouped) }
  const rounds: { single: Measured; grouped: Measured }[] = []
  for (const operation of Object.values(operations)) await measure(operation, ROUND_MS / 3)
  for (let round = 1; round <= ROUNDS; round++) {
    const single = await measure(operations.single, ROUND_MS)
    const grouped = await measure(operations.grouped, ROUND_MS)
    rounds.push({ single, grouped })
    say(`round ${round} of ${ROUNDS}: single ${rate(single.perSecond)}, grouped ${rate(grouped.perSecond)}`)
  }
  await Promise.all(Object.values(stores).map((store) => store.close()))
  const of = (which: 'single' | 'grouped', figure: keyof Measured): number => median(rounds.map((round) => round[which][figure]))
  const ratio = median(rounds.map(({ single, grouped }) => grouped.perSecond / single.perSecond))
  const row = (which: 'single' | 'grouped'): Row => ({
    what: `${name}, ${which}`,
    value: rate(of(which, 'perSecond')),
    more: `p50 ${ms(of(which, 'p50'))}, p99 ${ms(of(which, 'p99'))}`,
  })
  return [
    row('single'),
    row('grouped'),
    { what: `${name}: grouped against single`, value: times(ratio), goal: { message: '>= 4x', met: ratio >= 4 } },
  ]
}

export const store: Bench = {
  name: 'store',
  message: `durable commits by ${CALLERS} callers, one transaction each against grouped`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    try {
      const probe: Row = { what: 'fdatasync of 4 KB on this disk', value: rate(syncsPerSecond(folder)) }
      return [probe, ...(await contest(bare, folder, say)), ...(await contest(throughKernel, folder, say))]
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}
