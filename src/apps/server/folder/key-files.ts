// The keys of this installation, beside the database and never in it: files in a folder that only the server's user can open.
import { chmodSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { chmod, chown, mkdir, open, rename, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isAway } from '#kernel/declare/errors.ts'
import { timestampOf, type Clock } from '#kernel/ports/clock.ts'
import type { Found } from '#kernel/log/store.ts'
import type { KeyNames } from '#protocols/identity/schema.ts'
import { serverKeyId } from '#workers/keys/notary.ts'
import { newRing, ringFrom, rotateRing, type KeyRing } from '#workers/keys/key-ring.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'
import { readText, writeAtomically } from './small-files.ts'
import { lockFile, lockFolder } from './folder-lock.ts'
import { StartError } from '../start-error.ts'

export const keysIn = (data: string): string => join(data, 'keys')
export const ringFile = (keys: string): string => join(keys, 'signing.json')
export const serverFile = (keys: string): string => join(keys, 'server.key')

/** The key of the log, made by the first start that has one (`../record-log/key.ts`). */
export const LOG_KEY_FILE = 'log.json'
export const logKeyFile = (keys: string): string => join(keys, LOG_KEY_FILE)

export const SERVER_KEY_BYTES = 32
const FILE_BYTES_MAX = 1024 * 1024

export type Keys = {
  /** Losing this key loses everything derived from it: sealed answers, evidence hashes, pseudonyms. */
  readonly server: Uint8Array
  ring(): KeyRing
  /** Loads a rotated ring; true: the ring has changed. */
  refresh(): Promise<boolean>
}

export const namesOf = (server: Uint8Array, { current, retired }: KeyRing): Omit<KeyNames, 'id' | 'at'> => ({
  server: serverKeyId(server),
  signing: [current, ...retired].map(({ kid }) => kid),
})

/** What is recorded of the keys: their names, and the public halves of those that sign receipts. */
export const recordedKeys = (server: Uint8Array, ring: KeyRing): object => ({
  ...namesOf(server, ring),
  receipt_keys: [ring.current, ...ring.retired].map((key) => ({
    id: key.kid,
    x: key.jwk.x,
    from: key.created_at,
    until: 'retired_at' in key ? key.retired_at : null,
  })),
})

/** How the key files differ from those on the record. A rotated ring still holds all of its earlier keys. */
export function keyDifferences(now: Omit<KeyNames, 'id' | 'at'>, recorded: KeyNames): Found[] {
  const gone = recorded.signing.filter((kid) => !now.signing.includes(kid))
  return [
    ...(now.server === recorded.server
      ? []
      : [{ what: 'keys/server.key', how: `it is ${now.server}, the record names ${recorded.server}` }]),
    ...(gone.length === 0 ? [] : [{ what: 'keys/signing.json', how: `the record names keys that are not in it: ${gone.join(', ')}` }]),
  ]
}

/** Lists the keys that `receipt rotate --lost` replaced, until the next start puts them on the record. */
const replacedFile = (keys: string): string => join(keys, 'replaced')
/** File names such as `server.key`. Keys that were not lost are still checked, and their tags remain valid. */
export const replacedIn = (keys: string): string[] =>
  existsSync(replacedFile(keys)) ? readFileSync(replacedFile(keys), 'utf8').split('\n').filter(Boolean) : []
export const markReplaced = (keys: string, ...files: readonly string[]): Promise<void> =>
  writeKeyFile(replacedFile(keys), `${[...new Set([...replacedIn(keys), ...files])].join('\n')}\n`)
export const SERVER_KEY = 'server.key'
export const settleReplaced = (keys: string): void => rmSync(replacedFile(keys), { force: true })

/** Present once the record of this installation is sealed: a database without seals beside this file has lost them. */
const sealedMark = (keys: string): string => join(keys, 'sealed')
export const wasSealed = (keys: string): boolean => existsSync(sealedMark(keys))
export const markSealed = (keys: string): Promise<void> => (wasSealed(keys) ? Promise.resolve() : writeKeyFile(sealedMark(keys), ''))

export type KeyMaker = { readonly now: () => number; readonly entropy: (count: number) => Uint8Array }

/** `isFirst`: there is no database yet, so nothing was sealed or signed, and missing keys are created. */
export async function openKeyFiles(keys: string, isFirst: boolean, maker: KeyMaker): Promise<Keys> {
  if (isFirst)
    await makeMissing(keys, maker).catch((error: Error) => {
      throw new StartError(`keys cannot be written to ${keys}: ${error.message}`)
    })
  const server = await serverKeyIn(keys)
  let { ring, mark } = await ringIn(keys)
  for (const [path, mode] of [[keys, 0o700] as const, ...[serverFile(keys), ringFile(keys)].map((file) => [file, 0o600] as const)])
    await closeToOthers(path, mode)
  return {
    server,
    ring: () => ring,
    async refresh() {
      if ((await markOf(ringFile(keys))) === mark) return false
      const next = await ringIn(keys)
      const { current, retired } = next.ring
      // A ring without the key in use was replaced, not rotated.
      if (![current, ...retired].some(({ kid }) => kid === ring.current.kid))
        throw new StartError(`${ringFile(keys)} is another key ring: it does not hold the key ${ring.current.kid}, which is in use`)
      ;({ ring, mark } = next)
      return true
    },
  }
}

/** Each file is complete or absent, so an interrupted start continues where it ended. */
async function makeMissing(keys: string, { now, entropy }: KeyMaker): Promise<void> {
  if (!existsSync(keys)) {
    await mkdir(keys, { recursive: true, mode: 0o700 })
    const parent = await open(dirname(keys), 'r')
    try {
      await parent.sync()
    } finally {
      await parent.close()
    }
  }
  if (!existsSync(serverFile(keys)))
    await writeKeyFile(serverFile(keys), `${Buffer.from(entropy(SERVER_KEY_BYTES)).toString('base64url')}\n`)
  if (!existsSync(ringFile(keys))) await writeKeyFile(ringFile(keys), textOf(newRing(timestampOf(now()))))
}

const textOf = (ring: KeyRing): string => `${JSON.stringify(ring, null, 2)}\n`

/** Made by root for a server that runs as another user, it belongs to that user. */
export async function writeKeyFile(file: string, text: string): Promise<void> {
  await writeAtomically(file, text)
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(dirname(file))
  await chown(file, uid, gid)
}

async function serverKeyIn(keys: string): Promise<Uint8Array> {
  const file = serverFile(keys)
  const text = (await textIn(file)).trim()
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length !== SERVER_KEY_BYTES || bytes.toString('base64url') !== text)
    throw brokenError(file, 'it does not hold a key of 32 bytes')
  return bytes
}

/** For commands that only read: null without usable keys. */
export function serverKeyOrNull(keys: string): Uint8Array | null {
  try {
    const bytes = Buffer.from(readFileSync(serverFile(keys), 'utf8').trim(), 'base64url')
    return bytes.length === SERVER_KEY_BYTES ? bytes : null
  } catch {
    return null
  }
}

async function ringIn(keys: string): Promise<{ ring: KeyRing; mark: string }> {
  const file = ringFile(keys)
  // Taken before the read, so the next check notices a change in between.
  const mark = await markOf(file)
  const text = await textIn(file)
  try {
    return { ring: ringFrom(text), mark }
  } catch (error) {
    throw brokenError(file, error instanceof SyntaxError ? 'it is cut off or no JSON' : (error as Error).message)
  }
}

/** Throws a StartError if a server could not start with these keys. Returns the paths that other users can access. */
export async function inspectKeys(keys: string): Promise<string[]> {
  await serverKeyIn(keys)
  await ringIn(keys)
  const open: string[] = []
  for (const path of [keys, serverFile(keys), ringFile(keys)]) if (((await stat(path)).mode & 0o077) !== 0) open.push(path)
  return open
}

/** For commands that only list which keys there are. */
export const readRing = (keys: string): Promise<KeyRing> => ringIn(keys).then(({ ring }) => ring)

const markOf = (file: string): Promise<string> =>
  stat(file).then(
    ({ ino, size, mtimeMs }) => `${ino} ${size} ${mtimeMs}`,
    () => '',
  )

export async function closeToOthers(path: string, mode: number): Promise<void> {
  if (((await stat(path)).mode & 0o077) === 0) return
  await chmod(path, mode).catch((error: Error) => {
    throw new StartError(`others may read ${path}, and that cannot be changed: ${error.message}`)
  })
}

async function textIn(file: string): Promise<string> {
  const text = await readPrivate(file)
  if (text === null) throw missingError(file)
  return text
}

async function readPrivate(file: string): Promise<string | null> {
  try {
    const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null
      throw error
    })
    if (found === null) return null
    if (found.size > FILE_BYTES_MAX) throw brokenError(file, 'it is too large to be a key')
    return await readText(file)
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`${file} cannot be read: ${(error as Error).message}`)
  }
}

const RESTORE =
  'Restore the folder keys/ from the backup that the database is from. If it is lost, `countersign receipt rotate --lost` makes new keys: ' +
  'sealed data stays sealed, and old receipts verify with a saved key set only'
const missingError = (file: string): StartError => new StartError(`${file} is missing. ${RESTORE}`)
const brokenError = (file: string, why: string): StartError => new StartError(`${file} is broken: ${why}. ${RESTORE}`)

// --- Rotation --------------------------------------------------------------------------------------------------------------

/** Creates a new signing key. A running server loads it within seconds; signatures made until then still verify. */
export async function rotateKeys(keys: string, now: number): Promise<KeyRing> {
  const unlock = lockRing(keys)
  try {
    const ring = rotateRing((await ringIn(keys)).ring, timestampOf(now))
    await writeKeyFile(ringFile(keys), textOf(ring))
    return ring
  } finally {
    unlock()
  }
}

/** Replaces missing or broken keys, and keeps the broken files under another name. Returns the replaced keys. */
export async function replaceLost(keys: string, maker: KeyMaker): Promise<string[]> {
  // Never replace the keys of a running server.
  const free = lockFolder(dirname(keys), `a server uses ${dirname(keys)}: stop it first`)
  try {
    const lost: string[] = []
    for (const [file, read] of [
      [serverFile(keys), serverKeyIn],
      [ringFile(keys), ringIn],
    ] as const) {
      const isGood = await read(keys).then(
        () => true,
        () => false,
      )
      if (isGood) continue
      lost.push(file)
      if (existsSync(file)) await rename(file, `${file}.broken-${timestampOf(maker.now()).replaceAll(':', '-')}`)
    }
    await makeMissing(keys, maker)
    // The next start makes a new key of the log, where that is gone as well.
    const others = existsSync(logKeyFile(keys)) ? [] : [LOG_KEY_FILE]
    if (lost.length > 0) await markReplaced(keys, ...lost.map((file) => basename(file)), ...others)
    return lost
  } finally {
    free()
  }
}

function lockRing(keys: string): () => void {
  if (!existsSync(keys)) throw missingError(ringFile(keys))
  const file = join(keys, 'lock')
  const unlock = lockFile(file, `another rotation of ${keys} is under way`)
  chmodSync(file, 0o600)
  return unlock
}

/** How soon a rotation is noticed. */
const LOOK_MS = 2_000

export function watchKeys(keys: Keys, clock: Clock, log: WorkerLog, record: () => Promise<unknown>): Worker {
  const stopping = new AbortController()
  const { signal } = stopping
  async function loop(): Promise<void> {
    let warned = ''
    while (!signal.aborted) {
      await clock.sleep(LOOK_MS, signal)
      if (signal.aborted) return
      try {
        if (await keys.refresh()) {
          log.info({ kid: keys.ring().current.kid }, 'receipts are signed with a new key')
          await record()
        }
        warned = ''
      } catch (error) {
        const message = (error as Error).message
        // Logged once, although the check repeats every few seconds.
        if (message !== warned && !isAway(error))
          log.error({}, `the keys were changed and cannot be used, so those before them still are: ${message}`)
        warned = message
      }
    }
  }
  const running = loop()
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}
