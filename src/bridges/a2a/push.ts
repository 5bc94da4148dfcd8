// Push notifications of A2A: a channel of the outbox that posts the present state of a task to the addresses of its caller, and the loop that
// queues a post after each change of the task.
import { Refusal } from '#kernel/declare/errors.ts'
import { idOf, keyOf } from '#kernel/declare/schema.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import type { Hint } from '#kernel/log/store.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { Task } from '#protocols/collaboration/schema.ts'
import { Push, PUSH_CHANNEL, Run } from '#protocols/delegation/schema.ts'
import { authenticateSubject } from '#protocols/identity/authenticate.ts'
import { UNANSWERED, Unanswered } from '#workers/lane-shares.ts'
import { ALONE, type Duty } from '#workers/leases.ts'
import { runLoop } from '#workers/loop.ts'
import { runOutbox, type Channel } from '#workers/outbox.ts'
import { addressOf, webhookBackoffMs, type WebhookOptions } from '#workers/webhooks/agents.ts'
import { post } from '#workers/webhooks/post.ts'
import { SLEEP_MS_MAX, workersAsOne, type Worker, type WorkerLog } from '#workers/worker.ts'
import { A2aError } from './failures.ts'
import { findWork, viewOf, type A2aTask, type Door } from './task-view.ts'

export type PushOptions = WebhookOptions & {
  /** The public address of this server, for files that a task names. */
  origin?: (() => string) | undefined
}

/** The task as its caller sees it now; null: the caller has no access to it any more. */
async function stateOf(kernel: Kernel, { owner, agent_id, work_id }: Push, origin: string): Promise<A2aTask | null> {
  try {
    const actor = await authenticateSubject(kernel.store, owner, kernel.now())
    const caller = (): Promise<typeof actor> => authenticateSubject(kernel.store, owner, kernel.now())
    const door: Door = { agent_id, actor, origin, call: (operation, input) => kernel.call(operation, input, caller) }
    return await viewOf(door, await findWork(door, work_id), { historyLength: 0, artifacts: true })
  } catch (error) {
    const isGone =
      error instanceof A2aError || (error instanceof Refusal && ['NOT_FOUND', 'RUN_NOT_FOUND', 'UNAUTHENTICATED'].includes(error.code))
    if (isGone) return null
    throw error
  }
}

const headersOf = ({ token, scheme, credentials }: Push): Record<string, string> => ({
  'content-type': 'application/a2a+json',
  'a2a-version': '1.0',
  'user-agent': 'countersign',
  ...(token === undefined ? {} : { 'x-a2a-notification-token': token }),
  ...(scheme === undefined ? {} : { authorization: credentials === undefined ? scheme : `${scheme} ${credentials}` }),
})

export function pushes(kernel: Kernel, options: PushOptions, log: WorkerLog): Channel {
  const { origin = () => '', attemptsMax, random } = options
  const pushIn = async (id: string): Promise<Push | undefined> => (await kernel.store.read([keyOf(Push, id)]))[0]?.value as Push | undefined
  return {
    name: PUSH_CHANNEL,
    ordered: true,
    window: 1,
    lanesMax: limits.webhooksMax,
    async sharesOf(ids) {
      const found = await kernel.store.read(ids.map((id) => keyOf(Push, id)))
      return found.map((row, i) => {
        const { owner, endpoint } = (row?.value ?? { owner: ids[i]!, endpoint: '' }) as Pick<Push, 'owner' | 'endpoint'>
        return { owner, address: addressOf(owner, endpoint), yields: true }
      })
    },
    backoffMs: (count) => webhookBackoffMs(count, random),
    async send({ body, attempt }: Delivery, as) {
      const { push_id } = body as { push_id: string }
      const push = await pushIn(push_id)
      const task = push === undefined ? null : await stateOf(kernel, push, origin())
      if (push === undefined || task === null) return undefined
      const text = JSON.stringify({ task })
      const digest = sha256(canonical(task))
      if (digest === push.sent) return undefined
      const { status, error, isLate } = await (options.post ?? post)(push.endpoint, headersOf(push), text, options)
      if (options.signal?.aborted && error !== null) throw new Error(error)
      if (error === null) return void (await kernel.call('delegation/push.record', { push_id, endpoint: push.endpoint, sent: digest }, as))
      options.failed?.('a2a')
      if (attempt + 1 < attemptsMax && status !== 410) throw isLate ? new Unanswered(error) : new Error(error)
      log.warn({ work: push.work_id, error }, 'a push notification is given up')
      return isLate ? UNANSWERED : undefined
    },
  }
}

const [PUSH, TASK, RUN] = [keyOf(Push, ''), keyOf(Task, ''), keyOf(Run, '')]
const PAGE = 500
/** Changes that follow one another closely are one post. */
const REST_MS = 10

/** The work behind the id of an address. */
const workIn = (push_id: string): string => push_id.slice(0, push_id.indexOf('/'))

/** Wakes after a commit that touches work with an address. Other commits cost one look into a set. */
function runRinger(kernel: Kernel, clock: Clock, log: WorkerLog, duty: Duty): Worker {
  const watched = new Map<string, Set<string>>()
  const changed = new Set<string>()
  /** Keys of changed runs, whose tasks are not known yet. */
  const runs = new Set<string>()
  /** Another server, or this one before it had the duty, may have changed anything. */
  let isStale = true

  function watch(push_id: string): void {
    const work = workIn(push_id)
    watched.set(work, (watched.get(work) ?? new Set()).add(push_id))
  }
  function noteWork(work: string): void {
    if (watched.has(work)) changed.add(work)
  }
  function note(key: string): void {
    if (key.startsWith(PUSH)) return watch(idOf(key))
    if (watched.size === 0) return
    if (key.startsWith(TASK)) noteWork(idOf(key))
    if (key.startsWith(RUN)) runs.add(key)
  }
  function wants({ keys }: Hint): boolean {
    // A server on standby reads everything when the duty comes to it.
    if (!duty.holds()) return false
    if (keys === 'all') isStale = true
    else for (const key of keys) note(key)
    return isStale || changed.size > 0 || runs.size > 0
  }

  async function readAll(): Promise<void> {
    isStale = false
    for (let after = PUSH; ;) {
      const keys = await kernel.store.keys(after, `${PUSH}~`, PAGE)
      for (const key of keys) watch(idOf(key))
      if (keys.length < PAGE) break
      after = keys.at(-1)!
    }
    for (const work of watched.keys()) changed.add(work)
  }
  async function readRuns(): Promise<void> {
    const keys = [...runs]
    runs.clear()
    for (const row of await kernel.store.read(keys)) {
      const run = row?.value as Run | undefined
      for (const work of [run?.id, run?.task_id]) noteWork(work ?? '')
    }
  }
  async function ring(work: string): Promise<void> {
    for (const push_id of watched.get(work) ?? []) {
      const { found } = (await kernel.call('delegation/push.ring', { push_id }, duty.as())) as { found: boolean }
      if (!found) watched.get(work)?.delete(push_id)
    }
    if (watched.get(work)?.size === 0) watched.delete(work)
  }

  const loop = runLoop({
    name: PUSH_CHANNEL,
    clock,
    log,
    duty,
    tail: kernel.tail,
    wants,
    restMs: REST_MS,
    failed: 'changes for push notifications could not be queued; trying again',
    async turn() {
      if (isStale) await readAll()
      if (runs.size > 0) await readRuns()
      for (const work of changed) {
        changed.delete(work)
        await ring(work).catch((error: unknown) => {
          changed.add(work)
          throw error
        })
      }
      return SLEEP_MS_MAX
    },
  })
  const leave = duty.onChange(() => {
    isStale = true
    loop.wake()
  })
  return {
    ...loop,
    async stop() {
      leave()
      await loop.stop()
    },
  }
}

export function runPushes(kernel: Kernel, options: PushOptions, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  const stopping = new AbortController()
  const channel = pushes(kernel, { ...options, signal: stopping.signal }, log)
  const both = workersAsOne(runOutbox(kernel, channel, clock, log, duty), runRinger(kernel, clock, log, duty))
  return {
    ...both,
    async stop() {
      stopping.abort()
      await both.stop()
    },
  }
}
