// Requests of agents to people: asking, polling and answering over HTTP against an Express server that keeps the same in memory; the inbox with
// few and with many open items; sockets that follow a request.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import { createCaller, enroll, spawnServer, startServer, type ServerProcess } from '#test/support/as-processes/server.ts'
import { openNew } from './fill.ts'
import { getBytes, loadEach, openConnection, quantiles, requestBytes, type Load } from './load.ts'
import { median, ms, rate, times, usageOf, type Bench, type Row } from './report.ts'

const CONNECTIONS = 64
const ROUNDS = 3
const ROUND_MS = 2_500
const FEW = 100
const MANY = 100_000
const PAGES = 300
const SUBSCRIBERS = 1_000
const CHANGES = 200
const goals = { create: 1.2, poll: 2, resolve: 1.2, page: 1.5, rssMb: 300, deliveries: 100_000 }
/** Greatest ratios of CPU time: asking to asking the server in memory, and answering to asking. */
const cpuGoals = { asking: 1.3, answering: 2 }

export const question = JSON.stringify({
  action: 'DECIDE',
  role: 'owner',
  priority: 'normal',
  timeout_seconds: 3_600,
  fallback: 'pause',
  agent_id: 'agent_devin',
  metadata: { agent_framework: 'langgraph', agent_task: 'billing' },
  payload: {
    question: 'Approve $99/mo Stripe plan?',
    options: ['Approve', 'Deny'],
    context: 'Required for payment processing in Project Alpha.',
  },
})
export const answer = JSON.stringify({ result: 'Approve', reason: null })

export const steps = ['create', 'poll', 'resolve'] as const
type Step = (typeof steps)[number]
/** The bare server has no polls. */
type Round = Readonly<Partial<Record<Step, Measured>>>
export type Target = {
  readonly pid: number
  readonly port: number
  readonly agent: string
  readonly person: string
  readonly steps: readonly Step[]
}
type Measured = Load & { readonly cpuUs: number | null }

export const hxp: Bench = {
  name: 'hxp',
  message: `requests at ${CONNECTIONS} connections beside in-memory Express; the inbox at ${MANY.toLocaleString('en')} open items; ${SUBSCRIBERS.toLocaleString('en')} sockets`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    try {
      return [...(await rates(folder, say)), ...(await pages(folder, say)), await deliveries(folder, say)]
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

// --- Asking, polling, answering --------------------------------------------------------------------------------------------

async function rates(folder: string, say: (line: string) => void): Promise<Row[]> {
  mkdirSync(join(folder, 'bare'))
  const fileOf = (name: string): string => fileURLToPath(import.meta.resolve(name))
  const server = await startServer(join(folder, 'rates'))
  const express = await spawnServer([fileOf('./express.ts')])
  const bare = await spawnServer([fileOf('./bare.ts'), join(folder, 'bare')])
  try {
    const { alice, devin } = await enroll(server.port, server.adminKey)
    const targets: Record<'ours' | 'express' | 'bare', Target> = {
      ours: { pid: server.pid, port: server.port, agent: devin, person: alice, steps },
      express: { pid: express.pid, port: express.port, agent: 'agent', person: 'human', steps },
      bare: { pid: bare.pid, port: bare.port, agent: 'anybody', person: 'anybody', steps: ['create', 'resolve'] },
    }
    const all = Object.entries(targets).map(([name, target]) => ({ name, target, rounds: [] as Round[] }))
    for (const { target } of all) for (let i = 0; i < 3; i++) await roundOf(target, 1_000)
    for (let round = 1; round <= ROUNDS; round++) {
      for (const { target, rounds } of all) rounds.push(await roundOf(target, ROUND_MS))
      const figures = (of: Round): string => steps.flatMap((step) => (of[step] ? [`${step} ${rate(of[step].perSecond)}`] : [])).join(', ')
      say(`round ${round} of ${ROUNDS}: ${all.map(({ name, rounds }) => `${name} ${figures(rounds.at(-1)!)}`).join('; ')}`)
    }
    const [ourRounds, expressRounds, bareRounds] = all.map(({ rounds }) => rounds) as [Round[], Round[], Round[]]
    return [...steps.flatMap((step) => rowsOf(step, ourRounds, expressRounds, bareRounds)), ...cpuRows(ourRounds, expressRounds)]
  } finally {
    await Promise.all([server.end('SIGTERM'), express.end('SIGKILL'), bare.end('SIGKILL')])
  }
}

/** One round: asks, polls the asked requests, and answers each once. */
export async function roundOf(target: Target, forMs: number): Promise<Round> {
  const { port, agent, person } = target
  const ids: string[] = []
  const asked = requestBytes('/hxp/v1/requests', agent, question)
  const create = await timed(target, () =>
    loadEach(
      port,
      CONNECTIONS,
      () => asked,
      forMs,
      (body) => {
        const found = /"request_id":"([^"]+)"/.exec(body.toString('latin1'))
        if (found) ids.push(found[1]!)
      },
    ),
  )
  const polled = ids.slice(0, 500).map((id) => getBytes(`/hxp/v1/requests/${id}`, agent))
  let turn = 0
  const polls = (): Promise<Load> => loadEach(port, CONNECTIONS, () => polled[turn++ % polled.length]!, forMs)
  const poll = target.steps.includes('poll') ? { poll: await timed(target, polls) } : {}
  const left = ids.map((id) => requestBytes(`/hxp/v1/requests/${id}/resolve`, person, answer))
  const resolve = await timed(target, () => loadEach(port, CONNECTIONS, () => left.pop() ?? null, forMs))
  return { create, ...poll, resolve }
}

export async function timed({ pid }: Target, run: () => Promise<Load>): Promise<Measured> {
  const before = usageOf(pid)
  const loaded = await run()
  const after = usageOf(pid)
  return { ...loaded, cpuUs: before && after ? ((after.cpuSeconds - before.cpuSeconds) * 1e6) / loaded.answers : null }
}

function rowsOf(step: Step, ours: readonly Round[], express: readonly Round[], bare: readonly Round[]): Row[] {
  const row = (name: string, rounds: readonly Round[]): Row => {
    const of = (figure: 'perSecond' | 'p50' | 'p99'): number => median(rounds.map((round) => round[step]![figure]))
    const cpu = median(rounds.map((round) => round[step]!.cpuUs ?? Number.NaN))
    return {
      what: `${step}, ${name}`,
      value: rate(of('perSecond')),
      more: `p50 ${ms(of('p50'))}, p99 ${ms(of('p99'))}, ${Math.round(cpu)} us CPU each`,
    }
  }
  const against = (rounds: readonly Round[]): number =>
    median(rounds.map((round, i) => round[step]!.perSecond / express[i]![step]!.perSecond))
  const ratio = against(ours)
  const goal = { message: `>= ${goals[step]}x`, met: ratio >= goals[step] }
  const rows = [row('durable', ours), row('Express in memory', express), { what: `${step} against Express`, value: times(ratio), goal }]
  if (!bare.every((round) => round[step])) return rows
  return [...rows, row('bare durable', bare), { what: `${step}, bare durable against Express`, value: times(against(bare)) }]
}

function cpuRows(ours: readonly Round[], express: readonly Round[]): Row[] {
  const us = (measured: Measured | undefined): number => measured?.cpuUs ?? Number.NaN
  const row = (what: string, ratios: readonly number[], most: number): Row => {
    const ratio = median(ratios)
    return { what: `${what}, by CPU time`, value: times(ratio), goal: { message: `<= ${most}x`, met: ratio <= most } }
  }
  const asking = ours.map(({ create }, i) => us(create) / us(express[i]!.create))
  const answering = ours.map(({ create, resolve }) => us(resolve) / us(create))
  return [row('create against Express', asking, cpuGoals.asking), row('resolve against create', answering, cpuGoals.answering)]
}

// --- The inbox -------------------------------------------------------------------------------------------------------------

/** Fills a folder with open requests from one agent to one person, through the operations. */
async function fill(data: string, count: number): Promise<void> {
  const { kernel, store, folder } = await openNew(data)
  await kernel.call('identity/user.add', { id: 'user_zoe', name: 'Zoe' }, SYSTEM)
  await kernel.call('identity/agent.add', { id: 'agent_zoe', name: 'Zoe', owner: 'user_zoe' }, SYSTEM)
  const agent: Actor = { id: 'agent_zoe', kind: 'agent', projects: new Map([['project_default', 'member']]) }
  const { agent_id: _, ...asked } = JSON.parse(question) as Record<string, unknown>
  const priorities = ['low', 'normal', 'high', 'normal', 'critical']
  let left = count
  const work = async (): Promise<void> => {
    while (left-- > 0) await kernel.call('execution/request.create', { ...asked, priority: priorities[left % 5] }, agent)
  }
  await Promise.all(Array.from({ length: 256 }, work))
  await store.close()
  folder.release()
}

type Filled = { readonly server: ServerProcess; readonly page: () => Promise<number>; close(): void }

async function serve(data: string): Promise<Filled> {
  const server = await startServer(data)
  const { call, close } = createCaller(server.port)
  const { key } = (await call(server.adminKey, 'identity/key.issue', { subject: 'user_zoe' })).body
  close()
  const connection = await openConnection(server.port)
  const request = requestBytes('/v1/execution/inbox.list', key, JSON.stringify({ limit: 50 }))
  return {
    server,
    async page() {
      const began = performance.now()
      const { status, body } = await connection.send(request)
      if (status !== 200) throw new Error(body.toString())
      return performance.now() - began
    },
    close: connection.close,
  }
}

async function pages(folder: string, say: (line: string) => void): Promise<Row[]> {
  say(`filling two folders with ${FEW} and with ${MANY.toLocaleString('en')} open requests`)
  const [few, many] = [join(folder, 'few'), join(folder, 'many')]
  await fill(few, FEW)
  await fill(many, MANY)
  const [small, large] = [await serve(few), await serve(many)]
  try {
    for (let i = 0; i < 100; i++) {
      await small.page()
      await large.page()
    }
    const spent: Record<'small' | 'large', number[]> = { small: [], large: [] }
    for (let i = 0; i < PAGES; i++) {
      spent.small.push(await small.page())
      spent.large.push(await large.page())
    }
    const [a, b] = [quantiles(spent.small), quantiles(spent.large)]
    say(`pages: p50 ${ms(a.p50)} and ${ms(b.p50)}, p99 ${ms(a.p99)} and ${ms(b.p99)}`)
    const ratio = b.p50 / a.p50
    const rss = usageOf(large.server.pid)?.rssMb ?? Number.NaN
    return [
      { what: `inbox page, ${FEW} open`, value: ms(a.p50), more: `p99 ${ms(a.p99)}` },
      { what: `inbox page, ${MANY.toLocaleString('en')} open`, value: ms(b.p50), more: `p99 ${ms(b.p99)}` },
      {
        what: 'page with many against page with few',
        value: times(ratio),
        goal: { message: `<= ${goals.page}x`, met: ratio <= goals.page },
      },
      {
        what: `resident memory with ${MANY.toLocaleString('en')} open requests`,
        value: `${Math.round(rss)} MB`,
        goal: { message: `< ${goals.rssMb} MB`, met: rss < goals.rssMb },
      },
    ]
  } finally {
    small.close()
    large.close()
    await Promise.all([small.server.end('SIGTERM'), large.server.end('SIGTERM')])
  }
}

// --- Sockets ---------------------------------------------------------------------------------------------------------------

/** All sockets subscribe to one request, whose deadline is moved repeatedly. Counts delivered events. */
async function deliveries(folder: string, say: (line: string) => void): Promise<Row> {
  const server = await startServer(join(folder, 'sockets'))
  const { call, close } = createCaller(server.port)
  try {
    const { devin, alice } = await enroll(server.port, server.adminKey)
    const { agent_id: _, ...asked } = JSON.parse(question) as Record<string, unknown>
    const { request } = (await call(devin, 'execution/request.create', asked)).body
    let heard = 0
    const sockets = await Promise.all(
      Array.from({ length: SUBSCRIBERS }, () => listening(server.port, devin, request.id, (events) => void (heard += events))),
    )
    const until = async (count: number): Promise<void> => {
      while (heard < count) await new Promise((done) => setTimeout(done, 1))
    }
    await until(SUBSCRIBERS)
    heard = 0
    const rounds: number[] = []
    for (let round = 1; round <= ROUNDS; round++) {
      const began = performance.now()
      heard = 0
      const extend = (i: number): Promise<unknown> =>
        call(alice, 'execution/request.extend', { request_id: request.id, timeout_seconds: 3_600 + round * 1_000 + i })
      for (let i = 0; i < CHANGES; i += 10) await Promise.all(Array.from({ length: 10 }, (__, k) => extend(i + k)))
      await until(SUBSCRIBERS * CHANGES)
      rounds.push((SUBSCRIBERS * CHANGES * 1_000) / (performance.now() - began))
      say(`round ${round} of ${ROUNDS}: ${rate(rounds.at(-1)!)} deliveries`)
    }
    for (const socket of sockets) socket.destroy()
    const value = median(rounds)
    return {
      what: `deliveries to ${SUBSCRIBERS.toLocaleString('en')} sockets`,
      value: rate(value),
      goal: { message: `>= ${rate(goals.deliveries)}`, met: value >= goals.deliveries },
    }
  } finally {
    close()
    await server.end('SIGTERM')
  }
}

const MARK = Buffer.from('"event":')

/** A bare socket that counts events: parsing each frame would cost the reader more than sending it costs the server. */
function listening(port: number, bearer: string, id: string, heard: (events: number) => void): Promise<Socket> {
  const head = [
    `GET /hxp/ws/${id} HTTP/1.1`,
    'Host: 127.0.0.1',
    `Authorization: Bearer ${bearer}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  ]
  return new Promise((done, failed) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`${head.join('\r\n')}\r\n\r\n`))
    // A mark can be cut in two: its beginning is kept for the next piece.
    let kept: Buffer = Buffer.alloc(0)
    socket.on('data', (piece: Buffer) => {
      done(socket)
      const text = kept.length === 0 ? piece : Buffer.concat([kept, piece])
      let count = 0
      let end = 0
      for (let at = text.indexOf(MARK); at !== -1; at = text.indexOf(MARK, end)) {
        count++
        end = at + MARK.length
      }
      kept = text.subarray(Math.max(end, text.length - MARK.length + 1))
      if (count > 0) heard(count)
    })
    socket.once('error', failed)
  })
}
