// The key of an agent for an installed gate or hook: issued with the caller's login when there is none yet, revoked when nothing uses it.
import { hostname } from 'node:os'
import { limits } from '#kernel/limits.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import { openHttpRemote } from '../remote/http.ts'
import { targetOf } from '../remote/credentials.ts'
import type { Context } from '../derive/command.ts'
import { agentKeyFile, readAgentKeys, removePlace, withPlace, writeAgentKey, type AgentKey, type Home, type Place } from './agent-keys.ts'

/** Returns the stored key, and issues one first if none is stored or the server refuses the stored one. */
export async function keepAgentKey(
  context: Context,
  agent: string,
  place: Place,
  home: Home = context.io,
): Promise<{ key: AgentKey; file: string }> {
  const { io, globals } = context
  const { url } = await targetOf(io, globals)
  const stored = readAgentKeys(home).find((key) => key.agent === agent && key.url === url)
  const isGood = stored !== undefined && (await subjectOf(stored)) === agent
  const key = withPlace(isGood ? stored : { ...(await issueKey(context, agent)), url, agent, places: stored?.places ?? [] }, place)
  return { key, file: writeAgentKey(home, key) }
}

async function subjectOf({ url, key }: AgentKey): Promise<string | null> {
  const server = openHttpRemote(url, key)
  try {
    return (await server.call('identity/me.get', {})).id
  } catch (error) {
    if (error instanceof CliError && error.exit === exits.unauthenticated) return null
    throw error
  } finally {
    await server.close()
  }
}

async function issueKey(context: Context, agent: string): Promise<Pick<AgentKey, 'key' | 'key_id'>> {
  const remote = await context.remote()
  if (remote.isOffline) throw usage('--data reads a folder; installing needs a running server', 'leave --data out')
  const label = `gate on ${hostname()}`.slice(0, limits.labelCharsMax)
  const { key } = await remote.call('identity/key.issue', { subject: agent, label })
  return { key: key!, key_id: `key_${key!.split('_')[1]}` }
}

/** Forgets the place. A key without places is deleted and revoked; the message says so if the server could not be asked. */
export async function dropAgentKey(context: Context, place: Place, home: Home = context.io): Promise<readonly string[]> {
  const notes: string[] = []
  for (const unused of removePlace(home, place)) {
    const remote = await context.remote()
    try {
      await remote.call('identity/key.revoke', { key_id: unused.key_id })
      notes.push(`deleted ${agentKeyFile(home, unused)} and revoked ${unused.key_id}`)
    } catch (error) {
      if (!(error instanceof CliError)) throw error
      notes.push(`deleted ${agentKeyFile(home, unused)}; ${unused.key_id} is not revoked: ${error.message}`)
    }
  }
  return notes
}
