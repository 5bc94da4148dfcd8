// Load on several servers, as people and agents behind a reverse proxy make it: a call that finds no server, or one that cannot answer now, goes
// to the next one under the same idempotency key. It remembers what was acknowledged.
import assert from 'node:assert/strict'
import { inDatabase } from './postgres.ts'
import { sampleOf } from './postgres-stores.ts'
import { createCaller, type Answer } from './server.ts'
import type { Node } from './servers.ts'

export type Load = {
  /** Task ids that were acknowledged. */
  readonly acknowledged: ReadonlySet<string>
  /** Answers that no server should give. */
  readonly strange: readonly string[]
  /** The longest that a call took with all its attempts. */
  slowestMs(): number
  stop(): Promise<void>
}

const GIVE_UP_MS = 40_000
const PAUSE_MS = 30
/** Between two calls of a worker: without it four of them take both cores for as long as they run. `npm run test:long` lets them. */
const BREATH_MS = sampleOf([1, 2], 1).length === 1 ? 10 : 0

/** `nodes`: those that are there at the moment. */
export function startLoad(nodes: () => readonly Pick<Node, 'port'>[], key: string, workers = 4): Load {
  const acknowledged = new Set<string>()
  const strange: string[] = []
  const callers = new Map<number, ReturnType<typeof createCaller>>()
  let isOver = false
  let slowest = 0
  const run = `load-${Math.random().toString(36).slice(2)}`

  function callerAt(port: number): ReturnType<typeof createCaller> {
    const known = callers.get(port)
    if (known) return known
    const made = createCaller(port)
    callers.set(port, made)
    return made
  }

  async function once(worker: number, n: number): Promise<void> {
    const began = performance.now()
    const input = { spec: { goal: `Goal ${worker} ${n}` }, reviewers: ['user_alice'] }
    for (let attempt = 0; performance.now() - began < GIVE_UP_MS; attempt++) {
      const all = nodes()
      const node = all[(worker + n + attempt) % all.length]
      const answer: Answer | null = node
        ? await callerAt(node.port)
            .call(key, 'collaboration/task.create', input, `${run}-${worker}-${n}`)
            .catch(() => null)
        : null
      if (answer?.status === 200) {
        acknowledged.add(answer.body.task.id as string)
        slowest = Math.max(slowest, performance.now() - began)
        return
      }
      if (answer && answer.status !== 503) strange.push(`${answer.status} ${JSON.stringify(answer.body)}`)
      await new Promise((done) => setTimeout(done, PAUSE_MS))
    }
    strange.push(`no answer within ${GIVE_UP_MS} ms`)
  }

  const working = Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      for (let n = 0; !isOver; n++) {
        await once(worker, n)
        if (BREATH_MS > 0) await new Promise((done) => setTimeout(done, BREATH_MS))
      }
    }),
  )
  return {
    acknowledged,
    strange,
    slowestMs: () => slowest,
    async stop() {
      isOver = true
      await working
      for (const { close } of callers.values()) close()
    },
  }
}

/** Everything acknowledged is there, each once, and the record is whole and without gaps. */
export async function assertKept(url: string, node: Node, adminKey: string, { acknowledged, strange }: Load): Promise<void> {
  assert.deepEqual(strange, [])
  const rows = await inDatabase(url, `SELECT key FROM countersign.docs WHERE key LIKE 'collaboration.task/%'`)
  const there = new Set(rows.map(({ key }) => String(key).slice('collaboration.task/'.length)))
  assert.deepEqual(
    [...acknowledged].filter((id) => !there.has(id)),
    [],
    'nothing acknowledged is lost',
  )
  assert.ok(acknowledged.size > 0)
  const [{ gaps, goals, tasks }] = (await inDatabase(
    url,
    `SELECT max(position) - count(*) AS gaps, (SELECT count(*) FROM countersign.docs WHERE key LIKE 'collaboration.task/%') AS tasks,
       (SELECT count(*) FROM countersign.facts WHERE line LIKE '%"action":"collaboration/task.created"%') AS goals FROM countersign.facts`,
  )) as [{ gaps: string; goals: string; tasks: string }]
  assert.deepEqual([Number(gaps), Number(goals)], [0, Number(tasks)])
  const { status, body } = await node.call(adminKey, 'collaboration/audit.verify', {})
  assert.deepEqual([status, body.valid], [200, true], JSON.stringify(body))
}
