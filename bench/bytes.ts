// Bytes of artifacts through the real server, beside a plain copy of the same files: each copy ends with an fsync, each upload with
// its answer, which says that the bytes are hashed, on disk and on the record. Files are read from the system's cache both times.
import { createHash, randomFillSync } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { copyFile, open, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCaller, enroll, spawnServer, startServer, type Keys } from '#test/support/as-processes/server.ts'
import { median, times, usageOf, type Bench, type Row } from './report.ts'

const ROUNDS = 4
const FILES_PER_ROUND = 4
const FILES = ROUNDS * FILES_PER_ROUND
const FILE_BYTES = 32 * 1024 * 1024
const PORTION_BYTES = 1024 * 1024
/** A server runs for months: what its first uploads cost, while its code is not compiled yet, is not the question here. */
const WARM_UPLOADS = 12
const UPLOAD_SHARE_MIN = 0.5

const ways = ['copy', 'hashing', 'upload', 'download'] as const
type Way = (typeof ways)[number]
const named: Readonly<Record<Way, string>> = {
  copy: 'copy',
  hashing: 'to a server that only hashes',
  upload: 'upload',
  download: 'download',
}
/** Milliseconds of each file. */
type Round = Readonly<Record<Way, number[]>>
const perSecond = (spent: readonly number[]): number => (spent.length * FILE_BYTES) / 1e3 / spent.reduce((sum, ms) => sum + ms, 0)
const shown = (megabytes: number): string => `${Math.round(megabytes).toLocaleString('en')} MB/s`

/** Distinct files, so that none are deduplicated; written beforehand, so that writing them is not measured. One is for warm-up. */
async function sourcesIn(folder: string): Promise<string[]> {
  const bytes = Buffer.allocUnsafe(FILE_BYTES)
  const paths = Array.from({ length: FILES + 1 }, (_, i) => join(folder, `source-${i}`))
  for (const path of paths) await writeFile(path, randomFillSync(bytes), { flush: true })
  return paths
}

async function durableCopy(from: string, to: string): Promise<void> {
  await copyFile(from, to)
  const file = await open(to, 'r+')
  await file.sync()
  await file.close()
}

/** One kept-alive connection that costs little: what it sends and receives always lies in the same memory. */
type Client = { upload(task: string, path: string): Promise<string>; download(artifact: string): Promise<void>; close(): void }

async function clientOf(port: number, bearer: string): Promise<Client> {
  let head = ''
  let came = 0
  let arrived = (): void => undefined
  const callback = (length: number, part: Uint8Array): boolean => {
    if (came === 0) head = Buffer.from(part.subarray(0, Math.min(length, 4_096))).toString('latin1')
    came += length
    arrived()
    return true
  }
  const socket = connect({ port, host: '127.0.0.1', onread: { buffer: Buffer.alloc(PORTION_BYTES), callback } })
  await new Promise<void>((done, failed) => socket.once('connect', done).once('error', failed))
  /** The next answer: its head and the beginning of its body. */
  const answer = async (): Promise<string> => {
    const length = (): number => Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN)
    while (came === 0 || came < head.indexOf('\r\n\r\n') + 4 + length()) await new Promise<void>((done) => (arrived = done))
    if (!head.startsWith('HTTP/1.1 200')) throw new Error(`answered ${head}`)
    return head
  }
  const send = (method: string, path: string, headers = ''): void => {
    came = 0
    socket.write(`${method} /v1/collaboration/${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${bearer}\r\n${headers}\r\n`)
  }
  const portions = [0, 1].map(() => ({ bytes: Buffer.alloc(PORTION_BYTES), sent: Promise.resolve() }))
  return {
    async upload(task, path) {
      const file = await open(path)
      const headers = `content-type: application/octet-stream\r\ncontent-length: ${FILE_BYTES}\r\n`
      send('PUT', `artifact.upload?task_id=${task}`, headers)
      for (let at = 0, i = 0; at < FILE_BYTES; at += PORTION_BYTES, i ^= 1) {
        const portion = portions[i]!
        await portion.sent
        await file.read(portion.bytes, 0, PORTION_BYTES, at)
        portion.sent = new Promise<void>((done) => socket.write(portion.bytes, () => done()))
      }
      await file.close()
      const response = await answer()
      return (JSON.parse(response.slice(response.indexOf('\r\n\r\n'))) as { uri: string }).uri
    },
    async download(artifact) {
      send('GET', `artifact.download?artifact_id=${artifact}`)
      await answer()
    },
    close: () => socket.destroy(),
  }
}

async function spent(work: Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work
  return performance.now() - began
}

async function roundOf(paths: readonly string[], client: Client, bare: Client, newTask: () => Promise<Delivering>): Promise<Round> {
  const round: Round = { copy: [], hashing: [], upload: [], download: [] }
  const artifacts: string[] = []
  for (const path of paths) {
    const { task, commit } = await newTask()
    // The copies are kept as the uploads are, so that both use fresh memory and disk space.
    round.copy.push(await spent(durableCopy(path, `${path}-copy`)))
    round.hashing.push(await spent(bare.upload(task, path)))
    const sending = client.upload(task, path)
    round.upload.push(await spent(sending))
    artifacts.push(await commit(await sending))
  }
  for (const artifact of artifacts) round.download.push(await spent(client.download(artifact)))
  return round
}

/** A task in progress, and its delivery of uploaded bytes, which puts it under review. */
type Delivering = { readonly task: string; commit(uri: string): Promise<string> }

function delivering(port: number, keys: Keys): { newTask(): Promise<Delivering>; close(): void } {
  const { call, close } = createCaller(port)
  const ask = async (as: keyof Keys, operation: string, input: object): Promise<any> => {
    const { status, body } = await call(keys[as], `collaboration/${operation}`, input)
    if (status !== 200) throw new Error(`${operation} answered ${status}: ${JSON.stringify(body)}`)
    return body
  }
  async function newTask(): Promise<Delivering> {
    const { task } = await ask('alice', 'task.create', {
      spec: { goal: 'Deliver large files', acceptance_criteria: ['they arrive whole'] },
    })
    await ask('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
    await ask('devin', 'task.start', { task_id: task.id })
    async function commit(uri: string): Promise<string> {
      const { artifact } = await ask('devin', 'artifact.commit', { task_id: task.id, type: 'file', payload: { kind: 'blob', uri } })
      return artifact.id
    }
    return { task: task.id, commit }
  }
  return { newTask, close }
}

export const bytes: Bench = {
  name: 'bytes',
  message: `upload and download of ${FILES} files of ${FILE_BYTES / 1024 / 1024} MiB, beside a copy with fsync`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    // Ends what was started, in reverse order, also if a later start fails.
    await using ending = new AsyncDisposableStack()
    ending.defer(() => rmSync(folder, { recursive: true, force: true }))
    const server = await startServer(join(folder, 'data'))
    ending.defer(() => server.end('SIGTERM'))
    const hashing = await spawnServer([join(import.meta.dirname, 'hashing.ts')])
    ending.defer(() => hashing.end('SIGKILL'))
    const keys = await enroll(server.port, server.adminKey)
    const client = await clientOf(server.port, keys.devin)
    ending.defer(client.close)
    const bare = await clientOf(hashing.port, '')
    ending.defer(bare.close)
    const { newTask, close } = delivering(server.port, keys)
    ending.defer(close)
    const sources = await sourcesIn(folder)
    const { task } = await newTask()
    const warming = sources.pop()!
    for (let i = 0; i < WARM_UPLOADS; i++) for (const each of [bare, client]) await each.upload(task, warming)
    const rounds: Round[] = []
    for (let from = 0; from < FILES; from += FILES_PER_ROUND) {
      const round = await roundOf(sources.slice(from, from + FILES_PER_ROUND), client, bare, newTask)
      rounds.push(round)
      say(`round ${rounds.length} of ${ROUNDS}: ${ways.map((way) => `${way} ${shown(perSecond(round[way]))}`).join(', ')}`)
    }
    return [...rowsOf(rounds, await hashed(sources[0]!)), ...memoryOf(server.pid)]
  },
}

/** The time of SHA-256 by itself: the copy does without it. */
async function hashed(path: string): Promise<number> {
  const all = await readFile(path)
  const began = performance.now()
  createHash('sha256').update(all).digest()
  return perSecond([performance.now() - began])
}

function rowsOf(rounds: readonly Round[], sha256: number): Row[] {
  const of = (way: Way): number => median(rounds.map((round) => perSecond(round[way])))
  const share = (way: Way): number => median(rounds.map((round) => perSecond(round[way]) / perSecond(round.copy)))
  return [
    ...ways.map((way): Row => ({ what: named[way], value: shown(of(way)) })),
    { what: 'SHA-256 alone', value: shown(sha256) },
    {
      what: 'upload against copy',
      value: times(share('upload')),
      goal: { message: `>= ${UPLOAD_SHARE_MIN}x`, met: share('upload') >= UPLOAD_SHARE_MIN },
    },
    { what: 'a server that only hashes, against copy', value: times(share('hashing')) },
    { what: 'download against copy', value: times(share('download')) },
  ]
}

function memoryOf(pid: number): Row[] {
  const usage = usageOf(pid)
  return usage ? [{ what: 'memory of the server at most', value: `${Math.round(usage.peakMb)} MB` }] : []
}
