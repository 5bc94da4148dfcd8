// The time that `countersign acp` adds to a permission: an editor that answers immediately, in front of the agent alone and in front of the proxy,
// in turn. Agent, proxy and server are processes of their own, and the server records each answer durably.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AGENT, choose, openEditor } from '#test/gate/acp/acp-world.ts'
import { login, startProxy } from '#test/gate/acp/proxy-process.ts'
import { enroll, startServer } from '#test/support/as-processes/server.ts'
import { median, ms, type Bench } from './report.ts'

const QUESTIONS = Number(process.env['BENCH_CALLS'] ?? 200)
const ADDED_MS_MAX = 5

type Editor = ReturnType<typeof openEditor>

export const acp: Bench = {
  name: 'acp',
  message: `a permission through the ACP proxy against the agent alone, ${QUESTIONS} times each`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-acp-'))
    const data = join(folder, 'data')
    const server = await startServer(data)
    const endings: (() => unknown)[] = []
    try {
      const keys = await enroll(server.port, server.adminKey)
      const world = { data, url: `http://127.0.0.1:${server.port}`, keys, effectsFile: join(folder, 'effects') }
      const home = await login(world)
      const { editor: through } = await startProxy({ after: (end) => void endings.push(end as () => unknown) }, world, home, [
        '--agent',
        'agent_devin',
        '--name',
        'fake',
      ])
      const child = spawn(process.execPath, [AGENT], {
        env: { PATH: process.env['PATH'], EFFECTS: world.effectsFile },
        stdio: ['pipe', 'pipe', 'ignore'],
      })
      endings.push(() => child.kill('SIGKILL') && once(child, 'close'))
      const direct = openEditor(child.stdin, child.stdout)
      for (const editor of [direct, through]) await begin(editor, data)
      const took: Record<'direct' | 'through', number[]> = { direct: [], through: [] }
      for (let i = -QUESTIONS / 10; i < QUESTIONS; i++)
        for (const [way, editor] of [
          ['direct', direct],
          ['through', through],
        ] as const) {
          const one = await timeOf(editor, i)
          if (i >= 0) took[way].push(one)
        }
      const added = median(took.through) - median(took.direct)
      say(`${took.through.length} questions each way`)
      return [
        { what: 'a permission, agent and editor alone', value: ms(median(took.direct)) },
        {
          what: 'a permission through the proxy',
          value: ms(median(took.through)),
          more: `${ms(added)} more`,
          goal: { message: `<= ${ADDED_MS_MAX} ms more`, met: added <= ADDED_MS_MAX },
        },
      ]
    } finally {
      for (const end of endings) await end()
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

async function begin(editor: Editor, cwd: string): Promise<void> {
  editor.answer = choose('allow_once')
  await editor.call('initialize', { protocolVersion: 1, clientCapabilities: {} })
  await editor.call('session/new', { cwd, mcpServers: [] })
}

async function timeOf(editor: Editor, i: number): Promise<number> {
  const began = performance.now()
  await editor.prompt([{ ask: { title: `make ${i}`, kind: 'execute', rawInput: { i } } }])
  return performance.now() - began
}
