// The surroundings of a test run: a temporary folder of its own, and a guard that lets tests connect to no port that they did not open
// themselves.
import { appendFileSync, chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type TestRun = {
  /** For every process of the run. */
  readonly env: Record<'TMPDIR' | 'COUNTERSIGN_TEST_GUARD' | 'NODE_OPTIONS' | 'NODE_COMPILE_CACHE', string>
  readonly folder: string
  /** Tests may connect to this port. */
  admit(port: number): void
  /** Takes the place away, and says what should not have been. */
  close(): string[]
}

export function openRun(): TestRun {
  // Short: the path of a Unix socket has about a hundred characters.
  const folder = mkdtempSync(join(tmpdir(), 'cs-'))
  // A database that root starts runs as another user, which has to find its own folder below this one.
  chmodSync(folder, 0o711)
  const temporary = join(folder, 't')
  mkdirSync(temporary)
  const guard = `--require ${JSON.stringify(join(import.meta.dirname, '..', 'test', 'support', 'port-guard.cjs'))}`
  return {
    folder,
    admit: (port) => appendFileSync(join(folder, 'ports'), `${port}\n`),
    env: {
      TMPDIR: temporary,
      COUNTERSIGN_TEST_GUARD: folder,
      NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} ${guard}`.trim(),
      // Each file is a process: half of its start is compiling what the others have compiled.
      NODE_COMPILE_CACHE: join(import.meta.dirname, '..', 'node_modules', '.cache', 'node'),
    },
    close() {
      // npm keeps what it has compiled there, and takes it away never; it goes with the folder.
      const names = readdirSync(temporary).filter((name) => name !== 'node-compile-cache')
      const left = names.map((name) => `left behind in the temporary folder: ${name}`)
      const strangers = join(folder, 'strangers')
      const met = existsSync(strangers) ? readFileSync(strangers, 'utf8').trim().split('\n') : []
      rmSync(folder, { recursive: true, force: true })
      return [...left, ...new Set(met.map((line) => `a test connects to ${line}`))]
    },
  }
}
