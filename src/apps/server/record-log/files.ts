// The files of the log in the data folder: tiles, the last checkpoints, and the cosigned ones that are kept.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { timestampOf } from '#kernel/ports/clock.ts'
import { toForget } from '#workers/log/kept-checkpoints.ts'
import type { TileFiles } from '#workers/log/log-tree.ts'
import type { Checkpoints } from '#workers/log/record-log.ts'
import type { WrappedValues } from '#stores/postgres/wrapped-values.ts'
import { readText, writeAtomically } from '../folder/small-files.ts'

export const logIn = (data: string): string => join(data, 'log')

/** Not above it: a data folder that was removed under a running server is not made again. */
function makeLogFolder(data: string): void {
  try {
    mkdirSync(logIn(data), { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** Tiles are derived, so none is synced to the disk; a cut one is made again. */
export function tileFiles(data: string): TileFiles {
  const folder = logIn(data)
  return {
    read(path) {
      try {
        return readFileSync(join(folder, path))
      } catch (error) {
        if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
        throw error
      }
    },
    write(path, bytes) {
      const file = join(folder, path)
      makeLogFolder(data)
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
      writeFileSync(`${file}.new`, bytes, { mode: 0o600 })
      renameSync(`${file}.new`, file)
    },
  }
}

export const checkpointFile = (data: string, which: 'signed' | 'witnessed'): string => join(logIn(data), `${which}.txt`)

export function checkpointFiles(data: string): Checkpoints {
  return {
    read: (which) => readText(checkpointFile(data, which)),
    async write(which, note) {
      makeLogFolder(data)
      await writeAtomically(checkpointFile(data, which), note)
    },
    clear() {
      for (const which of ['signed', 'witnessed'] as const) rmSync(checkpointFile(data, which), { force: true })
      return Promise.resolve()
    },
    keep: keepIn(data),
  }
}

/** Their names in the database. */
export const checkpointName = (which: 'signed' | 'witnessed'): string => `log ${which}`

/** Of a database that several servers share. The server that signs keeps the cosigned ones. */
export function sharedCheckpoints(values: WrappedValues, data: string): Checkpoints {
  const sizeOf = (note: string): number => Number(note.split('\n', 2)[1])
  return {
    read: async (which) => (await values.read(checkpointName(which)))?.text || null,
    async write(which, note) {
      for (;;) {
        const found = await values.read(checkpointName(which))
        // Another server might have signed more before it gave the lease back.
        if (found && sizeOf(found.text) > sizeOf(note)) return
        if (await values.write(checkpointName(which), note, found?.version ?? 0)) return
      }
    },
    async clear() {
      for (const which of ['signed', 'witnessed'] as const) {
        const found = await values.read(checkpointName(which))
        if (found) await values.write(checkpointName(which), '', found.version)
      }
    },
    keep: keepIn(data),
  }
}

const HOUR_MS = 3_600_000
const DAYS_31_MS = 31 * 24 * HOUR_MS
const THIN_MS = 60_000

/** A folder for each day, so that thinning looks at a few of them only: those in which a checkpoint leaves its hour or its 31 days. */
function keepIn(data: string): Checkpoints['keep'] {
  const folder = join(logIn(data), 'kept')
  let thinned = 0
  const dayOf = (at: number): string => join(folder, timestampOf(at).slice(0, 10))
  function thin(now: number): void {
    const days = [now, now - HOUR_MS, now - DAYS_31_MS, now - DAYS_31_MS - HOUR_MS].map(dayOf)
    for (const day of new Set(days)) for (const at of toForget(timesIn(day), now)) rmSync(join(day, `${at}.txt`), { force: true })
  }
  return (note, at) => {
    makeLogFolder(data)
    mkdirSync(dayOf(at), { recursive: true, mode: 0o700 })
    writeFileSync(join(dayOf(at), `${at}.txt`), note, { mode: 0o600 })
    if (Math.abs(at - thinned) >= THIN_MS) thin((thinned = at))
    return Promise.resolve()
  }
}

function timesIn(day: string): number[] {
  try {
    return readdirSync(day).flatMap((name) => (/^\d{1,15}\.txt$/.test(name) ? [Number.parseInt(name, 10)] : []))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

// --- The mark of a clean stop ----------------------------------------------------------------------------------------------

/** Present after a stop that signed everything: the size of the log then. No fact can be there beyond it at the next start. */
export const stopMark = (data: string) => {
  const file = join(logIn(data), 'stopped')
  return {
    /** Null: the last stop was not clean. */
    read(): number | null {
      try {
        const text = readFileSync(file, 'utf8').trim()
        return /^\d{1,15}$/.test(text) ? Number(text) : null
      } catch {
        return null
      }
    },
    write: (size: number): Promise<void> => writeAtomically(file, `${size}\n`),
    remove: (): void => rmSync(file, { force: true }),
  }
}
