// Checks at the start, before anybody is answered: the newest facts, the ends of the chains, the key files, and the documents that it needs. A
// difference refuses the start, unless the operator wants to look at it.
import { basename } from 'node:path'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { Damaged } from '#kernel/declare/errors.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Found, Store } from '#kernel/log/store.ts'
import { KeyNames } from '#protocols/identity/schema.ts'
import type { Findings } from '#workers/upkeep/findings.ts'
import { NOTHING_VERIFIED, verifyNow, type Checked } from '#workers/upkeep/record-verifier.ts'
import type { Config } from '../settings/config.ts'
import { differenceFromAnchor, type Anchor, type AnchorFile } from './anchor.ts'
import type { DataFolder } from './data-folder.ts'
import { keyDifferences, namesOf, replacedIn, type Keys } from './key-files.ts'
import { StartError } from '../start-error.ts'
import type { Logger } from '../log.ts'

/** Refuses to start with valid keys other than those on the record, unless the operator replaced lost keys or skips verification. */
export async function checkKeys(store: Store, { keys, folder, config: { skipVerify }, findings }: Omit<Starting, 'log'>): Promise<void> {
  const differences = await keysAgainst(store, keys, folder)
  const [first] = differences
  if (first && !skipVerify)
    throw new StartError(
      `${first.what} in ${folder.path} is not the one that the record names: ${first.how}. Restore the folder keys/, or look at it with --skip-verify`,
    )
  for (const difference of differences) findings.add(difference)
}

/** Ignores keys that the operator replaced and that are not on the record yet. */
export async function keysAgainst(store: Store, keys: Pick<Keys, 'server' | 'ring'>, folder: Pick<DataFolder, 'keys'>): Promise<Found[]> {
  const replaced = replacedIn(folder.keys)
  return (await keysBeside(store, keys)).filter(({ what }) => !replaced.includes(basename(what)))
}

export async function keysBeside(store: Store, keys: Pick<Keys, 'server' | 'ring'>): Promise<Found[]> {
  const recorded = await store.described(keyOf(KeyNames, 'keys'))
  return recorded ? keyDifferences(namesOf(keys.server, keys.ring()), recorded as KeyNames) : []
}

/** The start needs documents, and one of them can be damaged: then only a start with --skip-verify is possible, to examine it. */
async function orDamaged({ skipVerify }: Config, log: Logger, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    const message = `${error.key} differs from the record: ${error.what}`
    if (!skipVerify) throw new StartError(`${message}. Restore a backup, or look at it with --skip-verify`)
    log.error({ what: error.key }, `${message}; started anyway, because of --skip-verify`)
  }
}

type Starting = {
  readonly keys: Keys
  readonly folder: DataFolder
  readonly config: Config
  readonly findings: Findings
  readonly log: Logger
}

/** Runs the setup once the keys are known to match the record, and records their names. */
export async function setUpChecked(
  { config, findings, log }: Pick<Starting, 'config' | 'findings' | 'log'>,
  setsUp: () => Promise<void>,
  recordsKeys: () => Promise<unknown>,
): Promise<void> {
  await orDamaged(config, log, setsUp)
  if (findings.all().every(({ what }) => !what.startsWith('keys/'))) await orDamaged(config, log, recordsKeys)
}

export type CheckedRecord = Checked & {
  /** `none`: the folder had no anchor to compare the record with. */
  readonly anchor: 'kept' | 'none'
  /** An anchor that the operator set aside. */
  readonly accepted: Anchor | null
}

/** `serverKey`: the key's name. `isNewKey`: the key was lost and replaced, so earlier seals were made with another key. */
type Checking = Pick<DataFolder, 'path' | 'marker'> & {
  readonly anchor: AnchorFile
  readonly serverKey: string
  readonly isNewKey: boolean
}

export async function checkRecord(
  store: Store,
  folder: Checking,
  config: Config,
  clock: Clock,
  log: Logger,
  signal: AbortSignal,
): Promise<CheckedRecord> {
  const from = (await folder.marker.read()) ?? NOTHING_VERIFIED
  const found = await folder.anchor.read()
  const known = found === null || found.accepted || folder.isNewKey ? null : found
  const isFirst = (await store.position()) === 0 && from.position === 0
  const anchor = found !== null || isFirst || (!store.isShared && from.position > 0) ? 'kept' : 'none'
  const putBack = known && (await differenceFromAnchor(store, known, folder.serverKey))
  // From now on the store answers only if the record has this seal, even before the first commit of this server.
  if (known && !putBack) store.prove({ position: known.position, tag: known.tag })
  const checked = await verifyNow(store, from, clock, signal)
  const { marker } = checked
  const difference = putBack ?? checked.difference
  const rest = { marker, difference, anchor, accepted: found?.accepted ? found : null } as const
  // Without it the same facts are verified again at the next start, and that is all.
  const warnUnsaved = (error: unknown): void => log.warn({ error: String(error) }, 'could not save how far the record is verified')
  if (marker.position > from.position) await folder.marker.write(marker).catch(warnUnsaved)
  if (!difference) return rest
  const message = `the record in ${folder.path} was changed: ${placeOf(difference)}${difference.what}`
  const wasRestored = putBack ? `. If you restored a backup, run \`countersign audit accept\` with this data folder, and start again` : ''
  if (!config.skipVerify)
    throw new StartError(`RECORD_CHANGED: ${message}. Restore a backup, or look at it with --skip-verify${wasRestored}`)
  log.error({ project: difference.scope, seq: difference.seq }, `${message}; started anyway, because of --skip-verify`)
  return rest
}

const placeOf = ({ scope, seq }: Difference): string => (scope === 'all' ? '' : `project ${scope}, number ${seq}: `)
