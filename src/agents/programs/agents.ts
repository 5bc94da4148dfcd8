// Agents that are programs of this machine. Only the operator names their commands; a card only marks its agent as such.
import type { Blobs } from '#kernel/ports/blobs.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import { changedNothing, Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { authenticateSubject } from '#protocols/identity/authenticate.ts'
import { sharesUser } from './marker.ts'
import type { Plan, Port } from './conversation.ts'
import { runOutbox, type Channel } from '#workers/outbox.ts'
import type { MailboxLoop } from '#sdk/mailbox/mailbox-loop.ts'
import { programBackoffMs, startRunLoop, withProgram } from './run-loop.ts'
import { ALONE, type Duty } from '#workers/leases.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'

export type ProcessAgent = { readonly agent_id: string; readonly plan: Plan; readonly concurrency: number; readonly tries: number }

/** The pause after a long poll that cannot wait: the kernel stops, or allows no waiting call. */
const AGAIN_MS = 5_000
/** Attempts to wake a program that is not configured: the operator might configure it later. */
const RINGS_MAX = 3

/** Calls operations as the agent, whose program the operator has configured. */
export function portAs(kernel: Kernel, blobs: Blobs, agent_id: string): Port {
  const absent = `there is no agent ${agent_id}, or it is switched off: \`countersign agent add\` registers one`
  const caller = async (): Promise<Actor> => {
    try {
      return await authenticateSubject(kernel.store, agent_id, kernel.now())
    } catch (error) {
      throw error instanceof Refusal && error.code === 'UNAUTHENTICATED' ? new Refusal('UNAUTHENTICATED', absent) : error
    }
  }
  return {
    call: (operation, input, { idempotencyKey, signal } = {}) =>
      kernel.call(operation, input, caller, { key: idempotencyKey ?? undefined, signal }),
    async upload(task_id, bytes, about = { media_type: 'text/plain', name: 'result.txt' }) {
      const held = await blobs.put(once(bytes), { size: bytes.length }, bytes.length)
      try {
        const { checksum, size } = held
        const input = { task_id, ...about }
        return (await kernel.call('collaboration/artifact.upload', input, caller, { received: { checksum, size } })) as Awaited<
          ReturnType<Port['upload']>
        >
      } catch (error) {
        if (changedNothing(error)) await held.discard()
        throw error
      } finally {
        held.release()
      }
    },
  }
}
async function* once(bytes: Buffer): AsyncIterable<Uint8Array> {
  yield await Promise.resolve(bytes)
}

/** The outbox only wakes the program. Its work is in the mailbox and stays there until it is done. */
const bell = (kernel: Kernel, loops: ReadonlyMap<string, MailboxLoop>): Channel => ({
  name: 'process',
  ordered: true,
  window: 1,
  lanesMax: 64,
  backoffMs: programBackoffMs,
  async send({ body, attempt }: Delivery, as) {
    const { agent_id, run_id } = body as { agent_id: string; run_id: string }
    const loop = loops.get(agent_id)
    if (loop) return loop.wake()
    // A program of another server waits on the mailbox and finds it there.
    if (kernel.store.isShared) return
    const error = `no program is configured for ${agent_id} on this server`
    if (attempt + 1 < RINGS_MAX) throw new Error(error)
    await kernel.call('delegation/run.fail', { run_id, reason: 'unreachable', error }, as).catch((refused: unknown) => {
      if (!(refused instanceof Refusal) || refused.code !== 'INVALID_TRANSITION') throw refused
    })
  },
})

/** Logs a failure that repeats every few seconds less often. */
function onceEach(say: (message: string) => void): (message: string) => void {
  let last = ''
  return (message) => {
    if (message !== last) say(message)
    last = message
  }
}

/** Options of every run loop on this server. */
export const loopBasics = (agent_id: string, port: Port, worker: string, log: WorkerLog) => ({
  agent_id,
  port,
  worker,
  againMs: AGAIN_MS,
  note: (run_id: string, message: string) => log.debug({ agent: agent_id, run: run_id }, message),
  trouble: onceEach((message) => log.warn({ agent: agent_id }, message)),
})

/** `worker`: the name of this server, under which its programs hold their runs. */
export function runProgramAgents(
  kernel: Kernel,
  blobs: Blobs,
  agents: readonly ProcessAgent[],
  clock: Clock,
  log: WorkerLog,
  { worker, duty }: { readonly worker: string; readonly duty: Duty } = { worker: 'server', duty: ALONE },
): Worker {
  const shared = agents.filter(({ plan }) => sharesUser(plan.argv)).map(({ agent_id }) => agent_id)
  if (shared.length > 0)
    log.warn({ agents: shared }, "these agents' programs run as the server's own user and can read its keys: use sudo -u or a container")
  const loops = new Map(
    agents.slice(0, limits.childAgentsMax).map(({ agent_id, plan, ...rest }) => {
      const port = portAs(kernel, blobs, agent_id)
      return [agent_id, startRunLoop({ ...rest, ...loopBasics(agent_id, port, worker, log), converse: withProgram(plan, port) })]
    }),
  )
  const ringing = runOutbox(kernel, bell(kernel, loops), clock, log, duty)
  return {
    ...ringing,
    async stop() {
      await Promise.all([ringing.stop(), ...[...loops.values()].map((loop) => loop.stop(0))])
    },
  }
}
