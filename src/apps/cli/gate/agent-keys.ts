// The agent keys that `gate install` and `hook install` keep beside the login store, one file of mode 0600 for each agent of a server. Each
// file names the folders that use it, so a command in a project finds its key without a flag. `countersign hook` reads them on every call of
// a tool, therefore this module loads nothing but Node's own modules.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'

export type AgentKey = {
  /** The origin of the server. */
  readonly url: string
  readonly agent: string
  readonly key_id: string
  readonly key: string
  readonly places: readonly Place[]
}
/** An installation that uses the key, such as `hook claude-code` in a project's folder. */
export type Place = { readonly folder: string; readonly use: string }

/** The parts of `Io` that name the folder of the keys. */
export type Home = { readonly env: Readonly<Record<string, string | undefined>>; readonly home: string }

/** The keys of managed settings: their files belong to root, so an agent can neither change its server nor its key. */
export const managedHome: Home = { env: { XDG_CONFIG_HOME: '/etc' }, home: '/' }

export const keysFolder = ({ env, home }: Home): string => join(env['XDG_CONFIG_HOME'] || join(home, '.config'), 'countersign', 'agents')

/** Two servers can each have an agent of the same id. */
export const agentKeyFile = (home: Home, { url, agent }: Pick<AgentKey, 'url' | 'agent'>): string =>
  join(keysFolder(home), `${agent}@${new URL(url).host.replaceAll(/[^\w.-]/g, '_')}.json`)

export function readAgentKeys(home: Home): AgentKey[] {
  const folder = keysFolder(home)
  let names: string[]
  try {
    names = readdirSync(folder).filter((name) => name.endsWith('.json'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
  return names.toSorted().map((name) => agentKeyIn(join(folder, name)))
}

export function agentKeyIn(file: string): AgentKey {
  const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
  let read: Partial<Record<keyof AgentKey, unknown>> | null
  try {
    read = JSON.parse(readFileSync(file, 'utf8')) as typeof read
  } catch {
    read = null
  }
  const { url, agent, key_id, key, places } = read ?? {}
  if (isText(url) && URL.canParse(url) && isText(agent) && isText(key_id) && isText(key) && Array.isArray(places))
    return { url, agent, key_id, key, places: (places as Place[]).filter((place) => isText(place?.folder) && isText(place.use)) }
  throw new Error(`${file} cannot be read: delete it, then install again`)
}

/**
 * The key for a command in a folder: of the named agent, else of the agent installed in the folder or the nearest one above it, else the
 * only key. null: none, or several that no folder decides between.
 */
export function agentKeyFor(home: Home, folder: string, agent?: string, url?: string): AgentKey | null {
  const all = readAgentKeys(home).filter((key) => (agent === undefined || key.agent === agent) && (url === undefined || key.url === url))
  for (let at = folder; ; at = dirname(at)) {
    const here = all.filter(({ places }) => places.some((place) => place.folder === at))
    if (here.length > 0) return here.length === 1 ? here[0]! : null
    if (dirname(at) === at) return all.length === 1 ? all[0]! : null
  }
}

/** Stores the key readable by its owner alone, the whole file or the one before. */
export function writeAgentKey(home: Home, key: AgentKey): string {
  const file = agentKeyFile(home, key)
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const temporary = `${file}.new`
  rmSync(temporary, { force: true })
  writeFileSync(temporary, `${JSON.stringify(key, null, 2)}\n`, { mode: 0o600, flag: 'wx', flush: true })
  renameSync(temporary, file)
  return file
}

const isSamePlace = (a: Place, b: Place): boolean => a.folder === b.folder && a.use === b.use

export const withPlace = (key: AgentKey, place: Place): AgentKey =>
  key.places.some((known) => isSamePlace(known, place)) ? key : { ...key, places: [...key.places, place] }

/** Removes a place. Returns the keys that no place uses any longer: their files are gone, and the caller revokes them. */
export function removePlace(home: Home, place: Place): AgentKey[] {
  const unused: AgentKey[] = []
  for (const key of readAgentKeys(home)) {
    const places = key.places.filter((known) => !isSamePlace(known, place))
    if (places.length === key.places.length) continue
    if (places.length > 0) writeAgentKey(home, { ...key, places })
    else {
      rmSync(agentKeyFile(home, key), { force: true })
      unused.push(key)
    }
  }
  return unused
}
