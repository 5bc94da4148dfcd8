// This server as one of several harnesses: the link to the broker, the outbox for it, and their state in /health.
import { readFileSync } from 'node:fs'
import { startHarness } from '#bridges/hcp/harness.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { Delivery } from '#kernel/log/outbox-document.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import type { HarnessTerms } from '#kernel/declare/operation.ts'
import { END, prefixOf } from '#kernel/declare/schema.ts'
import { AMQP } from '#protocols/harness/session/session-work.ts'
import { runOutbound } from '#bridges/hcp/outbound.ts'
import type { Leases } from '#workers/leases.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'
import { isPrivateLink, type HarnessSettings } from './settings/harness-settings.ts'

export const harnessTerms = (settings: HarnessSettings | null, origin: HarnessTerms['origin']): HarnessTerms | null =>
  settings && {
    id: settings.id,
    replyMs: settings.replyMs,
    gapMs: settings.gapMs,
    isPrivate: isPrivateLink(settings.url),
    checksSenders: settings.checksSenders,
    origin,
  }

const fileOf = (path: string | null): string | undefined => (path === null ? undefined : readFileSync(path, 'utf8'))

export type HarnessHealth = {
  readonly state: string
  readonly id?: string
  readonly user_id?: string
  readonly unsent?: number
  readonly how?: string
}
export type RunningHarness = Worker & { health(): HarnessHealth }

const OFF: HarnessHealth = { state: 'off', how: 'set COUNTERSIGN_AMQP_URL (--amqp) to the address of a RabbitMQ' }
/** The number of unsent messages is a figure for operators: at most this old, and never counted beyond the maximum. */
const COUNT_MS = 1_000
const COUNT_MAX = 10_000

export function runHarness(
  settings: HarnessSettings | null,
  parts: { kernel: Kernel; clock: Clock; notary: Notary; log: WorkerLog; leases: Leases },
): RunningHarness {
  if (settings === null) return { health: () => OFF, stop: () => Promise.resolve() }
  const { kernel, clock, notary, log, leases } = parts
  const [ca, cert, key] = [settings.ca, settings.cert, settings.key].map(fileOf)
  const isTls = settings.url.startsWith('amqps:')
  const harness = startHarness({
    kernel,
    clock,
    log,
    id: settings.id,
    url: settings.url,
    tls: isTls ? { ...(ca === undefined ? {} : { ca }), ...(cert === undefined ? {} : { cert, key }) } : null,
    topology: settings.topology,
    queues: settings.queues,
    prefetch: settings.prefetch,
    sendsUser: settings.checksSenders,
  })
  const outbox = runOutbound(kernel, { id: settings.id, publish: harness.publish, notary }, clock, log, leases.duty('outbox/amqp'))
  const counted = { at: 0, unsent: 0 }
  function unsent(): number {
    if (clock.now() - counted.at >= COUNT_MS) {
      counted.at = clock.now()
      const prefix = prefixOf(Delivery, 'due', [AMQP])
      void kernel.store.scan(prefix, prefix + END, COUNT_MAX).then(
        (entries) => (counted.unsent = entries.length),
        () => undefined,
      )
    }
    return counted.unsent
  }
  return {
    health() {
      const how = harness.problem()
      const user_id = settings.checksSenders ? 'required' : 'off'
      return { state: harness.state(), id: settings.id, user_id, unsent: unsent(), ...(how === null ? {} : { how }) }
    },
    async stop() {
      await Promise.all([harness.stop(), outbox.stop()])
    },
  }
}
