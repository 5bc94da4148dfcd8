// Settings of a database that several servers share: its address, and the secret that wraps the keys stored in it.
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { ConfigError, type Named } from './config-error.ts'

export type DatabaseSettings = {
  readonly url: string
  readonly secret: SecretSettings
  /** The folder that all servers share for bytes; null: bytes are stored in the database. */
  readonly blobs: string | null
  /** Requires a database that confirms a commit only once a standby has it. */
  readonly isReplicatedOnly: boolean
}
/** The secret itself or the file that holds it; `name` is the option it was given with. */
export type SecretSettings = { readonly name: string; readonly text: string } | { readonly name: string; readonly file: string }

type Flag = 'database' | 'secret' | 'secret-file' | 'blobs'

export function databaseOf(of: (flag: Flag) => Named, isReplicatedOnly: boolean): DatabaseSettings | null {
  const [database, secret, file, blobs] = [of('database'), of('secret'), of('secret-file'), of('blobs')]
  if (database.value === '') {
    const stray = [secret, file, blobs].find(({ value }) => value !== '')
    if (stray) throw new ConfigError(`${stray.name} needs --database: without one everything is in the data folder`)
    if (isReplicatedOnly) throw new ConfigError('--require-replicated needs --database: a data folder is on one disk')
    return null
  }
  return {
    url: urlOf(database),
    secret: secretOf(secret, file, database.name),
    blobs: blobs.value === '' ? null : resolve(blobs.value),
    isReplicatedOnly,
  }
}

function urlOf({ value, name }: Named): string {
  const url = URL.canParse(value) ? new URL(value) : null
  // The message does not repeat the value: it can contain a password.
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol))
    throw new ConfigError(`${name} must be a URL such as postgres://user@host:5432/database`)
  return value
}

function secretOf(secret: Named, file: Named, database: string): SecretSettings {
  if (secret.value !== '' && file.value !== '') throw new ConfigError(`${secret.name} and ${file.name} are both given: choose one of them`)
  if (file.value !== '') return { name: file.name, file: resolve(file.value) }
  if (secret.value !== '') return { name: secret.name, text: secret.value }
  throw new ConfigError(`${database} needs COUNTERSIGN_SECRET or COUNTERSIGN_SECRET_FILE: ${SECRET_WORDS}`)
}

export const SECRET_WORDS =
  "32 bytes in base64url, the same on every server, such as `openssl rand -base64 32 | tr '+/' '-_' | tr -d '='` makes"

/** A host name may not be one by our rules; the random part tells two processes of one host apart. */
export const nodeName = (): string =>
  `${
    hostname()
      .replaceAll(/[^A-Za-z0-9._-]/g, '-')
      .replace(/^[^A-Za-z0-9]+/, '')
      .slice(0, 50) || 'node'
  }-${randomBytes(4).toString('hex')}`
