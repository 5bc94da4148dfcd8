// Values that only servers with the secret can read, one row each: AES-256-GCM under a key that is derived from the secret, bound to the name
// of the value. Changed only by servers that saw the version before.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { Query } from './reads.ts'

export type WrappedValue = { readonly version: number; readonly text: string }

export type WrappedValues = {
  /** Throws `OtherSecret` if the value was wrapped under another secret. */
  read(name: string): Promise<WrappedValue | null>
  /** Returns false if another server was faster. `version` is the version to replace; 0 for a new value. */
  write(name: string, text: string, version: number): Promise<boolean>
}

/** There is a value, but this secret does not decrypt it. */
export class OtherSecret extends Error {}

const IV_BYTES = 12
const TAG_BYTES = 16

export function wrappedValues(query: Query, secret: Uint8Array): WrappedValues {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'countersign/1 wrapped values', 32))

  function wrap(name: string, text: string): string {
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv('aes-256-gcm', key, iv)
    cipher.setAAD(Buffer.from(name))
    return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64url')
  }

  function unwrap(name: string, value: string): string {
    const bytes = Buffer.from(value, 'base64url')
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
      decipher.setAAD(Buffer.from(name))
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
      return decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
    } catch {
      throw new OtherSecret(`the value ${name} in the database was wrapped under another secret, or changed`)
    }
  }

  return {
    async read(name) {
      const [row] = await query<{ version: number; value: string }>('wrapped', 'SELECT version, value FROM wrapped WHERE name = $1', [name])
      return row ? { version: row.version, text: unwrap(name, row.value) } : null
    },
    async write(name, text, version) {
      const value = wrap(name, text)
      const rows =
        version === 0
          ? await query('wrap', 'INSERT INTO wrapped (name, version, value) VALUES ($1, 1, $2) ON CONFLICT DO NOTHING RETURNING name', [
              name,
              value,
            ])
          : await query('rewrap', 'UPDATE wrapped SET version = version + 1, value = $2 WHERE name = $1 AND version = $3 RETURNING name', [
              name,
              value,
              version,
            ])
      return rows.length > 0
    },
  }
}
