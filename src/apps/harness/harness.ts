// A harness in the process of its user: a data folder with its record, the kernel on it, and the link to the broker. Callees and callers are
// made of it.
import { randomBytes } from 'node:crypto'
import { contracts } from '#contracts/index.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { grants } from '#protocols/collaboration/task/grants.ts'
import { directory, people } from '#protocols/identity/directory.ts'
import { Task } from '#protocols/harness/schema.ts'
import { unseal } from '#protocols/harness/session/session-work.ts'
import { protocols } from '#protocols/index.ts'
import { createNotary } from '#workers/keys/notary.ts'
import { openLeases } from '#workers/leases.ts'
import { createPresence } from '#workers/presence.ts'
import { runTimers } from '#workers/timers.ts'
import { openFindings } from '#workers/upkeep/findings.ts'
import { runReplySweeper } from '#workers/upkeep/reply-sweeper.ts'
import { realClock, realEntropy } from '../server/clock.ts'
import { openDataFolder } from '../server/folder/data-folder.ts'
import { setUp } from '../server/folder/first-start.ts'
import { recordedKeys } from '../server/folder/key-files.ts'
import { harnessTerms, runHarness, type HarnessHealth } from '../server/harness.ts'
import { createLog } from '../server/log.ts'
import type { LogLevel } from '../server/settings/config.ts'
import { harnessSettings } from '../server/settings/harness-settings.ts'
import { openFolderStorage } from '../server/storage.ts'
import { LEASES } from '../server/workers.ts'

export type HarnessOptions = {
  /** The id of this harness, which is its user at the broker. */
  readonly id: string
  /** Such as amqp://lab-a:secret@localhost/hcp. */
  readonly url: string
  /** The folder that keeps everything; one process at a time has it. */
  readonly data: string
  readonly user_id?: 'required' | 'off'
  readonly topology?: 'declare' | 'check'
  readonly queues?: 'classic' | 'quorum'
  readonly prefetch?: number
  /** ISO 8601 durations: how long events wait for an earlier one, and a submission for its answer. */
  readonly gap?: string
  readonly reply?: string
  /** Files for amqps: the trusted authority, and the client's certificate with its key. */
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** The level of lines on standard error; `warn` by default. */
  readonly log?: LogLevel
  /** The address under which others fetch artifacts, if they are served. */
  readonly origin?: () => string
}

export type AnyOutput = Record<string, unknown>
export type OpenHarness = {
  readonly kernel: Kernel
  call(operation: string, input: object, actor?: Actor): Promise<AnyOutput>
  health(): HarnessHealth
  /** Calls `then` with each key of a kind that a commit has changed. */
  onChange(kind: string, then: (id: string) => void): () => void
  /** The submission, with its sealed parts. */
  submissionOf(session: string): Promise<{ readonly intent?: unknown; readonly inputs?: unknown }>
  report(error: unknown, message: string): void
  stop(): Promise<void>
}

const KEPT_USUAL = { 'harness-user-id': 'required', 'harness-topology': 'declare', 'harness-queues': 'classic', 'harness-prefetch': '10' }
const TIMES_USUAL = { 'harness-gap': 'PT30S', 'harness-reply': 'PT30S' }

/** The settings of the server, given as options. */
function settingsOf(options: HarnessOptions) {
  const { id, url, user_id, topology, queues, prefetch, gap, reply, ca, cert, key } = options
  const flags: Record<string, string | undefined> = {
    amqp: url,
    'harness-id': id,
    'harness-user-id': user_id,
    'harness-topology': topology,
    'harness-queues': queues,
    'harness-prefetch': prefetch === undefined ? undefined : String(prefetch),
    'harness-gap': gap,
    'harness-reply': reply,
    'amqp-ca': ca,
    'amqp-cert': cert,
    'amqp-key': key,
  }
  const usual: Record<string, string> = { ...KEPT_USUAL, ...TIMES_USUAL }
  const settings = harnessSettings(
    (flag) => ({ value: flags[flag] ?? usual[flag] ?? '', name: NAMES[flag] ?? flag }),
    (message) => new TypeError(message),
  )
  if (settings === null) throw new TypeError('url must be a URL such as amqp://user:password@host/hcp')
  return settings
}
const NAMES: Readonly<Record<string, string>> = {
  amqp: 'url',
  'harness-id': 'id',
  'harness-user-id': 'user_id',
  'harness-topology': 'topology',
  'harness-queues': 'queues',
  'harness-prefetch': 'prefetch',
  'harness-gap': 'gap',
  'harness-reply': 'reply',
  'amqp-ca': 'ca',
  'amqp-cert': 'cert',
  'amqp-key': 'key',
}

/** Undone from the last to the first. */
type Undo = (() => unknown)[]

export async function openHarness(options: HarnessOptions): Promise<OpenHarness> {
  const undo: Undo = []
  try {
    return await openParts(options, undo)
  } catch (error) {
    for (const step of undo.toReversed()) await step()
    throw error
  }
}

async function openParts(options: HarnessOptions, undo: Undo): Promise<OpenHarness> {
  const settings = settingsOf(options)
  const log = createLog(options.log ?? 'warn')
  const clock = realClock
  const folder = openDataFolder(options.data)
  undo.push(folder.release)
  const findings = await openFindings(folder.findings, log)
  const onFatal = (error: unknown): void => {
    // The next start checks what is on the disk.
    log.fatal({ err: error }, 'the store failed, and the state on the disk is unknown')
    process.exit(1)
  }
  const storage = await openFolderStorage({ folder, config: { skipVerify: false, readOnly: false }, clock, log, findings, onFatal })
  const { store, keys, blobs } = storage
  undo.push(storage.close)
  const issuer = `hcp://${settings.id}`
  const notary = createNotary(keys.server, keys.ring, () => issuer)
  const kernel = createKernel({
    store,
    blobs,
    protocols,
    contracts,
    directory,
    people,
    grants,
    findings: findings.all,
    presence: createPresence(clock.now).presence,
    notary,
    now: clock.now,
    sleep: clock.sleep,
    entropy: realEntropy,
    bug: (error) => log.error({ err: error }, 'a follower of the record failed'),
    asksPerMinute: null,
    changesPerMinute: null,
    readsPerMinute: null,
    terms: { harness: harnessTerms(settings, options.origin ?? null) },
    checksAnswers: false,
  })
  await setUp(kernel, folder.adminKey)
  await kernel.call('identity/keys.record', recordedKeys(keys.server, keys.ring()), SYSTEM)
  const node = `harness-${randomBytes(4).toString('hex')}`
  const leases = await openLeases(kernel, { node, names: LEASES, monotonic: () => performance.now() }, clock, log)
  undo.push(leases.stop)
  const harness = runHarness(settings, { kernel, clock, notary, log, leases })
  const workers = [
    runTimers(kernel, clock, log, leases.duty('timers')),
    runReplySweeper(kernel, clock, log, leases.duty('sweeper')),
    harness,
  ]
  undo.push(() => Promise.all(workers.map((worker) => worker.stop())))
  undo.push(kernel.release)
  let stopped: Promise<void> | null = null
  return {
    kernel,
    call: async (operation, input, actor = SYSTEM) => (await kernel.call(operation, input, actor)) as AnyOutput,
    health: harness.health,
    onChange(kind, then) {
      const prefix = `${kind}/`
      return store.subscribe(({ keys: changed }) => {
        if (changed === 'all') return
        for (const key of changed) if (key.startsWith(prefix)) then(key.slice(prefix.length))
      })
    },
    async submissionOf(session) {
      const { submission, sealed } = (await store.read([keyOf(Task, session)]))[0]!.value as Task
      return unseal({ notary }, submission, sealed)
    },
    report: (error, message) => log.error({ err: error }, message),
    stop: () =>
      (stopped ??= (async () => {
        for (const step of undo.toReversed()) await step()
      })()),
  }
}
