// Honest callers during an attack: the latency of a small durable call, alternately without load and while an attacker sends requests and
// reads no responses, on the same server; and the server's peak memory. The attacker is a separate process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { attacks, fill, honest, peakMb, target, type Attack, type Heard, type Target } from '#test/support/faults/attack.ts'
import { quantiles } from './load.ts'
import { median, ms, times, type Bench, type Row } from './report.ts'

const ROUNDS = 3
const ROUND_MS = 8_000
const CALLERS = 4
const P99_MAX = 10
const RSS_MB_MAX = 400

export const attack: Bench = {
  name: 'attack',
  message: 'others while one caller sends requests and reads nothing, beside the same server in quiet',
  async run(say) {
    const rows: Row[] = []
    for (const [number, one] of attacks.entries()) rows.push(...(await measured(number, one, say)))
    return rows
  },
}

async function measured(number: number, { name, isFilled }: Attack, say: (line: string) => void): Promise<Row[]> {
  const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
  const server = await target(join(folder, 'data'))
  try {
    if (isFilled) await fill(server)
    await others(server, 2_000) // its code is compiled by then
    const [quiet, attacked]: [number[], number[]] = [[], []]
    for (let round = 1; round <= ROUNDS; round++) {
      quiet.push(p99(await others(server, ROUND_MS)))
      const attacker = attackBy(number, server)
      attacked.push(p99(await others(server, ROUND_MS)))
      await attacker.end()
      say(`${name}, round ${round} of ${ROUNDS}: p99 ${ms(quiet.at(-1)!)} in quiet, ${ms(attacked.at(-1)!)} under attack`)
    }
    const ratio = median(attacked.map((one, i) => one / quiet[i]!))
    const peak = peakMb(server.pid)
    return [
      {
        what: `${name}: p99 of others against quiet`,
        value: times(ratio),
        more: `${ms(median(attacked))} against ${ms(median(quiet))}`,
        goal: { message: `< ${P99_MAX}x`, met: ratio < P99_MAX },
      },
      {
        what: 'the same: memory of the server at most',
        value: `${Math.round(peak)} MB`,
        goal: { message: `< ${RSS_MB_MAX} MB`, met: peak < RSS_MB_MAX },
      },
    ]
  } finally {
    await server.end('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Several people who call one after the other. One who is not answered ends the benchmark. */
async function others(server: Target, forMs: number): Promise<number[]> {
  const heard: Heard[] = await Promise.all(Array.from({ length: CALLERS }, () => honest(server, forMs)))
  const [failure] = heard.flatMap(({ failures }) => failures)
  if (failure !== undefined) throw new Error(`somebody else was not answered: ${failure}`)
  return heard.flatMap(({ times: spent }) => spent)
}
const p99 = (spent: number[]): number => quantiles(spent).p99

function attackBy(number: number, { port, devin }: Target): { end(): Promise<void> } {
  const file = fileURLToPath(import.meta.resolve('./attacker.ts'))
  const child = spawn(process.execPath, [file, String(number), String(port), devin], { stdio: ['pipe', 'ignore', 'inherit'] })
  return {
    async end() {
      const gone = once(child, 'exit')
      child.stdin.end()
      await gone
    },
  }
}
