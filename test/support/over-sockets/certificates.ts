// Certificates only for tests, self-signed for localhost and 127.0.0.1. Their private keys are public: everything is checked in, so that
// the tests need no openssl.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const folder = join(import.meta.dirname, 'tls')
const pair = (name: string) => {
  const files = { cert: join(folder, `${name}.crt`), key: join(folder, `${name}.key`) }
  return { files, cert: readFileSync(files.cert, 'utf8'), key: readFileSync(files.key, 'utf8') }
}
export const first = pair('first')
export const second = pair('second')
