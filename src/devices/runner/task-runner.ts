// The task runner: takes submitted tasks in order, runs several concurrently, and each step under the lock of its resource. It decides nothing:
// the operation of a step starts it, and every outcome is recorded.
import type { Kernel } from '#kernel/kernel.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Sealed } from '#kernel/log/store.ts'
import { stepId, type Plan, type Session, type Task } from '#protocols/hardware/daemon/schema.ts'
import type { StepRequest } from '#protocols/hardware/daemon/operations/step.ts'
import type { Port } from '#workers/effect-runner.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'
import { createLocks } from './locks.ts'
import { performStep, type Hardware, type StepRuns } from './step-run.ts'
import { addTask, createTaskQueue, endOf, enqueueApproved, forgetWaiting, tasksOf, yieldTo, type TaskQueue } from './task-queue.ts'
import { finishTask, RETRY_MS, runTask, type TaskRuns } from './task-run.ts'

export type RunnerOptions = {
  readonly device: Hardware
  readonly clock: Clock
  readonly log: WorkerLog
  concurrencyOf(policy: string): number
  lockWaitOf(policy: string): number
  /** The reason why the record is incomplete, or null. While there is one, no step starts. */
  amiss(): string | null
  progress(task_id: string, index: number): void
}

export type TaskRunner = Worker & {
  readonly port: Port
  begin(kernel: Kernel): void
  holderOf(resource: string): string | null
  /** Whether the session has running or waiting tasks: then it is not idle. */
  hasWork(session_id: string): boolean
  /** Resolves when a closed session has no running work left and its outputs are safe. */
  released(session_id: string): Promise<void>
}

/** How long a stop waits for tasks that have not ended. */
const STOP_MS = 3_500

type Runner = {
  readonly options: RunnerOptions
  readonly queue: TaskQueue
  readonly releases: Map<string, Promise<void>>
  readonly ending: AbortSignal
}

export function createTaskRunner(options: RunnerOptions): TaskRunner {
  const { device, clock, log, amiss, lockWaitOf, progress, concurrencyOf } = options
  const controller = new AbortController()
  const ending = controller.signal
  let kernel: Kernel | null = null
  let leave = (): void => undefined
  const locks = createLocks(clock)
  const steps: StepRuns = { device, clock, log, undos: new Map(), stuck: new Map(), amiss, taskOf: (id) => queue.entries.get(id) }
  const runs: TaskRuns = {
    clock,
    locks,
    steps,
    ending,
    kernel: () => kernel!,
    lockWaitOf,
    progress,
    yieldTo: (task_id, why) => yieldTo(queue, task_id, why),
  }
  const queue = createTaskQueue({
    log,
    ending,
    concurrencyOf,
    run: (entry) => runTask(runs, entry),
    cancel: (entry) => finishTask(runs, entry, 'CANCELLED'),
    onEnd({ task, plan }) {
      for (const index of plan.steps.keys()) steps.undos.delete(stepId(task.id, index))
    },
  })
  const runner: Runner = { options, queue, releases: new Map(), ending }
  return {
    port: (request) => performStep(steps, request as StepRequest),
    begin(given) {
      kernel = given
      leave = kernel.tail.follow((facts) => onFacts(runner, facts))
    },
    holderOf: locks.holderOf,
    hasWork: (session_id) => tasksOf(queue, session_id).length > 0,
    released: (session_id) => runner.releases.get(session_id) ?? Promise.resolve(),
    async stop() {
      const all = [...queue.entries.values()]
      for (const { task } of all) yieldTo(queue, task.id, 'stop')
      const enough = new AbortController()
      await Promise.race([endOf(all), clock.sleep(STOP_MS, enough.signal)])
      enough.abort()
      controller.abort()
      leave()
    },
  }
}

function onFacts(runner: Runner, facts: readonly Sealed[]): void {
  const { queue } = runner
  for (const { fact } of facts) {
    const [first, second] = fact.images
    if (fact.action === 'hardware/task.submit') addTask(queue, first!.value as Task, second!.value as Plan)
    else if (fact.action === 'hardware/approval.used' && second) enqueueApproved(queue, second.value as Task)
    else if (fact.action === 'hardware/task.cancel') yieldTo(queue, (first!.value as Task).id, 'cancel')
    else if (fact.action === 'hardware/task.finish') forgetWaiting(queue, (first!.value as Task).id)
    else if (fact.action === 'hardware/session.close') release(runner, (first!.value as Session).id)
  }
}

function release(runner: Runner, session_id: string): void {
  const { releases, options } = runner
  const releasing = releaseOutputs(runner, session_id).catch((error: unknown) =>
    options.log.error({ err: error, session_id }, 'could not end a session'),
  )
  releases.set(session_id, releasing)
  void releasing.finally(() => releases.delete(session_id))
}

async function releaseOutputs(runner: Runner, session_id: string): Promise<void> {
  const entries = tasksOf(runner.queue, session_id)
  for (const { task } of entries) yieldTo(runner.queue, task.id, 'cancel')
  await endOf(entries)
  await makeSafe(runner, session_id)
}

/** Retries until it succeeds: a disconnected board can come back with its outputs still set. */
async function makeSafe({ options: { device, clock, log }, ending }: Runner, session_id: string): Promise<void> {
  for (let attempt = 1; !ending.aborted; attempt++) {
    try {
      return device.makeSafe(session_id)
    } catch (error) {
      if (attempt === 1) log.error({ err: error, session_id }, 'could not bring the outputs of a session to their safe state; trying again')
    }
    await clock.sleep(RETRY_MS, ending)
  }
}
