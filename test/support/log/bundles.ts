// Bundles of every kind from a real server with two real witnesses, and the policy that they are verified with.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { startWitness, type RunningWitness } from '#apps/witness/main.ts'
import { nodeKeyIn } from '#workers/keys/log-key.ts'
import { createCaller, enroll } from '../as-processes/server.ts'
import { logFolder, serve, type Served } from './served.ts'

export type Bundles = {
  readonly folder: string
  readonly served: Served
  readonly witnesses: readonly RunningWitness[]
  readonly policy: string
  readonly task: string
  readonly request: string
  /** A call with the key of the principal of the task. */
  asAlice(operation: string, input: object): Promise<any>
  export(input: object): Promise<string>
}

export async function exported(served: Served, input: object): Promise<string> {
  let text = ''
  for (let cursor: string | undefined; ;) {
    const page = await served.call('collaboration/audit.export', { ...input, ...(cursor === undefined ? {} : { cursor }) })
    if (page.status !== 200) throw new Error(JSON.stringify(page))
    text += page.ndjson
    if (page.next_cursor === null) return text
    cursor = page.next_cursor
  }
}

/** A first start, which tells the key of the log, then witnesses for it, and a start with them. */
export async function startWitnessed(
  t: Pick<TestContext, 'after'>,
  quorum = 'both',
): Promise<Pick<Bundles, 'folder' | 'served' | 'witnesses'>> {
  const folder = logFolder(t)
  const first = await serve(folder, ['--log-every', 'PT0.1S', '--log-origin', 'lab.example/log'])
  const log = /^log (\S+)\n/.exec(await first.text('/log/policy'))![1]!
  await first.stop()
  const witnesses = await Promise.all(
    ['w1.example', 'w2.example'].map((name) =>
      startWitness({ logs: [nodeKeyIn(log)], name, data: logFolder(t), port: 0, host: '127.0.0.1' }, { alarm: () => undefined }),
    ),
  )
  for (const witness of witnesses) t.after(witness.stop)
  const file = join(folder, 'witnesses.txt')
  writeFileSync(
    file,
    `${witnesses.map(({ vkey, url }, i) => `witness w${i + 1} ${vkey} ${url}\n`).join('')}group both all w1 w2\nquorum ${quorum}\n`,
  )
  const served = await serve(folder, ['--log-every', 'PT0.1S', '--witnesses', file])
  return { folder, served, witnesses }
}

export async function makeBundles(t: Pick<TestContext, 'after'>): Promise<Bundles> {
  const { folder, served, witnesses } = await startWitnessed(t)
  const port = served.server.port
  const keys = await enroll(port, readFileSync(join(folder, 'admin.key'), 'utf8').trim())
  const { call, close } = createCaller(port)
  const as = async (key: string, operation: string, input: object): Promise<any> => {
    const { status, body } = await call(key, operation, input)
    if (status !== 200) throw new Error(`${operation}: ${JSON.stringify(body)}`)
    return body
  }
  const { task } = await as(keys.alice, 'collaboration/task.create', {
    spec: { goal: 'Keep the greenhouse at 21 degrees – overnight', acceptance_criteria: ['it is'] },
  })
  await as(keys.alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const asked = { action: 'APPROVE', payload: { item: 'Switch the heater?', details: { watts: 800 } } }
  const { request } = await as(keys.devin, 'execution/request.create', asked)
  await as(keys.alice, 'execution/request.resolve', { request_id: request.id, result: 'approved' })
  t.after(close)
  await served.covered()
  const policy = await served.text('/log/policy')
  return {
    folder,
    served,
    witnesses,
    policy,
    task: task.id,
    request: request.id,
    asAlice: (operation, input) => as(keys.alice, operation, input),
    export: (input) => exported(served, input),
  }
}
