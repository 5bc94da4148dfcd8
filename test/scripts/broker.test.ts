// The private broker of tests leaves nothing behind, even if the process that started it is killed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'node:test'
import { freePort } from '../support/harness/broker.ts'

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

test('a broker whose starter is killed leaves no process behind', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-broker-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  const source = `
      import { startBroker } from ${JSON.stringify(join(import.meta.dirname, '../../scripts/broker.ts'))}
      const broker = await startBroker({ folder: ${JSON.stringify(folder)}, port: ${port}, users: ['lab-a'] })
      process.kill(process.pid, 'SIGKILL')`
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', source], { stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.resume()
  await once(child, 'close')
  const pids = readFileSync(join(folder, 'pids'), 'utf8').split('\n').map(Number)
  assert.equal(pids.length, 2)
  for (let tries = 0; pids.some(isAlive) && tries < 100; tries++) await sleep(50)
  assert.deepEqual(pids.filter(isAlive), [])
})
