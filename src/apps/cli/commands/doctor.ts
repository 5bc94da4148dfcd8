// `countersign doctor`: looks at everything that an installation needs and says, for each problem, what to do.
import { existsSync } from 'node:fs'
import { statfs, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StartError } from '../../server/start-error.ts'
import { CliError, exits, type Exit } from '../exit-codes.ts'
import { flag } from '../derive/flags.ts'
import { isUntrusted, openHttpRemote, TRUST_HINT } from '../remote/http.ts'
import { databaseIn, dataFolder, isLocal, targetOf, type Target } from '../remote/credentials.ts'
import { writeJson } from '../output/render.ts'
import { spec, type Context } from '../derive/command.ts'
import { bytesIn, startProgress } from '../terminal.ts'
import { escapeControl, padToWidth } from '../output/safe-text.ts'

export type Finding = {
  readonly check: string
  readonly status: 'ok' | 'warn' | 'fail'
  readonly words: string
  readonly todo: string | null
}

const ok = (check: string, message: string): Finding => ({ check, status: 'ok', words: message, todo: null })
const warn = (check: string, message: string, todo: string): Finding => ({ check, status: 'warn', words: message, todo })
const fail = (check: string, message: string, todo: string): Finding => ({ check, status: 'fail', words: message, todo })

const NODE_MIN = 24
const FREE_BYTES_MIN = 100e6
const FREE_BYTES_FEW = 1e9
const SKEW_MS_MAX = 5_000
const HEALTH_MS = 3_000
/** No clock that is right shows a time before this. */
const EARLIEST_MS = Date.UTC(2026, 0, 1)

export const doctorSpec = spec('doctor', 'Check this installation, and say how to fix each fault.', {
  flags: [flag('quick', null, 'leave out the checks that read the whole record')],
  examples: ['countersign doctor', 'countersign doctor --data /var/lib/countersign', 'countersign doctor --json | jq .ok'],
  async run(context, given): Promise<Exit> {
    const { io, globals } = context
    const folder = dataFolder(io, globals)
    const progress = startProgress(io.err, 'checking the installation')
    const findings: Finding[] = [nodeVersion(process.versions.node)]
    try {
      // `--data` says where to look here; the usual flags say which server to ask.
      const target = await targetOf(io, globals)
      const answered = await healthOf(target.url)
      const shared = sharedBy(answered, target, io)
      const isThere = await checkFolder(folder, findings)
      if (isThere) {
        await checkAdminKey(folder, findings, shared !== null)
        await checkKeys(folder, findings)
        if (shared === null || existsSync(databaseIn(folder)))
          await checkDatabase(folder, given.get('quick') === true, findings, progress.say)
        else findings.push(ok('database', shared))
      }
      findings.push(await diskSpace(isThere ? folder : io.cwd))
      findings.push(...(await checkServer(target, answered)))
    } finally {
      progress.stop()
    }
    return printFindings(context, findings)
  },
})

export function nodeVersion(version: string): Finding {
  const isNew = Number(version.split('.')[0]) >= NODE_MIN
  return isNew ? ok('node', `Node.js ${version}`) : fail('node', `Node.js ${version} is too old`, `install Node.js ${NODE_MIN} or newer`)
}

const modeOf = (mode: number): string => (mode & 0o777).toString(8).padStart(3, '0')

async function checkFolder(folder: string, findings: Finding[]): Promise<boolean> {
  const found = await stat(folder).catch(() => null)
  if (!found) {
    findings.push(warn('data', `there is no data folder at ${folder}`, 'name it with --data; `countersign up` makes one'))
    return false
  }
  if (!found.isDirectory()) {
    findings.push(fail('data', `${folder} is not a folder`, 'move it away, or name another with --data'))
    return false
  }
  const isOpen = (found.mode & 0o077) !== 0
  findings.push(
    isOpen
      ? fail('data', `others may look into ${folder} (mode ${modeOf(found.mode)})`, `chmod 700 ${folder}`)
      : ok('data', `${folder}, only you can read it`),
  )
  return true
}

/** The name of a database that several servers share; null: the server of this folder has its own. */
function sharedBy(answered: Answered, { url }: Target, { env }: Context['io']): string | null {
  const health = typeof answered === 'string' || !isLocal(url) ? null : answered.health
  if (health?.store === 'postgres')
    return `a PostgreSQL that servers share (${health.durability}); \`countersign audit verify --all\` checks its record`
  return env['COUNTERSIGN_DATABASE'] || env['COUNTERSIGN_DATABASE_FILE'] ? 'that of COUNTERSIGN_DATABASE, which servers share' : null
}

async function checkAdminKey(folder: string, findings: Finding[], isShared: boolean): Promise<void> {
  const file = join(folder, 'admin.key')
  const found = await stat(file).catch(() => null)
  if (!found)
    findings.push(
      warn(
        'admin.key',
        `there is no ${file}`,
        isShared
          ? '`countersign admin-key` writes one; so did the first server, in its folder'
          : 'start the server once: it writes a new one',
      ),
    )
  else if ((found.mode & 0o077) !== 0)
    findings.push(
      fail(
        'admin.key',
        `others may read ${file} (mode ${modeOf(found.mode)})`,
        isShared
          ? '`countersign admin-key --revoke` makes a new one and revokes this one'
          : 'delete it and start the server: it makes a new key and revokes this one',
      ),
    )
  else findings.push(ok('admin.key', 'only you can read it'))
}

async function checkKeys(folder: string, findings: Finding[]): Promise<void> {
  // Without a database the next start makes them.
  if (!existsSync(databaseIn(folder))) return
  try {
    const { inspectKeys, keysIn } = await import('../../server/folder/key-files.ts')
    const open = await inspectKeys(keysIn(folder))
    findings.push(
      open.length === 0
        ? ok('keys', 'receipts can be signed and answers sealed')
        : fail('keys', `others may look into ${open.join(', ')}`, 'start the server: it closes them; then `countersign receipt rotate`'),
    )
  } catch (error) {
    if (!(error instanceof StartError)) throw error
    findings.push(fail('keys', error.message, 'the server does not start without them'))
  }
}

async function checkDatabase(folder: string, isQuick: boolean, findings: Finding[], say: (message: string) => void): Promise<void> {
  const path = databaseIn(folder)
  const size = (await stat(path).catch(() => null))?.size
  if (size === undefined) return void findings.push(warn('database', `there is no database in ${folder}`, '`countersign up` makes one'))
  say(`checking the database (${bytesIn(size)})`)
  try {
    findings.push(integrityOf(path, isQuick))
    if (!isQuick) findings.push(...(await recordOf(folder, say)))
    findings.push(await clockAgainst(folder))
  } catch (error) {
    const message = error instanceof CliError ? error.message : `${path} cannot be read: ${(error as Error).message}`
    findings.push(fail('database', message, 'restore a backup of the folder'))
  }
}

function integrityOf(path: string, isQuick: boolean): Finding {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 })
  try {
    const rows = db.prepare(`PRAGMA ${isQuick ? 'quick_check' : 'integrity_check'}(1)`).all() as Record<string, string>[]
    const verdict = Object.values(rows[0] ?? {})[0] ?? 'nothing'
    return verdict === 'ok'
      ? ok('database', 'integrity check passed')
      : fail('database', `SQLite says: ${verdict}`, 'stop the server and restore a backup of the folder')
  } finally {
    db.close()
  }
}

/** As many as are named one by one. */
const NAMED_MAX = 20

/** Everything that is stored, against the record. */
async function recordOf(folder: string, say: (message: string) => void): Promise<Finding[]> {
  const { examineFolder } = await import('../remote/examine-folder.ts')
  const { facts, found } = await examineFolder(folder, say)
  if (found.length === 0) return [ok('record', `${facts} events, hash chain intact, stored data as recorded`)]
  const todo = 'the stored data was changed: restore a backup and find out who changed it'
  const named = found.slice(0, NAMED_MAX).map(({ what, how }) => fail('record', `${what}: ${how}`, todo))
  return found.length > NAMED_MAX ? [...named, fail('record', `${found.length - NAMED_MAX} more differences`, todo)] : named
}

async function clockAgainst(folder: string): Promise<Finding> {
  const { openStore } = await import('../remote/folder.ts')
  const store = openStore(folder)
  try {
    const [last] = await store.facts({ by: 'position' }, { after: null, limit: 1, reverse: true })
    const lastMs = last ? Date.parse((JSON.parse(last.line) as { at: string }).at) : 0
    return clock(Date.now(), lastMs)
  } finally {
    await store.close()
  }
}

export function clock(nowMs: number, lastMs: number): Finding {
  const time = Number.isNaN(new Date(nowMs).getTime()) ? String(nowMs) : new Date(nowMs).toISOString()
  if (nowMs < EARLIEST_MS) return fail('clock', `this machine says it is ${time}`, 'set the clock (timedatectl set-ntp true)')
  if (nowMs + SKEW_MS_MAX < lastMs)
    return fail('clock', `this machine says it is ${time}, but the record ends later`, 'set the clock (timedatectl set-ntp true)')
  return ok('clock', time)
}

async function diskSpace(folder: string): Promise<Finding> {
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (free < FREE_BYTES_MIN) return fail('disk', `only ${bytesIn(free)} are free`, 'free some space: a full disk stops every change')
  return free < FREE_BYTES_FEW ? warn('disk', `${bytesIn(free)} are free`, 'free some space soon') : ok('disk', `${bytesIn(free)} are free`)
}

type Health = {
  readonly status: string
  readonly version: string
  readonly record: string
  readonly reason?: string
  readonly mode?: string
  readonly store?: string
  readonly durability?: string
}
/** A word: why there is no answer. */
type Answered = { readonly health: Health | null; readonly isStarting: boolean; readonly skewMs: number } | string

async function checkServer(target: Target, answered: Answered): Promise<Finding[]> {
  if (typeof answered === 'string')
    return [isUntrusted(answered) ? fail('server', `${target.url}: ${answered}`, TRUST_HINT) : await absent(target.url)]
  const { health, skewMs } = answered
  if (answered.isStarting) return [warn('server', `${target.url} is starting: it opens or migrates its data`, 'run this again in a moment')]
  if (!health) return [fail('server', `${target.url} answers, but it is not a Countersign server`, 'name another address with --url')]
  const findings: Finding[] = []
  const message = `${target.url} runs version ${health.version}`
  if (health.record === 'changed')
    findings.push(fail('server', `${message}, and says that its record was changed`, 'see `countersign audit verify --all`'))
  else if (health.status !== 'ok')
    findings.push(
      fail('server', `${message}, but ${health.reason ?? 'it is not well'}`, "look at the server's log and at the free space of its disk"),
    )
  else findings.push(ok('server', health.record === 'verifying' ? `${message}, and is still verifying its record` : message))
  if (health.mode === 'development')
    findings.push(warn('mode', 'development mode: anyone on its machine can act as the owner', 'start it without --dev where it matters'))
  if (health.mode === 'read-only')
    findings.push(warn('mode', `it serves reads alone: ${health.reason ?? ''}`, '`countersign adopt` makes a copy the installation'))
  if (Math.abs(skewMs) > SKEW_MS_MAX)
    findings.push(warn('skew', `the clock of the server differs by ${Math.round(skewMs / 1000)} s`, 'set the clocks of both machines'))
  return [...findings, await pageAt(target.url), await credential(target)]
}

/** The page in the browser, as people would open it. */
async function pageAt(url: string): Promise<Finding> {
  const shell = await fetch(`${url}/inbox`, { signal: AbortSignal.timeout(HEALTH_MS), redirect: 'error' }).catch(() => null)
  const isServed = shell?.ok === true && shell.headers.get('content-type')?.startsWith('text/html') === true
  await shell?.body?.cancel()
  return isServed
    ? ok('page', `${url}/inbox`)
    : warn(
        'page',
        'no page in the browser: it was not built, or is switched off (--web off)',
        'start the server with `npm start`, which builds it',
      )
}

async function healthOf(url: string): Promise<Answered> {
  try {
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.timeout(HEALTH_MS), redirect: 'error' })
    const date = Date.parse(answer.headers.get('date') ?? '')
    const health = (await answer.json().catch(() => null)) as Health | null
    const isOurs = typeof health?.status === 'string' && typeof health.version === 'string'
    const isStarting = !isOurs && answer.status === 503 && health?.reason === 'starting'
    return { health: isOurs ? health : null, isStarting, skewMs: Number.isNaN(date) ? 0 : date - Date.now() }
  } catch (error) {
    return (error as { cause?: { code?: string } }).cause?.code ?? String(error)
  }
}

/** No server answers: could one start there? */
async function absent(url: string): Promise<Finding> {
  if (!isLocal(url)) return fail('server', `${url} cannot be reached`, 'check the address, the network and that the server runs')
  const { hostname, port, protocol } = new URL(url)
  const number = Number(port || (protocol === 'https:' ? 443 : 80))
  const isFree = await new Promise<boolean>((done) => {
    const probe = createServer()
    probe.once('error', () => done(false))
    probe.listen(number, hostname.replaceAll(/[[\]]/g, ''), () => probe.close(() => done(true)))
  })
  return isFree
    ? warn('server', `no server runs at ${url}; the port is free`, 'start one with `countersign up`')
    : fail('server', `something else holds port ${number}`, 'stop it, or use another port: `countersign up --port 8080` and --url')
}

async function credential({ url, key, source }: Target): Promise<Finding> {
  if (key === null)
    return warn(
      'key',
      source === 'stale login' ? 'the stored login is of another installation than the one that answers' : 'you are not logged in',
      "`countersign login --as user_owner` on the server's machine; elsewhere `countersign login` with a key",
    )
  const server = openHttpRemote(url, key)
  try {
    const me = await server.call('identity/me.get', {})
    return ok('key', `${escapeControl(me.id)} (${escapeControl(me.kind)}), from ${source}`)
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    const todo = isLocal(url)
      ? 'log in again: `countersign login --as user_owner`'
      : 'log in again: `countersign login`, with a key that an owner issues'
    return fail('key', `the key from ${source} does not work: ${escapeControl(error.message)}`, todo)
  } finally {
    await server.close()
  }
}

const marks = { ok: ['green', '✔'], warn: ['yellow', '!'], fail: ['red', '✖'] } as const

function printFindings(context: Context, findings: readonly Finding[]): Exit {
  const { io, paint } = context
  const isWell = findings.every(({ status }) => status !== 'fail')
  if (context.json) writeJson(context, { ok: isWell, findings })
  else {
    for (const { check, status, words: message, todo } of findings) {
      const [style, mark] = marks[status]
      io.out.write(`${paint(style, mark)} ${padToWidth(check, 10)} ${escapeControl(message)}\n`)
      if (todo !== null) io.out.write(`  ${' '.repeat(10)} ${paint('dim', '→')} ${escapeControl(todo)}\n`)
    }
  }
  return isWell ? exits.ok : exits.refused
}
