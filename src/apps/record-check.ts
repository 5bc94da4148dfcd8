// Checks the record when the server starts: one that was changed refuses the start, unless the operator wants to look at it.
import type { Logger } from 'pino'
import type { Clock } from '#kernel/clock.ts'
import type { Store } from '#kernel/store.ts'
import { NOTHING_VERIFIED, verifyNow, type Checked } from '#workers/verifier.ts'
import type { Config } from './config.ts'
import { type DataFolder } from './data-folder.ts'
import { StartError } from './start-error.ts'

export async function checkRecord(
  store: Store,
  folder: DataFolder,
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
