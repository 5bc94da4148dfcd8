// The callee of `countersign/harness`: capabilities of this process for other harnesses. Each session is a call of `run`, which is begun again
// after a crash, from its last snapshot.
import { isDeepStrictEqual } from 'node:util'
import { randomUUID } from 'node:crypto'
import { Refusal } from '#kernel/declare/errors.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Input } from '#sdk/client.ts'
import { authenticateSubject } from '#protocols/identity/authenticate.ts'
import { Agent, DEFAULT_PROJECT, User } from '#protocols/identity/schema.ts'
import { Mailbox } from '#protocols/delegation/schema.ts'
import { Session, type Capability as Declared } from '#protocols/harness/schema.ts'
import { OWNER } from '../server/folder/first-start.ts'
import type { HarnessHealth } from '../server/harness.ts'
import { serveArtifacts, type ArtifactOptions } from './artifacts.ts'
import { openHarness, type AnyOutput, type HarnessOptions, type OpenHarness } from './open.ts'
import { createSessionHandle, failureOf, type CalleeSession } from './session.ts'

type Declare = Input<'harness/harness.declare'>
export type Approval = { readonly result: 'approved' | 'rejected'; readonly by?: readonly string[]; readonly reason?: string }
/** A request for approval. */
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
const LEASE = 'PT1M'
const [LEASE_MS, SOON_MS, GRACE_MS] = [60_000, 500, 5_000]
const TAKEN_MAX = 50

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
  const byName = new Map(options.capabilities.map((one) => [one.declaration.name, one]))
  const stopping = new AbortController()
  const { signal } = stopping
  const jobs = new Map<string, { readonly attempt: number; readonly over: AbortController; readonly done: Promise<void> }>()
  const worker = randomUUID()
  const concurrency = options.concurrency ?? 100

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
      if (!signal.aborted && !over.signal.aborted) report(error, `nobody could be asked about session ${id}`)
    } finally {
      asking.delete(id)
    }
  }
  async function approvalOf(session: Session, ends: AbortSignal): Promise<Approval> {
    const approve = byName.get(session.capability)?.approve
    if (approve === undefined) return { result: 'rejected', reason: 'this harness has nobody who approves' }
    const { session_id, caller_id, capability, risk_level, data_classification } = session
    const { intent, inputs } = await open.submissionOf(session.id)
    const asked = { session_id: session_id!, caller_id, capability, risk_level: risk_level!, data_classification, intent, inputs }
    try {
      return await approve(asked, ends)
    } catch (error) {
      report(error, 'approve failed')
      return { result: 'rejected', reason: 'the question could not be put to anybody' }
    }
  }

  // --- Work ------------------------------------------------------------------------------------------------------------------

  type Item = {
    readonly run: { readonly id: string; readonly state: string; readonly session_id?: string }
    readonly request: { readonly input: Record<string, unknown> }
    readonly attempt: number
    readonly messages: readonly { readonly number: number; readonly kind: string; readonly body: unknown }[]
  }

  async function work({ run, request, attempt }: Item, over: AbortController): Promise<void> {
    const speak = (verb: string, input: object): Promise<AnyOutput> =>
      asAgent(`harness/harness.${verb}`, { session_id: run.session_id, attempt, ...input })
    const capability = byName.get(String(request.input['capability']))
    const { session, artifacts } = await createSessionHandle(request.input, attempt, over.signal, speak)
    try {
      if (capability === undefined)
        throw Object.assign(new Error('the capability is not offered any more'), { code: 'resource_unavailable' })
      const outputs = (await capability.run(session)) ?? {}
      if (signal.aborted && over.signal.aborted) return
      await speak('complete', { outputs, artifacts })
    } catch (error) {
      // Put down by a stop: another start takes it up again.
      if (signal.aborted || isStale(error)) return
      if (!over.signal.aborted) report(error, `session ${run.session_id} failed`)
      await speak('fail', { ...failureOf(error), artifacts }).catch((lost: unknown) => {
        if (!over.signal.aborted && !isStale(lost)) report(lost, 'a failure could not be told')
      })
    }
  }
  const isStale = (error: unknown): boolean => error instanceof Refusal && error.code === 'CONFLICT'

  function receive(item: Item): void {
    const { run, attempt, messages } = item
    const cancel = messages.findLast(({ kind }) => kind === 'cancel')
    let job = jobs.get(run.id)
    if (job !== undefined && job.attempt !== attempt) job.over.abort(new Error('another attempt has begun'))
    if ((job === undefined || job.attempt !== attempt) && run.state === 'running') {
      const over = new AbortController()
      const done = work(item, over)
        .catch((error: unknown) => report(error, 'a session could not be worked on'))
        .finally(() => {
          if (jobs.get(run.id)?.over === over) jobs.delete(run.id)
          ring()
        })
      job = { attempt, over, done }
      jobs.set(run.id, job)
    }
    if (cancel === undefined) return
    job?.over.abort(new Error('the session was aborted'))
    // The abort lasts until the work is put down (C37).
    const ack = (): Promise<unknown> => asAgent('delegation/mailbox.ack', { run_id: run.id, attempt, number: cancel.number })
    void (job?.done ?? Promise.resolve()).then(ack).catch(() => undefined)
  }

  let ring = (): void => undefined
  async function take(): Promise<void> {
    while (!signal.aborted) {
      const room = concurrency - jobs.size
      const wish = room > 0 ? { limit: Math.min(room, TAKEN_MAX) } : { held: true }
      // While all slots are taken, a finished job aborts the long poll, so that the next one asks for new work.
      const again = new AbortController()
      const isFull = room <= 0
      ring = () => isFull && again.abort()
      try {
        const input = { agent_id: AGENT, worker, lease: LEASE, wait: 'PT50S', ...wish }
        const answer = await kernel.call('delegation/mailbox.take', input, actor, { signal: AbortSignal.any([signal, again.signal]) })
        for (const item of (answer as { items: Item[] }).items) receive(item)
      } catch (error) {
        if (signal.aborted || again.signal.aborted) continue
        report(error, 'no work could be taken')
        await new Promise((done) => setTimeout(done, SOON_MS))
      }
    }
  }
  /** One process has the folder: what another one held was put down when it ended. */
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
  const beat = setInterval(() => {
    const runs = [...jobs].map(([run_id, { attempt }]) => ({ run_id, attempt }))
    for (let i = 0; i < runs.length; i += TAKEN_MAX)
      void asAgent('delegation/mailbox.extend', { runs: runs.slice(i, i + TAKEN_MAX), lease: LEASE }).catch(() => undefined)
  }, LEASE_MS / 3)
  const unsubscribe = open.onChange(Session.kind, (id) => void ask(id))
  await releaseHeld()
  const taking = take()

  async function stop(): Promise<void> {
    const left = [...jobs.values()].map(({ done }) => done)
    await Promise.race([Promise.all(left), new Promise((done) => setTimeout(done, left.length === 0 ? 0 : GRACE_MS).unref())])
    stopping.abort()
    for (const { over } of jobs.values()) over.abort(new Error('the harness stops'))
    unsubscribe()
    clearInterval(beat)
    await taking
    await Promise.race([Promise.all(left), new Promise((done) => setTimeout(done, SOON_MS))])
    await serving?.stop()
    await open.stop()
  }
  let stopped: Promise<void> | null = null
  return { id: options.id, health: open.health, stop: () => (stopped ??= stop()) }
}
