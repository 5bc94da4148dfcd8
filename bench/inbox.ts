// The inbox of a person with a hundred and with a hundred thousand open items: a page of rows, and one with a search; the plan of a notice
// for a thousand people; and the export of a record beside reading its facts.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { join } from 'node:path'
import { SYSTEM } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { createWorld, type World } from '#test/support/in-process/world.ts'
import { median, type Bench, type Row } from './report.ts'

const [FEW, MANY] = [100, Number(process.env['BENCH_ITEMS'] ?? 100_000)]
const [ROUNDS, WARM, AT_ONCE] = [40, 5, 50]
const PEOPLE = Number(process.env['BENCH_PEOPLE'] ?? 1_000)

const terms = { asksOpenMax: null, criticalPerHourMax: null, defaultSecondsMin: null, publicHooksOnly: true }

export const inbox: Bench = {
  name: 'inbox',
  message: 'a page of rows at 100 and at 100,000 open items, with a search; a notice for 1,000 people; an exported record',
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    try {
      const sleep = (ms: number): Promise<void> => pause<void>(ms, undefined)
      const few = await createWorld({ store: sqliteStore(join(folder, 'few.db')), terms, sleep })
      const many = await createWorld({ store: sqliteStore(join(folder, 'many.db')), terms, sleep })
      await filled(few, FEW)
      await filled(many, MANY)
      const rows: Row[] = [await indexed(many)]
      for (const [what, more, most] of [
        [`a page of 50 rows, ${FEW} and ${MANY} open items`, {}, 1.5],
        ['the same with a word that every item holds', { text: 'restart' }, 3],
        ['the same with a word that one item holds', { text: 'rareword' }, 3],
      ] as const) {
        const [a, b] = [await pageMs(few, more), await pageMs(many, more)]
        const value = `${a.toFixed(2)} ms, ${b.toFixed(2)} ms: ${(b / a).toFixed(2)}x`
        say(`${what}: ${value}`)
        rows.push({ what, value, goal: { message: `at most ${most}x`, met: b / a <= most } })
      }
      rows.push(await planned(few), await exported(many))
      await few.close()
      await many.close()
      return rows
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

/** From the first search until one call finds what one item holds: until then a search looks at one item after the other. */
async function indexed(world: World): Promise<Row> {
  const began = performance.now()
  const search = { view: 'row', limit: 50, text: 'rareword' }
  while ((await world.call('alice', 'execution/inbox.list', search)).next_cursor !== null) await pause(100)
  const value = `${((performance.now() - began) / 1_000).toFixed(1)} s beside the calls`
  return { what: `the words of ${MANY} open items, read by the first search`, value }
}

const RARE = 77
async function filled(world: World, count: number): Promise<void> {
  const ask = (i: number): Promise<unknown> => {
    const payload = {
      item: i === RARE ? 'Rareword' : `Restart server ${i}`,
      details: { target: `host-${i % 50}`, reason: 'the disk is nearly full' },
    }
    return world.call('devin', 'execution/request.create', { action: 'APPROVE', risk: `R${(i % 5) + 1}`, payload })
  }
  for (let i = 0; i < count; i += AT_ONCE) await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - i) }, (_, k) => ask(i + k)))
}

async function pageMs(world: World, more: object): Promise<number> {
  const spent: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now()
    await world.call('alice', 'execution/inbox.list', { view: 'row', order: 'urgency', limit: 50, ...more })
    spent.push(performance.now() - began)
  }
  return median(spent.slice(WARM))
}

/** One question to a pool of a thousand people, each with a channel of their own: all are notified. */
async function planned(world: World): Promise<Row> {
  const people = Array.from({ length: PEOPLE }, (_, i) => `user_b${i}`)
  for (const id of people) {
    await world.call('admin', 'identity/user.add', { id, name: id })
    const projects = new Map([['project_default', 'member' as const]])
    const as = { kind: 'human', id, projects, via: 'key' } as const
    await world.kernel.call('execution/channel.add', { endpoint: 'https://example.com/hook' }, as)
  }
  const asked = { action: 'APPROVE', role: 'pool', payload: { item: 'Somebody' } }
  const { request } = (await world.call('devin', 'execution/request.create', asked)) as { request: { id: string } }
  const began = performance.now()
  let count = 0
  for (let i = 0; i < PEOPLE; i += limits.noticesPlannedMax) {
    const some = people.slice(i, i + limits.noticesPlannedMax)
    const items = some.map((person) => ({ position: 1, event: 'created', request_id: request.id, person }))
    const answer = (await world.kernel.call('execution/notice.plan', { cursor: 1, items }, SYSTEM)) as { planned: number }
    count += answer.planned
  }
  if (count !== PEOPLE) throw new Error(`${count} notices were planned for ${PEOPLE} people`)
  return { what: `a notice planned for ${PEOPLE} people`, value: `${(performance.now() - began).toFixed(0)} ms` }
}

async function exported(world: World): Promise<Row> {
  let [bytes, began] = [0, performance.now()]
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: { ndjson: string; next_cursor: string | null } = await world.call(
      'admin',
      'collaboration/audit.export',
      cursor === '' ? {} : { cursor },
    )
    bytes += page.ndjson.length
    cursor = page.next_cursor
  }
  const written = bytes / 1e6 / ((performance.now() - began) / 1_000)
  began = performance.now()
  let read = 0
  for (let after: number | null = null; ;) {
    const page = await world.store.facts({ by: 'scope', scope: 'project_default' }, { after, limit: 200, asStored: true })
    if (page.length === 0) break
    for (const { line, images } of page) read += line.length + images.reduce((sum, { text }) => sum + (text?.length ?? 0), 0)
    after = page.at(-1)!.seq
  }
  const plain = read / 1e6 / ((performance.now() - began) / 1_000)
  return { what: 'audit.export beside reading the facts', value: `${written.toFixed(1)} MB/s, ${plain.toFixed(1)} MB/s` }
}
