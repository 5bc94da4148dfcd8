// Questions of the Python client against those of the TypeScript SDK, in alternating rounds: asked, answered by a person and verified, 32 in
// flight.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createClient } from '#sdk/index.ts'
import { createCaller, enroll, startServer } from '#test/support/as-processes/server.ts'
import { median, times, type Bench } from './report.ts'

const QUESTIONS = 1_000
const IN_FLIGHT = 32
const ROUNDS = 3
const RATIO_MIN = 0.5
const FOLDER = join(import.meta.dirname, '../clients/python')

export const python: Bench = {
  name: 'python',
  message: `${QUESTIONS} questions of the Python client against those of the TypeScript SDK, ${IN_FLIGHT} in flight`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-python-'))
    const server = await startServer(join(folder, 'data'))
    const { call, close } = createCaller(server.port)
    const keys = await enroll(server.port, server.adminKey)
    const url = `http://127.0.0.1:${server.port}`
    const done = new AbortController()
    const answering = answerAll(call, keys.alice, done.signal)
    try {
      const rates: { python: number; sdk: number }[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const rate = {
          python: QUESTIONS / (await pythonSeconds(url, keys.devin, round)),
          sdk: QUESTIONS / (await sdkSeconds(url, keys.devin)),
        }
        rates.push(rate)
        say(`round ${round + 1}: Python ${rate.python.toFixed(0)}/s, TypeScript ${rate.sdk.toFixed(0)}/s`)
      }
      const ratio = median(rates.map((rate) => rate.python / rate.sdk))
      return [
        { what: 'questions a second of the TypeScript SDK', value: median(rates.map(({ sdk }) => sdk)).toFixed(0) },
        {
          what: 'questions a second of the Python client',
          value: median(rates.map((rate) => rate.python)).toFixed(0),
          more: times(ratio),
          goal: { message: `>= ${RATIO_MIN}x`, met: ratio >= RATIO_MIN },
        },
      ]
    } finally {
      done.abort()
      await answering
      close()
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

/** Approves every open item as a person, until the signal aborts. */
async function answerAll(call: ReturnType<typeof createCaller>['call'], key: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { body } = await call(key, 'execution/inbox.list', { limit: 50 })
    const items = body.items as { readonly request_id: string }[]
    await Promise.all(items.map(({ request_id }) => call(key, 'execution/request.resolve', { request_id, result: 'approved' })))
    if (items.length === 0) await new Promise((go) => setTimeout(go, 2))
  }
}

async function pythonSeconds(url: string, key: string, round: number): Promise<number> {
  const env = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    PYTHONPATH: FOLDER,
    COUNTERSIGN_URL: url,
    COUNTERSIGN_KEY: key,
    COUNT: String(QUESTIONS),
    ROUND: String(round),
  }
  const child = spawn('python3', [join(FOLDER, 'tests/program.py'), 'many'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  for await (const line of createInterface({ input: child.stdout })) {
    const { seconds } = JSON.parse(line) as { seconds?: number }
    if (seconds !== undefined) return seconds
  }
  throw new Error('the Python client ended without answers: is python3 installed?')
}

async function sdkSeconds(url: string, key: string): Promise<number> {
  const client = createClient({ url, key })
  const began = performance.now()
  let left = QUESTIONS
  const ask = async (): Promise<void> => {
    while (left-- > 0) await client.hxp.approve('Number')
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, ask))
  await client.close()
  return (performance.now() - began) / 1_000
}
