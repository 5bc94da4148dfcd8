// The kernel's port of tasks for other protocols.
import { limits } from '#kernel/limits.ts'
import type { Tasks } from '#kernel/ports/tasks.ts'
import { readableVersion } from '../artifact/versions.ts'
import { Amendment, Checkpoint, Task } from '../schema.ts'

export const tasks: Tasks = {
  task: (read, id) => read.raw(Task, id),
  seenTask: (read, id) => read(Task, id),
  hasVersion: async (read, id, version, actor) => (await readableVersion(read, id, version, actor)) !== null,
  checkpoint: (read, id) => read.raw(Checkpoint, id),
  async amendments(read, task_id) {
    const task = await read.raw(Task, task_id)
    if (task === null || task.amendments === 0) return []
    const listed = await read.list(Amendment, 'task', [[task_id]], { limit: limits.amendmentsPerTaskMax })
    const found = await Promise.all(listed.map(({ id }) => read.raw(Amendment, id)))
    return found.filter((one) => one !== null)
  },
}
