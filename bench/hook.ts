// The cost of a hook: an allowed call from the start of `countersign hook` to its answer, in turn with a bare `node -e 0`. The server is a
// process of its own and records each call durably.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCaller, enroll, startServer } from '#test/support/as-processes/server.ts'
import { median, ms, times, type Bench } from './report.ts'

const ROUNDS = 40
const RATIO_MAX = 4
const program = join(import.meta.dirname, '..', 'bin', 'countersign.js')
const event = JSON.stringify({
  session_id: 'bench',
  hook_event_name: 'PreToolUse',
  tool_name: 'Read',
  tool_input: { file_path: '/srv/project/a.txt' },
  tool_use_id: 'toolu_1',
})
const gate = { version: 1, default: 'deny', rules: [{ id: 'reads', tool: 'claude-code/Read', then: 'allow' }] }

export const hook: Bench = {
  name: 'hook',
  message: `an allowed call of \`countersign hook\` against \`node -e 0\`, ${ROUNDS} times each`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-hook-'))
    const server = await startServer(join(folder, 'data'))
    try {
      const { alice, devin } = await enroll(server.port, server.adminKey)
      const { call, close } = createCaller(server.port)
      const { status, body } = await call(alice, 'execution/policy.set', { gate })
      close()
      if (status !== 200) throw new Error(`policy.set answered ${status}: ${JSON.stringify(body)}`)
      const env = { PATH: process.env['PATH']!, HOME: folder, COUNTERSIGN_URL: `http://127.0.0.1:${server.port}`, COUNTERSIGN_KEY: devin }
      const took: { bare: number; hook: number }[] = []
      // The first round fills the cache of compiled sources and is not counted.
      for (let round = 0; round <= ROUNDS; round++) {
        const bare = await timeOf(['-e', '0'], env)
        const hook = await timeOf([program, 'hook', 'claude-code'], env, '"permissionDecision":"allow"')
        if (round > 0) took.push({ bare, hook })
        else say(`the first time: node -e 0 took ${ms(bare)}, the hook ${ms(hook)}`)
      }
      const ratio = median(took.map((round) => round.hook / round.bare))
      return [
        { what: 'node -e 0', value: ms(median(took.map(({ bare }) => bare))) },
        {
          what: 'countersign hook, allowed and recorded',
          value: ms(median(took.map((round) => round.hook))),
          more: times(ratio),
          goal: { message: `<= ${RATIO_MAX}x`, met: ratio <= RATIO_MAX },
        },
      ]
    } finally {
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

async function timeOf(words: readonly string[], env: Record<string, string>, expected = ''): Promise<number> {
  const began = performance.now()
  const child = spawn(process.execPath, words, { env, stdio: ['pipe', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => (out += part))
  child.stdin.on('error', () => undefined)
  child.stdin.end(event)
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0 || !out.includes(expected)) throw new Error(`${words.join(' ')} ended with ${code}: ${out}`)
  return performance.now() - began
}
