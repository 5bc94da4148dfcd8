// The hardware daemon: round trips, one-step tasks with a durable audit, the path guard and memory, each compared with a bare baseline in
// the same run. The daemon and the echo server run in separate processes, the load in this one; rounds alternate.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, fdatasyncSync, mkdirSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createPathGuard } from '#devices/path-guard.ts'
import { createHacpClient, type HacpClient } from '#protocols/hardware/client.ts'
import { median, rate, times, usageOf, type Bench, type Row } from './report.ts'

const [ROUNDS, ROUND_MS, CLIENTS] = [3, 1_500, 64]
const SHARE_MIN = 0.5
const [SYNCS_MIN, TASKS_MIN] = [8, 2_500]
const GUARD_MIN = 0.3
const [IDLE_MAX, LOAD_MAX] = [2.2, 3]

export const device: Bench = {
  name: 'device',
  message: 'the hardware daemon: tool.list beside an echo, gpio.set tasks beside fdatasync, the path guard, memory',
  run: measured,
}

type Started = { readonly child: ChildProcess; readonly said: string }

async function started(args: readonly string[], ready: RegExp): Promise<Started> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8')
  for await (const part of child.stdout as AsyncIterable<string>) {
    text += part
    const found = ready.exec(text)
    if (found) return { child, said: found[1]! }
  }
  throw new Error(`${args.join(' ')} did not start`)
}

/** Each client has its own GPIO line, so that no client waits for another's lock. */
function startDaemon(folder: string): Promise<Started> {
  const gpio = Object.fromEntries(Array.from({ length: CLIENTS }, (_, line) => [line, { direction: 'out', safe: 0 }]))
  const often = { per_second: 1_000_000, burst: 1_000_000 }
  const policy = {
    tools: ['hw.*', 'gpio.*', 'i2c.*', 'uart.*', 'file.*', 'sys.*', 'sensor.*'],
    queue: 1_000,
    concurrent: CLIENTS,
    sessions: 200,
    rate: { 'gpio.set': often },
  }
  writeFileSync(join(folder, 'profile.json'), JSON.stringify({ gpio }))
  writeFileSync(join(folder, 'policies.json'), JSON.stringify({ policies: { default: policy } }))
  const program = join(import.meta.dirname, '../bin/countersign.js')
  const args = [
    '--data',
    join(folder, 'data'),
    '--profile',
    join(folder, 'profile.json'),
    '--policies',
    join(folder, 'policies.json'),
    '--log',
    'error',
  ]
  return started([program, 'device', 'up', ...args], /^countersign device ready (.*)\n/)
}

async function ended(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM')
  await once(child, 'exit')
}

/** So many do it again and again until the time is over; answers how often in a second. */
async function perSecond(count: number, ms: number, act: (i: number) => Promise<unknown>): Promise<number> {
  const end = performance.now() + ms
  let done = 0
  const began = performance.now()
  await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      for (; performance.now() < end; done++) await act(i)
    }),
  )
  return (done * 1_000) / (performance.now() - began)
}

type Line = { readonly client: HacpClient; readonly session_id: string; close(): void }

async function lineTo(path: string): Promise<Line> {
  const socket = connect(path)
  await once(socket, 'connect')
  const client = createHacpClient('bench', '1.0.0', (text) => void socket.write(text))
  socket.on('data', (bytes: Uint8Array) => client.receive(bytes))
  const { session_id } = await client.open()
  return { client, session_id, close: () => socket.destroy() }
}

function echo(url: string, agent: Agent, body: string): Promise<void> {
  return new Promise((done, failed) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const call = request(`${url}/echo`, { method: 'POST', agent, headers }, (answer) => {
      answer.on('data', () => undefined).once('end', done)
    })
    call.once('error', failed)
    call.end(body)
  })
}

async function measured(say: (line: string) => void): Promise<Row[]> {
  const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
  const children: ChildProcess[] = []
  const keep = ({ child, said }: Started): Started => (children.push(child), { child, said })
  try {
    const bare = keep(await started(['-e', 'console.log("ready x"); setInterval(() => {}, 1000)'], /ready (.*)\n/))
    // The first start after a change compiles. Measure a daemon with a warm compile cache, as on a board.
    await ended((await startDaemon(folder)).child)
    const daemon = keep(await startDaemon(folder))
    const reference = keep(await started([join(import.meta.dirname, 'echo.ts')], /^echo ready (.*)\n/))
    await new Promise((done) => setTimeout(done, 2_000))
    const [bareMb, idleMb] = [bare, daemon].map(({ child }) => usageOf(child.pid!)!.rssMb) as [number, number]
    const { socket } = JSON.parse(daemon.said) as { socket: string }
    const rows = [...(await roundTrips(socket, reference.said, say)), ...(await tasks(socket, folder, say)), ...guardedReads(folder, say)]
    const loadMb = usageOf(daemon.child.pid!)!.rssMb
    return [...rows, ...memory(bareMb, idleMb, loadMb)]
  } finally {
    for (const child of children) child.kill('SIGKILL')
    for (const child of children) if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
}

async function roundTrips(socket: string, url: string, say: (line: string) => void): Promise<Row[]> {
  const lines = await Promise.all(Array.from({ length: CLIENTS }, () => lineTo(socket)))
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const list = (i: number): Promise<unknown> => lines[i]!.client.tools(lines[i]!.session_id)
  const body = JSON.stringify({ tools: await lines[0]!.client.tools(lines[0]!.session_id) })
  const rows: Row[] = []
  for (const clients of [1, CLIENTS]) {
    const found: { ours: number; echo: number }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const theirs = await perSecond(clients, ROUND_MS, () => echo(url, agent, body))
      const ours = await perSecond(clients, ROUND_MS, list)
      say(`${clients} clients, round ${round + 1} of ${ROUNDS}: tool.list ${rate(ours)}, echo of the same ${rate(theirs)}`)
      found.push({ ours, echo: theirs })
    }
    const ratio = median(found.map(({ ours, echo: theirs }) => ours / theirs))
    const goal = clients === 1 ? {} : { goal: { message: `>= ${SHARE_MIN}x`, met: ratio >= SHARE_MIN } }
    const who = `${clients} ${clients === 1 ? 'client' : 'clients'}`
    rows.push({ what: `${who}, tool.list`, value: rate(median(found.map(({ ours }) => ours))) })
    rows.push({ what: `${who}, tool.list against an HTTP echo of the same`, value: times(ratio), ...goal })
  }
  agent.destroy()
  for (const line of lines) line.close()
  return rows
}

/** Submitted, audited, done and known to be done. */
async function tasks(socket: string, folder: string, say: (line: string) => void): Promise<Row[]> {
  const lines = await Promise.all(Array.from({ length: CLIENTS }, () => lineTo(socket)))
  let value = 0
  const runTask = async (i: number): Promise<void> => {
    const { client, session_id } = lines[i]!
    const { status } = await client.finish(session_id, 'gpio.set', { line: i, value: (value ^= 1) })
    assert.equal(status, 'SUCCESS')
  }
  const rows: Row[] = []
  for (const clients of [1, CLIENTS]) {
    const found: { ours: number; syncs: number }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const syncs = syncsPerSecond(folder)
      const ours = await perSecond(clients, ROUND_MS, runTask)
      say(`${clients} clients, round ${round + 1} of ${ROUNDS}: gpio.set tasks ${rate(ours)}, fdatasync ${rate(syncs)}`)
      found.push({ ours, syncs })
    }
    const [ours, syncs] = [median(found.map((round) => round.ours)), median(found.map((round) => round.syncs))]
    const least = Math.min(TASKS_MIN, SYNCS_MIN * syncs)
    const goal = clients === 1 ? {} : { goal: { message: `>= ${rate(least)}`, met: ours >= least } }
    const who = `${clients} ${clients === 1 ? 'client' : 'clients'}`
    rows.push({
      what: `${who}, gpio.set from submit to SUCCESS`,
      value: rate(ours),
      more: `fdatasync ${rate(syncs)}, ${times(ours / syncs)}`,
      ...goal,
    })
  }
  for (const line of lines) line.close()
  return rows
}

function syncsPerSecond(folder: string): number {
  const file = openSync(join(folder, 'synced'), 'w')
  const bytes = Buffer.alloc(4_096, 1)
  const began = performance.now()
  let count = 0
  for (; performance.now() - began < ROUND_MS / 3; count++) {
    writeSync(file, bytes, 0, bytes.length, 0)
    fdatasyncSync(file)
  }
  closeSync(file)
  return (count * 1_000) / (performance.now() - began)
}

function guardedReads(folder: string, say: (line: string) => void): Row[] {
  const listed = join(folder, 'listed')
  mkdirSync(listed, { recursive: true })
  const path = join(listed, 'file')
  writeFileSync(path, Buffer.alloc(4_096, 7))
  const guard = createPathGuard({ read: [join(folder, 'listed')], write: [], file_bytes_max: 4_096 })
  const bytes = Buffer.alloc(4_096)
  const bare = (): void => {
    const file = openSync(path, 'r')
    readSync(file, bytes, 0, bytes.length, 0)
    closeSync(file)
  }
  const often = (act: () => unknown): number => {
    const began = performance.now()
    let count = 0
    for (; performance.now() - began < ROUND_MS / 3; count++) act()
    return (count * 1_000) / (performance.now() - began)
  }
  const found: { ours: number; bare: number }[] = []
  for (let round = 0; round < ROUNDS; round++) {
    found.push({ bare: often(bare), ours: often(() => guard.read(path, 0, 4_096)) })
    say(`round ${round + 1} of ${ROUNDS}: guarded reads ${rate(found.at(-1)!.ours)}, bare ${rate(found.at(-1)!.bare)}`)
  }
  const ratio = median(found.map(({ ours, bare: theirs }) => ours / theirs))
  const goal = { message: `>= ${GUARD_MIN}x`, met: ratio >= GUARD_MIN }
  return [
    {
      what: 'file.read of 4 KiB through the guard, against open, read, close',
      value: times(ratio),
      more: rate(median(found.map(({ ours }) => ours))),
      goal,
    },
  ]
}

const memory = (bareMb: number, idleMb: number, loadMb: number): Row[] =>
  (
    [
      ['idle', idleMb, IDLE_MAX],
      ['after the load', loadMb, LOAD_MAX],
    ] as const
  ).map(([when, mb, most]) => ({
    what: `memory of the daemon, ${when}`,
    value: `${mb.toFixed(1)} MB`,
    more: `a bare node has ${bareMb.toFixed(1)} MB: ${times(mb / bareMb)}`,
    goal: { message: `<= ${most}x`, met: mb / bareMb <= most },
  }))
