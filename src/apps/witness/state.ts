// The memory of a witness on disk: its key, and the last checkpoint that it cosigned for each log. A witness that forgot must not sign, so anything
// unreadable ends the start.
import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, sign } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { cosign } from '#kernel/log/tree/checkpoint.ts'
import { COSIGNATURE_KEY, type VerifierKey } from '#kernel/log/tree/note.ts'
import type { TreeHead } from '#kernel/log/tree/proofs.ts'
import { nodeCheckpointIn, nodeKey } from '#workers/keys/log-key.ts'
import { writeAtomically } from '../server/folder/small-files.ts'
import { StartError } from '../server/start-error.ts'

export type WitnessKey = {
  readonly key: VerifierKey
  /** The signature line over a checkpoint at a time. */
  cosign(text: string, seconds: number): string
}
/** `note`: with the signatures of the log and of this witness. */
export type Cosigned = TreeHead & { readonly note: string }

export type WitnessState = {
  readonly key: WitnessKey
  /** By origin. */
  readonly latest: Map<string, Cosigned>
  /** Resolves when it is on the disk. */
  save(origin: string, cosigned: Cosigned): Promise<void>
  /** Keeps two contradicting texts; returns the name of the file. */
  keepConflict(text: string, at: number): Promise<string>
}

/** Anyone can send a checkpoint of the log with a wrong proof: what is kept of that must not fill the disk. */
const CONFLICTS_MAX = 100

export const hashOfOrigin = (origin: string): string => hash('sha256', origin, 'hex')

export async function openWitnessState(folder: string, name: string, logs: readonly VerifierKey[]): Promise<WitnessState> {
  const key = await openKey(join(folder, 'witness.key'), name)
  const fileOf = (origin: string): string => join(folder, `${hashOfOrigin(origin)}.checkpoint`)
  const latest = new Map<string, Cosigned>()
  for (const origin of new Set(logs.map((log) => log.name))) {
    const file = fileOf(origin)
    if (existsSync(file)) latest.set(origin, cosignedIn(file, origin, [...logs, key.key]))
  }
  return {
    key,
    latest,
    async save(origin, cosigned) {
      await writeAtomically(fileOf(origin), cosigned.note)
      latest.set(origin, cosigned)
    },
    async keepConflict(text, at) {
      const kept = readdirSync(folder).filter((name) => name.startsWith('conflict-'))
      if (kept.length >= CONFLICTS_MAX) return kept.at(-1)!
      const file = `conflict-${at}.txt`
      await writeAtomically(join(folder, file), text)
      return file
    },
  }
}

function cosignedIn(file: string, origin: string, keys: readonly VerifierKey[]): Cosigned {
  const refuse = (why: string): never => {
    throw new StartError(
      `${file} cannot be used: ${why}. A witness that does not know what it cosigned must not sign: restore the file, or begin under a new --name in a new folder`,
    )
  }
  try {
    const note = readFileSync(file, 'utf8')
    const opened = nodeCheckpointIn(note, keys)
    if (opened.origin !== origin) refuse(`it is of the log ${opened.origin}`)
    if (!opened.signed.some(({ time }) => time !== null)) refuse('it is not cosigned by this witness')
    return { size: opened.size, root: opened.root, note }
  } catch (error) {
    if (error instanceof StartError) throw error
    return refuse((error as Error).message)
  }
}

type Stored = {
  readonly name: string
  readonly jwk: { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string; readonly d: string }
}

async function openKey(file: string, name: string): Promise<WitnessKey> {
  if (!existsSync(file)) {
    const { x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
    await writeAtomically(file, `${JSON.stringify({ name, jwk: { kty: 'OKP', crv: 'Ed25519', x, d } })}\n`)
  }
  const stored = storedIn(file)
  if (stored.name !== name)
    throw new StartError(
      `the key in ${file} is that of ${stored.name}: start it with --name ${stored.name}, or choose another folder with --data`,
    )
  const secret = createPrivateKey({ key: stored.jwk, format: 'jwk' })
  const key = nodeKey(name, COSIGNATURE_KEY, Buffer.from(stored.jwk.x, 'base64url'))
  return { key, cosign: (text, seconds) => cosign(key, text, seconds, (bytes) => sign(null, bytes, secret)) }
}

function storedIn(file: string): Stored {
  try {
    const stored = JSON.parse(readFileSync(file, 'utf8')) as Stored
    const isPair = createPublicKey(createPrivateKey({ key: stored.jwk, format: 'jwk' })).export({ format: 'jwk' }).x === stored.jwk.x
    if (typeof stored.name !== 'string' || !isPair) throw new Error('it holds no key')
    return stored
  } catch (error) {
    throw new StartError(`${file} cannot be used: ${(error as Error).message}. Restore it, or begin under a new --name in a new folder`)
  }
}
