// Secrets in files: a variable that may hold a password can be given as a file instead, under its name with _FILE. Programs of the same user read
// a process's environment in /proc.
import { readFileSync } from 'node:fs'
import { ConfigError } from './config-error.ts'

type Env = Readonly<Record<string, string | undefined>>

/** URLs that may hold a password. The secret has a flag for its file. */
const urls = ['COUNTERSIGN_DATABASE', 'COUNTERSIGN_SMTP', 'COUNTERSIGN_AMQP_URL'] as const

/** The environment with each URL that a file holds. */
export function withSecretFiles(env: Env): Env {
  const read: Record<string, string> = {}
  for (const name of urls) {
    const file = env[`${name}_FILE`]
    if (!file) continue
    if (env[name]) throw new ConfigError(`${name} and ${name}_FILE are both given: choose one of them`)
    try {
      read[name] = readFileSync(file, 'utf8').trim()
    } catch (error) {
      throw new ConfigError(`${name}_FILE cannot be read: ${(error as Error).message}`)
    }
    if (read[name] === '') throw new ConfigError(`${name}_FILE names an empty file: ${file}`)
  }
  return { ...env, ...read }
}

/** Variables of this environment that hold a secret in plain text. */
export const exposedIn = (env: Env): string[] => [
  ...(env['COUNTERSIGN_SECRET'] ? ['COUNTERSIGN_SECRET'] : []),
  ...urls.filter((name) => URL.parse(env[name] ?? '')?.password),
]
