// An exported record, checked without a server: each line against its hash, its neighbour and its images.
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { resolve } from 'node:path'
import { digestOf, hashOf, type Line } from '#kernel/log/hash-chain.ts'
import { usage } from '../exit-codes.ts'
import type { Io } from '../terminal.ts'

type Exported = {
  readonly seq: number
  readonly hash: string
  readonly line: string
  readonly images: readonly { readonly key: string; readonly version: number; readonly salt: string; readonly text: string | null }[]
}
export type CheckedRecord = {
  readonly project_id: string
  readonly verified: number
  readonly head: { readonly seq: number; readonly hash: string }
  readonly valid: boolean
  readonly difference: { readonly project_id: string; readonly seq: number; readonly what: string } | null
}

/** Line by line: an export may be larger than the memory. It may begin anywhere; its first line then names the hash of the line before. */
export async function checkExported(io: Io, path: string): Promise<CheckedRecord> {
  const input = path === '-' ? io.input : createReadStream(resolve(io.cwd, path))
  const reader = createInterface({ input, crlfDelay: Infinity })
  let [project_id, seq, hash, verified] = ['', 0, '', 0]
  const recordResult = (what: string | null, at = seq): CheckedRecord => ({
    project_id,
    verified,
    head: { seq, hash },
    valid: what === null,
    difference: what === null ? null : { project_id, seq: at, what },
  })
  try {
    for await (const text of reader) {
      if (text === '') continue
      const exported = exportedIn(text)
      if (exported === null) return recordResult('a line of the file is not an exported event', seq + 1)
      const line = JSON.parse(exported.line) as Line
      if (verified === 0) [project_id, seq, hash] = [line.scope, line.seq - 1, line.seq === 1 ? '' : line.prev]
      const what = differenceIn(exported, line, { project_id, seq, hash })
      if (what !== null) return recordResult(what, line.seq)
      ;[seq, hash] = [exported.seq, exported.hash]
      verified++
    }
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === undefined ? error : usage(`${path} cannot be read: ${(error as Error).message}`)
  } finally {
    reader.close()
  }
  return verified === 0 ? recordResult('the file holds no event') : recordResult(null)
}

type Before = { readonly project_id: string; readonly seq: number; readonly hash: string }
function differenceIn({ seq, hash, line: text, images }: Exported, line: Line, before: Before): string | null {
  if (hashOf(text) !== hash) return 'the line does not match its hash'
  if (line.seq !== seq || line.scope !== before.project_id) return 'the line belongs to another place in the record'
  if (seq !== before.seq + 1) return 'an event is missing'
  if (line.prev !== before.hash) return 'the line does not follow the one before it'
  if (line.images.length !== images.length) return 'an image is missing or was added'
  for (const [i, { key, version, salt, text: content }] of images.entries()) {
    const sealed = line.images[i]!
    if (sealed.key !== key || sealed.version !== version) return `the image of ${sealed.key} was exchanged`
    if (content === null || digestOf(salt, content) !== sealed.digest) return `the image of ${key} was changed`
  }
  return null
}

function exportedIn(text: string): Exported | null {
  try {
    const exported = JSON.parse(text) as Exported
    const isOne =
      Number.isSafeInteger(exported.seq) &&
      typeof exported.hash === 'string' &&
      typeof exported.line === 'string' &&
      Array.isArray(exported.images)
    return isOne && typeof (JSON.parse(exported.line) as Line).scope === 'string' ? exported : null
  } catch {
    return null
  }
}
