// The folder that holds everything: private to its user, and used by one server at a time.
import { mkdirSync } from 'node:fs'
import { chmod, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Marker, MarkerFile } from '#workers/verifier.ts'

export class StartError extends Error {
  override name = 'StartError'
}

export type DataFolder = {
  readonly path: string
  readonly database: string
  readonly adminKey: string
  readonly marker: MarkerFile
  release(): void
}

export function openDataFolder(path: string): DataFolder {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new StartError(`the data folder ${path} cannot be made: ${(error as Error).message} (see --data)`)
  }
  const release = lock(path)
  return {
    path,
    database: join(path, 'countersign.db'),
    adminKey: join(path, 'admin.key'),
    marker: markerFile(join(path, 'verified.json')),
    release,
  }
}

/** An exclusive transaction that never ends. The operating system gives the lock back however the process dies. */
function lock(path: string): () => void {
  const file = join(path, 'lock')
  let db: DatabaseSync
  try {
    db = new DatabaseSync(file, { timeout: 0 })
  } catch (error) {
    throw new StartError(`the data folder ${path} cannot be written: ${(error as Error).message} (see --data)`)
  }
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    if (((error as { errcode?: number }).errcode ?? 0) !== SQLITE_BUSY)
      throw new StartError(`${file} cannot be locked: ${(error as Error).message}`)
    throw new StartError(`another Countersign server uses ${path}: stop it first, or choose another folder with --data`)
  }
  return () => db.close()
}
const SQLITE_BUSY = 5

function markerFile(path: string): MarkerFile {
  return {
    async read() {
      const text = await readText(path)
      if (text === null) return null
      try {
        const { position, hash } = JSON.parse(text) as Marker
        return Number.isSafeInteger(position) && position >= 0 && typeof hash === 'string' ? { position, hash } : null
      } catch {
        // A marker that cannot be read costs a verification from the start, nothing else.
        return null
      }
    },
    write: ({ position, hash }) => writeAtomically(path, `${JSON.stringify({ position, hash })}\n`),
  }
}

/** null: there is no such file. */
export async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** The whole file or the one before, also after a power cut; readable by its owner alone. */
export async function writeAtomically(path: string, text: string): Promise<void> {
  const temporary = `${path}.new`
  await rm(temporary, { force: true })
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await chmod(temporary, 0o600)
  await rename(temporary, path)
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
