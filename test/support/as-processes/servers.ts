// Several servers on one database, each a process with a data folder of its own.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { newDatabase } from './postgres.ts'
import { createCaller, type Answer } from './server.ts'
import { dataFolder, start, type Running } from './server-process.ts'

export const SECRET = Buffer.alloc(32, 7).toString('base64url')

export type Node = Running & {
  readonly data: string
  call(bearer: string, operation: string, input?: object, key?: string): Promise<Answer>
}
export type Servers = {
  readonly url: string
  readonly nodes: Node[]
  readonly adminKey: string
  /** One more, or one again in the folder of one that ended. */
  add(name: string, more?: { data?: string; env?: Record<string, string>; args?: readonly string[] }): Promise<Node>
}

export async function startServers(
  t: Pick<TestContext, 'after'>,
  count: number,
  given?: { url: string },
  common: Record<string, string> = {},
): Promise<Servers> {
  const database = given ? { url: given.url, drop: () => Promise.resolve() } : await newDatabase()
  t.after(database.drop)
  const nodes: Node[] = []
  const add: Servers['add'] = async (name, { data = dataFolder(t), env = {}, args = [] } = {}) => {
    const running = await start(t, ['--data', data, ...args], {
      env: {
        COUNTERSIGN_DATABASE: database.url,
        COUNTERSIGN_SECRET: SECRET,
        COUNTERSIGN_NODE: name,
        COUNTERSIGN_LOG: 'warn',
        COUNTERSIGN_QUOTA: 'off',
        ...common,
        ...env,
      },
    })
    const { call, close } = createCaller(running.port)
    t.after(close)
    const node = Object.assign(running, {
      data,
      call: (bearer: string, operation: string, input = {}, key?: string) => call(bearer, operation, input, key),
    })
    nodes.push(node)
    return node
  }
  // Starts all servers concurrently on an empty database.
  await Promise.all(Array.from({ length: count }, (_, i) => add(`node-${i + 1}`)))
  const files = nodes.map(({ data }) => join(data, 'admin.key')).filter((file) => existsSync(file))
  if (files.length !== 1 && !given) throw new Error(`${files.length} admin keys were made by ${count} servers that started at once`)
  return { url: database.url, nodes, adminKey: files[0] ? readFileSync(files[0], 'utf8').trim() : '', add }
}
