// The environment of a test run: its own temporary folder, and a guard that refuses connections to ports that the run has not opened.
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
  /** The variables of every process of the run. */
  readonly env: Record<'TMPDIR' | 'COUNTERSIGN_TEST_GUARD' | 'NODE_OPTIONS' | 'NODE_COMPILE_CACHE', string>
  readonly folder: string
  /** Allows tests to connect to this port. */
  admit(port: number): void
  /** Removes the folder and returns the complaints: files left behind, and refused connections. */
  close(): string[]
}

const MEMORY = '/dev/shm'
/** Twice the room that a whole run needed, with its installations, browsers and databases. */
const ROOM = 8 * 1024 ** 3

/**
 * The place of temporary folders: in memory, if it has enough room and can execute programs. A run makes thousands of databases; on a disk, each
 * would wait for every commit, though none has to outlive the run. TMPDIR names another place.
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
      // Each test file is a process. Without a shared cache it would spend half of its start compiling the same modules.
      NODE_COMPILE_CACHE: join(import.meta.dirname, '..', 'node_modules', '.cache', 'node'),
    },
    close() {
      // npm never removes its compile cache; it is removed with the folder.
      const names = readdirSync(temporary).filter((name) => name !== 'node-compile-cache')
      const left = names.map((name) => `left behind in the temporary folder: ${name}`)
      const strangers = join(folder, 'strangers')
      const refused = existsSync(strangers) ? readFileSync(strangers, 'utf8').trim().split('\n') : []
      rmSync(folder, { recursive: true, force: true })
      return [...left, ...new Set(refused.map((line) => `a test connects to ${line}`))]
    },
  }
}
