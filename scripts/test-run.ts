// The surroundings of a test run: a temporary folder of its own, and a guard that lets tests connect to no port that they did not open
// themselves.
import { spawnSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { freemem, tmpdir } from 'node:os'
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

const MEMORY = '/dev/shm'
/** A run with all of its installations, browsers and databases has been seen to need half of it. */
const ROOM = 8 * 1024 ** 3

/**
 * The place of temporary folders: in memory, where there is plenty of it and programs can be started from it. A run makes thousands of databases, and
 * each waits for the disk with every commit, though none has to outlive the run. TMPDIR names another place.
 */
function placeOf(): string {
  if (process.env['TMPDIR'] || !existsSync(MEMORY)) return tmpdir()
  const { bavail, bsize } = statfsSync(MEMORY)
  if (bavail * bsize < ROOM || freemem() < ROOM) return tmpdir()
  try {
    const probe = mkdtempSync(join(MEMORY, 'cs-'))
    const program = join(probe, 'program')
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
    const { status } = spawnSync(program)
    rmSync(probe, { recursive: true })
    return status === 0 ? MEMORY : tmpdir()
  } catch {
    return tmpdir()
  }
}

export function openRun(): TestRun {
  // Short: the path of a Unix socket has about a hundred characters.
  const folder = mkdtempSync(join(placeOf(), 'cs-'))
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
