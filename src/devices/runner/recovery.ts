// Recovery after a restart (W32): no session survives, running tasks have failed, and no step is repeated.
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { END, idIn, prefixOf } from '#kernel/declare/schema.ts'
import { Session, Task } from '#protocols/hardware/daemon/schema.ts'

const PAGE = 200

async function forEach(kernel: Kernel, kind: typeof Session | typeof Task, act: (id: string) => Promise<unknown>): Promise<void> {
  const prefix = prefixOf(kind, 'open', [])
  for (let place = prefix; ;) {
    const entries = await kernel.store.scan(place, prefix + END, PAGE)
    for (const entry of entries) await act(idIn(entry))
    if (entries.length < PAGE) return
    place = entries.at(-1)!
  }
}

/** Before anybody is answered, after the effects that a crash left open were recorded as unknown. */
export async function endWhatWasOpen(kernel: Kernel): Promise<void> {
  await forEach(kernel, Task, (task_id) => kernel.call('hardware/task.finish', { task_id, status: 'FAILED', code: 'restart' }, SYSTEM))
  await endSessions(kernel)
}

export const endSessions = (kernel: Kernel): Promise<void> =>
  forEach(kernel, Session, (session_id) => kernel.call('hardware/session.end', { session_id, reason: 'shutdown' }, SYSTEM))
