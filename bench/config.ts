// `countersign apply` of a company: people, agents, groups and a project with all of them, and the same file again.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runPiped } from '#test/support/as-processes/cli.ts'
import { createCaller, startServer } from '#test/support/as-processes/server.ts'
import type { Bench } from './report.ts'

const [PEOPLE, AGENTS] = [1_000, 200]
const [FIRST_SECONDS_MAX, AGAIN_SECONDS_MAX] = [20, 3]
const GROUP = 50

export const config: Bench = {
  name: 'config',
  message: `countersign apply of ${PEOPLE} people and ${AGENTS} agents, and again without a change`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-config-'))
    const server = await startServer(join(folder, 'data'))
    const { call, close } = createCaller(server.port)
    try {
      const { body } = await call(server.adminKey, 'identity/key.issue', { subject: 'user_owner' })
      const { key } = body as { key: string }
      writeFileSync(join(folder, 'company.json'), JSON.stringify(company()))
      const env = { HOME: folder, COUNTERSIGN_URL: `http://127.0.0.1:${server.port}`, COUNTERSIGN_KEY: key }
      const apply = async (): Promise<number> => {
        const began = performance.now()
        const { code, out, err } = await runPiped(['apply', '-f', 'company.json'], { env, cwd: folder })
        if (code !== 0) throw new Error(err)
        say(out.split('\n').at(-2)!)
        return (performance.now() - began) / 1_000
      }
      const [first, again] = [await apply(), await apply()]
      return [rowOf('the first time', first, FIRST_SECONDS_MAX), rowOf('again, without a change', again, AGAIN_SECONDS_MAX)]
    } finally {
      close()
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const rowOf = (what: string, seconds: number, max: number) => ({
  what: `countersign apply, ${what}`,
  value: `${seconds.toFixed(1)} s`,
  goal: { message: `<= ${max} s`, met: seconds <= max },
})

function company(): object {
  const people = Array.from({ length: PEOPLE }, (_, i) => `user_${i}`)
  const agents = Array.from({ length: AGENTS }, (_, i) => `agent_${i}`)
  const groups = Array.from({ length: PEOPLE / GROUP }, (_, i) => [`team-${i}`, { members: people.slice(i * GROUP, (i + 1) * GROUP) }])
  return {
    name: 'company',
    people: Object.fromEntries(people.map((id, i) => [id, { name: `Person ${i}` }])),
    agents: Object.fromEntries(agents.map((id, i) => [id, { name: `Agent ${i}`, owner: people[i] }])),
    projects: {
      project_company: {
        members: Object.fromEntries([['user_owner', 'owner'], ...[...people, ...agents].map((id) => [id, 'member'])]),
        groups: Object.fromEntries(groups),
      },
    },
  }
}
