// The items of the inbox that stand for what waits in collaboration, looked up in the store, and the law that both sides agree.
import assert from 'node:assert/strict'
import { END } from '#kernel/declare/schema.ts'
import type { Stage } from './stage.ts'
import type { World } from './world.ts'

async function all(world: World, kind: string): Promise<any[]> {
  const keys = await world.store.keys(`${kind}/`, `${kind}/${END}`, 100_000)
  const found = await world.store.read(keys)
  return found.map((one) => one!.value)
}
const isOpen = ({ status }: any): boolean => status === 'pending' || status === 'assigned'

/** Every item of a task, oldest first. */
export async function itemsOf({ world, refs }: Stage, task_id: string = refs['task'].id): Promise<any[]> {
  const items = (await all(world, 'execution.request')).filter((item) => item.task_id === task_id)
  return items.toSorted((a, b) => (a.created_at < b.created_at ? -1 : 1))
}

/** The one open item of a task. */
export async function openItem(on: Stage, task_id?: string): Promise<any> {
  const open = (await itemsOf(on, task_id)).filter(isOpen)
  assert.equal(open.length, 1, `${open.length} items are open`)
  return open[0]
}

/** Everything that waits has exactly one open item, and every open item of a task stands for something that waits. */
export async function assertMirrored(world: World): Promise<void> {
  const items = (await all(world, 'execution.request')).filter((item) => item.task_id !== undefined && isOpen(item))
  for (const task of await all(world, 'collaboration.task')) {
    const own = items.filter(({ task_id }) => task_id === task.id)
    const waits = ['review_ready', 'under_review'].includes(task.state) ? 'review' : task.pending_checkpoint
    assert.deepEqual(
      own.map(({ kind, checkpoint_id }) => (kind === 'review' ? 'review' : checkpoint_id)),
      waits === null ? [] : [waits],
      `${task.id} is ${task.state}`,
    )
    const usual = [task.ownership.principal, ...task.reviewers.filter((who: string) => who !== task.executor)]
    const missing = task.spec.review_policy?.required_reviewers.filter(
      (who: string) => !task.votes?.some((vote: any) => vote.reviewer === who),
    )
    const judges = waits === 'review' && task.votes !== undefined ? missing : usual
    for (const { people } of own) assert.deepEqual(people, [...new Set(judges)])
  }
}
