// An agent with a tool that only counts, and tasks whose people hold it back.
import { capability, capabilityWorld, local, type CapabilityWorld } from './capability-world.ts'

/** A task of its own for devin, with a run that has begun. */
export async function runUnder(on: CapabilityWorld, spec: object, more: object = {}): Promise<{ task_id: string; run_id: string }> {
  const { task } = await on.world.call('alice', 'collaboration/task.create', { spec: { goal: 'act', ...spec }, ...more })
  await on.world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await on.world.call('devin', 'collaboration/task.start', { task_id: task.id })
  const { items } = await on.world.call('alice', 'delegation/run.list', { task_id: task.id })
  return { task_id: task.id, run_id: items[0].id }
}
export const autonomy = (tier: string): object => ({ constraints: { autonomy: tier } })

export async function acting(): Promise<{ on: CapabilityWorld; ran: () => number; invoke(run_id: string): Promise<any> }> {
  let count = 0
  const on = await capabilityWorld([local(capability('write', () => Promise.resolve({ done: ++count })))])
  const ref = { capability_id: 'cap:write', version: '1.0.0' }
  return { on, ran: () => count, invoke: (run_id) => on.world.call('devin', 'delegation/capability.invoke', { run_id, ref }) }
}
