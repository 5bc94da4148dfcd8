// The callee of `countersign/harness`: capabilities of this process for other harnesses. Each session is a call of `run`, which is begun again
// after a crash, from its last snapshot.
import { isDeepStrictEqual } from 'node:util'
import { randomUUID } from 'node:crypto'
import { Refusal } from '#kernel/declare/errors.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Input } from '#sdk/client.ts'
import type { Concurrency } from '#sdk/mailbox/concurrency.ts'
import { createMailboxLoop, type Job, type MailboxItem } from '#sdk/mailbox/mailbox-loop.ts'
import { authenticateSubject } from '#protocols/identity/authenticate.ts'
import { Agent, DEFAULT_PROJECT, User } from '#protocols/identity/schema.ts'
import { Mailbox } from '#protocols/delegation/schema.ts'
import { Session, type Capability as Declared } from '#protocols/harness/schema.ts'
import { OWNER } from '../server/folder/first-start.ts'
import type { HarnessHealth } from '../server/harness.ts'
import { serveArtifacts, type ArtifactOptions } from './artifacts.ts'
import { openHarness, type AnyOutput, type HarnessOptions, type OpenHarness } from './harness.ts'
import { createSessionHandle, failureOf, type CalleeSession } from './session.ts'

type Declare = Input<'harness/harness.declare'>
export type Approval = { readonly result: 'approved' | 'rejected'; readonly by?: readonly string[]; readonly reason?: string }
export type Asked = {
  readonly session_id: string
  readonly caller_id: string
  readonly capability: string
  readonly risk_level: string
  readonly data_classification: string
  readonly intent: unknown
  readonly inputs: unknown
}
export type CalleeCapability = Omit<Declare, 'capability' | 'agent_id' | 'approvers'> & {
  readonly declaration: Declare['capability']
  /** Asks people to approve risky work and returns who decided. Without it such work is denied. It can be called again after a crash. */
  readonly approve?: (asked: Asked, signal: AbortSignal) => Approval | Promise<Approval>
  /** Does the work and returns the outputs; an exception fails the session. */
  run(session: CalleeSession): unknown
}
export type CalleeOptions = HarnessOptions & {
  readonly callers: Readonly<Record<string, Omit<Input<'harness/harness.allow'>, 'caller_id'>>>
  readonly capabilities: readonly CalleeCapability[]
  /** Sessions that are worked on at a time; 100 by default. */
  readonly concurrency?: number
  /** An HTTP address that artifacts are fetched from. */
  readonly artifacts?: ArtifactOptions
}
export type Callee = {
  readonly id: string
  health(): HarnessHealth
  /** Waits a while for `run` to finish; unfinished sessions continue after the next start. */
  stop(): Promise<void>
}

const AGENT = 'agent_harness'
const APPROVERS = ['user_approver-1', 'user_approver-2']
const TIMES = { leaseMs: 60_000, waitMs: 50_000, againMs: 500, leaveMs: 500 }
const GRACE_MS = 5_000
/** The reason of a session's signal when this process stops. */
const STOPPED = new Error('the harness stops')

export async function createCallee(options: CalleeOptions): Promise<Callee> {
  const names = options.capabilities.map(({ declaration }) => declaration.name)
  if (new Set(names).size !== names.length) throw new TypeError('two capabilities have the same name')
  const serving = options.artifacts === undefined ? null : await serveArtifacts(options.artifacts)
  try {
    const open = await openHarness({ ...options, ...(serving === null ? {} : { origin: () => serving.origin }) })
    try {
      serving?.open(open)
      await setUpCallee(open, options)
      return await serveCallee(open, options, serving)
    } catch (error) {
      await open.stop()
      throw error
    }
  } catch (error) {
    await serving?.stop()
    throw error
  }
}

/** Registers the people and the agent behind sessions, then the capabilities and callers. Each step checks first. */
async function setUpCallee({ kernel, call }: OpenHarness, { capabilities, callers }: CalleeOptions): Promise<void> {
  const [agent, ...users] = await kernel.store.read([keyOf(Agent, AGENT), ...APPROVERS.map((id) => keyOf(User, id))])
  for (const [i, id] of APPROVERS.entries()) if (!users[i]) await call('identity/user.add', { id, name: 'Approver' })
  for (const id of APPROVERS)
    await call('identity/project.join', { project_id: DEFAULT_PROJECT, subject: id, role: 'member' }).catch(() => undefined)
  if (!agent) await call('identity/agent.add', { id: AGENT, name: 'Harness', owner: OWNER })
  const offered = (await call('harness/harness.capabilities', { limit: 50 }))['items'] as Declared[]
  for (const { approve: _, run: __, declaration, ...rest } of capabilities) {
    const wanted = { ...rest, capability: declaration, agent_id: AGENT, approvers: APPROVERS }
    const known = offered.find(({ id }) => id === declaration.name)
    if (known === undefined || !Object.entries(wanted).every(([name, value]) => isDeepStrictEqual(known[name as 'id'], value)))
      await call('harness/harness.declare', wanted)
  }
  for (const { id } of offered)
    if (!capabilities.some(({ declaration }) => declaration.name === id)) await call('harness/harness.withdraw', { capability: id })
  const allowed = (await call('harness/harness.callers', { limit: 200 }))['items'] as { caller_id: string }[]
  for (const { caller_id } of allowed) if (!Object.hasOwn(callers, caller_id)) await call('harness/harness.disallow', { caller_id })
  for (const [caller_id, given] of Object.entries(callers)) await call('harness/harness.allow', { caller_id, ...given })
}

async function serveCallee(open: OpenHarness, options: CalleeOptions, serving: { stop(): Promise<void> } | null): Promise<Callee> {
  const { kernel, call, report } = open
  const actor = (): Promise<Actor> => authenticateSubject(kernel.store, AGENT, kernel.now())
  const asAgent = async (operation: string, input: object): Promise<AnyOutput> => call(operation, input, await actor())
  const byName = new Map(options.capabilities.map((capability) => [capability.declaration.name, capability]))
  const stopping = new AbortController()
  const { signal } = stopping

  // --- People ----------------------------------------------------------------------------------------------------------------

  const asking = new Map<string, AbortController>()
  async function ask(id: string): Promise<void> {
    const session = (await kernel.store.read([keyOf(Session, id)]))[0]?.value as Session | undefined
    const waits = session?.role === 'callee' && session.state === 'PENDING' && session.waiting_for === 'human'
    if (!waits) return asking.get(id)?.abort()
    if (asking.has(id) || signal.aborted) return
    const over = new AbortController()
    asking.set(id, over)
    try {
      const approval = await approvalOf(session, AbortSignal.any([over.signal, signal]))
      if (signal.aborted || over.signal.aborted) return
      const { result, by = [], reason } = approval
      const decision = { session_id: id, result, by: [...by], ...(reason === undefined ? {} : { reason }) }
      await call('harness/harness.decide', decision).catch(async (error: unknown) => {
        if (!(error instanceof Refusal)) throw error
        // An approval without approvers, or with only one for R5, is invalid: record a rejection.
        await call('harness/harness.decide', { session_id: id, result: 'rejected', by: [], reason: error.message })
      })
    } catch (error) {
      if (!signal.aborted && !over.signal.aborted) report(error, `could not ask anyone about session ${id}`)
    } finally {
      asking.delete(id)
    }
  }
  async function approvalOf(session: Session, ends: AbortSignal): Promise<Approval> {
    const approve = byName.get(session.capability)?.approve
    if (approve === undefined) return { result: 'rejected', reason: 'this harness has no approver' }
    const { session_id, caller_id, capability, risk_level, data_classification } = session
    const { intent, inputs } = await open.submissionOf(session.id)
    const asked = { session_id: session_id!, caller_id, capability, risk_level: risk_level!, data_classification, intent, inputs }
    try {
      return await approve(asked, ends)
    } catch (error) {
      report(error, 'approve failed')
      return { result: 'rejected', reason: 'the question reached no approver' }
    }
  }

  // --- Work ------------------------------------------------------------------------------------------------------------------

  async function work({ run, request, attempt }: MailboxItem, over: AbortSignal): Promise<void> {
    const speak = (verb: string, input: object): Promise<AnyOutput> =>
      asAgent(`harness/harness.${verb}`, { session_id: run.session_id, attempt, ...input })
    const submitted = request.input as Record<string, unknown>
    const capability = byName.get(String(submitted['capability']))
    const { session, artifacts } = await createSessionHandle(submitted, attempt, over, speak)
    try {
      if (capability === undefined) throw Object.assign(new Error('the capability is no longer offered'), { code: 'resource_unavailable' })
      const outputs = (await capability.run(session)) ?? {}
      if (over.reason === STOPPED) return
      await speak('complete', { outputs, artifacts })
    } catch (error) {
      // Put down by a stop: another start takes it up again.
      if (over.reason === STOPPED || isStale(error)) return
      if (!over.aborted) report(error, `session ${run.session_id} failed`)
      await speak('fail', { ...failureOf(error), artifacts }).catch((lost: unknown) => {
        if (!over.aborted && !isStale(lost)) report(lost, 'could not report a failure')
      })
    }
  }
  const isStale = (error: unknown): boolean => error instanceof Refusal && error.code === 'CONFLICT'

  function begin(item: MailboxItem, slots: Concurrency): Job {
    const { attempt } = item
    const over = new AbortController()
    const worked = slots.take().then(() => work(item, over.signal))
    return {
      attempt,
      done: worked.catch((error: unknown) => report(error, 'could not work on a session')).finally(slots.give),
      get isUnfinished() {
        return over.signal.reason === STOPPED
      },
      receive(next) {
        if (next.attempt !== attempt) over.abort(new Error('another attempt has begun'))
        else if (next.messages.some(({ kind }) => kind === 'cancel')) over.abort(new Error('the session was aborted'))
        return next.attempt === attempt
      },
      // A single process has the folder: no other process takes a run.
      lost: () => Promise.resolve(),
      stop: () => over.abort(STOPPED),
    }
  }
  const loop = createMailboxLoop({
    ...TIMES,
    agent_id: AGENT,
    worker: randomUUID(),
    concurrency: options.concurrency ?? 100,
    call: (operation, input, { signal } = {}) => kernel.call(operation, input, actor, { signal }),
    // The abort lasts until the work has stopped (C37).
    acksAfterDone: true,
    begin,
    onTakeError(error) {
      report(error, 'could not take work')
      return 'continue'
    },
  })
  /** Releases runs of an earlier process. A single process has the folder, so their work has ended. */
  async function releaseHeld(): Promise<void> {
    let cursor: string | undefined
    do {
      const page = await call('harness/harness.sessions', { role: 'callee', limit: 50, ...(cursor === undefined ? {} : { cursor }) })
      for (const { id, run_id, ended_at } of page['items'] as Session[]) {
        if (ended_at !== null) continue
        const held = run_id === null ? undefined : (await kernel.store.read([keyOf(Mailbox, run_id)]))[0]
        const attempt = (held?.value as Mailbox | undefined)?.attempt ?? 0
        if (attempt > 0) await asAgent('delegation/mailbox.release', { runs: [{ run_id, attempt }] })
        void ask(id)
      }
      cursor = (page['next_cursor'] as string | null) ?? undefined
    } while (cursor !== undefined)
  }
  const unsubscribe = open.onChange(Session.kind, (id) => void ask(id))
  await releaseHeld()
  loop.start()

  async function stop(): Promise<void> {
    await loop.stop(GRACE_MS)
    stopping.abort()
    unsubscribe()
    await serving?.stop()
    await open.stop()
  }
  let stopped: Promise<void> | null = null
  return { id: options.id, health: open.health, stop: () => (stopped ??= stop()) }
}
