// A private RabbitMQ for tests, measurements and examples: its own node name, ports, cookie and data, without root and without an installation.
// Where none is installed, Debian's packages are downloaded and unpacked into a cache folder.
//
//   node scripts/broker.ts start <folder> <port>    starts it and prints its address when it takes connections
//   node scripts/broker.ts stop <folder>            stops it
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)
const packages =
  `erlang-base erlang-asn1 erlang-crypto erlang-public-key erlang-mnesia erlang-runtime-tools erlang-ssl erlang-eldap erlang-ftp
  erlang-tftp erlang-inets erlang-snmp erlang-os-mon erlang-parsetools erlang-syntax-tools erlang-tools erlang-xmerl libsctp1 rabbitmq-server`.split(
    /\s+/,
  )
const HELP = 'install rabbitmq-server, or set COUNTERSIGN_AMQP_URL to the address of a broker of yours (only its virtual host is used)'

/** Ten seconds are usual; a machine that is busy with other things has taken minutes. */
const START_MS_MAX = 300_000
const STOP_MS_MAX = 20_000

const cacheFolder = (): string => join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'countersign', 'rabbitmq')

/** Where the programs are: '' if they are installed. */
async function programs(): Promise<string> {
  if (existsSync('/usr/lib/rabbitmq/bin/rabbitmq-server')) return ''
  const root = join(cacheFolder(), 'root')
  if (!existsSync(join(root, 'ready'))) await fetchInto(root)
  return root
}

/** Beside its place, and moved there at the end: others may be at the same. */
async function fetchInto(root: string): Promise<void> {
  const debs = `${root}.debs-${process.pid}`
  const staging = `${root}.${process.pid}`
  mkdirSync(debs, { recursive: true })
  const aptOptions = ['-q', '-o', 'APT::Sandbox::User=root']
  const lists = [...aptOptions, '-o', `Dir::State::lists=${debs}/lists`, '-o', `Dir::Cache=${debs}/cache`, '-o', 'Debug::NoLocking=1']
  const download = (options: readonly string[]) => run('apt-get', [...options, 'download', ...packages], { cwd: debs })
  try {
    await download(aptOptions).catch(async () => {
      for (const folder of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(debs, folder), { recursive: true })
      await run('apt-get', [...lists, 'update'], { cwd: debs })
      await download(lists)
    })
  } catch (error) {
    throw new Error(`RabbitMQ is not installed here and cannot be downloaded (${(error as Error).message.slice(0, 200)}): ${HELP}`, {
      cause: error,
    })
  }
  for (const deb of readdirSync(debs).filter((name) => name.endsWith('.deb'))) await run('dpkg', ['-x', join(debs, deb), staging])
  const erlang = join(staging, 'usr/lib/erlang')
  const erts = readdirSync(erlang).find((name) => name.startsWith('erts-'))!
  // Debian writes its own place into these scripts.
  for (const file of [join(erlang, 'bin/erl'), join(erlang, erts, 'bin/erl')])
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll('ROOTDIR=/usr/lib/erlang', `ROOTDIR=${root}/usr/lib/erlang`), {
      mode: 0o755,
    })
  rmSync(debs, { recursive: true })
  writeFileSync(join(staging, 'ready'), '')
  try {
    renameSync(staging, root)
  } catch (error) {
    if (!existsSync(join(root, 'ready'))) throw error
    rmSync(staging, { recursive: true })
  }
}

export type BrokerOptions = {
  readonly folder: string
  readonly port: number
  /** Users of the virtual host `hcp`, each with its name as password. */
  readonly users: readonly string[]
  /** A folder with ca.pem, server.pem and server.key: amqps on the next port, with client certificates. */
  readonly tls?: string
}
export type Broker = {
  readonly port: number
  urlOf(user: string): string
  kill(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
  ctl(...args: string[]): Promise<string>
  /** A program that is rabbitmqctl for this broker. */
  readonly ctlProgram: string
}

/**
 * Its processes end with it: the port mapper is a child of ours instead of a daemon, names are looked up without a program, and where we end
 * without a stop, a watcher that reads from us ends them. `outlives`: they stay, and the file `pids` says which they are.
 */
export async function startBroker(options: BrokerOptions, outlives = false): Promise<Broker> {
  const root = await programs()
  const { folder, port } = options
  prepare(options)
  const env = environment(options, root)
  const bin = `${root}/usr/lib/rabbitmq/bin`
  const children = new Map<'node' | 'mapper' | 'watcher', ChildProcess>()

  function launch(name: 'node' | 'mapper', program: string, args: readonly string[], more: Record<string, string> = {}): ChildProcess {
    const out = openSync(join(folder, 'log', 'out'), 'a')
    const child = spawn(program, args, { env: { ...env, ...more }, stdio: ['ignore', out, out], detached: true })
    closeSync(out)
    child.on('error', () => undefined)
    child.unref()
    children.set(name, child)
    return child
  }
  async function end(name: 'node' | 'mapper' | 'watcher', signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = children.get(name)
    children.delete(name)
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    child.ref()
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }
  /** Ends when its input does, and ends the others then. */
  function watch(pids: readonly string[]): void {
    const watcher = spawn('sh', ['-c', 'cat >/dev/null; kill -9 "$@" 2>/dev/null', 'sh', ...pids], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    })
    watcher.unref()
    ;(watcher.stdin as unknown as { unref(): void }).unref()
    children.set('watcher', watcher)
  }

  async function start(): Promise<void> {
    if (!children.has('mapper')) launch('mapper', 'epmd', ['-port', env['ERL_EPMD_PORT']!, '-address', '127.0.0.1'])
    const node = launch('node', `${bin}/rabbitmq-server`, [], { RABBITMQ_ALLOW_INPUT: '1', RABBITMQ_SERVER_START_ARGS: '-noinput' })
    const pids = [node, children.get('mapper')!].map(({ pid }) => String(pid))
    writeFileSync(join(folder, 'pids'), pids.join('\n'))
    if (!outlives) watch(pids)
    const began = performance.now()
    while (!(await takesConnections(port))) {
      if (node.pid === undefined || node.exitCode !== null || performance.now() - began > START_MS_MAX) {
        await stop('SIGKILL')
        throw new Error(`the broker did not come up: see ${folder}/log`)
      }
      await sleep(200)
    }
  }
  async function stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    await end('watcher', 'SIGKILL')
    await end('node', signal)
    await end('mapper', 'SIGKILL')
  }
  await start()
  return {
    port,
    urlOf: (name) => `amqp://${name}:${name}@127.0.0.1:${port}/hcp`,
    start,
    async kill() {
      await end('watcher', 'SIGKILL')
      await end('node', 'SIGKILL')
    },
    stop: () => stop('SIGTERM'),
    ctl: async (...args) => (await run(`${bin}/rabbitmqctl`, args, { env })).stdout,
    ctlProgram: ctlProgram(folder, env, bin),
  }
}

function ctlProgram(folder: string, env: Readonly<Record<string, string>>, bin: string): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
  const lines = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}`)
  const program = join(folder, 'rabbitmqctl')
  writeFileSync(program, ['#!/bin/sh', ...lines, `exec ${quoted(`${bin}/rabbitmqctl`)} "$@"`, ''].join('\n'), { mode: 0o755 })
  return program
}

function prepare({ folder, port, users, tls }: BrokerOptions): void {
  for (const name of ['home', 'data', 'log']) mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(join(folder, 'enabled_plugins'), '[].')
  const cookie = join(folder, 'home', '.erlang.cookie')
  if (!existsSync(cookie)) writeFileSync(cookie, randomBytes(20).toString('hex'), { mode: 0o400 })
  // Without it a program of Erlang's looks names up, and outlives a node that is killed.
  writeFileSync(join(folder, 'inetrc'), '{lookup, [file]}.\n{host, {127,0,0,1}, ["localhost"]}.\n')
  const all = { vhost: 'hcp', configure: '.*', write: '.*', read: '.*' }
  const definitions = {
    vhosts: [{ name: 'hcp' }],
    users: users.map((name) => ({ name, password: name, tags: '' })),
    permissions: users.map((user) => ({ user, ...all })),
  }
  writeFileSync(join(folder, 'definitions.json'), JSON.stringify(definitions))
  const lines = [
    `listeners.tcp.1 = 127.0.0.1:${port}`,
    'loopback_users = none',
    'log.console = false',
    'disk_free_limit.absolute = 50MB',
    'vm_memory_high_watermark.absolute = 512MB',
    `load_definitions = ${folder}/definitions.json`,
    ...(tls === undefined
      ? []
      : [
          `listeners.ssl.1 = 127.0.0.1:${port + 1}`,
          `ssl_options.cacertfile = ${tls}/ca.pem`,
          `ssl_options.certfile = ${tls}/server.pem`,
          `ssl_options.keyfile = ${tls}/server.key`,
          'ssl_options.verify = verify_peer',
          'ssl_options.fail_if_no_peer_cert = true',
        ]),
  ]
  writeFileSync(join(folder, 'rabbitmq.conf'), `${lines.join('\n')}\n`)
  chmodSync(folder, 0o755)
}

function environment({ folder, port }: BrokerOptions, root: string): Record<string, string> {
  const path = root === '' ? '' : `${root}/usr/lib/erlang/bin:`
  return {
    PATH: `${path}${process.env['PATH'] ?? '/usr/bin:/bin'}`,
    HOME: join(folder, 'home'),
    LANG: 'C.UTF-8',
    ERL_EPMD_PORT: String(port + 2000),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    ERL_INETRC: join(folder, 'inetrc'),
    RABBITMQ_NODENAME: `countersign${port}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(port + 1000),
    RABBITMQ_CTL_DIST_PORT_MIN: String(port + 1010),
    RABBITMQ_CTL_DIST_PORT_MAX: String(port + 1030),
    RABBITMQ_MNESIA_BASE: join(folder, 'data'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_PID_FILE: join(folder, 'node.pid'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(folder, 'none.config'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_CONF_ENV_FILE: join(folder, 'none.conf'),
    RABBITMQ_GENERATED_CONFIG_DIR: join(folder, 'data', 'generated'),
    RABBITMQ_FEATURE_FLAGS_FILE: join(folder, 'data', 'feature_flags'),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false +S 2:2',
  }
}

/** It answers a protocol that it does not know with its own. */
const takesConnections = (port: number): Promise<boolean> =>
  new Promise((done) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('AMQP\0\0\x09\x01'))
    const say = (answer: boolean): void => {
      socket.destroy()
      done(answer)
    }
    socket.once('data', (data) => say(data[0] === 1))
    socket.once('error', () => say(false))
    socket.setTimeout(2_000, () => say(false))
  })

/** Whether there was such a process to be sent the signal. */
function isThere(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

if (import.meta.main) {
  const [command, folder = '', port = process.env['COUNTERSIGN_BROKER_PORT'] ?? '5699'] = process.argv.slice(2)
  if (command === 'start' && folder !== '') {
    const broker = await startBroker({ folder: resolve(folder), port: Number(port), users: ['lab-a', 'lab-b'] }, true)
    process.stdout.write(`${broker.urlOf('lab-a')}\n${broker.urlOf('lab-b')}\n`)
    process.exit(0)
  } else if (command === 'stop' && existsSync(join(folder, 'pids'))) {
    // The node first: one that misses its port mapper while it ends starts another.
    for (const pid of readFileSync(join(folder, 'pids'), 'utf8').split('\n').map(Number)) {
      const until = performance.now() + STOP_MS_MAX
      for (let signal: NodeJS.Signals | 0 = 'SIGTERM'; isThere(pid, signal) && performance.now() < until; signal = 0) await sleep(100)
    }
    rmSync(join(folder, 'pids'))
  } else {
    process.stderr.write('usage: node scripts/broker.ts start <folder> [port] | stop <folder>\n')
    process.exit(2)
  }
}
