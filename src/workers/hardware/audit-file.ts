// The audit file of a device: one line for each fact of its record, in the same order, appended before anything acts or is answered (W35).
// Lines that are missing at a start are completed from the record; a file that says something else stops the start.
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readFileSync, readdirSync, renameSync, writeSync } from 'node:fs'
import { limits } from '#kernel/limits.ts'
import type { Sealed, Store, StoredFact, Value } from '#kernel/log/store.ts'
import type { Tail } from '#kernel/log/tail.ts'
import { auditLine, lineHash, type AuditedFact } from '#protocols/hardware/daemon/audit-line.ts'
import { DEVICE_SCOPE } from '#protocols/hardware/daemon/schema.ts'
import type { Worker, WorkerLog } from '../worker.ts'

export type AuditHead = { readonly seq: number; readonly hash: string }

export type AuditFile = Worker & {
  /** Whether every line of the record is in the file: tries once more where one is not. */
  isSound(): boolean
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
  const { bytes, ...found } = await completed(folder, device_id, store)
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
  let isFailing = false
  let position = store.stats().position

  function flush(): boolean {
    if (missing === '') return true
    try {
      // A part of a line that a full disk let through is taken back first, so that the file is whole at all times.
      ftruncateSync(file, size)
      const written = writeSync(file, missing)
      if (written < Buffer.byteLength(missing)) throw new Error('the disk took a part of it only')
      size += written
      missing = ''
      if (isFailing) log.info({ lines: head.seq - missingFrom + 1 }, 'the audit file can be written again')
      isFailing = false
      return true
    } catch (error) {
      if (!isFailing) log.error({ error: (error as Error).message }, 'the audit file cannot be written: nothing is done until it can')
      isFailing = true
      return false
    }
  }

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
    if (flush() && size > limits.auditFileBytesMax) rotate()
  }

  function rotate(): void {
    if (!flush() || size === 0) return
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
    // Told of everything that is durable, and everything is written.
    isSound: () => position >= store.stats().position && flush(),
    head: () => head,
    rotate,
    stats,
    stop() {
      leave()
      flush()
      closeSync(file)
      return Promise.resolve()
    },
  }
}

/** Compares the present file with the record, and answers what it lacks. */
async function completed(folder: string, device_id: string, store: Store): Promise<{ head: AuditHead; first: number; bytes: string }> {
  const files = auditFiles(folder)
  const path = `${folder}/${AUDIT_FILE}`
  const present = files.includes(path) ? readFileSync(path, 'utf8') : ''
  const older = files.filter((one) => one !== path).at(-1)
  const start = older === undefined ? GENESIS : lastLine(older)
  const there = present.split('\n')
  // A last line without its end was being written when the process ended; what it says is in the record.
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
