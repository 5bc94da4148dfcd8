// Counts how often the processes of a peer sync to the disk: with strace if it is there and may attach, else by the bytes that they
// write.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const ATTACH_MS = 1_500
const CALLS = 'fsync,fdatasync,msync,sync_file_range'

const writtenBy = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => {
    try {
      return sum + Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0)
    } catch {
      return sum
    }
  }, 0)

/** What `work` made the processes sync, for each of so many trips. */
export async function syncsOf(pids: readonly number[], trips: number, work: () => Promise<unknown>): Promise<string> {
  const hasStrace = await run('strace', ['-V']).then(
    () => true,
    () => false,
  )
  if (!hasStrace) {
    const before = writtenBy(pids)
    await work()
    return `${Math.round((writtenBy(pids) - before) / trips).toLocaleString('en')} bytes written a lone trip (/proc)`
  }
  const folder = mkdtempSync(join(tmpdir(), 'countersign-syncs-'))
  const file = join(folder, 'calls')
  try {
    const tracer = spawn('strace', ['-f', '-qq', '-e', `trace=${CALLS}`, '-o', file, ...pids.flatMap((pid) => ['-p', String(pid)])], {
      stdio: 'ignore',
    })
    const ended = once(tracer, 'exit')
    await new Promise((done) => setTimeout(done, ATTACH_MS))
    if (tracer.exitCode !== null) return 'syncs not counted: strace could not attach'
    await work()
    tracer.kill('SIGINT')
    await ended
    // A call that another thread interrupts has two lines; its second one says `resumed`.
    const calls = readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.includes('resumed>') && /sync/.test(line))
    return `${(calls.length / trips).toFixed(1)} syncs a lone trip (strace)`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
