// Development mode: well-known credentials, only for a machine without real data. The settings allow it on the loopback only.
// These credentials register people and agents like any others, so that the rest of the server needs no special case.
import type { Actor } from '#kernel/declare/access.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Store } from '#kernel/log/store.ts'
import { authenticateSubject } from '#protocols/identity/authenticate.ts'
import { Agent, User } from '#protocols/identity/schema.ts'
import { OWNER } from '../folder/first-start.ts'

const agents = [
  { id: 'agent_dev', name: 'Development agent' },
  { id: 'agent_dev-2', name: 'Second development agent' },
]

/** The person or agent of each credential. */
export const developmentCredentials: ReadonlyMap<string, string> = new Map([
  ['dev-agent-key', 'agent_dev'],
  ['dev-agent-key-2', 'agent_dev-2'],
  ['dev-human-token', OWNER],
])

/** Each step checks first: changes since the last start are preserved. */
export async function setUpDevelopment(kernel: Kernel): Promise<void> {
  const [owner, ...found] = await kernel.store.read([keyOf(User, OWNER), ...agents.map(({ id }) => keyOf(Agent, id))])
  if (owner?.value['disabled'] !== false) return
  for (const [i, agent] of agents.entries())
    if (!found[i]) await kernel.call('identity/agent.add', { ...agent, owner: OWNER, description: 'Made in development mode.' }, SYSTEM)
}

/** A credential of another mode must not be traded for one that outlives this one. */
export async function authenticateDeveloper(store: Store, subject: string, nowMs: number): Promise<Actor> {
  const actor = await authenticateSubject(store, subject, nowMs, 'development')
  return { ...actor, narrowed: true }
}

export const developmentBanner = `
  ****************************************************************************
  *  DEVELOPMENT MODE                                                        *
  *  Everybody on this machine, and every page in its browser, may act as    *
  *  the owner or an agent, with credentials that everybody knows:           *
  *  ${[...developmentCredentials.keys()].join(', ').padEnd(72)}*
  *  Never use it where something is at stake.                               *
  ****************************************************************************

`
