// The path guard while others move the folders about: no read and no write ever leaves the listed folder.
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { createPathGuard } from '#devices/path-guard.ts'
import { DeviceError } from '#devices/port.ts'

const isDenied = (error: unknown): boolean => error instanceof DeviceError && error.code === 'denied'
const READS = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 100_000 : 10_000

/** Swaps a folder and a link to a folder outside, again and again, until it is told to stop. */
const FLIPPER = `
const { renameSync } = require('node:fs')
const { workerData } = require('node:worker_threads')
const { inside, outside, spare, stop } = workerData
const flag = new Int32Array(stop)
while (Atomics.load(flag, 0) === 0) {
  try { renameSync(inside, spare); renameSync(outside, inside); renameSync(inside, outside); renameSync(spare, inside) } catch {}
}`

describe('the path guard', () => {
  let base: string
  let listed: string
  before(() => {
    base = mkdtempSync(join(tmpdir(), 'countersign-guard-'))
    listed = join(base, 'listed')
    mkdirSync(join(listed, 'sub'), { recursive: true })
    mkdirSync(join(base, 'outside'))
    writeFileSync(join(base, 'outside/file'), 'SECRET')
    writeFileSync(join(listed, 'sub/file'), 'public')
  })
  after(() => rmSync(base, { recursive: true, force: true }))
  const guard = (): ReturnType<typeof createPathGuard> => createPathGuard({ read: [listed], write: [listed], file_bytes_max: 1_000 })

  it('reads parts of plain files', () => {
    const { data, size, eof } = guard().read(join(listed, 'sub/file'), 2, 3)
    deepEqual([data.toString(), size, eof], ['bli', 6, false])
    equal(guard().read(join(listed, 'sub/file'), 0, 100).eof, true)
  })

  it('refuses links, pipes, files with two names, and everything outside', () => {
    symlinkSync(join(base, 'outside'), join(listed, 'way-out'))
    symlinkSync(join(base, 'outside/file'), join(listed, 'file-out'))
    linkSync(join(base, 'outside/file'), join(listed, 'second-name'))
    execFileSync('mkfifo', [join(listed, 'pipe')])
    for (const path of ['way-out/file', 'file-out', 'second-name', 'pipe', '../outside/file', 'sub/../../outside/file'])
      throws(() => guard().read(join(listed, '/').slice(0, -1) + '/' + path, 0, 100), isDenied, path)
    for (const path of ['way-out/file', 'file-out', 'second-name', 'pipe', 'way-out/new'])
      throws(() => guard().write(`${listed}/${path}`, Buffer.from('x')), isDenied, path)
    throws(() => guard().read(`${listed}/sub/file\0`, 0, 1), isDenied)
    throws(() => createPathGuard({ read: ['/proc'], write: [], file_bytes_max: 10 }).read('/proc/self/status', 0, 1), isDenied)
    equal(readFileSync(join(base, 'outside/file'), 'utf8'), 'SECRET')
    for (const name of ['way-out', 'file-out', 'second-name', 'pipe']) rmSync(join(listed, name))
  })

  it('replaces a file in one step and leaves nothing behind', () => {
    equal(guard().write(`${listed}/new`, Buffer.from('one')), null)
    equal(guard().write(`${listed}/new`, Buffer.from('two'))?.toString(), 'one')
    equal(readFileSync(`${listed}/new`, 'utf8'), 'two')
    throws(() => guard().write(`${listed}/new`, Buffer.alloc(1_001)), isDenied)
    rmSync(`${listed}/new`)
    deepEqual(readdirSync(listed), ['sub'])
  })

  it(`never escapes while a folder is swapped for a link (${READS} reads)`, async () => {
    symlinkSync(join(base, 'outside'), join(base, 'link'))
    const stop = new SharedArrayBuffer(4)
    const worker = new Worker(FLIPPER, {
      eval: true,
      workerData: { inside: join(listed, 'sub'), outside: join(base, 'link'), spare: join(base, 'spare'), stop },
    })
    await new Promise((done) => worker.once('online', done))
    const counts = { inside: 0, refused: 0, escaped: 0 }
    const one = guard()
    for (let i = 0; i < READS; i++) {
      try {
        counts[one.read(`${listed}/sub/file`, 0, 100).data.toString() === 'SECRET' ? 'escaped' : 'inside']++
      } catch (error) {
        ok(error instanceof DeviceError, String(error))
        counts.refused++
      }
      if (i % 20 === 0) {
        try {
          one.write(`${listed}/sub/written`, Buffer.from('x'))
        } catch {}
      }
    }
    Atomics.store(new Int32Array(stop), 0, 1)
    await worker.terminate()
    equal(counts.escaped, 0)
    ok(counts.inside > 0 && counts.refused > 0, JSON.stringify(counts))
    deepEqual(readdirSync(join(base, 'outside')), ['file'])
  })
})
