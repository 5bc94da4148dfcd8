// The log of a server as it starts: its name and key are recorded, the record is compared with the last checkpoint, and then it signs.
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Store } from '#kernel/log/store.ts'
import { isSameKey, Unreadable } from '#kernel/log/tree/note.ts'
import type { Policy } from '#kernel/log/tree/policy.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import { LogNames } from '#protocols/identity/schema.ts'
import { logKeyOf, nodeKeyIn, nodePolicyIn, type LogKey } from '#workers/keys/log-key.ts'
import type { KeyRing } from '#workers/keys/key-ring.ts'
import type { Duty } from '#workers/leases.ts'
import { runLoop } from '#workers/loop.ts'
import { RecordDiffers } from '#workers/log/log-tree.ts'
import { openRecordLog, type Checkpoints, type OpenLog } from '#workers/log/record-log.ts'
import type { Findings } from '#workers/upkeep/findings.ts'
import { workersAsOne } from '#workers/worker.ts'
import { ConfigError } from '../settings/config-error.ts'
import type { Config } from '../settings/config.ts'
import { bytesOfFile } from '../settings/operator-file.ts'
import type { DataFolder } from '../folder/data-folder.ts'
import { LOG_KEY_FILE } from '../folder/key-files.ts'
import { StartError } from '../start-error.ts'
import type { Logger } from '../log.ts'
import { stopMark, tileFiles } from './files.ts'
import type { LogRing, LogRingSource } from './key.ts'

export type ServedLog = OpenLog & {
  /** The policy that verifiers trust: the present key of the log, and the witnesses. */
  policy(): string
}

/** What a storage has of the log. */
export type LogStorage = { readonly logRing: LogRingSource; readonly checkpoints: Checkpoints }

type Parts = LogStorage & {
  readonly kernel: Kernel
  readonly folder: Pick<DataFolder, 'path' | 'keys'>
  readonly config: Pick<Config, 'logOrigin' | 'logEveryMs' | 'witnesses' | 'skipVerify' | 'publicUrl'>
  readonly installation: string
  /** The operator restored a backup, and the start takes the record as it is. */
  readonly isAccepted: boolean
  readonly findings: Findings
  readonly clock: Clock
  readonly log: Logger
  readonly duty: Duty
}

/** How soon a rotation is noticed. */
const LOOK_MS = 2_000
const NO_WITNESSES: Policy = { logs: [], witnesses: [], quorum: 'none', isMet: () => true }

/** Null: the record was changed, and the operator started all the same. */
export async function startLog(parts: Parts): Promise<ServedLog | null> {
  const { kernel, config, folder, findings, log } = parts
  const asked = readWitnesses(config.witnesses)
  const names = await orChanged(parts, () => namesOf(parts))
  if (names === null) return null
  const { ring, origin, earlier } = names
  const key = keyBy(ring, origin)
  refuseOwnKey(asked.policy, key(), config.witnesses)
  const noteChange = (difference: Difference): void => {
    findings.add({ what: 'log', how: difference.what })
    log.error({ position: difference.seq }, `the log has stopped, because the record was changed: ${difference.what}`)
  }
  const opened = await orChanged(parts, () =>
    openRecordLog({
      ...parts,
      store: kernel.store,
      tail: kernel.tail,
      origin,
      key,
      earlier,
      policy: asked.policy,
      everyMs: config.logEveryMs,
      files: tileFiles(folder.path),
      changed: noteChange,
    }),
  )
  if (opened === null) return null
  return {
    ...opened,
    worker: workersAsOne(opened.worker, watchLogKey(parts, names, key)),
    policy: () => `log ${key().keys[0].text}\n${asked.text}`,
  }
}

/** A difference refuses the start, unless the operator wants to look at it. */
async function orChanged<T>(parts: Parts, work: () => Promise<T>): Promise<T | null> {
  const { config, folder, findings, log } = parts
  try {
    return await work()
  } catch (error) {
    if (error instanceof Unreadable)
      throw new StartError(
        `the last checkpoint of the log in ${folder.path} cannot be used: ${error.message}. Restore it from a backup, or remove it to go on without that check`,
      )
    if (!(error instanceof RecordDiffers)) throw error
    if (!config.skipVerify) throw new StartError(changedMessage(folder.path, error.message))
    findings.add({ what: 'log', how: error.message })
    log.error({}, `the record was changed: ${error.message}; started all the same, because of --skip-verify, without the log`)
    return null
  }
}

const changedMessage = (path: string, what: string): string =>
  `RECORD_CHANGED: the record in ${path} was changed: ${what}. Restore a backup, or look at it with --skip-verify. If you restored a backup, run \`countersign audit accept\` with this data folder, and start again`

// --- Its name and its key --------------------------------------------------------------------------------------------------

type Names = { readonly ring: LogRing; readonly origin: string; readonly earlier: LogKey['keys'][number][] }

async function namesOf(parts: Parts): Promise<Names> {
  const { kernel, config, logRing, checkpoints, isAccepted, installation, log } = parts
  const recorded = (await kernel.store.described(keyOf(LogNames, 'log'))) as LogNames | null
  const { isReplaced } = logRing
  const ring = await logRing.open(recorded === null || isReplaced)
  refuseOtherOrigin(recorded, config.logOrigin)
  let origin = recorded?.origin ?? (config.logOrigin || usualOrigin(config.publicUrl, installation))
  const keys = keyBy(ring, origin)().keys
  const isOther = recorded !== null && !isReplaced && !keys.some(({ text }) => text === recorded.keys[0])
  if (isOther) refuseOtherKey(parts, keys[0].text, recorded.keys[0]!)
  const last = await checkpoints.read('signed')
  // A restored record, or one whose checkpoints are gone: the log may have signed more than there is, and witnesses refuse a second history.
  const isRestored = recorded !== null && (isAccepted || (last === null && !kernel.store.isShared))
  if (isRestored) {
    origin = nextOrigin(origin)
    log.warn({ origin }, 'the record was restored, so a new log begins')
  }
  const earlier = isRestored || recorded === null ? [] : recorded.keys.map(nodeKeyIn)
  await record(parts, { ring, origin, earlier }, isRestored ? (last ?? '') : undefined)
  // Also after a crash between the two: the checkpoint is of the log before.
  if (last !== null && (isRestored || recorded?.before === last)) await checkpoints.clear()
  return { ring, origin, earlier }
}

function record({ kernel }: Parts, { ring, origin, earlier }: Names, before?: string): Promise<unknown> {
  const keys = [...new Set([...keyBy(ring, origin)().keys, ...earlier].map(({ text }) => text))].slice(0, limits.signingKeysMax)
  return kernel.call('identity/log.record', { origin, keys, ...(before === undefined ? {} : { before }) }, SYSTEM)
}

const usualOrigin = (publicUrl: string | null, installation: string): string =>
  `${publicUrl === null ? installation : new URL(publicUrl).hostname}/log`

function nextOrigin(origin: string): string {
  const [, base, number] = /^(.*?)(?:-(\d+))?$/.exec(origin)!
  return `${base}-${Number(number ?? 1) + 1}`
}

function refuseOtherOrigin(recorded: LogNames | null, wish: string): void {
  if (recorded === null || wish === '' || recorded.origin === wish) return
  // A restored backup began another log under the next number.
  if (recorded.before !== null && recorded.origin.startsWith(`${wish}-`)) return
  throw new ConfigError(
    `--log-origin is ${wish}, and the log is called ${recorded.origin} since its first fact: witnesses and bundles know it by that name`,
  )
}

function refuseOtherKey({ config, folder }: Parts, found: string, recorded: string): void {
  const how = `it is ${found}, the record names ${recorded}`
  if (!config.skipVerify)
    throw new StartError(
      `keys/${LOG_KEY_FILE} in ${folder.path} is not the one that the record names: ${how}. Restore the folder keys/, or look at it with --skip-verify`,
    )
  // Nothing is signed or recorded under a key that the record does not name.
  throw new RecordDiffers(0, `keys/${LOG_KEY_FILE}: ${how}`)
}

/** Made once for each ring: reading a private key takes longer than a signature. */
function keyBy(ring: LogRing, origin: string): () => LogKey {
  let known: { readonly ring: KeyRing; readonly key: LogKey } | null = null
  return () => {
    const now = ring.ring()
    if (known?.ring !== now) known = { ring: now, key: logKeyOf(now, origin) }
    return known.key
  }
}

/** On the record first, so that no checkpoint is signed by a key that the record does not name. */
function watchLogKey(parts: Parts, names: Names, key: () => LogKey) {
  const { clock, log } = parts
  return runLoop({
    name: 'log key',
    clock,
    log,
    firstMs: LOOK_MS,
    failed: 'the key of the log was changed and cannot be used, so the one before is still used',
    failedMs: LOOK_MS * 10,
    async turn() {
      if (await names.ring.refresh()) {
        await record(parts, names)
        log.info({ key: key().keys[0].text }, 'checkpoints are signed with a new key')
      }
      return LOOK_MS
    },
  })
}

// --- Witnesses -------------------------------------------------------------------------------------------------------------

type AskedPolicy = { readonly policy: Policy; readonly text: string }

function readWitnesses(path: string | null): AskedPolicy {
  if (path === null) return { policy: NO_WITNESSES, text: 'quorum none\n' }
  try {
    const text = bytesOfFile(path).toString('utf8')
    const policy = nodePolicyIn(text)
    // Its own line comes from the server, which alone knows the present key.
    const lines = text.split('\n').filter((line) => !/^[ \t]*(log[ \t]|#|$)/.test(line))
    return { policy, text: `${lines.join('\n')}\n` }
  } catch (error) {
    throw new ConfigError(`--witnesses ${path}: ${(error as Error).message}`)
  }
}

function refuseOwnKey({ witnesses }: Policy, { keys }: LogKey, path: string | null): void {
  const own = witnesses.find(({ key }) => keys.some((ours) => isSameKey(ours, key)))
  if (own) throw new ConfigError(`--witnesses ${path}: ${own.key.name} has the key of this log: a log is not its own witness`)
}

// --- A clean stop ----------------------------------------------------------------------------------------------------------

/**
 * Compares a record with its last clean stop, before this process writes anything. A process that stopped cleanly signed its last fact, so a
 * longer record was written by something else, whatever its seals say. Returns false if it was: then there is no log, which would sign the rest.
 */
export async function checkStop(
  store: Store,
  path: string,
  { skipVerify, isAccepted }: { readonly skipVerify: boolean; readonly isAccepted: boolean },
  findings: Findings,
): Promise<boolean> {
  const mark = stopMark(path)
  const size = store.isShared ? null : mark.read()
  if (size === null) return true
  const position = await store.position()
  // The mark of an accepted backup is of the record before it.
  if (position > size && !isAccepted) {
    const how = `it ends at position ${position}, and the last stop signed ${size} facts: no server of this folder wrote the rest`
    if (!skipVerify) throw new StartError(changedMessage(path, how))
    findings.add({ what: 'log', how })
    return false
  }
  mark.remove()
  return true
}

/** After everything has ended: nothing writes any more. */
export async function noteStop(store: Store, path: string, log: ServedLog | null): Promise<void> {
  const size = log?.health().signed ?? 0
  // Without the mark the next start has one check less.
  if (!store.isShared && size > 0 && size === store.stats().position)
    await stopMark(path)
      .write(size)
      .catch(() => undefined)
}
