// The draft's reference flow over HTTP: eleven calls by a person and an agent, at 1, 16 and 64 flows at the same time.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { flowSteps, remember, type FlowRefs } from '#test/support/as-processes/flow.ts'
import { enroll, startServer, type Keys } from '#test/support/as-processes/server.ts'
import { openConnection, quantiles, requestBytes, type Connection } from './load.ts'
import { median, ms, rate, usageOf, type Bench, type Row } from './report.ts'

const WIDTHS = [1, 16, 64]
const ROUNDS = 3
const ROUND_MS = 3_000

let flows = 0

async function runFlow(connection: Connection, keys: Keys, times: number[]): Promise<void> {
  const refs: FlowRefs = { tag: `flow-${++flows}` }
  for (const { as, operation, input } of flowSteps) {
    const request = requestBytes(`/v1/${operation}`, keys[as], JSON.stringify(input(refs)))
    const began = performance.now()
    const { status, body } = await connection.send(request)
    times.push(performance.now() - began)
    const answer: any = JSON.parse(body.toString())
    if (status !== 200) throw new Error(`${operation} answered ${status}: ${body.toString()}`)
    remember(refs, answer)
    if (operation.endsWith('audit.replay') && answer.matches !== true) throw new Error(`the replay of ${refs.tag} does not match`)
  }
}

export type FlowRate = { readonly flows: number; readonly ops: number; readonly p50: number; readonly p99: number }

/** Flows over `width` connections, one after the other on each, for a time. */
export async function measureFlow(port: number, width: number, keys: Keys, forMs: number): Promise<FlowRate> {
  const connections = await Promise.all(Array.from({ length: width }, () => openConnection(port)))
  const times: number[] = []
  let finished = 0
  const began = performance.now()
  await Promise.all(
    connections.map(async (connection) => {
      for (; performance.now() - began < forMs; finished++) await runFlow(connection, keys, times)
    }),
  )
  const seconds = (performance.now() - began) / 1_000
  for (const connection of connections) connection.close()
  return { flows: finished / seconds, ops: times.length / seconds, ...quantiles(times) }
}

export const flow: Bench = {
  name: 'flow',
  message: `the reference flow over HTTP, ${flowSteps.length} calls each, at ${WIDTHS.join(', ')} flows at the same time`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    const server = await startServer(join(folder, 'data'))
    try {
      const keys = await enroll(server.port, server.adminKey)
      await measureFlow(server.port, 16, keys, ROUND_MS / 2)
      const measured = new Map<number, FlowRate[]>(WIDTHS.map((width) => [width, []]))
      for (let round = 1; round <= ROUNDS; round++) {
        for (const width of WIDTHS) measured.get(width)!.push(await measureFlow(server.port, width, keys, ROUND_MS))
        say(
          `round ${round} of ${ROUNDS}: ${WIDTHS.map((width) => `${width} at a time ${rate(measured.get(width)!.at(-1)!.flows)}`).join(', ')}`,
        )
      }
      const rows = [...measured].map(([width, rounds]): Row => {
        const of = (figure: keyof FlowRate): number => median(rounds.map((round) => round[figure]))
        return {
          what: `${width} at a time`,
          value: `${rate(of('flows'))} flows`,
          more: `${rate(of('ops'))} calls, p50 ${ms(of('p50'))}, p99 ${ms(of('p99'))}`,
        }
      })
      const usage = usageOf(server.pid)
      return usage ? [...rows, { what: 'resident memory of the server at most', value: `${Math.round(usage.peakMb)} MB` }] : rows
    } finally {
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}
