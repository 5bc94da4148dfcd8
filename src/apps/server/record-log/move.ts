// The log in a move between a data folder and a database: its key and its last checkpoints. Tiles are made again.
import { mkdir, writeFile } from 'node:fs/promises'
import type { WrappedValues } from '#stores/postgres/wrapped-values.ts'
import { keysIn, logKeyFile } from '../folder/key-files.ts'
import { readText } from '../folder/small-files.ts'
import { checkpointFile, checkpointName, logIn } from './files.ts'
import { LOG_RING_NAME } from './key.ts'

/** Files in the folder with their names in the database. */
const partsIn = (data: string): readonly (readonly [file: string, name: string])[] => [
  [logKeyFile(keysIn(data)), LOG_RING_NAME],
  [checkpointFile(data, 'signed'), checkpointName('signed')],
  [checkpointFile(data, 'witnessed'), checkpointName('witnessed')],
]

export async function moveLogToDatabase(data: string, values: WrappedValues): Promise<void> {
  for (const [file, name] of partsIn(data)) {
    const text = await readText(file)
    if (text !== null && (await values.read(name)) === null) await values.write(name, text, 0)
  }
}

export async function moveLogToFolder(values: WrappedValues, data: string): Promise<void> {
  await mkdir(logIn(data), { recursive: true, mode: 0o700 })
  for (const [file, name] of partsIn(data)) {
    const found = await values.read(name)
    if (found && found.text !== '') await writeFile(file, found.text, { mode: 0o600 })
  }
}
