// Verification of an audit file: chain, numbers, signed checkpoints, and the record if there is one. It changes nothing, even next to a running
// daemon (W39).
import { existsSync, readFileSync } from 'node:fs'
import { canonical } from '#kernel/log/canonical-json.ts'
import { lineHash } from '#protocols/hardware/daemon/audit-line.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { auditFiles, GENESIS, recordedLines } from '#devices/audit/audit-file.ts'
import { verifiedBy, type DeviceKey } from '#devices/audit/device-key.ts'
import { deviceDatabase, identityIn } from '../../device/folder.ts'
import { CliError, exits } from '../exit-codes.ts'

export type Verified = {
  readonly ok: boolean
  readonly lines: number
  readonly checkpoints: number
  readonly problem: string | null
  readonly line: number | null
}

type Entry = {
  readonly seq?: unknown
  readonly prev?: unknown
  readonly event?: unknown
  readonly jws?: unknown
  readonly device_id?: unknown
}

/** Everything that can be seen in the lines alone; `first`: the file may begin later than the record. */
function chainProblem(lines: readonly string[], jwk: DeviceKey['jwk'] | null): { problem: string | null; at: number; checkpoints: number } {
  let prev: string | null = null
  let seq: number | null = null
  let checkpoints = 0
  const hashes = new Map<number, string>()
  for (const [i, line] of lines.entries()) {
    const no = (message: string) => ({ problem: `line ${i + 1}: ${message}`, at: i + 1, checkpoints })
    let entry: Entry
    try {
      entry = JSON.parse(line) as Entry
    } catch {
      return no('it is not JSON')
    }
    if (canonical(entry) !== line) return no('it is not canonical JSON')
    if (!Number.isSafeInteger(entry.seq)) return no('it has no seq')
    if (seq !== null && entry.seq !== seq + 1) return no(`seq is ${String(entry.seq)} and should be ${seq + 1}`)
    if (seq === null && entry.seq === 1 && entry.prev !== '') return no('prev of the first line must be empty')
    if (prev !== null && entry.prev !== prev) return no('prev is not the hash of the line before')
    seq = entry.seq as number
    prev = lineHash(line)
    hashes.set(seq, prev)
    if (entry.event !== 'audit.checkpoint' || jwk === null) continue
    const claims = verifiedBy(jwk, String(entry.jws))
    if (claims === null) return no('the checkpoint is not signed by this device')
    const signed = hashes.get(Number(claims['seq']))
    if (claims['device_id'] !== entry.device_id) return no('the checkpoint is of another device')
    if (signed !== undefined && signed !== claims['hash'])
      return no(`the checkpoint says something else about seq ${String(claims['seq'])}`)
    checkpoints++
  }
  return { problem: null, at: 0, checkpoints }
}

const linesIn = (path: string): string[] => readFileSync(path, 'utf8').split('\n')

export async function verifyAudit(data: string, file: string | null): Promise<Verified> {
  const identity = identityIn(data)
  const files = file === null ? (existsSync(data) ? auditFiles(data) : []) : [file]
  if (files.length === 0 || !existsSync(files[0]!))
    throw new CliError(
      exits.usage,
      'USAGE',
      `there is no audit file in ${file ?? data}`,
      '--data names the folder of the device, --file a file',
    )
  const lines: string[] = []
  for (const path of files) {
    const found = linesIn(path)
    const rest = found.pop()!
    lines.push(...found)
    // A running daemon might still be writing the last line.
    if (rest !== '' && (file !== null || path !== files.at(-1))) lines.push(rest)
  }
  const { problem, at, checkpoints } = chainProblem(lines, identity?.key.jwk ?? null)
  const verdict = (message: string | null, line: number | null): Verified => ({
    ok: message === null,
    lines: lines.length,
    checkpoints,
    problem: message,
    line,
  })
  if (problem !== null) return verdict(problem, at)
  if (file !== null || identity === null || !existsSync(deviceDatabase(data))) return verdict(null, null)
  return againstRecord(data, identity.device_id, lines, verdict)
}

/** Compares the lines with the record up to its current end: a running daemon can append to the file meanwhile. */
async function againstRecord(
  data: string,
  device_id: string,
  lines: readonly string[],
  verdict: (message: string | null, line: number | null) => Verified,
): Promise<Verified> {
  const store = sqliteStore(deviceDatabase(data), { readOnly: true })
  try {
    let i = 0
    let missing: number | null = null
    for await (const { line, seq } of recordedLines(store, device_id, GENESIS)) {
      if (i >= lines.length) {
        missing ??= seq
        continue
      }
      if (lines[i] !== line) return verdict(`line ${i + 1}: it is not what the record says (seq ${seq})`, i + 1)
      i++
    }
    if (missing !== null && !(await catchesUp(data, missing)))
      return verdict(`line ${lines.length + 1}: the file ends before the record (seq ${missing} is missing)`, lines.length + 1)
    if (i < lines.length && !(await hasSince(data, lines.length))) return verdict(`line ${i + 1}: it is not in the record`, i + 1)
    return verdict(null, null)
  } finally {
    await store.close()
  }
}

const MOMENT_MS = 200
/** A running daemon writes a fact first and its line afterwards, so a missing line is checked again after a moment. */
async function catchesUp(data: string, seq: number): Promise<boolean> {
  await new Promise((done) => setTimeout(done, MOMENT_MS))
  const last = auditFiles(data)
    .flatMap(linesIn)
    .findLast((line) => line !== '' && line.endsWith('}'))
  return last !== undefined && (JSON.parse(last) as { seq: number }).seq >= seq
}
async function hasSince(data: string, seq: number): Promise<boolean> {
  await new Promise((done) => setTimeout(done, MOMENT_MS))
  const store = sqliteStore(deviceDatabase(data), { readOnly: true })
  try {
    return (await store.head('device')).seq >= seq
  } finally {
    await store.close()
  }
}
