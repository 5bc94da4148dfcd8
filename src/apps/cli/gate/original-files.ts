// Backups of an agent's files from before an installation changed them, beside the agents' keys: `--undo` restores them byte for byte.
import { hash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { keysFolder, type Home } from './agent-keys.ts'

/** `before` null: there was no file. */
type Original = { readonly path: string; readonly before: string | null; readonly after: string | null }

const fileOf = (home: Home, path: string): string => join(dirname(keysFolder(home)), 'originals', `${hash('sha256', path, 'hex')}.json`)

function read(home: Home, path: string): Original | null {
  try {
    return JSON.parse(readFileSync(fileOf(home, path), 'utf8')) as Original
  } catch {
    return null
  }
}

/** A second installation keeps the text before the first, unless the user changed the file in between. */
export function keepOriginal(home: Home, path: string, before: string | null, after: string | null): void {
  const kept = read(home, path)
  const original: Original = { path, before: kept?.after === before ? kept.before : before, after }
  mkdirSync(dirname(fileOf(home, path)), { recursive: true, mode: 0o700 })
  writeFileSync(fileOf(home, path), JSON.stringify(original), { mode: 0o600, flush: true })
}

/** The text before the installation; undefined: unknown, or the file has changed since. */
export function originalOf(home: Home, path: string, current: string | null): string | null | undefined {
  const kept = read(home, path)
  return kept === null || kept.after !== current ? undefined : kept.before
}

export const forgetOriginal = (home: Home, path: string): void => rmSync(fileOf(home, path), { force: true })
