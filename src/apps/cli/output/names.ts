// Names of people and agents, for tables. A name is shown only if it is unique among them: an agent that calls itself like a
// person, or like an id, is shown by its id.
import { CliError } from '../exit-codes.ts'
import type { Context } from '../derive/command.ts'

type Named = { readonly id: string; readonly name: string }
const PAGE = 200

const isWorthAName = (id: string): boolean => /^(user|agent)_/.test(id)

export async function namesOf(context: Context, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (!ids.some(isWorthAName)) return new Map()
  const lists = await Promise.all(
    (['identity/user.list', 'identity/agent.list'] as const).map((operation) => listNames(context, operation)),
  )
  // Beyond one page it is unknown whether a name is the only one.
  if (lists.includes(null)) return new Map()
  const all = lists.flatMap((list) => list ?? [])
  const holders = new Map<string, string[]>()
  for (const { id, name } of all) holders.set(name.toLowerCase(), [...(holders.get(name.toLowerCase()) ?? []), id])
  return new Map(
    all
      .filter(({ name }) => holders.get(name.toLowerCase())!.length === 1 && !/^[a-z]+_/i.test(name) && name !== '-')
      .map(({ id, name }) => [id, name]),
  )
}

async function listNames({ remote }: Context, operation: 'identity/user.list' | 'identity/agent.list'): Promise<readonly Named[] | null> {
  try {
    const page = await (await remote()).call(operation, { limit: PAGE })
    return page.next_cursor === null ? page.items : null
  } catch (error) {
    if (error instanceof CliError) return null
    throw error
  }
}
