// The signing key of the log: `keys/log.json` beside the other keys, or a value in a shared database.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { timestampOf } from '#kernel/ports/clock.ts'
import type { WrappedValues } from '#stores/postgres/wrapped-values.ts'
import { newRing, ringFrom, rotateRing, type KeyRing } from '#workers/keys/key-ring.ts'
import { LOG_KEY_FILE, logKeyFile, markReplaced, replacedIn, writeKeyFile } from '../folder/key-files.ts'
import { lockFolder } from '../folder/folder-lock.ts'
import { StartError } from '../start-error.ts'

export const LOG_RING_NAME = 'log keys'

const textOf = (ring: KeyRing): string => `${JSON.stringify(ring, null, 2)}\n`

/** The ring of a running server, which notices a rotation. */
export type LogRing = {
  ring(): KeyRing
  /** True: it was rotated. */
  refresh(): Promise<boolean>
}

export type LogRingSource = {
  /** The key was lost and replaced since the last start. */
  readonly isReplaced: boolean
  /** `isNew`: the record names no log yet, so a missing key is made. */
  open(isNew: boolean): Promise<LogRing>
}

/** Created before the start settles which keys were replaced. */
export const folderLogRing = (keys: string, now: () => number): LogRingSource => ({
  isReplaced: replacedIn(keys).includes(LOG_KEY_FILE),
  async open(isNew) {
    const file = logKeyFile(keys)
    if (!existsSync(file)) {
      if (!isNew) throw new StartError(`${file} is missing. ${RESTORE}`)
      await writeKeyFile(file, textOf(newRing(timestampOf(now()))))
    }
    let ring = ringIn(file)
    let { mtimeMs } = statSync(file)
    return {
      ring: () => ring,
      refresh() {
        const next = statSync(file, { throwIfNoEntry: false })
        if (next === undefined || next.mtimeMs === mtimeMs) return Promise.resolve(false)
        ring = continueRing(ring, ringIn(file), file)
        mtimeMs = next.mtimeMs
        return Promise.resolve(true)
      },
    }
  },
})

const RESTORE =
  'Restore the folder keys/ from the backup that the database is from. If the key is lost, `countersign log rotate --lost` makes a new one: give ' +
  'witnesses and auditors the new policy'

function ringIn(file: string): KeyRing {
  try {
    return ringFrom(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new StartError(
      `${file} cannot be used: ${error instanceof SyntaxError ? 'it is cut off or no JSON' : (error as Error).message}. ${RESTORE}`,
    )
  }
}

/** A ring without the key in use was replaced, not rotated. */
function continueRing(before: KeyRing, next: KeyRing, where: string): KeyRing {
  if (![next.current, ...next.retired].some(({ kid }) => kid === before.current.kid))
    throw new StartError(`${where} is another key ring: it does not hold the key of the log that is in use`)
  return next
}

export const sharedLogRing = (values: WrappedValues, now: () => number): LogRingSource => ({
  isReplaced: false,
  async open(isNew) {
    const found = await values.read(LOG_RING_NAME)
    if (!found && !isNew) throw new StartError('the key of the log is not in the database any more: restore a backup')
    // Several servers can start concurrently: one of them writes the key, and all of them use it.
    if (!found) await values.write(LOG_RING_NAME, textOf(newRing(timestampOf(now()))), 0)
    let { text, version } = (await values.read(LOG_RING_NAME))!
    let ring = ringFrom(text)
    return {
      ring: () => ring,
      async refresh() {
        const next = await values.read(LOG_RING_NAME)
        if (!next || next.version === version) return false
        ring = continueRing(ring, ringFrom(next.text), 'the key of the log in the database')
        ;({ text, version } = next)
        return true
      },
    }
  },
})

/** A new key signs from now on; a running server takes it within seconds. */
export async function rotateLogKey(keys: string, now: number): Promise<KeyRing> {
  const ring = rotateRing(ringIn(logKeyFile(keys)), timestampOf(now))
  await writeKeyFile(logKeyFile(keys), textOf(ring))
  return ring
}

export async function rotateSharedLogKey(values: WrappedValues, now: number): Promise<KeyRing> {
  for (;;) {
    const found = await values.read(LOG_RING_NAME)
    if (!found) throw new StartError('there is no key of a log in the database: start a server first')
    const ring = rotateRing(ringFrom(found.text), timestampOf(now))
    if (await values.write(LOG_RING_NAME, textOf(ring), found.version)) return ring
  }
}

/** Replaces a missing or broken key. Null: it is neither. */
export async function replaceLostLogKey(keys: string, now: number): Promise<KeyRing | null> {
  const free = lockFolder(dirname(keys), `a server uses ${dirname(keys)}: stop it first`)
  try {
    const file = logKeyFile(keys)
    const isGood = existsSync(file) && isReadable(file)
    if (isGood) return null
    if (existsSync(file)) await rename(file, `${file}.broken-${timestampOf(now).replaceAll(':', '-')}`)
    const ring = newRing(timestampOf(now))
    await writeKeyFile(file, textOf(ring))
    await markReplaced(keys, LOG_KEY_FILE)
    return ring
  } finally {
    free()
  }
}

function isReadable(file: string): boolean {
  try {
    ringIn(file)
    return true
  } catch {
    return false
  }
}
