// What each answer, and none at all, will do: the server's own words, so that nobody has to believe the agent's.
import { t, type Static } from '#kernel/schema.ts'
import type { TaskBehind } from './rules.ts'
import type { Request } from './schema.ts'

export const Effects = t.Object({ approve: t.String(), reject: t.String(), timeout: t.String() })
export type Effects = Static<typeof Effects>

export function effectsOf(request: Request, task: TaskBehind | null): Effects {
  const what = task === null ? 'the agent is told' : `the agent is told, and task ${task.id} goes on`
  const approve = { DECIDE: `${what} which option you chose`, APPROVE: `${what} that it may`, PROVIDE: `${what} what you provide` }
  const reject = request.action === 'APPROVE' ? 'the agent is told that it may not' : 'this cannot be rejected, only answered or left'
  return { approve: approve[request.action], reject, timeout: timeoutOf(request) }
}

function timeoutOf({ expires_at, fallback, payload, overdue }: Request): string {
  if (expires_at === null) return 'nothing: it waits until somebody answers'
  if (overdue) return 'its time is up: it is marked as late and waits until somebody answers'
  if (fallback === 'pause') return `at ${expires_at} it is marked as late and goes on waiting`
  if (fallback === 'fail') return `at ${expires_at} it fails, and the agent is told that nobody answered`
  return `at ${expires_at} its default is taken: ${(payload as { default_option?: string }).default_option ?? ''}`
}
