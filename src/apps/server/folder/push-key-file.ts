// The file of the push signing keys, beside the other keys. If it is missing, new keys are made, and browsers have to subscribe again.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { timestampOf } from '#kernel/ports/clock.ts'
import { newPushRing, pushRingFrom, rotatePushRing, type PushRing } from '#workers/keys/push-keys.ts'
import { StartError } from '../start-error.ts'
import { writeAtomically } from './small-files.ts'

export const pushFile = (keys: string): string => join(keys, 'push.json')
export const textOfPushRing = (ring: PushRing): string => `${JSON.stringify(ring, null, 2)}\n`

function ringIn(file: string): PushRing {
  try {
    return pushRingFrom(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new StartError(
      `${file} cannot be used: ${(error as Error).message}; without it a new one is created, and browsers subscribe again`,
    )
  }
}

/** How often the file is checked for a rotation. */
const LOOK_MS = 5_000

/** Rereads the file, because `receipt rotate --push` might have replaced it. An unreadable file is ignored. */
export async function openPushKeyFile(keys: string, now: () => number): Promise<() => PushRing> {
  const file = pushFile(keys)
  if (!existsSync(file)) await writeAtomically(file, textOfPushRing(newPushRing(timestampOf(now()))))
  let ring = ringIn(file)
  let [mark, looked] = [statSync(file).mtimeMs, now()]
  return () => {
    if (now() - looked < LOOK_MS) return ring
    looked = now()
    try {
      const { mtimeMs } = statSync(file)
      if (mtimeMs !== mark) [ring, mark] = [ringIn(file), mtimeMs]
    } catch {
      return ring
    }
    return ring
  }
}

export async function rotatePushKeys(keys: string, nowMs: number): Promise<PushRing> {
  const file = pushFile(keys)
  if (!existsSync(keys))
    throw new StartError(`${keys} does not exist: name the data folder of a server that has been started once (--data)`)
  const next = existsSync(file) ? rotatePushRing(ringIn(file), timestampOf(nowMs)) : newPushRing(timestampOf(nowMs))
  await writeAtomically(file, textOfPushRing(next))
  return next
}
