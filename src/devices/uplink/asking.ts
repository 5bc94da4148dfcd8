// Asking people for tasks that wait (W5, W44): the daemon asks as the agent of its link, hands the answer to the task, and withdraws a question
// that is no longer needed. A revoked device asks no one.
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { END, idIn, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import type { Sealed, Value } from '#kernel/log/store.ts'
import { Question, type Task } from '#protocols/hardware/daemon/schema.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'
import type { InputOf } from '#protocols/index.ts'
import type { Uplink } from './link.ts'

const RETRY_MS = 1_000
const WAIT_SECONDS = 20
/** How often revocation is checked: the questions of a revoked device disappear within a second. */
const LOOK_MS = 400
const REVOKED = 'the device or its key was revoked, so it can no longer ask people'
const FINAL = ['INVALID_REQUEST', 'UNAUTHORIZED', 'UNAUTHENTICATED', 'NO_RECIPIENT', 'NOT_FOUND']

class Revoked extends Error {
  override name = 'Revoked'
}

type RequestAnswer = { readonly request: Value & { readonly id: string }; readonly receipt?: Value }

export type AskingOptions = {
  readonly device_id: string
  readonly clock: Clock
  readonly log: WorkerLog
  uplink(): Uplink | null
}

export function runAsking(kernel: Kernel, { device_id, clock, log, uplink }: AskingOptions): Worker {
  const stopping = new AbortController()
  const open = new Map<string, AbortController>()
  const work = new Set<Promise<unknown>>()
  const begin = (some: Promise<unknown>): void => {
    const quiet = some.catch((error: unknown) => log.warn({ error: String(error) }, 'could not conclude a question to people'))
    work.add(quiet)
    void quiet.finally(() => work.delete(quiet))
  }

  function onFacts(facts: readonly Sealed[]): void {
    for (const { fact } of facts) {
      if (fact.action === 'hardware/task.submit') {
        const question = fact.images.find(({ key }) => key.startsWith(`${Question.kind}/`))
        if (question) begin(ask(question.value as Question))
      } else if (fact.action === 'hardware/task.finish') open.get((fact.images[0]!.value as Task).id)?.abort()
    }
  }

  /** Repeats the call until it succeeds: the server can be unreachable for a while. */
  async function callUntilReached<T>(act: (to: Uplink) => Promise<T>, signal: AbortSignal): Promise<T | null> {
    while (!signal.aborted && !stopping.signal.aborted) {
      const to = uplink()
      try {
        if (to) return await act(to)
      } catch (error) {
        if (signal.aborted) return null
        const { code } = error as { code?: unknown }
        if (error instanceof Revoked || FINAL.includes(String(code))) throw error
      }
      await clock.sleep(RETRY_MS, signal)
    }
    return null
  }

  async function isRevoked(to: Uplink): Promise<boolean> {
    const { device } = await to.call('hardware/device.get', { device_id })
    return device.state === 'revoked'
  }

  let isWatching = false
  /** Watches for a revocation while questions are open. An unreachable server is no revocation. */
  async function watch(): Promise<void> {
    if (isWatching) return
    isWatching = true
    while (open.size > 0 && !stopping.signal.aborted) {
      await clock.sleep(LOOK_MS, stopping.signal)
      const to = uplink()
      const isOver =
        to !== null && (await isRevoked(to).catch((error: unknown) => FINAL.includes(String((error as { code?: unknown }).code))))
      if (isOver) for (const controller of open.values()) controller.abort(new Revoked(REVOKED))
    }
    isWatching = false
  }

  async function ask({ id: task_id, body }: Question): Promise<void> {
    const controller = new AbortController()
    open.set(task_id, controller)
    begin(watch())
    try {
      const created = await callUntilReached(async (to) => {
        if (await isRevoked(to)) throw new Revoked(REVOKED)
        return to.call('execution/request.create', body as InputOf<'execution/request.create'>, { idempotencyKey: `hardware-${task_id}` })
      }, controller.signal)
      if (created === null) return
      const { request } = created as RequestAnswer
      await kernel.call('hardware/task.asked', { task_id, request_id: request.id }, SYSTEM)
      const receipt = await awaitAnswer(request.id, controller.signal)
      if (receipt) await approveTask(task_id, receipt)
      else if (controller.signal.reason instanceof Revoked) {
        await failTask(task_id, 'approval_invalid', controller.signal.reason)
        await withdraw(task_id, request.id)
      } else if (!stopping.signal.aborted) await withdraw(task_id, request.id)
    } catch (error) {
      await failTask(task_id, 'approval_invalid', error)
    } finally {
      open.delete(task_id)
    }
  }

  async function awaitAnswer(request_id: string, signal: AbortSignal): Promise<RequestAnswer | null> {
    while (!signal.aborted && !stopping.signal.aborted) {
      const got = await callUntilReached((to) => to.call('execution/request.await', { request_id, wait: WAIT_SECONDS }, { signal }), signal)
      if (got !== null && (got as RequestAnswer).receipt) return got
    }
    return null
  }

  async function approveTask(task_id: string, { request, receipt }: RequestAnswer): Promise<void> {
    try {
      await kernel.call('hardware/task.approve', { task_id, approval: { receipt, request } }, SYSTEM)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      await failTask(task_id, error.code.toLowerCase(), error)
    }
    await kernel.call('hardware/task.asked', { task_id, request_id: null }, SYSTEM)
  }

  async function failTask(task_id: string, code: string, error: unknown): Promise<void> {
    log.info({ task_id, code, error: (error as Error).message }, 'a task was not approved')
    await kernel.call('hardware/task.finish', { task_id, status: 'FAILED', code }, SYSTEM).catch((other: unknown) => {
      if (!(other instanceof Refusal)) throw other
    })
  }

  async function withdraw(task_id: string, request_id: string): Promise<void> {
    await callUntilReached(
      (to) =>
        to.call('execution/request.cancel', { request_id }).catch((error: unknown) => {
          // It was answered or ended first: there is nothing to withdraw.
          if (['ALREADY_RESOLVED', 'EXPIRED', 'PRECONDITION_FAILED'].includes(String((error as { code?: unknown }).code))) return null
          throw error
        }),
      stopping.signal,
    )
    await kernel.call('hardware/task.asked', { task_id, request_id: null }, SYSTEM)
  }

  /** Withdraws the questions of tasks that a restart has ended. */
  async function withdrawLeft(): Promise<void> {
    const prefix = prefixOf(Question, 'open', [])
    for (const entry of await kernel.store.scan(prefix, prefix + END, 1_000)) {
      const [found] = await kernel.store.read([keyOf(Question, idIn(entry))])
      const { id, request_id } = found!.value as Question
      if (request_id !== null && !open.has(id)) begin(withdraw(id, request_id))
    }
  }

  const leave = kernel.tail.follow(onFacts)
  begin(withdrawLeft())
  return {
    async stop() {
      leave()
      stopping.abort()
      for (const controller of open.values()) controller.abort()
      await Promise.all(work)
    },
  }
}
