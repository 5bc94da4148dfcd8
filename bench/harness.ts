// Two harnesses at a private RabbitMQ, or at the one that COUNTERSIGN_AMQP_URL names (only its virtual host), durable on both sides,
// compared with a bare loop of the client library: persistent, confirmed, window 100, acked. The callee is a separate process.
//
//   node bench/harness.ts [events]
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Connection } from 'rabbitmq-client'
import { createCallee, createCaller, type Caller, type CalleeSession } from '#apps/harness.ts'
import { startBroker, type Broker } from '../scripts/broker.ts'
import { freePort } from '#test/support/harness/broker.ts'
import { median, ms, rate, tableOf, times, type Bench, type Row } from './report.ts'

const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 20_000)
const SESSIONS = Number(process.env['BENCH_SESSIONS'] ?? 1_000)
const WINDOW = 100
/** Sessions that talk at the same time: what one of them says is one commit after the other. */
const TALKS = 64
const TRIPS = 50
const [SHARE_MIN, TRIPS_MAX, BACK_MS_MAX, MEMORY_MB_MAX] = [0.3, 5, 6_000, 150]

export const harness: Bench = {
  name: 'harness',
  message: `tasks between two harnesses over RabbitMQ, ${EVENTS.toLocaleString('en')} events, ${SESSIONS.toLocaleString('en')} open sessions`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-harness-'))
    const given = process.env['COUNTERSIGN_AMQP_URL'] ?? ''
    const broker = given === '' ? await startBroker({ folder, port: await freePort(), users: ['lab-a', 'lab-b', 'bare'] }) : givenAt(given)
    const callee = fork(import.meta.filename, ['callee', broker.urlOf('lab-b'), join(folder, 'b')])
    try {
      await told(callee, 'ready')
      const caller = await createCaller({
        id: 'lab-a',
        url: broker.urlOf('lab-a'),
        data: join(folder, 'a'),
        prefetch: 100,
        log: 'error',
        ...SHARED,
      })
      try {
        return await measured(broker, caller, callee, say)
      } finally {
        await caller.stop()
      }
    } finally {
      callee.kill('SIGKILL')
      await broker.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

/** A broker from outside: both sides share one user, so senders cannot be told apart, and the benchmark must not kill it. */
const givenAt = (url: string): UsedBroker => ({ urlOf: () => url, stop: () => Promise.resolve() })
type UsedBroker = Pick<Broker, 'urlOf' | 'stop'> & Partial<Pick<Broker, 'kill' | 'start'>>
const SHARED = (process.env['COUNTERSIGN_AMQP_URL'] ?? '') === '' ? {} : ({ user_id: 'off' } as const)

/** The next message with this name from a child. */
async function told(child: ChildProcess, what: string): Promise<Record<string, number>> {
  for (;;) {
    const [message] = (await once(child, 'message')) as [Record<string, number> & { what: string }]
    if (message.what === what) return message
  }
}

async function measured(broker: UsedBroker, caller: Caller, callee: ChildProcess, say: (line: string) => void): Promise<Row[]> {
  const bare = await bareLoop(broker)
  say(`the bare loop: ${rate(bare.perSecond)}, one confirmed round trip ${ms(bare.tripMs)}`)
  const accepted: number[] = []
  for (let i = 0; i < TRIPS; i++) {
    const began = performance.now()
    const submitted = await caller.submit('lab-b', { capability: 'talk', intent: 'Talk.', inputs: { lines: 0 } })
    await submitted.accepted
    accepted.push(performance.now() - began)
    await submitted.result
  }
  const began = performance.now()
  const lines = Math.ceil(EVENTS / TALKS)
  const talks = await Promise.all(
    Array.from({ length: TALKS }, () => caller.submit('lab-b', { capability: 'talk', intent: 'Talk.', inputs: { lines } })),
  )
  await Promise.all(talks.map(({ result }) => result))
  const perSecond = (lines * TALKS) / ((performance.now() - began) / 1_000)
  const ended = await Promise.all(talks.map((talk) => talk.session()))
  const came = ended.reduce((sum, { last_processed_sequence }) => sum + last_processed_sequence, 0)
  say(`${came} events came, ${ended.reduce((sum, { missing_sequences }) => sum + missing_sequences.length, 0)} are missing`)
  const trips = median(accepted) / bare.tripMs
  const share = perSecond / bare.perSecond
  const back = await afterRestart(broker, caller)
  const [own, theirs] = await openSessions(caller, callee)
  return [
    { what: 'bare loop of the client library', value: rate(bare.perSecond) },
    { what: 'events, durable on both sides', value: rate(perSecond) },
    { what: 'events against the bare loop', value: times(share), goal: { message: `>= ${SHARE_MIN}x`, met: share >= SHARE_MIN } },
    { what: 'one confirmed round trip of the bare loop (p50)', value: ms(bare.tripMs) },
    {
      what: 'submit to accepted (p50)',
      value: ms(median(accepted)),
      more: `${times(trips)} of a round trip`,
      goal: { message: `<= ${TRIPS_MAX} round trips`, met: trips <= TRIPS_MAX },
    },
    ...(back === null
      ? []
      : [
          {
            what: 'events flow again after a restarted broker opens its port',
            value: ms(back),
            goal: { message: `<= ${BACK_MS_MAX / 1_000} s`, met: back <= BACK_MS_MAX },
          },
        ]),
    ...[['caller', own] as const, ['callee', theirs] as const].map(([side, mb]) => ({
      what: `${SESSIONS.toLocaleString('en')} open sessions, memory of the ${side}`,
      value: `${Math.round(mb)} MB`,
      goal: { message: `<= ${MEMORY_MB_MAX} MB`, met: mb <= MEMORY_MB_MAX },
    })),
  ]
}

/** A publisher and a consumer on a connection of their own, with messages of the size of an event. */
async function bareLoop(broker: UsedBroker): Promise<{ perSecond: number; tripMs: number }> {
  const connection = new Connection({ url: broker.urlOf('bare'), noDelay: true })
  connection.on('error', (error) => console.error(String(error)))
  const queue = 'bench.bare'
  await connection.queueDeclare({ queue, durable: true })
  let came = 0
  let tell = (): void => undefined
  const consumer = connection.createConsumer({ queue, queueOptions: { durable: true }, qos: { prefetchCount: 10 } }, () => {
    came++
    tell()
  })
  await once(consumer, 'ready')
  const publisher = connection.createPublisher({ confirm: true })
  const body = Buffer.alloc(400, 'x')
  const send = (): Promise<void> => publisher.send({ routingKey: queue, durable: true, mandatory: true, contentEncoding: 'utf-8' }, body)
  const trips: number[] = []
  for (let i = 0; i < TRIPS; i++) {
    const began = performance.now()
    await send()
    trips.push(performance.now() - began)
  }
  const all = TRIPS + EVENTS
  const done = new Promise<void>((ended) => (tell = () => came >= all && ended()))
  const began = performance.now()
  let sent = 0
  await Promise.all(
    Array.from({ length: WINDOW }, async () => {
      while (sent++ < EVENTS) await send()
    }),
  )
  await done
  const perSecond = EVENTS / ((performance.now() - began) / 1_000)
  await consumer.close()
  await publisher.close()
  await connection.close()
  return { perSecond, tripMs: median(trips) }
}

/** From the moment at which the broker takes connections again to the next event. */
async function afterRestart({ kill, start }: UsedBroker, caller: Caller): Promise<number | null> {
  if (!kill || !start) return null
  const submitted = await caller.submit('lab-b', { capability: 'chatter', intent: 'Talk on.' })
  await submitted.accepted
  await kill()
  const before = (await submitted.session()).last_processed_sequence
  await start()
  const began = performance.now()
  while ((await submitted.session()).last_processed_sequence === before) await new Promise((done) => setTimeout(done, 20))
  const took = performance.now() - began
  await submitted.abort()
  await submitted.result.catch(() => undefined)
  return took
}

/** Megabytes that open sessions add to either side. */
async function openSessions(caller: Caller, callee: ChildProcess): Promise<[number, number]> {
  const memory = async (): Promise<[number, number]> => {
    globalThis.gc?.()
    callee.send('memory')
    return [process.memoryUsage().rss / 1e6, (await told(callee, 'memory'))['mb']!]
  }
  const before = await memory()
  const open = await Promise.all(Array.from({ length: SESSIONS }, () => caller.submit('lab-b', { capability: 'wait', intent: 'Wait.' })))
  for (const session of open) await session.accepted
  const after = await memory()
  return [after[0] - before[0], after[1] - before[1]]
}

async function serveCallee(url: string, data: string): Promise<void> {
  await createCallee({
    id: 'lab-b',
    url,
    data,
    log: 'error',
    prefetch: 100,
    ...SHARED,
    concurrency: SESSIONS + 10,
    callers: { 'lab-a': {} },
    capabilities: [
      {
        declaration: { name: 'talk', version: '1.0.0', description: 'For a test.', safety: { requires_human_approval: false } },
        async run(session: CalleeSession<{ lines: number }>) {
          for (let line = 0; line < session.inputs.lines; line++)
            await session.log('info', 'a line of about the usual length of one in a log')
          return {}
        },
      },
      {
        declaration: { name: 'chatter', version: '1.0.0', description: 'For a test.', safety: { requires_human_approval: false } },
        async run({ signal, log }) {
          while (!signal.aborted) {
            await log('info', 'a line')
            await new Promise((done) => setTimeout(done, 50))
          }
          return {}
        },
      },
      {
        declaration: { name: 'wait', version: '1.0.0', description: 'For a test.', safety: { requires_human_approval: false } },
        run: ({ signal }) => new Promise((done) => signal.addEventListener('abort', () => done({}), { once: true })),
      },
    ],
  })
  process.on('message', () => {
    globalThis.gc?.()
    process.send!({ what: 'memory', mb: process.memoryUsage().rss / 1e6 })
  })
  process.send!({ what: 'ready' })
}

if (process.argv[2] === 'callee') await serveCallee(process.argv[3]!, process.argv[4]!)
else if (import.meta.main) console.log(tableOf(await harness.run((line) => console.log(line))))
