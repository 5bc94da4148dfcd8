// Checks at the start, before anybody is answered: the newest facts, the ends of the chains, the key files, and the documents that it needs. A
// difference refuses the start, unless the operator wants to look at it.
import { basename } from 'node:path'
import type { Clock } from '#kernel/ports/clock.ts'
import { Damaged } from '#kernel/declare/errors.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Found, Store } from '#kernel/log/store.ts'
import { KeyNames } from '#protocols/identity/schema.ts'
import type { Findings } from '#workers/upkeep/findings.ts'
import { readSound } from '#workers/upkeep/sound-documents.ts'
import { NOTHING_VERIFIED, verifyNow, type Checked } from '#workers/upkeep/record-verifier.ts'
import type { Config } from '../settings/config.ts'
import type { DataFolder } from './data-folder.ts'
import { keyDifferences, namesOf, replacedIn, settleReplaced, type Keys } from './key-files.ts'
import { StartError } from '../start-error.ts'
import type { Logger } from '../log.ts'

/** Another valid key file in the place of one that the record names is no start, unless the keys were lost and made anew by the operator. */
async function checkKeys(store: Store, keys: Keys, folder: DataFolder, { skipVerify }: Config, findings: Findings): Promise<void> {
  const replaced = replacedIn(folder.keys)
  const differences = (await keysBeside(store, keys)).filter(({ what }) => !replaced.includes(basename(what)))
  const [first] = differences
  if (first && !skipVerify)
    throw new StartError(
      `${first.what} in ${folder.path} is not the one that the record names: ${first.how}. Restore the folder keys/, or look at it with --skip-verify`,
    )
  for (const difference of differences) findings.add(difference)
}

export async function keysBeside(store: Store, keys: Pick<Keys, 'server' | 'ring'>): Promise<Found[]> {
  const [recorded] = await readSound(store, [keyOf(KeyNames, 'keys')])
  return recorded ? keyDifferences(namesOf(keys.server, keys.ring()), recorded.value as KeyNames) : []
}

/** A document that the start needs may be the one that was changed: then there is a start to look at it only. */
async function orDamaged({ skipVerify }: Config, log: Logger, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    const words = `${error.key} differs from the record: ${error.what}`
    if (!skipVerify) throw new StartError(`${words}. Restore a backup, or look at it with --skip-verify`)
    log.error({ what: error.key }, `${words}; started all the same, because of --skip-verify`)
  }
}

type Starting = {
  readonly keys: Keys
  readonly folder: DataFolder
  readonly config: Config
  readonly findings: Findings
  readonly log: Logger
}

/** Sets up once the keys are known to be those of the record, and records their names. */
export async function setUpChecked(
  store: Store,
  { keys, folder, config, findings, log }: Starting,
  setsUp: () => Promise<void>,
  recordsKeys: () => Promise<unknown>,
): Promise<void> {
  await checkKeys(store, keys, folder, config, findings)
  await orDamaged(config, log, setsUp)
  if (findings.all().every(({ what }) => !what.startsWith('keys/'))) await orDamaged(config, log, recordsKeys)
  settleReplaced(folder.keys)
}

export async function checkRecord(
  store: Store,
  folder: Pick<DataFolder, 'path' | 'marker'>,
  config: Config,
  clock: Clock,
  log: Logger,
  signal: AbortSignal,
): Promise<Checked> {
  const from = (await folder.marker.read()) ?? NOTHING_VERIFIED
  const { marker, difference } = await verifyNow(store, from, clock, signal)
  // Without it the same facts are verified again at the next start, and that is all.
  const unsaved = (error: unknown): void => log.warn({ error: String(error) }, 'how far the record is verified could not be noted')
  if (marker.position > from.position) await folder.marker.write(marker).catch(unsaved)
  if (!difference) return { marker, difference }
  const words = `the record in ${folder.path} was changed: project ${difference.scope}, number ${difference.seq}: ${difference.what}`
  if (!config.skipVerify) throw new StartError(`${words}. Restore a backup, or look at it with --skip-verify`)
  log.error({ project: difference.scope, seq: difference.seq }, `${words}; started all the same, because of --skip-verify`)
  return { marker, difference }
}
