// The cost of the check of a document against the record when it is read from the disk for the first time: the same documents read by their
// pointer alone, read with everything that they are compared with, and compared, in alternating rounds.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { soundOr } from '#kernel/log/sealed-documents.ts'
import { atRestIn } from '#stores/stored-document.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { cast, createWorld } from '#test/support/in-process/world.ts'
import { median, times, type Bench, type Row } from './report.ts'

const DOCUMENTS = 10_000
const ROUNDS = 7
const READS = 10_000
const filler = 'The quick brown fox jumps over the lazy dog. '.repeat(30)

type Reader = (key: string) => unknown
type Ways = { readonly pointed: Reader; readonly fetched: Reader; readonly held: Reader }

export const reads: Bench = {
  name: 'reads',
  message: 'documents read from the disk, with and without holding each against the record',
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    try {
      const file = join(folder, 'countersign.db')
      await filled(file)
      const db = new DatabaseSync(file, { readOnly: true })
      const rows = measured(db, say)
      db.close()
      return rows
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

async function filled(file: string): Promise<void> {
  const store = sqliteStore(file)
  const { kernel, close } = await createWorld({ store })
  const input = { spec: { goal: filler.slice(0, 500), acceptance_criteria: ['tests pass', 'no new warnings'] } }
  const createTask = () => kernel.call('collaboration/task.create', input, cast['alice']!)
  for (let i = 0; i < DOCUMENTS; i += 100) await Promise.all(Array.from({ length: 100 }, createTask))
  await close()
}

function waysIn(db: DatabaseSync): Ways {
  const pointed = db.prepare('SELECT d.version, i.text FROM docs d JOIN images i ON i.id = d.image WHERE d.key = ?')
  const atRest = atRestIn(db)
  return {
    pointed: (key) => JSON.parse((pointed.get(key) as { text: string }).text),
    fetched: (key) => JSON.parse(atRest(key)!.newest!.text!),
    held(key) {
      const sound = soundOr(atRest(key)!, key, sha256)
      if (typeof sound === 'string') throw new Error(`${key}: ${sound}`)
      return JSON.parse(sound.text)
    },
  }
}

function measured(db: DatabaseSync, say: (line: string) => void): Row[] {
  const keys = (db.prepare("SELECT key FROM docs WHERE key LIKE 'collaboration.task/%'").all() as { key: string }[]).map(({ key }) => key)
  const ways = waysIn(db)
  const spent: Record<keyof Ways, number[]> = { pointed: [], fetched: [], held: [] }
  const names = Object.keys(ways) as (keyof Ways)[]
  for (let round = 0; round <= ROUNDS; round++) {
    for (const name of names) {
      const { user, system } = process.cpuUsage()
      // Far from one another, as what people open is.
      for (let i = 0; i < READS; i++) ways[name](keys[(i * 7_919) % keys.length]!)
      const used = process.cpuUsage()
      // The first round compiles the code.
      if (round > 0) spent[name].push((used.user + used.system - user - system) / READS)
    }
    if (round > 0) say(`round ${round} of ${ROUNDS}: ${names.map((name) => `${name} ${spent[name].at(-1)!.toFixed(1)} us`).join(', ')}`)
  }
  const us = (name: keyof Ways): string => `${median(spent[name]).toFixed(1)} us`
  const ratio = median(spent.held.map((one, i) => one / spent.pointed[i]!))
  return [
    { what: 'read by its pointer', value: us('pointed'), more: 'of CPU, as it was before' },
    { what: 'read with what it is held against', value: us('fetched') },
    { what: 'read and held against the record', value: us('held') },
    { what: 'held against the record, against its pointer alone', value: times(ratio) },
  ]
}
