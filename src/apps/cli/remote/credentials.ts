// The server and the key of a command: a flag, the environment, a stored login, or the admin key of a server on this machine. A stored key
// goes only to the server that it was stored for.
import { existsSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { markedAgent } from '#agents/programs/marker.ts'
import { URL_USUAL } from '../../server/settings/config.ts'
import { usage } from '../exit-codes.ts'
import { loginFor, NO_LOGINS, readLogins } from './logins.ts'
import type { Globals } from '../derive/command.ts'
import type { Io } from '../terminal.ts'

export type Target = {
  readonly url: string
  readonly key: string | null
  /** The source of the key, for messages. */
  readonly source: '--api-key' | 'COUNTERSIGN_KEY' | 'login' | 'stale login' | 'admin.key' | 'none'
  /** The agent whose program runs this command: only the key of that agent is used. */
  readonly agent: string | null
}

const isLoopback = (host: string): boolean => host === 'localhost' || host === '[::1]' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host)
export const isLocal = (url: string): boolean => isLoopback(new URL(url).hostname)

/** The origin of a server. Plain HTTP beyond this machine would carry the key in the open. */
export function urlOf(text: string, name: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw usage(`${name} must be a URL such as ${URL_USUAL}, not ${JSON.stringify(text)}`)
  if (url.username !== '' || url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw usage(`${name} is the address of a server, without a path: ${url.origin}`)
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw usage(`${name} is ${url.origin}, where the key would travel in the open`, 'use https')
  return url.origin
}

export async function targetOf(io: Io, globals: Globals): Promise<Target> {
  const agent = markedAgent(io.env)
  const logins = agent === null ? await readLogins(io) : NO_LOGINS
  const named = globals.url ?? io.env['COUNTERSIGN_URL']
  const url = named ? urlOf(named, globals.url === undefined ? 'COUNTERSIGN_URL' : '--url') : (logins.current ?? URL_USUAL)
  if (globals.apiKey !== undefined) return { url, key: globals.apiKey, source: '--api-key', agent }
  if (io.env['COUNTERSIGN_KEY']) return { url, key: io.env['COUNTERSIGN_KEY'], source: 'COUNTERSIGN_KEY', agent }
  if (agent !== null) return { url, key: null, source: 'none', agent }
  const login = await loginFor(logins, url)
  if (login === 'stale') return { url, key: null, source: 'stale login', agent }
  if (login !== null) return { url, key: login.key, source: 'login', agent }
  const admin = isLocal(url) ? adminKeyIn(dataFolder(io, globals)) : null
  return admin === null ? { url, key: null, source: 'none', agent } : { url, key: admin, source: 'admin.key', agent }
}

/** The folder of the server on this machine. */
export const dataFolder = ({ env, cwd }: Io, { data }: Globals): string => resolve(cwd, data ?? (env['COUNTERSIGN_DATA'] || 'data'))
export const databaseIn = (folder: string): string => join(folder, 'countersign.db')

/** The path relative to the current folder, as people would type it. */
export function shownFolder({ cwd }: Io, folder: string): string {
  const short = relative(cwd, folder)
  return short !== '' && !short.startsWith('..') && !short.startsWith('/') ? `./${short}` : folder
}

export function adminKeyIn(folder: string): string | null {
  const file = join(folder, 'admin.key')
  try {
    return existsSync(file) ? readFileSync(file, 'utf8').trim() : null
  } catch {
    // Unreadable: it belongs to another user and must not be used.
    return null
  }
}
