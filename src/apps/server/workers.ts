// The workers of a server: each of them under its lease, where several servers share a store.
import { runPushes } from '#bridges/a2a/push.ts'
import { withdrawEnded } from '#capabilities/registry.ts'
import type { Blobs } from '#kernel/ports/blobs.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { runConcluder } from '#workers/effect-runner.ts'
import type { Duty, Leases } from '#workers/leases.ts'
import { runLoop } from '#workers/loop.ts'
import { runEventChannels } from '#workers/events/channel.ts'
import { runNoticeChannel, type NoticeOptions } from '#workers/notices/channel.ts'
import { runRemoteAgents } from '#agents/a2a/agents.ts'
import { runProgramAgents, type ProcessAgent } from '#agents/programs/agents.ts'
import { runTimers } from '#workers/timers.ts'
import { runBlobCollector } from '#workers/upkeep/blob-collector.ts'
import { runReplySweeper } from '#workers/upkeep/reply-sweeper.ts'
import { runWebhookAgents, type WebhookOptions } from '#workers/webhooks/agents.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'

/** Work for only one server at a time: the holder of the lease. */
export const LEASES = [
  'timers',
  'outbox/webhook',
  'outbox/notice',
  'outbox/events',
  'outbox/process',
  'outbox/a2a',
  'outbox/a2a-push',
  'outbox/amqp',
  'notices',
  'sweeper',
  'collector',
  'verifier',
  'effects',
  'capabilities',
  'groups',
  'log',
]

type Crew = {
  readonly kernel: Kernel
  readonly blobs: Blobs
  readonly agents: readonly ProcessAgent[]
  readonly clock: Clock
  readonly log: WorkerLog
  readonly leases: Leases
  readonly webhooks: WebhookOptions
  readonly notices: NoticeOptions
  /** Deletes old notifications between servers; null: there are no other servers. */
  readonly trim: (() => Promise<unknown>) | null
}

const TRIM_MS = 10_000

export function runWorkers({ kernel, blobs, agents, clock, log, leases, webhooks, notices, trim }: Crew): Worker[] {
  const { duty } = leases
  return [
    ...(kernel.store.isShared ? [runConcluder(kernel, clock, log, leases), runWithdrawing(kernel, clock, log, leases)] : []),
    ...(trim ? [runTrimming(trim, clock, log, duty('groups'))] : []),
    runTimers(kernel, clock, log, duty('timers')),
    runReplySweeper(kernel, clock, log, duty('sweeper')),
    runBlobCollector(kernel.store, blobs, clock, log, duty('collector')),
    runWebhookAgents(kernel, webhooks, clock, log, duty('outbox/webhook')),
    runNoticeChannel(kernel, notices, clock, log, { planner: duty('notices'), outbox: duty('outbox/notice') }),
    runEventChannels(kernel, notices, clock, log, duty('outbox/events')),
    // A single server keeps one worker name, so that its programs resume their runs immediately after a restart.
    runProgramAgents(kernel, blobs, agents, clock, log, {
      worker: kernel.store.isShared ? leases.node : 'server',
      duty: duty('outbox/process'),
    }),
    runRemoteAgents(kernel, blobs, webhooks, clock, log, {
      worker: kernel.store.isShared ? leases.node : 'server',
      duty: duty('outbox/a2a'),
    }),
    runPushes(kernel, { ...webhooks, origin: notices.origin }, clock, log, duty('outbox/a2a-push')),
  ]
}

const WITHDRAW_MS = 2_000

/** Withdraws the capabilities of servers that have ended. */
function runWithdrawing(kernel: Kernel, clock: Clock, log: WorkerLog, { duty, isEnded }: Leases): Worker {
  const ownDuty = duty('capabilities')
  return runLoop({
    name: 'capabilities',
    clock,
    log,
    duty: ownDuty,
    failed: 'the capabilities of servers that ended could not be withdrawn; trying again',
    async turn() {
      const withdrawn = await withdrawEnded(kernel, isEnded, ownDuty.as())
      if (withdrawn > 0) log.info({ withdrawn }, 'no server offers these capabilities now')
      return WITHDRAW_MS
    },
  })
}

const runTrimming = (trim: () => Promise<unknown>, clock: Clock, log: WorkerLog, duty: Duty): Worker =>
  runLoop({
    name: 'groups',
    clock,
    log,
    duty,
    failed: 'old notes between servers could not be removed; trying again',
    async turn() {
      await trim()
      return TRIM_MS
    },
  })
