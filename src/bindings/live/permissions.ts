// Permissions of subscribers, rechecked regularly: one check covers all streams of one credential on one topic.
import type { StoredFact } from '#kernel/log/store.ts'
import type { Admission } from '#kernel/log/streams.ts'
import type { Ending, Permission, Subscriber } from './subscriber.ts'

type Held = Permission & { readonly members: Set<Subscriber> }
/** Rechecks per batch, before other work gets a turn. */
const SLICE = 50

export function createPermissions(recheckMs: number, endingOf: (error: unknown) => Ending) {
  const permissions = new Map<string, Held & { renew(admission: Admission): void }>()

  function create(first: Admission): Held & { renew(admission: Admission): void } {
    const members = new Set<Subscriber>()
    let admission = first
    let checkedAt = performance.now()
    const renew = (newer: Admission): void => {
      admission = newer
      checkedAt = performance.now()
    }
    return {
      members,
      renew,
      async fresh() {
        // Half the interval: a timer that fires slightly early must not double it.
        if (performance.now() - checkedAt >= recheckMs / 2) renew(await admission.again())
      },
      sees: (): ((fact: StoredFact) => boolean | Promise<boolean>) | null => admission.sees,
    }
  }

  return {
    take(key: string, admission: Admission): Held {
      const found = permissions.get(key)
      if (found) {
        found.renew(admission)
        return found
      }
      const permission = create(admission)
      permissions.set(key, permission)
      return permission
    },
    async check(): Promise<void> {
      let asked = 0
      for (const [key, permission] of permissions) {
        if (permission.members.size === 0) permissions.delete(key)
        else await permission.fresh().catch((error: unknown) => permission.members.forEach((member) => member.end(endingOf(error))))
        if (++asked % SLICE === 0) await new Promise(setImmediate)
      }
    },
  }
}
