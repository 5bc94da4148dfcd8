// Webhooks to agents, signed as Standard Webhooks do (https://www.standardwebhooks.com). The outbox keeps the order and retries. This file
// makes one attempt, judges its result, and gives up after the last.
import { backoffMs } from '#kernel/codec/backoff.ts'
import { createHmac } from 'node:crypto'
import { timestampOf, type Clock } from '#kernel/ports/clock.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Caller } from '#kernel/log/streams.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { Card, Endpoint, Run, Signing, type Message, type Request } from '#protocols/delegation/schema.ts'
import { Agent } from '#protocols/identity/schema.ts'
import { UNANSWERED, Unanswered, type Share } from '../lane-shares.ts'
import { runOutbox, type Channel } from '../outbox.ts'
import { post, type Posted, type PostOptions } from './post.ts'
import { ALONE, type Duty } from '../leases.ts'
import type { Worker, WorkerLog } from '../worker.ts'

export type WebhookOptions = PostOptions & {
  /** Attempts for one message before its run fails. */
  readonly attemptsMax: number
  /** A random number from 0 up to 1. */
  random(): number
  /** Counts a failed attempt, by the kind of address. */
  failed?(kind: string): void
  /** Posts a message. Tests replace it. */
  readonly post?: typeof post
}
type MailboxItem = {
  readonly run: Run
  readonly request: Request
  readonly attempt: number
  readonly lease_until: string
  readonly messages: readonly [Message]
}

/** Each attempt of a run has its own ids for `run` and `resume`: a receiver that gets two of them obeys the later one. */
const idOf = ({ run, attempt, messages: [{ number, kind }] }: MailboxItem): string =>
  kind === 'run' || kind === 'resume' ? `msg_${run.id}_${number}_${attempt}` : `msg_${run.id}_${number}`

export function signature(secret: string, id: string, timestamp: string, body: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

type Secrets = { readonly secret: string; readonly before: string | null; readonly before_until: string | null }

/** The headers of a post: signed with the secret and, for a while after a rotation, with the former secret too. */
export function signedHeaders({ secret, before, before_until }: Secrets, id: string, body: string, nowMs: number): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1_000))
  const isBoth = before !== null && before_until !== null && timestampOf(nowMs) < before_until
  const secrets = isBoth ? [secret, before] : [secret]
  return {
    'content-type': 'application/json',
    'user-agent': 'countersign',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets.map((key) => signature(key, id, timestamp, body)).join(' '),
  }
}

function signRequest(item: MailboxItem, signing: Signing, nowMs: number) {
  const [message] = item.messages
  const body = JSON.stringify({ type: message.kind, timestamp: message.at, data: item })
  return { headers: signedHeaders(signing, idOf(item), body, nowMs), body }
}

/** Grows with each attempt, with jitter: messages that failed together are not retried together. */
export const webhookBackoffMs = (count: number, random: () => number): number =>
  backoffMs(500, limits.webhookBackoffMsMax, count) * (0.5 + random() / 2)

/** The owner of each agent; the agent itself if it is no longer registered. */
export async function ownersOf(kernel: Kernel, agents: readonly string[]): Promise<string[]> {
  const found = await kernel.store.read(agents.map((id) => keyOf(Agent, id)))
  return found.map((row, i) => (row?.value as Agent | undefined)?.owner ?? agents[i]!)
}
/** An owner with the origin of an endpoint: the owner's receivers on one server fall silent together. */
export const addressOf = (owner: string, endpoint: string | undefined): string => `${owner} ${URL.parse(endpoint ?? '')?.origin ?? ''}`

export function webhooks(kernel: Kernel, options: WebhookOptions, log: WorkerLog): Channel {
  async function attempt(item: MailboxItem): Promise<Posted> {
    const { agent_id } = item.run
    const keys = [keyOf(Endpoint, agent_id), keyOf(Signing, agent_id), keyOf(Card, agent_id)]
    const [endpoint, signing, card] = await kernel.store.read(keys)
    // An agent that was switched off or removed gets no more messages, even queued ones.
    const { disabled, projects } = (card?.value ?? { disabled: true, projects: [] }) as Pick<Card, 'disabled' | 'projects'>
    if (disabled || !projects.includes(item.run.project_id))
      return { status: null, error: 'the agent is switched off, or not in the project any more', durationMs: 0 }
    if (!endpoint || !signing) return { status: null, error: 'the card of the agent no longer names a webhook', durationMs: 0 }
    const { headers, body } = signRequest(item, signing.value as Signing, kernel.now())
    return (options.post ?? post)((endpoint.value as { endpoint: string }).endpoint, headers, body, options)
  }

  /** A lane is a run. Owners of agents take turns. */
  async function sharesOf(runs: readonly string[]): Promise<Share[]> {
    const agents = (await kernel.store.read(runs.map((id) => keyOf(Run, id)))).map(
      (row, i) => (row?.value as Run | undefined)?.agent_id ?? runs[i]!,
    )
    const [owners, endpoints] = [await ownersOf(kernel, agents), await kernel.store.read(agents.map((id) => keyOf(Endpoint, id)))]
    return owners.map((owner, i) => ({
      owner,
      address: addressOf(owner, (endpoints[i]?.value as { endpoint: string } | undefined)?.endpoint),
      yields: false,
    }))
  }

  /** Fails the run, so that the people of the task decide. A run that has ended, or waits for a delegate, is left as it is. */
  async function giveUp(run: Run, message: string, as: Caller): Promise<void> {
    try {
      await kernel.call('delegation/run.fail', { run_id: run.id, reason: 'unreachable', error: message }, as)
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'INVALID_TRANSITION') throw error
      log.warn({ run: run.id }, 'a message to a webhook is given up')
    }
  }

  return {
    name: 'webhook',
    ordered: true,
    window: 1,
    lanesMax: limits.webhooksMax,
    sharesOf,
    backoffMs: (count) => webhookBackoffMs(count, options.random),
    async send({ body, attempt: tries }: Delivery, as) {
      const { run_id, number } = body as { run_id: string; number: number }
      const { item } = (await kernel.call('delegation/mailbox.push', { run_id, number }, as)) as { item: MailboxItem | null }
      if (item === null) return undefined
      const { status, error, durationMs, isLate } = await attempt(item)
      if (options.signal?.aborted && error !== null) throw new Error(error)
      // Status 410 means gone for good. Any other failure can be temporary.
      if (error !== null) options.failed?.('agent')
      const isLast = error !== null && (tries + 1 >= options.attemptsMax || status === 410)
      const state = error === null ? 'accepted' : isLast ? 'given_up' : 'waiting'
      // Fail the run first, then settle the message in the log: after a crash in between, this step is repeated.
      if (isLast) await giveUp(item.run, `${item.run.agent_id} was not reached in ${tries + 1} attempts: ${error}`, as)
      const outcome = { run_id, number, attempt: item.attempt, state, status, duration_ms: durationMs, error }
      await kernel.call('delegation/delivery.record', outcome, as)
      if (state === 'waiting') throw isLate ? new Unanswered(error!) : new Error(error!)
      return isLate ? UNANSWERED : undefined
    },
  }
}

export function runWebhookAgents(kernel: Kernel, options: WebhookOptions, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  const stopping = new AbortController()
  const worker = runOutbox(kernel, webhooks(kernel, { ...options, signal: stopping.signal }, log), clock, log, duty)
  return {
    ...worker,
    stop() {
      // A stop does not wait ten seconds for a receiver: unconfirmed messages are delivered after the next start.
      stopping.abort()
      return worker.stop()
    },
  }
}
