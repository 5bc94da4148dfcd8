// A server as a process, its owner, and an agent of the owner that asks: the two sides of an inbox at the command line.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { createClient, type Client } from '#sdk/index.ts'
import { inProcess, startUp, temporary, type Ran, type Running } from './cli.ts'

/** Null stands for the administrator, whose key lies in the data folder. */
export type Who = 'owner' | 'agent' | null
export type InboxPeople = {
  readonly home: string
  readonly server: Running
  readonly owner: Client
  readonly agent: Client
  envFor(as: Who, url?: string): Record<string, string>
  /** A command in this process. */
  run(argv: readonly string[], as?: Who, input?: string): Promise<Ran>
  close(): Promise<void>
}

export async function openInbox(name: string, env: Record<string, string> = {}): Promise<InboxPeople> {
  const home = temporary(name)
  const server = await startUp(join(home, 'data'), { COUNTERSIGN_QUOTA: 'off', ...env })
  const keys = { owner: '', agent: '' }
  const envFor = (as: Who, url = server.url): Record<string, string> => ({
    HOME: home,
    COUNTERSIGN_URL: url,
    COUNTERSIGN_DATA: server.data,
    ...(as === null ? {} : { COUNTERSIGN_KEY: keys[as] }),
  })
  const run = (argv: readonly string[], as: Who = 'owner', input = ''): Promise<Ran> =>
    inProcess({ home, env: envFor(as) }).run(argv, input)
  const admin = async (...argv: string[]) => JSON.parse((await run([...argv, '--json'], null)).out)
  await admin('agent', 'add', 'Robot', '--id', 'agent_robot', '--owner', 'user_owner')
  keys.owner = (await admin('key', 'issue', 'user_owner')).key
  keys.agent = (await admin('key', 'issue', 'agent_robot')).key
  const [owner, agent] = [keys.owner, keys.agent].map((key) => createClient({ url: server.url, key })) as [Client, Client]
  return {
    home,
    server,
    owner,
    agent,
    envFor,
    run,
    async close() {
      await owner.close()
      await agent.close()
      await server.stop()
      rmSync(home, { recursive: true, force: true })
    },
  }
}
