// The lock of a data folder, and the watch over its files. A deleted file still accepts writes, and all of them are lost, so the server
// checks that its files are still the ones it opened.
import { existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StartError } from '../start-error.ts'
import type { Logger } from '../log.ts'

/** Locks with an exclusive transaction that never ends. The operating system releases the lock no matter how the process dies. */
export function lockFile(file: string, taken: string): () => void {
  let db: DatabaseSync
  try {
    db = new DatabaseSync(file, { timeout: 0 })
  } catch (error) {
    throw unwritable(dirname(file), error)
  }
  try {
    // The file is never written, so it needs no journal; a journal would need disk space.
    db.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    if (((error as { errcode?: number }).errcode ?? 0) !== SQLITE_BUSY)
      throw new StartError(`${file} cannot be locked: ${(error as Error).message}`)
    throw new StartError(taken)
  }
  return () => db.close()
}
const SQLITE_BUSY = 5

export const unwritable = (path: string, error: unknown): StartError =>
  new StartError(`the data folder ${path} cannot be written: ${(error as Error).message} (see --data)`)

/** How often a running server checks that its files are in place. */
const LOOK_MS = 250
/** A database without a lock file means that the lock was deleted. A server that is still running gets this long to create it again. */
const DELETED_MS = 1_000

/** The process that holds a folder, as messages call it, and its database. */
export type Holder = { readonly name: string; readonly database: string }
export const SERVER: Holder = { name: 'server', database: 'countersign.db' }

export function lockFolder(folder: string, taken: string, { database } = SERVER): () => void {
  const file = join(folder, 'lock')
  if (!existsSync(file) && existsSync(join(folder, database))) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, DELETED_MS)
  return lockFile(file, taken)
}

export type FolderLock = {
  /** Watches these files as well from now on. */
  keep(files: readonly string[], log: Pick<Logger, 'info' | 'error'>): void
  /** Returns what is wrong with the files; null: they are the ones that were opened. */
  amiss(): string | null
  release(): void
}

export function holdFolder(folder: string, taken: string, holder = SERVER): FolderLock {
  const file = join(folder, 'lock')
  const locks = [lockFolder(folder, taken, holder)]
  let lock = identityOf(file)
  /** The last known state of each file. SQLite never shortens a database, nor its log, while it is open. */
  const kept = new Map<string, FoundFile>()
  let timer: NodeJS.Timeout | undefined

  /** Takes a deleted lock again. A different file in its place might be the lock of another server, which might have written. */
  function isLocked(): boolean {
    const there = identityOf(file)
    if (there !== null) return there === lock
    try {
      locks.push(lockFile(file, taken))
    } catch {
      return false
    }
    lock = identityOf(file)
    return true
  }

  function amiss(): string | null {
    for (const [path, before] of kept) {
      const now = foundAt(path)
      const change = changeOf(before, now)
      if (change !== null) return `${path} was ${change} under the running ${holder.name}`
      kept.set(path, now)
    }
    return isLocked() ? null : `${file} was replaced: another ${holder.name} may use ${folder}`
  }

  return {
    amiss,
    keep(files, log) {
      for (const path of files) kept.set(path, foundAt(path))
      let last: string | null = null
      timer = setInterval(() => {
        const message = amiss()
        if (message === last) return
        if (message === null) log.info({}, 'the files of the data folder are back; accepting changes again')
        else log.error({}, `${message}: changes are refused`)
        last = message
      }, LOOK_MS)
      timer.unref()
    },
    release() {
      clearInterval(timer)
      for (const unlock of locks) unlock()
    },
  }
}

/** The identity of the file at a path (null: no file), and its length. */
export type FoundFile = { readonly identity: string | null; readonly size: number }

export function foundAt(path: string): FoundFile {
  try {
    const found = statSync(path, { bigint: true, throwIfNoEntry: false })
    return found ? { identity: `${found.dev} ${found.ino}`, size: Number(found.size) } : { identity: null, size: 0 }
  } catch (error) {
    // If a parent folder is no longer accessible, or the disk fails, the file counts as replaced.
    return { identity: (error as NodeJS.ErrnoException).code ?? 'unreadable', size: 0 }
  }
}

const identityOf = (path: string): string | null => foundAt(path).identity

/** What happened to a file that should only grow; null: it is the same file, and not shorter than before. */
const changeOf = (before: FoundFile, now: FoundFile): string | null =>
  before.identity !== now.identity ? 'deleted, moved or replaced' : now.size < before.size ? 'shortened' : null
