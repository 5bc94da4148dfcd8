// The audit file of a device: one line for each fact of its record, in the same order, appended before anything acts or is answered (W35).
// Lines that are missing at a start are completed from the record; a file that contradicts the record stops the start. A file that is deleted,
// replaced or shortened while the daemon runs stops it from acting.
import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs'
import { limits } from '#kernel/limits.ts'
import type { Sealed, Store, StoredFact, Value } from '#kernel/log/store.ts'
import type { Tail } from '#kernel/log/tail.ts'
import { auditLine, lineHash, type AuditedFact } from '#protocols/hardware/daemon/audit-line.ts'
import { DEVICE_SCOPE } from '#protocols/hardware/daemon/schema.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'

export type AuditHead = { readonly seq: number; readonly hash: string }

export type AuditFile = Worker & {
  /** Why a line of the record is not in the file, after one more attempt to write it; null: all are. Nothing acts before. */
  amiss(): string | null
  head(): AuditHead
  rotate(): void
  readonly stats: { readonly lines: number }
}

/** A file that does not fit its record; the words name the first line. */
export class AuditDiffers extends Error {
  override name = 'AuditDiffers'
}

export const AUDIT_FILE = 'audit.ndjson'
const rotatedName = (first: number): string => `audit-${String(first).padStart(12, '0')}.ndjson`
const PAGE = 500
/** How often a running daemon looks whether the file is in its place. */
const LOOK_MS = 250

export const auditedFact = ({ seq, at, line }: Pick<StoredFact, 'seq' | 'at' | 'line'>): AuditedFact => {
  const { action, detail } = JSON.parse(line) as { action: string; detail: Value | null }
  return { seq, at, action, detail }
}

/** The files of a folder in the order of their lines. */
export function auditFiles(folder: string): string[] {
  const rotated = readdirSync(folder).filter((name) => /^audit-\d{12}\.ndjson$/.test(name))
  return [...rotated.toSorted(), AUDIT_FILE].map((name) => `${folder}/${name}`).filter((path) => existsSync(path))
}

/** Every line that the record calls for, after a place in it. */
export async function* recordedLines(
  store: Store,
  device_id: string,
  after: AuditHead,
): AsyncGenerator<{ line: string; seq: number; hash: string }> {
  let { seq, hash } = after
  for (;;) {
    const facts = await store.facts({ by: 'scope', scope: DEVICE_SCOPE }, { after: seq === 0 ? null : seq, limit: PAGE })
    for (const fact of facts) {
      const line = auditLine(device_id, auditedFact(fact), hash)
      hash = lineHash(line)
      seq = fact.seq
      yield { line, seq, hash }
    }
    if (facts.length < PAGE) return
  }
}

export const GENESIS: AuditHead = { seq: 0, hash: '' }

export async function openAuditFile(folder: string, device_id: string, store: Store, tail: Tail, log: WorkerLog): Promise<AuditFile> {
  const path = `${folder}/${AUDIT_FILE}`
  const stats = { lines: 0 }
  const { bytes, ...found } = await missingLines(folder, device_id, store)
  let { head, first } = found
  let file = openSync(path, 'a', 0o640)
  let size = fstatSync(file).size
  if (bytes !== '') {
    writeSync(file, bytes)
    size += Buffer.byteLength(bytes)
  }
  /** Lines of durable facts that could not be written yet. */
  let missing = ''
  let missingFrom = 0
  /** The file can end with a part of a line. */
  let isTorn = false
  let last: string | null = null
  let position = store.stats().position

  /** Lines written to a deleted file are lost without an error. */
  function fileProblem(): string | null {
    const there = statSync(path, { throwIfNoEntry: false })
    const open = fstatSync(file)
    if (there?.ino !== open.ino || there.dev !== open.dev) return `${path} was deleted, moved or replaced under the running daemon`
    return open.size < size ? `${path} was shortened under the running daemon` : null
  }

  function append(): void {
    // A part of a line that a full disk let through is taken back first, so that the file is whole at all times.
    if (isTorn) ftruncateSync(file, size)
    isTorn = true
    const written = writeSync(file, missing)
    if (written < Buffer.byteLength(missing)) throw new Error('the disk stored only a part of it')
    isTorn = false
    size += written
    missing = ''
  }

  function flush(): string | null {
    let message: string | null
    try {
      message = fileProblem()
      if (message === null && missing !== '') append()
    } catch (error) {
      message = `${path} cannot be written: ${(error as Error).message}`
    }
    if (message !== null && message !== last) log.error({}, `${message}: nothing runs until that is fixed`)
    if (message === null && last !== null) log.info({ lines: head.seq - missingFrom + 1 }, 'the audit file can be written again')
    last = message
    return message
  }
  const looking = setInterval(flush, LOOK_MS)
  looking.unref()

  function take(facts: readonly Sealed[]): void {
    let text = ''
    for (const { scope, seq, at, fact, position: place } of facts) {
      position = place
      if (scope !== DEVICE_SCOPE) continue
      const line = auditLine(device_id, { seq, at, action: fact.action, detail: fact.detail }, head.hash)
      head = { seq, hash: lineHash(line) }
      stats.lines++
      text += `${line}\n`
      if (missing === '' && text.length === line.length + 1) missingFrom = seq
    }
    if (text === '') return
    missing += text
    if (flush() === null && size > limits.auditFileBytesMax) rotate()
  }

  function rotate(): void {
    if (flush() !== null || size === 0) return
    try {
      renameSync(path, `${folder}/${rotatedName(first)}`)
      closeSync(file)
      file = openSync(path, 'a', 0o640)
      first = head.seq + 1
      size = 0
    } catch (error) {
      log.error({ error: (error as Error).message }, 'the audit file cannot be rotated')
    }
  }

  const leave = tail.follow(take)
  return {
    amiss: () => flush() ?? (position >= store.stats().position ? null : `lines of the record are still to be written to ${path}`),
    head: () => head,
    rotate,
    stats,
    stop() {
      leave()
      clearInterval(looking)
      flush()
      closeSync(file)
      return Promise.resolve()
    },
  }
}

/** Compares the current file with the record, and returns the missing lines. */
async function missingLines(folder: string, device_id: string, store: Store): Promise<{ head: AuditHead; first: number; bytes: string }> {
  const files = auditFiles(folder)
  const path = `${folder}/${AUDIT_FILE}`
  const present = files.includes(path) ? readFileSync(path, 'utf8') : ''
  const older = files.filter((file) => file !== path).at(-1)
  const start = older === undefined ? GENESIS : lastLine(older)
  const there = present.split('\n')
  // A last line without its end was being written when the process ended; the record has its content.
  const torn = there.pop()!
  let at = 0
  let head = start
  let bytes = ''
  for await (const { line, seq, hash } of recordedLines(store, device_id, start)) {
    if (at < there.length) {
      if (there[at] !== line) throw new AuditDiffers(`line ${at + 1} of ${path} (seq ${seq}) is not what the record says`)
    } else if (at === there.length && torn !== '') {
      if (!line.startsWith(torn)) throw new AuditDiffers(`line ${at + 1} of ${path} (seq ${seq}) is not what the record says`)
      bytes += `${line.slice(torn.length)}\n`
    } else bytes += `${line}\n`
    at++
    head = { seq, hash }
  }
  if (at < there.length || (at === there.length && torn !== '' && bytes === ''))
    throw new AuditDiffers(`line ${at + 1} of ${path} is not in the record`)
  return { head, first: start.seq + 1, bytes }
}

function lastLine(path: string): AuditHead {
  const line = readFileSync(path, 'utf8').trimEnd().split('\n').at(-1)!
  try {
    return { seq: (JSON.parse(line) as { seq: number }).seq, hash: lineHash(line) }
  } catch {
    throw new AuditDiffers(`the last line of ${path} cannot be read`)
  }
}
