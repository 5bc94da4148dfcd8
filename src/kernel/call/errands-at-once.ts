// Immediate errands. A call can leave work to later batches: when an agent is switched off, each of its runs ends in its own project. The
// kernel does that work before it answers the call, so that the caller sees it done. The worker does the rest, as after a crash.
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

/** Makes one call as the system, and returns the errands that it leaves. */
type Make = (errand: DueErrand, as: Actor) => Promise<readonly DueErrand[]>

/** Does the errands in order, then the errands that they leave, up to a limit. The worker retries and reports a failed one. */
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
