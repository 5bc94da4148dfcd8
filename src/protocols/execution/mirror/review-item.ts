// The open review item of a task, created by an earlier batch. Every batch that creates or ends such an item also writes the task.
import { limits } from '#kernel/limits.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { isOpen, Request } from '../schema.ts'

export async function reviewItemOf(read: Read, task_id: string): Promise<Request | null> {
  const listed = await read.list(Request, 'task', [[task_id]], { limit: limits.pageDefault })
  const found = await Promise.all(listed.map(({ id }) => read.raw(Request, id)))
  return found.find((item) => item !== null && item.kind === 'review' && isOpen(item)) ?? null
}
