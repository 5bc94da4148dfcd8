// Which server, and as whom: a flag, the environment, the file that `countersign login` writes, or the administrator's key of a
// server on this machine. A stored key goes only to the server that it was stored for.
import { existsSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { URL_USUAL } from '../config.ts'
import { readText, writeAtomically } from '../data-folder.ts'
import { usage } from './exits.ts'
import type { Globals } from './spec.ts'
import type { Io } from './terminal.ts'

export type Stored = { readonly url: string; readonly key: string }
export type Target = {
  readonly url: string
  readonly key: string | null
  /** Where the key came from, for people. */
  readonly source: '--api-key' | 'COUNTERSIGN_KEY' | 'login' | 'admin.key' | 'none'
}

export const settingsFile = ({ env, home }: Io): string =>
  join(env['XDG_CONFIG_HOME'] || join(home, '.config'), 'countersign', 'config.json')

export async function readStored(io: Io): Promise<Stored | null> {
  const file = settingsFile(io)
  const text = await readText(file)
  if (text === null) return null
  try {
    const { url, key } = JSON.parse(text) as Stored
    if (typeof url === 'string' && typeof key === 'string') return { url: urlOf(url, file), key }
  } catch {
    // Said below, in one sentence for every way to be broken.
  }
  throw usage(`${file} cannot be read`, 'write it anew with `countersign login`')
}

export async function writeStored(io: Io, stored: Stored): Promise<string> {
  const file = settingsFile(io)
  await mkdir(join(file, '..'), { recursive: true, mode: 0o700 })
  await writeAtomically(file, `${JSON.stringify(stored, null, 2)}\n`)
  return file
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
  const stored = await readStored(io)
  const named = globals.url ?? io.env['COUNTERSIGN_URL']
  const url = named ? urlOf(named, globals.url === undefined ? 'COUNTERSIGN_URL' : '--url') : (stored?.url ?? URL_USUAL)
  if (globals.apiKey !== undefined) return { url, key: globals.apiKey, source: '--api-key' }
  if (io.env['COUNTERSIGN_KEY']) return { url, key: io.env['COUNTERSIGN_KEY'], source: 'COUNTERSIGN_KEY' }
  if (stored?.url === url) return { url, key: stored.key, source: 'login' }
  const admin = isLocal(url) ? adminKeyIn(dataFolder(io, globals)) : null
  return admin === null ? { url, key: null, source: 'none' } : { url, key: admin, source: 'admin.key' }
}

/** The folder of the server on this machine. */
export const dataFolder = ({ env, cwd }: Io, { data }: Globals): string => resolve(cwd, data ?? (env['COUNTERSIGN_DATA'] || 'data'))

export function adminKeyIn(folder: string): string | null {
  const file = join(folder, 'admin.key')
  try {
    return existsSync(file) ? readFileSync(file, 'utf8').trim() : null
  } catch {
    // Somebody else's: then it is not ours to use.
    return null
  }
}
