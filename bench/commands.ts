// The cost of one command: time until it ends, CPU time and memory, against a server that has little to answer.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServer } from '#test/support/as-processes/server.ts'
import { median, ms, type Bench, type Row } from './report.ts'

const ROUNDS = 5
const program = join(import.meta.dirname, '..', 'bin', 'countersign.js')
const COMMANDS = [['--version'], ['whoami'], ['task', 'list'], ['agent', 'list'], ['audit', 'verify']] as const
/** Node tells about itself alone, so the command tells at its end. */
const TELLS = `data:text/javascript,process.on('exit',()=>process.stderr.write('\\n'+JSON.stringify(process.resourceUsage())))`

type Cost = { readonly tookMs: number; readonly cpuMs: number; readonly mb: number }

export const commands: Bench = {
  name: 'commands',
  message: `what one command of the command line costs, ${ROUNDS} times each`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-commands-'))
    const server = await startServer(join(folder, 'data'))
    const env = {
      PATH: process.env['PATH']!,
      HOME: folder,
      COUNTERSIGN_URL: `http://127.0.0.1:${server.port}`,
      COUNTERSIGN_KEY: server.adminKey,
    }
    try {
      const costs = new Map<string, Cost[]>(COMMANDS.map((words) => [words.join(' '), []]))
      // The first round fills the cache of compiled sources and is not counted.
      for (let round = 0; round <= ROUNDS; round++)
        for (const words of COMMANDS) {
          const cost = await costOf(words, env)
          if (round > 0) costs.get(words.join(' '))!.push(cost)
          else say(`the first time: ${words.join(' ')} took ${ms(cost.tookMs)}, ${ms(cost.cpuMs)} of CPU, ${Math.round(cost.mb)} MB`)
        }
      return [...costs].map(([command, all]) => rowOf(command, all))
    } finally {
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const rowOf = (command: string, all: readonly Cost[]): Row => ({
  what: `countersign ${command}`,
  value: ms(median(all.map(({ tookMs }) => tookMs))),
  more: `${ms(median(all.map(({ cpuMs }) => cpuMs)))} of CPU, ${Math.round(median(all.map(({ mb }) => mb)))} MB`,
})

async function costOf(words: readonly string[], env: Record<string, string>): Promise<Cost> {
  const began = performance.now()
  const child = spawn(process.execPath, ['--import', TELLS, program, ...words], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let told = ''
  child.stderr.setEncoding('utf8').on('data', (part: string) => (told += part))
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`countersign ${words.join(' ')} ended with ${code}: ${told}`)
  const tookMs = performance.now() - began
  const { userCPUTime, systemCPUTime, maxRSS } = JSON.parse(told.slice(told.lastIndexOf('\n') + 1)) as NodeJS.ResourceUsage
  return { tookMs, cpuMs: (userCPUTime + systemCPUTime) / 1_000, mb: maxRSS / 1_024 }
}
