// A CLI command started by an agent's program, marked by `COUNTERSIGN_AGENT`. It acts as that agent or not at all: with the logins, admin
// keys, data folders and daemons of the account it runs under, the agent could answer its own question.
import { AGENT_VARIABLE, markedAgent } from '#agents/programs/marker.ts'
import { CliError, exits } from '../exit-codes.ts'
import { callsBy } from './calls.ts'
import type { Remote } from './remote.ts'
import type { Spec } from '../derive/command.ts'
import type { Globals } from '../derive/command.ts'
import type { Io } from '../terminal.ts'

const OWN_KEY = (agent: string): string =>
  `give the key of ${agent} itself, with COUNTERSIGN_KEY or --api-key; a person answers and administers outside of the agent's program`

/** Refuses a command that uses the rights of this machine's user. */
export function refuseForAgent({ env }: Io, { path, isLocal }: Pick<Spec, 'path' | 'isLocal'>, { data }: Partial<Globals>): void {
  const agent = markedAgent(env)
  if (agent === null || (!isLocal && data === undefined)) return
  const what = isLocal ? `\`countersign ${path.join(' ')}\`` : '--data'
  const message = `this program runs for ${agent} (${AGENT_VARIABLE}); ${what} uses the rights of this machine's user and is refused`
  throw new CliError(exits.refused, 'UNAUTHORIZED', message, OWN_KEY(agent))
}

/** The agent has no key of its own, and there is no fallback. */
export const keylessAgent = (agent: string): CliError =>
  new CliError(
    exits.unauthenticated,
    'UNAUTHENTICATED',
    `this program runs for ${agent} (${AGENT_VARIABLE}); stored logins and admin.key are not used here`,
    OWN_KEY(agent),
  )

/** A server that is called only as this agent: before the first call, the server must confirm that the key belongs to the agent. */
export function onlyAs(agent: string, remote: Remote): Remote {
  let checked: Promise<void> | undefined
  const check = (): Promise<void> => (checked ??= isThat(agent, remote))
  return {
    ...remote,
    ...callsBy(async (...given) => {
      await check()
      return remote.callAny(...given)
    }),
    async *follow(...given) {
      await check()
      yield* remote.follow(...given)
    },
    upload: async (...given) => {
      await check()
      return remote.upload(...given)
    },
    download: async (...given) => {
      await check()
      return remote.download(...given)
    },
    asking: async (work) => {
      await check()
      return remote.asking(work)
    },
  }
}

async function isThat(agent: string, remote: Remote): Promise<void> {
  const { id } = await remote.call('identity/me.get', {})
  if (id !== agent) throw foreignKey(id, agent)
}

/** The key is another actor's than the agent that the program runs for. */
export const foreignKey = (id: string, agent: string): CliError => {
  const message = `the key is of ${id}, and this program runs for ${agent} (${AGENT_VARIABLE}); nothing was done`
  return new CliError(exits.refused, 'UNAUTHORIZED', message, OWN_KEY(agent))
}
