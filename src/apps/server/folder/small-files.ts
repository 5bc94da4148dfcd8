// Small files that are read and written whole.
import { chmod, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

export async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** After a power cut the file has either the new or the former content. Only its owner can read it. */
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
