// The file of the keys that pushes are signed with, beside the other keys. Without it a new one is made: then browsers have to subscribe anew.
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
    throw new StartError(`${file} cannot be used: ${(error as Error).message}; without it a new one is made, and browsers subscribe anew`)
  }
}

/** How often it is looked whether the file was rotated. */
const LOOK_MS = 5_000

/** As it is now: `receipt rotate --push` may have written another one. One that cannot be read then is not taken up. */
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
  if (!existsSync(keys)) throw new StartError(`${keys} is not there: name the data folder of a server that was started once (--data)`)
  const next = existsSync(file) ? rotatePushRing(ringIn(file), timestampOf(nowMs)) : newPushRing(timestampOf(nowMs))
  await writeAtomically(file, textOfPushRing(next))
  return next
}
