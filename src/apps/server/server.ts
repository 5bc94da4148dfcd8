// The server: which parts there are, in which order they start, and in which order they stop.
import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import { createHttp, type HttpBounds, type HttpServer } from '#bindings/http/index.ts'
import { createMetrics, type Metrics } from '#bindings/shared/call-metrics.ts'
import type { Tls } from '#bindings/http/connections/tls.ts'
import { createJsonRpc, type JsonRpcServer } from '#bindings/jsonrpc/index.ts'
import { createTurns } from '#bindings/shared/read-turns.ts'
import { createUnsent, type Unsent } from '#bindings/shared/unsent-answers.ts'
import { hxp } from '#bridges/hxp/index.ts'
import { createCapabilities } from '#capabilities/registry.ts'
import type { CapabilitySource } from '#capabilities/source.ts'
import { contracts } from '#contracts/index.ts'
import type { Blobs } from '#kernel/ports/blobs.ts'
import { timestampOf, type Clock } from '#kernel/ports/clock.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Found, Store } from '#kernel/log/store.ts'
import { grants } from '#protocols/collaboration/task/grants.ts'
import { directory, people } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { openBlobs } from '#stores/blobs.ts'
import { sqliteStore, type SqliteOptions } from '#stores/sqlite.ts'
import { runCollector } from '#workers/upkeep/blob-collector.ts'
import { concludeUnknown, createEffects } from '#workers/effect-runner.ts'
import { createExamination } from '#workers/upkeep/examination.ts'
import { openFindings } from '#workers/upkeep/findings.ts'
import { jwksOf } from '#workers/keys/key-ring.ts'
import { createNotary, taggerOf } from '#workers/keys/notary.ts'
import { runNotices } from '#workers/notices/channel.ts'
import { keepPresence } from '#workers/presence.ts'
import { runProcesses } from '#workers/programs/agents.ts'
import { runSweeper } from '#workers/upkeep/reply-sweeper.ts'
import { runTimers } from '#workers/timers.ts'
import { runVerifier, type RecordState } from '#workers/upkeep/record-verifier.ts'
import { runWebhooks, type WebhookOptions } from '#workers/webhooks/agents.ts'
import type { Worker } from '#workers/worker.ts'
import { readAgents } from './settings/agents-file.ts'
import { readCapabilities } from './settings/capability-file.ts'
import { realClock, realEntropy } from './clock.ts'
import { hostInUrl, publicOrigin, type Config } from './settings/config.ts'
import { openDataFolder, type DataFolder } from './folder/data-folder.ts'
import { StartError } from './start-error.ts'
import { setUpDevelopment } from './identity/development.ts'
import { installationOf } from './folder/installation.ts'
import { createIssuer } from './identity/issuer.ts'
import { namesOf, openKeys, replacedIn, SERVER_KEY, watchKeys, type Keys } from './folder/key-files.ts'
import { checkRecord, keysBeside, setUpChecked } from './folder/record-check.ts'
import { createSessions, type Sessions } from './identity/authenticator.ts'
import { streamPaths } from './stream-paths.ts'
import { ownerLogin, setUp } from './folder/first-start.ts'
import { version } from '../version.ts'
import { listenOn } from './socket-file.ts'
import { readTls, renewTls } from './tls.ts'

export type ServerOptions = {
  readonly log: Logger
  /** The disk did not keep its promise: the process must end, now. */
  readonly onFatal: (error: unknown) => void
  /** Ends the start early. */
  readonly signal?: AbortSignal
  readonly clock?: Clock
  readonly bounds?: Partial<HttpBounds>
  /** Functions of the process that embeds the server, and other sources besides those of the file. */
  readonly capabilities?: readonly CapabilitySource[]
}

export type Server = {
  readonly url: string
  readonly port: number
  readonly kernel: Kernel
  readonly rpc: JsonRpcServer
  readonly folder: DataFolder
  /** The same for as long as the record lasts, whatever its address and its keys. */
  readonly installation: string
  /** A link that signs the owner in, once; null when the owner was switched off. */
  ownerLink(): Promise<string | null>
  /** Takes up a certificate that was renewed. */
  renew(): void
  /** Finishes what is under way; at most `limits.stopMsMax`. */
  stop(): Promise<void>
}

export async function startServer(config: Config, options: ServerOptions): Promise<Server> {
  // Undone from the last to the first, at a stop as well as when the start does not come to its end.
  const undo: (() => unknown)[] = []
  try {
    return await start(config, options, undo)
  } catch (error) {
    for (const step of undo.toReversed()) await step()
    throw error
  }
}

async function start(config: Config, options: ServerOptions, undo: (() => unknown)[]): Promise<Server> {
  const { log, clock = realClock, onFatal, signal = new AbortController().signal } = options
  const agents = config.agents === null ? [] : readAgents(config.agents, process.env)
  const tls = config.tls === null ? undefined : readTls(config.tls, clock.now(), log)
  const folder = openDataFolder(config.data)
  undo.push(folder.release)
  // Before there is a database: one that was ever written has keys beside it.
  const keys = await openKeys(folder.keys, !existsSync(folder.database), { now: clock.now, entropy: realEntropy })
  const findings = await openFindings(folder.findings, log)
  const tags = { tag: taggerOf(keys.server), retags: replacedIn(folder.keys).includes(SERVER_KEY) }
  const store = openStore(folder, config, { fatal: onFatal, found: findings.add, amiss: folder.lock.amiss, ...tags }, log)
  undo.push(() => within(store.close(), STORE_MS))
  folder.lock.keep([folder.database, `${folder.database}-wal`], log)
  const workers: Worker[] = []
  undo.push(() => within(Promise.all(workers.map((worker) => worker.stop())), WORKERS_MS))
  const checked = await checkRecord(store, folder, config, clock, log, signal)
  const blobs = await openBlobs(folder.blobs, { fatal: onFatal })
  const rounds = { findings, begin: () => createExamination({ store, blobs, beside: () => keysBeside(store, keys) }) }
  const verifier = checked.difference ? null : runVerifier(store, checked.marker, folder.marker, clock, log, rounds)
  if (verifier) workers.push(verifier)
  const sources = config.capabilities === null ? [] : readCapabilities(config.capabilities, { clock, log, env: process.env })
  const capabilities = createCapabilities([...sources, ...(options.capabilities ?? [])], clock, log)
  const effects = createEffects({ capability: capabilities.invoke }, clock, log, EFFECTS_MS)
  const self = { issuer: '' }
  const kept = await keepPresence(folder.seen, clock, log)
  workers.push(kept.worker)
  const unsent = createUnsent((actor, connections) =>
    log.warn({ actor, connections }, 'connections were cut: they did not read the answers that they had asked for'),
  )
  const kernel = createKernel({
    store,
    blobs,
    protocols,
    contracts,
    directory,
    people,
    grants,
    findings: () => [...named(verifier?.state().difference ?? checked.difference), ...findings.all()],
    presence: kept.presence,
    perform: effects.perform,
    notary: createNotary(keys.server, keys.ring, () => self.issuer),
    now: clock.now,
    sleep: clock.sleep,
    entropy: realEntropy,
    asksPerMinute: config.requestsPerMinute,
    changesPerMinute: config.quota,
    terms: {
      asksOpenMax: config.requestsOpenMax,
      criticalPerHourMax: config.criticalPerHourMax,
      defaultSecondsMin: config.defaultSecondsMin,
      publicHooksOnly: !config.webhookPrivate,
    },
    readsPerMinute: config.readsPerMinute,
    turns: createTurns(unsent),
    checksAnswers: false,
  })
  await concludeUnknown(kernel, log)
  const recordKeys = (): Promise<unknown> => kernel.call('identity/keys.record', namesOf(keys.server, keys.ring()), SYSTEM)
  await setUpChecked(store, { keys, folder, config, findings, log }, () => setUp(kernel, folder.adminKey), recordKeys)
  const installation = await installationOf(store)
  self.issuer = `${publicOrigin(config, config.port)}#${installation}`
  folder.reserve.keep()
  workers.push(capabilities)
  await capabilities.start(kernel)
  workers.push(watchKeys(keys, clock, log, recordKeys))
  workers.push(runTimers(kernel, clock, log), runSweeper(kernel, clock, log), runCollector(store, blobs, clock, log))
  workers.push(runWebhooks(kernel, webhookOptions(config), clock, log), runNotices(kernel, webhookOptions(config), clock, log))
  workers.push(runProcesses(kernel, blobs, agents, clock, log))
  const sessions = await sessionsOf(kernel, config, log)
  const metrics = createMetrics()
  const record = (): RecordState => verifier?.record() ?? 'changed'
  const parts = { kernel, installation, sessions, blobs, keys, metrics, unsent, tls, record, amiss: folder.lock.amiss }
  const http = httpOf(parts, config, options)
  const rpc = createJsonRpc({ kernel, log, metrics, unsent, authenticate: sessions.authenticate })
  undo.push(() => Promise.all([http.stop(), rpc.stop(), effects.stop()]))
  undo.push(kernel.release)
  if (config.socket !== null) undo.push(await listenOn(config.socket, rpc.listen))
  const port = await listen(http, config)
  self.issuer = `${publicOrigin(config, port)}#${installation}`
  const url = `${tls ? 'https' : 'http'}://${hostInUrl(config.host)}:${port}`
  let stopped: Promise<void> | undefined
  async function stop(): Promise<void> {
    log.info({}, 'stopping')
    for (const step of undo.toReversed()) await step()
    log.info({}, 'stopped')
  }
  return {
    url,
    port,
    kernel,
    rpc,
    folder,
    installation,
    ownerLink: () => ownerLogin(kernel).then((path) => (path === null ? null : url + path)),
    renew: () => config.tls && renewTls(http, config.tls, clock.now(), log),
    stop: () => (stopped ??= stop()),
  }
}

const named = (difference: Difference | null): Found[] =>
  difference ? [{ what: `project ${difference.scope}, number ${difference.seq}`, how: difference.what }] : []

async function sessionsOf(kernel: Kernel, { issuer, dev }: Config, log: Logger): Promise<Sessions> {
  if (dev) {
    log.warn({}, 'development mode: credentials that everybody knows are accepted')
    await setUpDevelopment(kernel)
  }
  return createSessions(kernel, { issuer: issuer && (await createIssuer(issuer, { log, now: kernel.now })), dev })
}

const webhookOptions = ({ webhookPrivate, webhookAttemptsMax }: Config): WebhookOptions => ({
  allowsPrivate: webhookPrivate,
  attemptsMax: webhookAttemptsMax,
  random: Math.random,
})

/** After the HTTP server's own bound there is one second left; a child that does not end in it is left to its broken pipes. */
const WORKERS_MS = 500
const STORE_MS = 400
/** What is invoked may take this long to end by itself, and as long again to be recorded. */
const EFFECTS_MS = 1_000

async function within(work: Promise<unknown>, ms: number): Promise<void> {
  const enough = new AbortController()
  await Promise.race([work, realClock.sleep(ms, enough.signal)])
  enough.abort()
}

type StoreOptions = Required<Pick<SqliteOptions, 'fatal' | 'tag' | 'retags' | 'found' | 'amiss'>>

function openStore(folder: DataFolder, config: Config, options: StoreOptions, log: Logger): Store {
  const { database, reserve } = folder
  try {
    return sqliteStore(database, {
      ...options,
      isForced: config.skipVerify,
      bug: (error) => log.error({ err: error }, 'a listener of the store failed'),
    })
  } catch (error) {
    const words = (error as Error).message
    const mayBeFull = FULL.has(((error as { errcode?: number }).errcode ?? 0) & 0xff)
    if (!mayBeFull || !reserve.giveUp()) throw new StartError(`the database cannot be opened: ${words} (${database})`)
    log.warn({}, `the disk seems to be full (${words}): the reserve in the data folder was given up to open the database`)
  }
  return openStore(folder, config, options, log)
}
/** IOERR, FULL, CANTOPEN: what SQLite says when it cannot make a file beside the database. */
const FULL = new Set([10, 13, 14])

type Parts = {
  readonly kernel: Kernel
  readonly installation: string
  readonly sessions: Sessions
  readonly blobs: Blobs
  readonly keys: Keys
  readonly metrics: Metrics
  readonly unsent: Unsent
  readonly tls: Tls | undefined
  record(): RecordState
  amiss(): string | null
}

function httpOf(parts: Parts, config: Config, options: ServerOptions): HttpServer {
  const { kernel, installation, sessions, blobs, keys, metrics, unsent, tls, record, amiss } = parts
  const { log, clock = realClock, bounds } = options
  const started_at = timestampOf(clock.now())
  return createHttp({
    kernel,
    authenticate: sessions.authenticate,
    logins: sessions,
    log,
    version,
    hosts: [...config.hosts, hostInUrl(config.host)],
    proxied: config.proxied,
    origin: config.hosts.length === 0 || (config.port === 0 && !config.proxied) ? undefined : publicOrigin(config, config.port),
    tls,
    cors: { prefixes: ['/hxp'], origins: config.origins, anyOrigin: config.dev },
    live: {
      aliases: streamPaths,
      origins: config.origins,
      recheck: sessions.recheck,
      redeem: sessions.redeem,
    },
    bridges: [hxp()],
    bytes: { blobs, bytesMax: config.blobBytesMax },
    documents: new Map([['/.well-known/jwks.json', () => jwksOf(keys.ring())]]),
    metrics,
    unsent,
    amiss,
    ...(bounds ? { bounds } : {}),
    health: () => ({
      installation,
      store: 'sqlite',
      durability: 'every answer is on disk (WAL, synchronous=FULL)',
      started_at,
      record: record(),
      ...(config.dev ? { mode: 'development' } : {}),
    }),
  })
}

async function listen(http: HttpServer, { port, host }: Config): Promise<number> {
  try {
    return await http.listen(port, host)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE')
      throw new StartError(
        `port ${port} on ${host} is taken: stop the program that uses it, or choose another with --port (0 takes a free one)`,
      )
    if (code === 'EACCES') throw new StartError(`this user may not listen on port ${port}: choose one above 1023 with --port`)
    throw new StartError(`cannot listen on ${host}, port ${port}: ${message} (see --host and --port)`)
  }
}
