// The time of a start with a million tasks: after a clean stop, and when nothing of the record is verified yet. A task is created and
// nothing more, which makes as many facts, documents and index entries as a start could stumble over.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import { startServer } from '#test/support/as-processes/server.ts'
import { openNew, verifyAll } from './fill.ts'
import { median, ms, type Bench, type Row } from './report.ts'

const TASKS = Number(process.env['BENCH_TASKS'] ?? 1_000_000)
const CALLERS = 256
const STARTS = 3
const START_MS_MAX = 3_000
const SAY_EVERY = 100_000

export const start: Bench = {
  name: 'start',
  message: `the time until the server is ready, with ${TASKS.toLocaleString('en')} tasks`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    const [full, empty] = [join(folder, 'full'), join(folder, 'empty')]
    try {
      await created(full, TASKS, say)
      await created(empty, 0, () => undefined)
      await spentOn(empty) // warms the compile cache, which later starts have too
      const unverified = await spentOn(full)
      await verifyAll(full, say)
      const spent: Record<'full' | 'empty', number[]> = { full: [], empty: [] }
      for (let i = 1; i <= STARTS; i++) {
        spent.empty.push(await spentOn(empty))
        spent.full.push(await spentOn(full))
        say(`start ${i} of ${STARTS}: empty ${ms(spent.empty.at(-1)!)}, full ${ms(spent.full.at(-1)!)}`)
      }
      return [
        rowOf('when nothing is verified yet', unverified),
        rowOf('after a clean stop', median(spent.full)),
        { what: 'start of an empty store', value: ms(median(spent.empty)) },
      ]
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const rowOf = (what: string, spent: number): Row => ({
  what: `start ${what}`,
  value: ms(spent),
  goal: { message: `<= ${START_MS_MAX / 1_000} s`, met: spent <= START_MS_MAX },
})

async function spentOn(data: string): Promise<number> {
  const began = performance.now()
  const server = await startServer(data)
  const spent = performance.now() - began
  await server.end('SIGTERM')
  return spent
}

async function created(data: string, tasks: number, say: (line: string) => void): Promise<void> {
  const { kernel, store, folder } = await openNew(data)
  await kernel.call('identity/user.add', { id: 'user_alice', name: 'Alice' }, SYSTEM)
  const alice: Actor = { id: 'user_alice', kind: 'human', projects: new Map([['project_default', 'member']]) }
  let next = 0
  const work = async (): Promise<void> => {
    while (next < tasks) {
      const i = next++
      await kernel.call('collaboration/task.create', { spec: { goal: `Something to do, number ${i}` } }, alice)
      if ((i + 1) % SAY_EVERY === 0) say(`${(i + 1).toLocaleString('en')} tasks`)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, work))
  await store.close()
  folder.release()
}
