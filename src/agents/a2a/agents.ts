// Remote agents as delegates (`reach: a2a`): this server takes their runs and carries them to the agent that their card's endpoint names.
import { SYSTEM } from '#kernel/declare/access.ts'
import { END, idIn, keyOf, prefixOf, type Static } from '#kernel/declare/schema.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import type { Blobs } from '#kernel/ports/blobs.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { Card, Endpoint, Memo, memoId, Run } from '#protocols/delegation/schema.ts'
import type { MailboxLoop } from '#sdk/mailbox/mailbox-loop.ts'
import { ALONE, type Duty } from '#workers/leases.ts'
import { runLoop } from '#workers/loop.ts'
import { runOutbox, type Channel } from '#workers/outbox.ts'
import { webhookBackoffMs } from '#workers/webhooks/agents.ts'
import type { PostOptions } from '#workers/webhooks/post.ts'
import { workersAsOne, type Worker, type WorkerLog } from '#workers/worker.ts'
import { loopBasics, portAs } from '../programs/agents.ts'
import { startRunLoop } from '../programs/run-loop.ts'
import { startRemoteConversation, TASK_MEMO } from './conversation.ts'
import { RemoteError } from './remote-error.ts'
import { openRemote, type RemoteAgent } from './remote.ts'

export type RemoteOptions = PostOptions & {
  /** Attempts for one cancel before the remote agent is left to itself. */
  readonly attemptsMax: number
  random(): number
}
type Server = { readonly worker: string; readonly duty: Duty }

/** Cards change seldom; a run of a new agent wakes its loop immediately. */
const LOOK_MS = 30_000
/** Runs at a time where the card sets no bound: each is a call every few seconds. */
const CONCURRENCY = 64

export function runRemoteAgents(
  kernel: Kernel,
  blobs: Blobs,
  options: RemoteOptions,
  clock: Clock,
  log: WorkerLog,
  { worker, duty }: Server = { worker: 'server', duty: ALONE },
): Worker {
  const loops = new Map<string, MailboxLoop>()
  const stopping = new AbortController()
  const remoteOptions: RemoteOptions = { ...options, signal: stopping.signal }
  const open = (agent_id: string): Promise<RemoteAgent> => openOf(kernel, agent_id, remoteOptions)

  /** Runs a loop for each card with `a2a`, and stops the others. */
  async function refresh(): Promise<void> {
    const prefix = prefixOf(Card, 'reach', ['a2a'])
    const ids = (await kernel.store.scan(prefix, prefix + END, limits.a2aRemotesMax)).map(idIn)
    if (stopping.signal.aborted) return
    for (const agent_id of ids) {
      if (loops.has(agent_id)) continue
      const port = portAs(kernel, blobs, agent_id)
      const converse = (item: Parameters<typeof startRemoteConversation>[0], note: (message: string) => void) =>
        startRemoteConversation(item, () => open(agent_id), port, note)
      const basics = loopBasics(agent_id, port, `${worker}/a2a`, log)
      loops.set(agent_id, startRunLoop({ ...basics, converse, concurrency: CONCURRENCY, tries: limits.a2aTriesMax }))
    }
    for (const [agent_id, loop] of loops) {
      if (ids.includes(agent_id)) continue
      loops.delete(agent_id)
      void loop.stop(0)
    }
  }

  const looking = runLoop({
    name: 'a2a',
    clock,
    log,
    failed: 'the cards of remote agents could not be read; trying again',
    async turn() {
      await refresh()
      return LOOK_MS
    },
  })
  async function ring(agent_id: string): Promise<void> {
    if (!loops.has(agent_id)) await refresh()
    loops.get(agent_id)?.wake()
  }
  const ringing = runOutbox(kernel, bell(kernel, remoteOptions, ring, open, log), clock, log, duty)
  const both = workersAsOne(looking, ringing)
  return {
    ...both,
    async stop() {
      stopping.abort()
      await Promise.all([both.stop(), ...[...loops.values()].map((loop) => loop.stop(0))])
    },
  }
}

/** The outbox wakes the loop, whose work is in the mailbox. It cancels by itself: a cancelled run that waits has no conversation. */
const bell = (
  kernel: Kernel,
  { attemptsMax, random }: RemoteOptions,
  ring: (agent_id: string) => Promise<void>,
  open: (agent_id: string) => Promise<RemoteAgent>,
  log: WorkerLog,
): Channel => ({
  name: 'a2a',
  ordered: true,
  window: 1,
  lanesMax: limits.webhooksMax,
  backoffMs: (count) => webhookBackoffMs(count, random),
  async send({ body, attempt }: Delivery) {
    const { agent_id, run_id } = body as { agent_id: string; run_id: string }
    await ring(agent_id)
    const [run, memo] = await kernel.store.read([keyOf(Run, run_id), keyOf(Memo, memoId(run_id, TASK_MEMO))])
    if (!run || !memo || (run.value as Run).state !== 'failed') return
    const { task_id } = (memo.value as Static<typeof Memo.schema>).value as { readonly task_id: string }
    try {
      await (await open(agent_id)).cancel(task_id)
    } catch (error) {
      if (!(error instanceof RemoteError)) throw error
      if (!error.isFatal && attempt + 1 < attemptsMax) throw error
      log.warn({ agent: agent_id, run: run_id, error: error.message }, 'the task at a remote agent could not be cancelled')
    }
  },
})

/** The remote agent of a card, whose card must be signed by the first seen key. */
async function openOf(kernel: Kernel, agent_id: string, options: PostOptions): Promise<RemoteAgent> {
  const [card, endpoint] = await kernel.store.read([keyOf(Card, agent_id), keyOf(Endpoint, agent_id)])
  const known = card?.value as Card | undefined
  if (known?.reach !== 'a2a' || !endpoint) throw new RemoteError('the card of the agent no longer names a remote agent', { isFatal: true })
  if (known.disabled) throw new RemoteError('the agent is switched off', { isFatal: true })
  const remote = await openRemote(endpoint.value as Endpoint, options)
  const pinned = known.card_key ?? (await pin(kernel, agent_id, remote.cardKey))
  if (pinned !== remote.cardKey)
    throw new RemoteError(
      "its agent card is not signed by the key that was seen first: if that is right, publish the agent's card here again",
      { isFatal: true },
    )
  return remote
}
async function pin(kernel: Kernel, agent_id: string, key: string): Promise<string> {
  const { card } = (await kernel.call('delegation/card.pin', { agent_id, key }, SYSTEM)) as { card: Card }
  return card.card_key!
}
