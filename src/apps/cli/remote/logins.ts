// The logins that `countersign login` keeps, one for each server: a server is known by its address and its installation, since another
// folder that is served at the same address is another server, and no key of the one is any good there.
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readText, writeAtomically } from '../../server/folder/small-files.ts'
import { usage } from '../exit-codes.ts'
import { installationAt } from './http.ts'
import type { Io } from '../terminal.ts'

export type Login = {
  readonly url: string
  /** null: stored by an older version, or the server did not say. */
  readonly installation: string | null
  readonly id: string | null
  readonly key: string
  /** Whether `login --as` has issued the key, only for this login. */
  readonly issued: boolean
}
export type Logins = {
  /** The default server. */
  readonly current: string | null
  readonly all: readonly Login[]
}
export const NO_LOGINS: Logins = { current: null, all: [] }

export const loginsFile = ({ env, home }: Io): string => join(env['XDG_CONFIG_HOME'] || join(home, '.config'), 'countersign', 'config.json')

export async function readLogins(io: Io): Promise<Logins> {
  const file = loginsFile(io)
  const text = await readText(file)
  if (text === null) return NO_LOGINS
  try {
    const read = JSON.parse(text) as { url?: unknown; key?: unknown; current?: unknown; logins?: unknown }
    const rows: unknown = read.logins ?? [{ url: read.url, key: read.key }]
    const all = (rows as Partial<Record<keyof Login, unknown>>[]).map((row) => loginFrom(row))
    const current = read.current ?? all[0]?.url ?? null
    if (current === null || typeof current === 'string') return { current, all }
  } catch {
    // Said below, in one sentence for every way to be broken.
  }
  throw usage(`${file} cannot be read`, 'delete it, then `countersign login` writes a new one')
}

function loginFrom({ url, installation = null, id = null, key, issued = false }: Partial<Record<keyof Login, unknown>>): Login {
  const isText = (value: unknown): value is string => typeof value === 'string'
  const isTextOrNull = (value: unknown): value is string | null => value === null || isText(value)
  if (!isText(url) || new URL(url).origin !== url || !isText(key) || !isTextOrNull(installation) || !isTextOrNull(id))
    throw new TypeError('no login')
  return { url, installation, id, key, issued: issued === true }
}

async function writeLogins(io: Io, { current, all }: Logins): Promise<string> {
  const file = loginsFile(io)
  if (all.length === 0) await rm(file, { force: true })
  else {
    await mkdir(join(file, '..'), { recursive: true, mode: 0o700 })
    await writeAtomically(file, `${JSON.stringify({ current, logins: all }, null, 2)}\n`)
  }
  return file
}

const isSame = (a: Login, b: Login): boolean =>
  a.url === b.url && (a.installation === b.installation || a.installation === null || b.installation === null)

/** Stores the login and makes its server the current one. Returns the replaced login, if any. */
export async function storeLogin(io: Io, login: Login): Promise<{ file: string; replaced: Login | null }> {
  // Overwrite an unreadable file: its error message tells the user to log in again.
  const { all } = await readLogins(io).catch(() => NO_LOGINS)
  const replaced = all.find((stored) => isSame(stored, login)) ?? null
  const file = await writeLogins(io, { current: login.url, all: [...all.filter((stored) => !isSame(stored, login)), login] })
  return { file, replaced }
}

/** Returns the forgotten logins. `url` null: forgets all of them. */
export async function forgetLogins(io: Io, url: string | null): Promise<readonly Login[]> {
  if (url === null) {
    const { all } = await readLogins(io).catch(() => NO_LOGINS)
    await rm(loginsFile(io), { force: true })
    return all
  }
  const { current, all } = await readLogins(io)
  const others = all.filter((login) => login.url !== url)
  if (others.length < all.length) await writeLogins(io, { current: current === url ? (others.at(-1)?.url ?? null) : current, all: others })
  return all.filter((login) => login.url === url)
}

/** The login for the installation that now answers at an address. `stale`: all stored logins there are for other installations. */
export async function loginFor({ all }: Logins, url: string): Promise<Login | 'stale' | null> {
  const there = all.filter((login) => login.url === url)
  const only = there.length === 1 ? there[0]! : null
  if (there.length === 0 || only?.installation === null) return only
  const installation = await installationAt(url)
  // The server is unreachable or does not name its installation, so there is nothing to compare.
  if (installation === null && only !== null) return only
  return there.find((login) => login.installation === installation) ?? there.find((login) => login.installation === null) ?? 'stale'
}
