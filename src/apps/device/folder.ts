// The data folder of a device: its identity, its key, its record and its audit file. One daemon uses it at a time.
import { randomBytes } from 'node:crypto'
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { createIds } from '#kernel/codec/ids.ts'
import { deviceKey, newDeviceKey, type DeviceKey } from '#devices/audit/device-key.ts'
import { holdFolder, type FolderLock } from '../server/folder/folder-lock.ts'
import { StartError } from '../server/start-error.ts'

export const deviceDatabase = (data: string): string => join(data, 'device.db')
const identityFile = (data: string): string => join(data, 'device.json')

export type Identity = { readonly device_id: string; readonly key: DeviceKey }

export type DeviceFolder = Identity & { readonly path: string; readonly database: string; readonly lock: FolderLock }

/** Mode and place are right before anybody can read it. */
export function writePrivately(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 })
  chmodSync(`${path}.new`, 0o600)
  renameSync(`${path}.new`, path)
}

export function identityIn(data: string): Identity | null {
  if (!existsSync(identityFile(data))) return null
  const { device_id, key } = JSON.parse(readFileSync(identityFile(data), 'utf8')) as {
    device_id: string
    key: Parameters<typeof deviceKey>[0]
  }
  return { device_id, key: deviceKey(key) }
}

export function openDeviceFolder(path: string): DeviceFolder {
  try {
    mkdirSync(path, { recursive: true, mode: 0o750 })
  } catch (error) {
    throw new StartError(`the data folder ${path} cannot be made: ${(error as Error).message} (see --data)`)
  }
  const holder = { name: 'daemon', database: basename(deviceDatabase(path)) }
  const lock = holdFolder(path, `another daemon uses ${path}: stop it first, or choose another folder with --data`, holder)
  try {
    return { ...identityFor(path), path, database: privateDatabase(path), lock }
  } catch (error) {
    lock.release()
    throw error
  }
}

function identityFor(path: string): Identity {
  const identity = identityIn(path)
  if (identity) return identity
  // A record without its identity would be written under another name, and its checkpoints by another key.
  if (existsSync(deviceDatabase(path))) throw new StartError(`${identityFile(path)} is missing beside the record: restore it from a backup`)
  const device_id = createIds(Date.now, (bytes) => randomBytes(bytes))('dev')
  writePrivately(identityFile(path), `${JSON.stringify({ device_id, key: newDeviceKey() })}\n`)
  return identityIn(path)!
}

/** For the daemon only, independent of the umask: its group uses the socket but must not read the record. SQLite's files copy the mode. */
function privateDatabase(path: string): string {
  const database = deviceDatabase(path)
  closeSync(openSync(database, 'a', 0o600))
  for (const suffix of ['', '-wal', '-shm']) if (existsSync(database + suffix)) chmodSync(database + suffix, 0o600)
  return database
}
