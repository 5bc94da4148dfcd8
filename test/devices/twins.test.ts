// The guards of the daemon, checked, and their broken twins: each is found by the check that names its guard. `npm test` plants a fifth of them,
// chosen anew each time; `npm run test:long` plants all.
import { equal, match } from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { patched } from '../simulation/mistakes.ts'
import { twins } from './twins.ts'

const PROGRAM = join(import.meta.dirname, 'guard-checks.ts')
const PARTS = 5
const choice = process.env['COUNTERSIGN_TEST_CHOICE'] ?? String(Math.floor(Math.random() * PARTS))
const chosen = choice === 'all' ? twins : twins.filter((_, i) => i % PARTS === Number(choice) % PARTS)

const run = (...args: readonly string[]): Promise<{ code: number; said: string }> =>
  new Promise((done) => {
    execFile(process.execPath, ['--disable-warning=ExperimentalWarning', PROGRAM, ...args], { timeout: 120_000 }, (error, out, err) =>
      done({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, said: out + err }),
    )
  })

describe('the guards of the daemon', { concurrency: 2 }, () => {
  it('hold', async () => {
    const { code, said } = await run()
    equal(code, 0, said)
  })
  it('have twins that can all be planted', () => {
    for (const twin of twins) patched(twin)
  })
  for (const { name, check } of chosen)
    it(`are missed: ${name} (COUNTERSIGN_TEST_CHOICE=${choice})`, async () => {
      const { code, said } = await run('--check', check, '--mistake', name)
      equal(code, 1, said)
      match(said, new RegExp(`^${check}: `))
    })
})
