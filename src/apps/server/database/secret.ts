// The secret that wraps the keys in a shared database, from the environment or from a file.
import { readFileSync, statSync } from 'node:fs'
import { SECRET_WORDS, type SecretSettings } from '../settings/database-settings.ts'
import { StartError } from '../start-error.ts'

const SECRET_BYTES = 32
const FILE_BYTES_MAX = 4_096

export function secretFrom(settings: SecretSettings): Uint8Array {
  const text = 'text' in settings ? settings.text : textIn(settings.file, settings.name)
  const bytes = Buffer.from(text, 'base64url')
  if (!/^[\w-]{43}=?$/.test(text) || bytes.length !== SECRET_BYTES)
    throw new StartError(`${settings.name} does not hold a secret: it must be ${SECRET_WORDS}`)
  return bytes
}

function textIn(file: string, name: string): string {
  try {
    if (statSync(file).size > FILE_BYTES_MAX) throw new Error('it is too large')
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    throw new StartError(`${name} is ${file}, which cannot be read: ${(error as Error).message}`)
  }
}
