// The server: which parts there are, in which order they start, and in which order they stop.
import { type HttpBounds } from '#bindings/http/index.ts'
import { createCallMetrics, type CallMetrics } from '#bindings/shared/call-metrics.ts'
import { listenEarly } from '#bindings/http/starting.ts'
import { createJsonRpc, type JsonRpcServer } from '#bindings/jsonrpc/index.ts'
import { createReadTurns } from '#bindings/shared/read-turns.ts'
import { createUnsentAnswers } from '#bindings/shared/unsent-answers.ts'
import { createCapabilityRegistry } from '#capabilities/registry.ts'
import type { CapabilitySource } from '#capabilities/source.ts'
import { contracts } from '#contracts/index.ts'
import type { NodeEpoch } from '#kernel/call/effects.ts'
import { type Clock } from '#kernel/ports/clock.ts'
import { isAway, Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Found } from '#kernel/log/store.ts'
import { grants } from '#protocols/collaboration/task/grants.ts'
import { directory, people } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { concludeUnknown, createEffectRunner } from '#workers/effect-runner.ts'
import { createExamination } from '#workers/upkeep/examination.ts'
import { correctByteSums } from '#workers/upkeep/byte-sums.ts'
import { keepAnchor } from '#workers/upkeep/anchor.ts'
import { openFindings } from '#workers/upkeep/findings.ts'
import { createNotary, serverKeyId } from '#workers/keys/notary.ts'
import { createPasskeys } from '#workers/keys/passkeys.ts'
import type { NoticeOptions } from '#workers/notices/channel.ts'
import type { Presence } from '#kernel/ports/presence.ts'
import { keepPresence } from '#workers/presence.ts'
import { createAnswerFigures } from '#workers/upkeep/answer-figures.ts'
import { keepWorkFigures } from '#workers/upkeep/work-figures.ts'
import { runVerifier, type RecordState } from '#workers/upkeep/record-verifier.ts'
import type { WebhookOptions } from '#workers/webhooks/agents.ts'
import { sharesUser } from '#agents/programs/marker.ts'
import { ALONE, leasesOfNone, openLeases, type Duty, type Leases } from '#workers/leases.ts'
import { statesOf, type Worker } from '#workers/worker.ts'
import { openGates } from './settings/gates.ts'
import { harnessTerms, runHarness } from './harness.ts'
import { readAgents } from './settings/agents-file.ts'
import { readPolicy } from './settings/policy-file.ts'
import { exposedIn } from './settings/secret-files.ts'
import { readCapabilities } from './settings/capability-file.ts'
import { busyLoop, realClock, realEntropy } from './clock.ts'
import { nodeName } from './settings/database-settings.ts'
import { hostInUrl, isPublic, publicOrigin, relyingParty, type Config } from './settings/config.ts'
import { openDataFolder, type DataFolder } from './folder/data-folder.ts'
import { StartError } from './start-error.ts'
import { setUpDevelopment } from './identity/development.ts'
import { markIn, quietBy, withoutWrites, type Quiet } from './folder/move-mark.ts'
import { installationOf } from './folder/installation.ts'
import { createIssuer } from './identity/issuer.ts'
import { createOidcSignIn } from './identity/oidc-sign-in.ts'
import { checkStop, noteStop, startLog, type ServedLog } from './record-log/open.ts'
import { anchorIn, sharedAnchorIn } from './folder/anchor.ts'
import { recordedKeys, replacedIn, SERVER_KEY, settleReplaced, watchKeys } from './folder/key-files.ts'
import { checkKeys, checkRecord, keysAgainst, setUpChecked } from './folder/record-check.ts'
import { createAuthenticator, type Authenticator } from './identity/authenticator.ts'
import { nodeLines, recordLines, releaseLines } from './database/figures.ts'
import { openSharedStorage } from './database/shared-storage.ts'
import { openFolderStorage } from './storage.ts'
import { ownerLogin, setUp } from './folder/first-start.ts'
import { version } from '../version.ts'
import { explainRefusedPort, listenOn } from './socket-file.ts'
import { readTls, renewTls } from './tls.ts'
import { LEASES, runWorkers } from './workers.ts'
import type { Logger } from './log.ts'
import { httpOf } from './http.ts'

export type ServerOptions = {
  readonly log: Logger
  /** The disk did not keep its promise: the process must end, now. */
  readonly onFatal: (error: unknown) => void
  /** Ends the start early. */
  readonly signal?: AbortSignal
  /** Called with each long step of a start on a database, such as `migrating the database from schema 3 to 5`. */
  readonly progress?: (text: string) => void
  readonly clock?: Clock
  readonly bounds?: Partial<HttpBounds>
  /** Functions of the embedding process, and other sources in addition to those of the file. */
  readonly capabilities?: readonly CapabilitySource[]
}

export type Server = {
  readonly url: string
  readonly port: number
  readonly kernel: Kernel
  readonly rpc: JsonRpcServer
  readonly folder: DataFolder
  /** Identifies the record for its lifetime, independent of its address and keys. */
  readonly installation: string
  readonly node: string
  /** Why the server is read-only; null: it is not. */
  readonly quiet: Quiet | null
  /** A one-time link that signs the owner in; null when the owner is disabled. */
  ownerLink(): Promise<string | null>
  /** Loads a renewed certificate. */
  renew(): void
  /** Finishes work in flight, within `limits.stopMsMax`. */
  stop(): Promise<void>
}

export async function startServer(config: Config, options: ServerOptions): Promise<Server> {
  // Cleanup steps, run in reverse order at a stop and after a failed start.
  const undo: (() => unknown)[] = []
  try {
    return await start(config, options, undo)
  } catch (error) {
    for (const step of undo.toReversed()) await step()
    // The operator gets the message of a refusal unchanged.
    throw error instanceof Refusal ? new StartError(error.message) : error
  }
}

/** Opens the data folder, the storage and the keys, and verifies the record. */
async function openRecord(config: Config, options: ServerOptions, undo: (() => unknown)[]) {
  const { clock = realClock, onFatal, signal = new AbortController().signal } = options
  const node = config.node ?? nodeName()
  // Lines of several servers end up in one place.
  const log = config.database ? options.log.child({ node }) : options.log
  const agents = config.agents === null ? [] : readAgents(config.agents, process.env)
  const exposed = agents.some(({ plan }) => sharesUser(plan.argv)) ? exposedIn(process.env) : []
  if (exposed.length > 0)
    log.warn(
      { variables: exposed },
      "agents' programs can read these variables of the server in /proc: give each as a file (its name with _FILE), and run the programs with sudo -u or in a container",
    )
  const tls = config.tls === null ? undefined : readTls(config.tls, clock.now(), log)
  const folder = openDataFolder(config.data)
  undo.push(folder.release)
  // Before anything is opened for writing.
  if (!config.database) quietBy(await markIn(folder.path).read(), config.readOnly)
  // A database can delay a start: another server migrates it, or it does not answer yet.
  const early = config.database ? await explainRefusedPort(() => listenEarly(tls, config.port, config.host), config) : null
  undo.push(() => early?.stop())
  const findings = await openFindings(folder.findings, log)
  const progress = config.database && options.progress ? options.progress : (): void => undefined
  const beside = { folder, config, clock, log, findings, onFatal, signal, progress }
  const storage = config.database ? await openSharedStorage(beside, config.database, node) : await openFolderStorage(beside)
  const { keys, blobs } = storage
  const mark = await storage.mark.read()
  const quiet = quietBy(mark, config.readOnly)
  const answers = createAnswerFigures()
  const store = quiet ? withoutWrites(storage.store, quiet) : answers.countIn(storage.store)
  const marker = quiet ? { ...storage.marker, write: () => Promise.resolve() } : storage.marker
  const self: Self = { issuer: '', leases: null, log: null }
  undo.push(() => within(storage.close(), STORE_MS).then(() => noteStop(store, folder.path, self.log)))
  const workers: Worker[] = [...storage.workers]
  // Pushed before the workers, so that the leases stop after the workers that hold them.
  undo.push(() => endDuties(self))
  undo.push(() => within(Promise.all(workers.map((worker) => worker.stop())), WORKERS_MS))
  const serverKey = serverKeyId(keys.server)
  const anchor = (config.database ? sharedAnchorIn : anchorIn)(folder.path)
  const beforehand = { path: folder.path, marker, anchor, serverKey, isNewKey: replacedIn(folder.keys).includes(SERVER_KEY) }
  const starting = { keys, folder, config, findings, log }
  await checkKeys(store, starting) // without the right key no seal fits
  progress('verifying the record')
  const checked = await checkRecord(store, beforehand, config, clock, log, signal)
  const rounds = { findings, begin: () => createExamination({ store, blobs, beside: () => keysAgainst(store, keys, folder) }) }
  const verifies: Duty = { ...ALONE, holds: () => !store.isShared || self.leases?.duty('verifier').holds() === true }
  const verifier = checked.difference ? null : runVerifier(store, checked.marker, marker, clock, log, rounds, verifies, busyLoop)
  if (verifier) workers.push(verifier)
  return {
    node,
    log,
    clock,
    agents,
    tls,
    folder,
    early,
    findings,
    storage,
    store,
    mark,
    quiet,
    answers,
    workers,
    self,
    serverKey,
    anchor,
    starting,
    checked,
    verifier,
  }
}
type OpenRecord = Awaited<ReturnType<typeof openRecord>>

async function openKernel(config: Config, options: ServerOptions, opened: OpenRecord) {
  const { node, log, clock, folder, findings, storage, store, quiet, workers, self, checked, verifier } = opened
  const { keys, pushKeys, blobs } = storage
  const sources = config.capabilities === null ? [] : readCapabilities(config.capabilities, { clock, log, env: process.env })
  const nodeEpoch = (): NodeEpoch | undefined => (self.leases && store.isShared ? { node, epoch: self.leases.epoch } : undefined)
  const capabilities = createCapabilityRegistry([...sources, ...(options.capabilities ?? [])], clock, log, nodeEpoch)
  const effects = createEffectRunner({ capability: capabilities.invoke }, clock, log, EFFECTS_MS)
  const presence = await keepPresence(folder.seen, clock, log)
  if (!quiet) workers.push(presence.worker)
  const unsent = createUnsentAnswers((actor, connections) =>
    log.warn({ actor, connections }, 'closed connections that did not read their answers'),
  )
  const notary = createNotary(keys.server, keys.ring, () => self.issuer)
  const kernel = createKernel({
    store,
    blobs,
    protocols,
    contracts,
    directory,
    people,
    grants,
    recordLog: () => self.log,
    findings: () => [...foundIn(verifier?.state().difference ?? checked.difference), ...findings.all()],
    presence: presence.presence,
    perform: effects.perform,
    doneElsewhere: (_, request) => capabilities.elsewhere(request),
    node: nodeEpoch,
    timekeeper: {
      holds: () => !quiet && (!store.isShared || self.leases?.duty('timers').holds() === true),
      as: (more) => (self.leases?.duty('timers') ?? ALONE).as(more),
      time: () => (quiet ? 0 : (self.leases?.duty('timers').time() ?? null)),
    },
    doesErrands: true,
    bug(error) {
      // Callers report an unreachable database themselves, and the follower retries.
      if (!isAway(error)) log.error({ err: error }, 'a follower of the record failed')
    },
    notary,
    passkeys: createPasskeys(() => relyingParty(config, originIn(self.issuer))),
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
      mails: config.smtp !== null,
      signIn: config.signIn,
      pushKey: () => pushKeys().current.key,
      publicOrigin: () => (isPublic(config) ? originIn(self.issuer) : null),
      origin: () => originIn(self.issuer),
      noticesPerHourMax: config.noticesPerHourMax,
      byteQuotas: config.byteQuotas,
      harness: harnessTerms(config.harness, () => self.issuer.split('#')[0]!),
    },
    readsPerMinute: config.readsPerMinute,
    turns: createReadTurns(unsent),
    checksAnswers: false,
  })
  return { kernel, capabilities, effects, presence, unsent, notary }
}

/** Takes leases, sets up a new record and starts the capabilities, before the server listens. */
async function prepare(config: Config, opened: OpenRecord, { kernel, capabilities }: Awaited<ReturnType<typeof openKernel>>) {
  const policy = config.policy === null ? null : readPolicy(config.policy)
  const { node, log, clock, folder, storage, store, quiet, workers, self, serverKey, anchor, starting, checked } = opened
  const { keys } = storage
  const { isShared } = store
  const isAsStopped = quiet || (await checkStop(store, folder.path, { ...config, isAccepted: checked.accepted !== null }, opened.findings))
  const leaseOptions = { node, names: LEASES, monotonic: () => performance.now() }
  const leases = quiet ? leasesOfNone(node) : await openLeases(kernel, leaseOptions, clock, log)
  self.leases = leases
  // With a shared database, pending effects might be in flight on another server.
  if (!isShared && !quiet) await concludeUnknown(kernel, log)
  const recordKeys = (): Promise<unknown> => kernel.call('identity/keys.record', recordedKeys(keys.server, keys.ring()), SYSTEM)
  const setsUp = async (): Promise<void> => {
    await setUp(kernel, folder.adminKey, isShared)
    if (policy !== null) await kernel.call('execution/policy.set', { installation: true, gate: policy }, SYSTEM)
    await correctByteSums(store, clock.now)
  }
  if (!quiet) await storage.settingUp(() => setUpChecked(starting, setsUp, recordKeys))
  if (checked.accepted && !checked.difference && !quiet)
    await kernel.call('identity/record.accept', { seen: checked.accepted.position, restored: store.sealed().position }, SYSTEM)
  if (!checked.difference && !quiet) {
    // A new server key counts as one until the anchor names it: a start in between would miss the seals of the key before.
    const first = (): void => settleReplaced(folder.keys)
    workers.push(keepAnchor(store, anchor, serverKey, { clock, log, first }))
  }
  const installation = await installationOf(store)
  self.issuer = `${publicOrigin(config, config.port)}#${installation}`
  if (!quiet) {
    folder.reserve.keep()
    workers.push(capabilities)
    await capabilities.start(kernel)
    workers.push(watchKeys(keys, clock, log, recordKeys))
  }
  return { leases, installation, isAsStopped }
}

const openMetrics = (
  { node, storage, verifier, answers }: OpenRecord,
  leases: Leases,
  workLines: () => Promise<string[]>,
  record: () => RecordState,
): CallMetrics =>
  createCallMetrics(async () => [
    ...releaseLines(version, storage.kind),
    ...recordLines(verifier?.state().marker.position ?? 0, record() === 'changed'),
    ...nodeLines(node, leases),
    ...storage.figures(),
    ...(await workLines()),
    ...answers.lines(),
  ])

async function start(config: Config, options: ServerOptions, undo: (() => unknown)[]): Promise<Server> {
  const opened = await openRecord(config, options, undo)
  const { node, log, clock, agents, tls, folder, early, storage, mark, quiet, workers, self, checked, verifier } = opened
  const { keys, pushKeys, blobs } = storage
  const around = await openKernel(config, options, opened)
  const { kernel, effects, presence, unsent, notary } = around
  const { leases, installation, isAsStopped } = await prepare(config, opened, around)
  const isAccepted = checked.accepted !== null
  const logParts = { ...opened, ...storage, kernel, config, installation, isAccepted, duty: leases.duty('log') }
  self.log = quiet || checked.difference || !isAsStopped ? null : await startLog(logParts)
  if (self.log) workers.push(self.log.worker)
  const figures = keepWorkFigures(kernel, presence.connected)
  undo.push(figures.stop)
  const notices = { ...noticeOptions(config, () => self.issuer), pushKeys, failed: figures.failed }
  const webhooks = { ...webhookOptions(config), failed: figures.failed }
  if (!quiet) workers.push(...runWorkers({ kernel, blobs, agents, clock, log, leases, webhooks, notices, trim: storage.trim }))
  const harness = runHarness(quiet ? null : config.harness, { kernel, clock, notary, log, leases })
  workers.push(harness)
  const sessions = await sessionsOf(kernel, quiet ? { ...config, dev: false } : config, log, presence.presence, () => origin)
  const record = (): RecordState => verifier?.record() ?? 'changed'
  const metrics = openMetrics(opened, leases, figures.lines, record)
  const parts = {
    kernel,
    log,
    installation,
    sessions,
    blobs,
    keys,
    metrics,
    unsent,
    tls,
    record,
    anchor: checked.anchor,
    harness,
    recordLog: self.log,
    gates: await openGates(quiet ? null : config.gates, log),
    storage,
    quiet,
    mark,
    node,
    leases,
    states: () => statesOf(workers),
    isNear: () => isNear,
    origin: () => origin,
  }
  let origin = ''
  let isNear = false
  const http = httpOf(parts, config, options)
  const rpc = createJsonRpc({ kernel, log, metrics, unsent, authenticate: sessions.authenticate })
  undo.push(() => Promise.all([http.stop(), rpc.stop(), effects.stop()]))
  undo.push(kernel.release)
  if (config.socket !== null) undo.push(await listenOn(config.socket, rpc.listen))
  const port = await explainRefusedPort(() => http.listen(early?.handOver() ?? config.port, config.host), config)
  origin = publicOrigin(config, port)
  self.issuer = `${origin}#${installation}`
  const url = `${tls ? 'https' : 'http'}://${hostInUrl(config.host)}:${port}`
  let stopped: Promise<void> | undefined
  async function stop(): Promise<void> {
    log.info({}, 'stopping')
    // A balancer of requests over several servers sees it before the first one is refused.
    isNear = true
    if (config.drainMs > 0) await realClock.sleep(config.drainMs, new AbortController().signal)
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
    node,
    quiet,
    ownerLink: () =>
      ownerLogin(kernel).then((path) => (path === null ? null : (isPublic(config) ? publicOrigin(config, port) : url) + path)),
    renew: () => config.tls && renewTls(http, config.tls, clock.now(), log),
    stop: () => (stopped ??= stop()),
  }
}

/** The last checkpoint is signed under the lease. */
async function endDuties({ log, leases }: Self): Promise<void> {
  if (log) await within(log.finish(), LOG_MS)
  if (leases) await within(leases.stop(), LEASES_MS)
}

type Self = { issuer: string; leases: Leases | null; log: ServedLog | null }

const foundIn = (difference: Difference | null): Found[] =>
  difference ? [{ what: `project ${difference.scope}, number ${difference.seq}`, how: difference.what }] : []

async function sessionsOf(
  kernel: Kernel,
  { issuer: settings, oidc, signIn, dev, smtp }: Config,
  log: Logger,
  { heard }: Presence,
  origin: () => string,
): Promise<Authenticator> {
  if (dev) {
    log.warn({}, 'development mode: credentials that everybody knows are accepted')
    await setUpDevelopment(kernel)
  }
  const issuer = settings && (await createIssuer(settings, { log, now: kernel.now }))
  return createAuthenticator(kernel, {
    issuer,
    signIn: oidc && createOidcSignIn(oidc, { kernel, issuer: issuer!, log, origin }),
    terms: signIn,
    dev,
    mails: smtp !== null && signIn.insteadOfLinks === null,
    noteUse: heard,
    log,
  })
}

const webhookOptions = ({ webhookPrivate, webhookAttemptsMax }: Config): WebhookOptions => ({
  allowsPrivate: webhookPrivate,
  attemptsMax: webhookAttemptsMax,
  random: Math.random,
})

const originIn = (issuer: string): string => issuer.slice(0, issuer.lastIndexOf('#'))
function noticeOptions(config: Config, issuer: () => string): NoticeOptions {
  const origin = (): string => originIn(issuer())
  const from = config.mailFrom || `countersign@${isPublic(config) ? new URL(publicOrigin(config, config.port)).hostname : 'localhost'}`
  return { ...webhookOptions(config), origin, mail: config.smtp === null ? null : { smtp: config.smtp, from } }
}

/** After the limit of the HTTP server, one second is left; a child that is still alive then ends by its broken pipes. */
const WORKERS_MS = 500
const LEASES_MS = 300
const LOG_MS = 300
const STORE_MS = 400
/** An invocation has this time to end, and the same time again to be recorded. */
const EFFECTS_MS = 1_000

async function within(work: Promise<unknown>, ms: number): Promise<void> {
  const enough = new AbortController()
  await Promise.race([work, realClock.sleep(ms, enough.signal)])
  enough.abort()
}
