// Errands at once. A call may leave work to batches of its own: an agent is switched off, and each of its runs ends in its project. That work is
// begun before the call is answered, so that its caller sees it done; whatever is left over is done by the worker, as after a crash.
import { SYSTEM, type Actor } from '../declare/access.ts'
import { keyOf } from '../declare/schema.ts'
import { limits } from '../limits.ts'
import { Errand } from '../log/errand.ts'
import type { Draft } from './unit-of-work.ts'

export type DueErrand = { readonly key: string; readonly call: string; readonly input: object }

const PREFIX = keyOf(Errand, '')

/** The errands of a batch that are due by now. */
export function errandsIn({ at, after, puts }: Draft): readonly DueErrand[] {
  const found: DueErrand[] = []
  for (const key of puts) {
    const errand = key.startsWith(PREFIX) ? (after.get(key) as (DueErrand & { readonly at: string }) | null) : null
    if (errand && errand.at <= at) found.push({ key, call: errand.call, input: errand.input })
  }
  return found
}

/** Makes one call of the system, and says which errands it leaves. */
type Make = (errand: DueErrand, as: Actor) => Promise<readonly DueErrand[]>

/** One after the other, and those that they leave, up to a bound. A failed one is tried again, and told, by the worker. */
export async function doErrands(first: readonly DueErrand[], make: Make): Promise<void> {
  const open = [...first]
  for (let done = 0; done < Math.min(open.length, limits.errandsAtOnceMax); done++) {
    const errand = open[done]!
    try {
      open.push(...(await make(errand, { ...SYSTEM, basis: { kind: 'timer', id: errand.key } })))
    } catch {
      return
    }
  }
}
