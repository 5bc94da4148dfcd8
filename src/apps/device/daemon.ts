// The composition of the daemon: its own kernel and store, a board, the runner, the audit file, the bridge and its listeners.
import { readFileSync } from 'node:fs'
import { createHacp, type HacpServer } from '#bridges/hacp/index.ts'
import { createDevice, type Device } from '#devices/device.ts'
import { FileProblem } from '#devices/file-reader.ts'
import { Cancelled, DeviceError, type Board } from '#devices/port.ts'
import { readProfile, type Profile } from '#devices/profile.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { createTail } from '#kernel/log/tail.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { daemonProtocol } from '#protocols/hardware/daemon/index.ts'
import { principalOf, type DaemonPorts } from '#protocols/hardware/daemon/ports.ts'
import type { Policy } from '#protocols/hardware/daemon/policy.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { concludeUnknown, createEffectRunner } from '#workers/effect-runner.ts'
import { AuditDiffers, openAuditFile } from '#devices/audit/audit-file.ts'
import { runCheckpoints } from '#devices/audit/checkpoints.ts'
import { runAsking } from '#devices/uplink/asking.ts'
import { runLink } from '#devices/uplink/link.ts'
import { createRates } from '#devices/runner/rates.ts'
import { endSessions, endWhatWasOpen } from '#devices/runner/recovery.ts'
import type { Hardware } from '#devices/runner/step-run.ts'
import { createTaskRunner, type TaskRunner } from '#devices/runner/task-runner.ts'
import { runReplySweeper } from '#workers/upkeep/reply-sweeper.ts'
import { realClock, realEntropy } from '../server/clock.ts'
import { ConfigError } from '../server/settings/config.ts'
import { StartError } from '../server/start-error.ts'
import { version } from '../version.ts'
import { approvalKeys, noApprovalKeys, type ApprovalKeys } from './approval-keys.ts'
import { openDeviceFolder } from './folder.ts'
import { uplinkIn } from './link.ts'
import { listenUnix, type Listening } from './listeners.ts'
import { readPolicies, usualPolicies, type NamedPolicy, type Policies } from './policies-file.ts'
import { noPlugins, readPlugins } from './plugins.ts'
import type { DeviceConfig } from './settings.ts'
import type { Logger } from '../server/log.ts'

export type Ready = {
  readonly device_id: string
  readonly socket: string | null
  readonly sockets: Readonly<Record<string, string>>
  readonly listen: string | null
  readonly wss: string | null
  readonly board: string
}
export type Daemon = { readonly ready: Ready; readonly kernel: Kernel; rotate(): void; stop(): Promise<void> }
export type DaemonOptions = { readonly log: Logger; readonly onFatal: (error: unknown) => void }

export async function startDaemon(config: DeviceConfig, options: DaemonOptions): Promise<Daemon> {
  const undo: (() => unknown)[] = []
  try {
    return await start(config, options, undo)
  } catch (error) {
    for (const step of undo.toReversed()) await step()
    throw error instanceof AuditDiffers ? new StartError(`${error.message}: \`countersign device audit verify\` says more`) : error
  }
}

/** Everything that the kernel acts on: files of the operator, the data folder, the store, the audit file and the board. */
async function openParts(config: DeviceConfig, { log, onFatal }: DaemonOptions, undo: (() => unknown)[]) {
  const plugins = config.plugins === null ? noPlugins : await readPlugins(config.plugins, log)
  undo.push(plugins.stop)
  const further = plugins.list.map(({ tool }) => tool.name)
  const policies =
    config.policies === null ? usualPolicies() : fileIn(config.policies, (value) => readPolicies(value, config.data, further))
  const keys = config.approvalKeys === null ? noApprovalKeys : approvalKeys(config.approvalKeys)
  const profile = await profileFor(config)
  const folder = openDeviceFolder(config.data)
  undo.push(folder.lock.release)
  const { device_id, key, database, lock } = folder
  const store = sqliteStore(database, {
    fatal: onFatal,
    amiss: lock.amiss,
    bug: (error) => log.error({ err: error }, 'a listener of the store failed'),
  })
  undo.push(() => store.close())
  lock.keep([database, `${database}-wal`], log)
  const tail = createTail(store, (error) => log.error({ err: error }, 'a follower of the record failed'))
  undo.push(tail.stop)
  const audit = await openAuditFile(config.data, device_id, store, tail, log)
  undo.push(() => audit.stop())
  /** Why all actions are refused: they would not be recorded. */
  const amiss = (): string | null => lock.amiss() ?? audit.amiss()
  const board = await boardFor(config, profile)
  const device = createDevice({
    board,
    device_id,
    dataFolder: config.data,
    startedAt: Date.now(),
    programs: policies.programs,
    plugins: plugins.list,
    policies: policies.named.map(({ policy }) => policy),
  })
  undo.push(() => device.close())
  // Put outputs into their safe state no matter how the process exits.
  const leaveSafe = (): void => device.makeSafe(null)
  process.once('exit', leaveSafe)
  undo.push(() => process.off('exit', leaveSafe))
  return { policies, keys, device_id, key, store, tail, audit, amiss, device }
}

async function start(config: DeviceConfig, options: DaemonOptions, undo: (() => unknown)[]): Promise<Daemon> {
  const { log } = options
  const { policies, keys, device_id, key, store, tail, audit, amiss, device } = await openParts(config, options, undo)
  const byName = new Map(policies.named.map(({ policy }) => [policy.name, policy]))
  const hacp: { server: HacpServer | null } = { server: null }
  const runner = createTaskRunner({
    device: actorOf(device, byName),
    clock: realClock,
    log,
    concurrencyOf: (policy) => byName.get(policy)?.concurrent ?? 1,
    lockWaitOf: (policy) => byName.get(policy)?.lock_wait_ms ?? 0,
    amiss,
    progress: (task_id, index) => hacp.server?.progress(task_id, index),
  })
  const effects = createEffectRunner({ device: runner.port }, realClock, log, EFFECTS_MS)
  const uplink = uplinkIn(config.data)
  const ports = portsOf({ device_id, device, policies: policies.named, runner, keys, isLinked: () => uplink() !== null })
  const kernel = createKernel({
    store,
    tail,
    protocols: [daemonProtocol(ports)],
    contracts: [],
    directory: () => Promise.resolve(null),
    perform: effects.perform,
    now: realClock.now,
    sleep: realClock.sleep,
    entropy: realEntropy,
    asksPerMinute: null,
    checksAnswers: false,
  })
  const about = { version, board: config.board }
  await kernel.call('hardware/daemon.start', about, SYSTEM)
  device.makeSafe(null)
  await concludeUnknown(kernel, log)
  await endWhatWasOpen(kernel)
  const checkpoints = runCheckpoints(kernel, device_id, key, audit, log)
  const sweeper = runReplySweeper(kernel, realClock, log)
  runner.begin(kernel)
  const link = runLink({ device_id, store, tail, clock: realClock, log, uplink })
  const asking = runAsking(kernel, { device_id, clock: realClock, log, uplink })
  const server = createHacp(kernel, {
    device_id,
    version,
    key,
    audit: { amiss, head: audit.head },
    log,
    hasWork: runner.hasWork,
    released: runner.released,
    idleMsOf: (policy) => (byName.get(policy)?.idle_seconds ?? 0) * 1_000,
  })
  hacp.server = server
  undo.push(async () => {
    await server.stop()
    await runner.stop()
    await effects.stop()
    device.makeSafe(null)
    await endSessions(kernel).catch(() => undefined)
    await kernel.call('hardware/daemon.stop', about, SYSTEM).catch(() => undefined)
    await checkpoints.now().catch(() => undefined)
    await Promise.all([checkpoints.stop(), sweeper.stop(), link.stop(), asking.stop()])
  })
  const ways = await listenAll(config, policies, server, log, undo)
  let stopped: Promise<void> | undefined
  async function stop(): Promise<void> {
    log.info({}, 'stopping')
    for (const step of undo.toReversed()) await step()
    log.info({}, 'stopped')
  }
  return { ready: { device_id, ...ways, board: config.board }, kernel, rotate: audit.rotate, stop: () => (stopped ??= stop()) }
}
const EFFECTS_MS = 500

// --- What the operator wrote -----------------------------------------------------------------------------------------------

function fileIn<T>(path: string, read: (value: unknown) => T): T {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new ConfigError(`${path} cannot be read: ${(error as Error).message}`)
  }
  try {
    return read(decodeText(text))
  } catch (error) {
    throw new ConfigError(`${path}: ${error instanceof FileProblem ? error.message : `it is not JSON (${(error as Error).message})`}`)
  }
}

async function profileFor({ board, profile }: DeviceConfig): Promise<Profile> {
  if (profile !== null) return fileIn(profile, readProfile)
  if (board === 'simulated') return readProfile((await import('#devices/simulated/profile.ts')).simulatedProfile)
  return readProfile((await import('#devices/linux/profile.ts')).foundProfile())
}

async function boardFor({ board }: DeviceConfig, profile: Profile): Promise<Board> {
  if (board === 'simulated') return (await import('#devices/simulated/index.ts')).simulatedBoard(profile)
  try {
    return (await import('#devices/linux/index.ts')).linuxBoard(profile)
  } catch (error) {
    throw new StartError(`the board cannot be opened: ${(error as Error).message}`)
  }
}

// --- Parts for each other --------------------------------------------------------------------------------------------------

export const actorOf = (device: Device, byName: ReadonlyMap<string, Policy>): Hardware => ({
  timeoutOf: (tool) => device.tools.get(tool)?.timeout_ms ?? 1_000,
  act: ({ tool, args, session_id, policy }, signal) => device.act(tool, { args, session_id, policy: byName.get(policy)!, signal }),
  codeOf: (error) => (error instanceof DeviceError ? error.code : null),
  isCancelled: (error) => error instanceof Cancelled,
  valueBefore: ({ tool, args }, policy) => device.valueBefore({ tool: device.tools.get(tool)!, args }, byName.get(policy) ?? null),
  makeSafe: (session_id) => device.makeSafe(session_id),
})

type Behind = {
  readonly device_id: string
  readonly device: Device
  readonly policies: readonly NamedPolicy[]
  readonly runner: TaskRunner
  readonly keys: ApprovalKeys
  isLinked(): boolean
}

export function portsOf({ device_id, device, policies, runner, keys, isLinked }: Behind): DaemonPorts {
  const rates = createRates(realClock.now)
  const principals = new Map<string, Policy>()
  for (const { policy, subjects } of policies) {
    principals.set(principalOf(policy.name, null), policy)
    for (const subject of subjects) principals.set(principalOf(policy.name, subject), policy)
  }
  return {
    device_id,
    policyOf: (principal) => principals.get(principal) ?? null,
    toolNamed: (name) => device.tools.get(name),
    tools: () => device.tools.values(),
    targetOf: device.targetOf,
    resourceOf: device.resourceOf,
    objectionTo: (steps) => device.objectionTo(steps, (resource) => runner.holderOf(resource) !== null),
    take: (session_id, policy, tool) => rates.take(session_id, tool, policy.rate[tool]),
    holderOf: runner.holderOf,
    valueBefore: device.valueBefore,
    verify: keys.verify,
    isLinked,
  }
}

// --- Ways in ---------------------------------------------------------------------------------------------------------------

type Ways = Pick<Ready, 'socket' | 'sockets' | 'listen' | 'wss'>

async function listenAll(
  config: DeviceConfig,
  { named }: Policies,
  server: HacpServer,
  log: Logger,
  undo: (() => unknown)[],
): Promise<Ways> {
  const ways: Listening[] = []
  undo.push(() => Promise.all(ways.map((way) => way.stop())))
  const usual = named.find(({ policy }) => policy.name === 'default') ?? (named.length === 1 ? named[0] : undefined)
  const sockets: Record<string, string> = {}
  let socket: string | null = null
  for (const entry of named) {
    const paths = new Set([entry.socket, entry === usual ? config.socket : null].filter((path) => path !== null))
    for (const path of paths) {
      ways.push(await listenUnix(server, path, entry.policy.name, entry.group))
      sockets[entry.policy.name] = entry.socket ?? path
      if (path === config.socket) socket = path
    }
  }
  const policyOf = (subject: string): string => named.find(({ subjects }) => subjects.includes(subject))?.policy.name ?? ''
  const over = async (where: DeviceConfig['listen'], how: 'listenTls' | 'listenWss'): Promise<string | null> => {
    if (where === null || config.tls === null) return null
    const way = await (await import('./tls-listeners.ts'))[how](server, where, config.tls, policyOf, log)
    ways.push(way)
    return way.address
  }
  return { socket, sockets, listen: await over(config.listen, 'listenTls'), wss: await over(config.wss, 'listenWss') }
}
