// The tasks of MCP 2026-07-28: a call that waits for a person returns a handle, and its client fetches the answer later.
import type { Server, ServerContext } from '@modelcontextprotocol/server'
import type { Result } from './client-request.ts'
import { withText } from './params.ts'

export const TASKS = 'io.modelcontextprotocol/tasks'
const POLL_MS = 2_000

/** A handle: the id is that of the call or of the question, and no server forgets it. */
export function taskHandle(taskId: string, statusMessage: string): Result {
  const now = new Date().toISOString()
  return {
    resultType: 'task',
    taskId,
    status: 'working',
    statusMessage,
    createdAt: now,
    lastUpdatedAt: now,
    ttlMs: null,
    pollIntervalMs: POLL_MS,
  }
}

export type TaskHandlers = {
  get(taskId: string, context: ServerContext): Promise<Result>
  /** Our tasks accept no updates; unknown tasks are refused. */
  find(taskId: string, context: ServerContext): Promise<unknown>
  cancel(taskId: string, context: ServerContext): Promise<unknown>
}

export function serveTasks(server: Server, handlers: TaskHandlers): void {
  const ofTask = withText('taskId')
  server.setRequestHandler('tasks/get', ofTask, ({ taskId }, context) => handlers.get(taskId, context))
  server.setRequestHandler('tasks/update', ofTask, async ({ taskId }, context) => {
    await handlers.find(taskId, context)
    return {}
  })
  server.setRequestHandler('tasks/cancel', ofTask, async ({ taskId }, context) => {
    await handlers.cancel(taskId, context)
    return { resultType: 'complete' }
  })
}
