// Delegating a part of the work to another agent and waiting for the result. Under a task the part is a child task of its own, so
// that people see it; the run below it names this one as its parent.
import type { Input, Output } from '../client.ts'
import { CountersignError } from '../errors.ts'
import { isRefusal, persistently } from '../transport/retry.ts'
import { DelegationFailed } from './errors.ts'
import type { RunState } from './run-state.ts'
import type { Steps } from './steps.ts'

type Spec = NonNullable<Input<'collaboration/ownership.delegate'>['spec']>
export type DelegateOptions = {
  /** The id of an agent; by default any agent with the capability in a compatible version. */
  readonly to?: string
  readonly capability?: { readonly capability_id: string; readonly version: string }
  /** The work to be done: the other handler's `run.input`. */
  readonly spec: Spec
  readonly deadline?: string
  /** Whether it can delegate the work further. */
  readonly delegable?: boolean
  /** Names the delegation, for handlers in which its place can differ between attempts. */
  readonly key?: string
}
export type Delegated = {
  readonly run_id: string
  /** The child task; null if this run has no task. */
  readonly task_id: string | null
  /** The other handler's return value or, for a task, the delivered artifact. */
  readonly result: unknown
}

type Begun = { readonly task_id: string | null; readonly run_id: string | null }
type Payload = { readonly result?: unknown; readonly reason?: string | null; readonly error?: string | null }
type Event = Output<'delegation/run.follow'>['event'] & { readonly payload: Payload }

export function createDelegate(job: RunState, steps: Steps): (options: DelegateOptions) => Promise<Delegated> {
  return async (options) => {
    const targets = options.to === undefined ? await candidates(job, steps, options) : [options.to]
    const begun = await steps.once('delegate', options.key, (idempotencyKey) => begin(job, targets, options, idempotencyKey))
    return job.aside(() => resultOf(job, begun))
  }
}

/** Saved as a step, so that a restarted handler tries the same agents in the same order. */
function candidates(job: RunState, steps: Steps, { capability, key }: DelegateOptions): Promise<string[]> {
  if (!capability) throw new TypeError('name `to` or `capability`: where the work goes')
  return steps.once('candidates', key, async () => {
    const { project_id, agent_id } = job.item.run
    const { items } = await job.effect(() => job.client.delegation.agent.discover({ capability, project_id, limit: 20 }))
    const ids = items.map((card) => card.agent_id).filter((id) => id !== agent_id)
    const { capability_id, version } = capability
    if (ids.length === 0) throw new DelegationFailed('', 'unreachable', `no agent offers ${capability_id} ${version}`)
    return ids
  })
}

async function begin(job: RunState, targets: readonly string[], options: DelegateOptions, key: string): Promise<Begun> {
  for (const [i, to] of targets.entries()) {
    try {
      return await beginWith(job, to, options, `${key}/${i}`)
    } catch (error) {
      // An agent that has no room, or is away, leaves it to the next.
      const isAway =
        isRefusal(error, 'DELEGATION_REFUSED', 'AGENT_NOT_FOUND') || (error instanceof CountersignError && 'aap_code' in error.details)
      if (!isAway || i === targets.length - 1) throw error
    }
  }
  throw new TypeError('name `to` or `capability`: where the work goes')
}

async function beginWith(job: RunState, to: string, { spec, deadline, delegable }: DelegateOptions, key: string): Promise<Begun> {
  const { client, signal } = job
  const { id: parent_run, task_id, root_task_id } = job.item.run
  const may = delegable === undefined ? {} : { delegable }
  if (task_id !== null) {
    const part = { task_id, to, spec, ...may, ...(deadline === undefined ? {} : { deadline }) }
    const { child } = await job.effect(() => client.collaboration.ownership.delegate(part, { idempotencyKey: key, signal }))
    return { task_id: child!.id, run_id: null }
  }
  const order = { to_agent: to, parent_run, input: spec, ...may }
  try {
    const { run } = await job.effect(() =>
      client.delegation.agent.delegate({ ...order, attempt: job.attempt }, { idempotencyKey: key, signal }),
    )
    return { task_id: null, run_id: run.id }
  } catch (error) {
    // An earlier attempt got to this point but not to its memo.
    if (!isRefusal(error, 'CONFLICT')) throw error
    const { items } = await job.effect(() => client.delegation.run.list({ root_task_id }))
    for (const { id } of items.filter((run) => run.parent_run === parent_run && run.agent_id === to)) {
      const { request } = await job.effect(() => client.delegation.run.get({ run_id: id }))
      if (JSON.stringify(request.input) === JSON.stringify(spec)) return { task_id: null, run_id: id }
    }
    throw error
  }
}

async function resultOf(job: RunState, { task_id, run_id }: Begun): Promise<Delegated> {
  const question = task_id === null ? { run_id: run_id! } : { task_id }
  for await (const { item } of job.client.follow('delegation/run.follow', question, { signal: job.signal })) {
    const { type, run_id: ended, payload } = item.event as Event
    if (type === 'run.completed') return { run_id: ended, task_id, result: payload.result ?? null }
    if (type === 'run.failed' && (await isFinal(job, payload, task_id)))
      throw new DelegationFailed(ended, payload.reason ?? null, payload.error ?? null)
  }
  job.signal.throwIfAborted()
  throw new DelegationFailed(run_id ?? '', null, 'its outcome can no longer be read')
}

/** A task outlives a run that failed: its people let another try, or end it. */
async function isFinal(job: RunState, { reason }: Payload, task_id: string | null): Promise<boolean> {
  if (task_id === null || reason === 'cancelled') return true
  const { task } = await persistently(job.signal, () => job.client.collaboration.task.get({ task_id }))
  return task.state === 'completed' || task.state === 'rejected'
}
