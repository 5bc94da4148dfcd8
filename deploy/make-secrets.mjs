// The maker of the secrets of compose.yaml: it creates the missing ones in a folder and leaves existing ones unchanged.
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('usage: node make-secrets.mjs <folder>')
mkdirSync(folder, { recursive: true })

const SERVER_USER = 10001

function keep(name, make, mode = 0o400, owner = SERVER_USER) {
  const path = join(folder, name)
  if (!existsSync(path)) writeFileSync(path, make(), { mode: 0o600, flag: 'wx' })
  // Only root can set owners. Otherwise the user who runs this script owns the files.
  if (process.getuid?.() === 0) chownSync(path, owner, owner)
  chmodSync(path, mode)
  return readFileSync(path, 'utf8')
}

const password = () => randomBytes(24).toString('hex')
keep('server', () => randomBytes(32).toString('base64url'))
// The images of PostgreSQL and RabbitMQ read these as other users.
const database = keep('database', password, 0o444)
const broker = keep('broker', password)
keep('broker.conf', () => `default_user = countersign\ndefault_pass = ${broker}\ndefault_vhost = hcp\nloopback_users = none\n`, 0o444)
keep('database-url', () => `postgres://countersign:${database}@database:5432/countersign`)
keep('broker-url', () => `amqp://countersign:${broker}@broker:5672/hcp`)
