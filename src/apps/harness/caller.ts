// The caller of `countersign/harness`: submits tasks to other harnesses and follows them. A submission outlives the process: the same
// folder has it again.
import { SYSTEM } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Input, Output } from '#sdk/client.ts'
import { Session } from '#protocols/harness/schema.ts'
import type { HarnessHealth } from '../server/harness.ts'
import { openHarness, type HarnessOptions, type OpenHarness } from './harness.ts'

type Submit = Input<'harness/harness.submit'>
export type SubmittedTask = Omit<Submit, 'callee_id' | 'project_id' | 'run_id' | 'task_id'>
export type SessionView = Output<'harness/harness.session'>['session']
export type SessionEvent = Output<'harness/harness.events'>['items'][number]
export type Accepted = Pick<SessionView, 'session_id' | 'risk_level' | 'state' | 'capability' | 'callee_id'>
export type Result = Pick<SessionView, 'outputs' | 'outputs_valid' | 'artifacts' | 'execution_summary'>

/** Why a session did not complete: `code` is the reason of a rejection, the code of a failure, or `aborted`. */
export class SessionEnded extends Error {
  override name = 'SessionEnded'
  readonly code: string
  readonly session: SessionView
  constructor(session: SessionView) {
    const { rejection, error, state, reason } = session
    super(rejection?.reason_message ?? error?.error_message ?? `the session is ${state}${reason === null ? '' : ` (${reason})`}`)
    this.code = rejection?.reason_code ?? error?.error_code ?? state.toLowerCase()
    this.session = session
  }
}

export type Submitted = {
  /** The id of the submission. The session has its own id once the submission was answered. */
  readonly id: string
  /** Resolves when the other side has begun; rejects with SessionEnded if the session ends before. */
  readonly accepted: Promise<Accepted>
  /** Resolves with the outputs; rejects with SessionEnded. */
  readonly result: Promise<Result>
  /** All events from the first to the last, each once and in order. */
  events(): AsyncIterable<SessionEvent>
  session(): Promise<SessionView>
  abort(reason?: string): Promise<void>
}
export type Caller = {
  readonly id: string
  /** With a key, the same submission is made once, also after a crash between the call and its answer. */
  submit(callee_id: string, task: SubmittedTask, options?: { readonly key?: string }): Promise<Submitted>
  /** An earlier submission, by either of its ids. */
  open(session_id: string): Promise<Submitted>
  /** Newest first. */
  sessions(): AsyncIterable<SessionView>
  health(): HarnessHealth
  stop(): Promise<void>
}

export async function createCaller(options: HarnessOptions): Promise<Caller> {
  const open = await openHarness(options)
  const { call, kernel } = open
  const stopping = new AbortController()
  const changes = new Map<string, Set<() => void>>()
  const unsubscribe = open.onChange(Session.kind, (id) => changes.get(id)?.forEach((tell) => tell()))

  return {
    id: options.id,
    async submit(callee_id, task, { key } = {}) {
      const input = { ...task, callee_id }
      const { session } = (await kernel.call('harness/harness.submit', input, SYSTEM, key === undefined ? {} : { key })) as {
        session: SessionView
      }
      return submittedSession(open, session.id, changes, stopping.signal)
    },
    async open(session_id) {
      const { session } = (await call('harness/harness.session', { session_id })) as { session: SessionView }
      return submittedSession(open, session.id, changes, stopping.signal)
    },
    async *sessions() {
      for (let cursor: string | null | undefined; cursor !== null;) {
        const page = await call('harness/harness.sessions', { role: 'caller', ...(cursor === undefined ? {} : { cursor }) })
        yield* page['items'] as SessionView[]
        cursor = page['next_cursor'] as string | null
      }
    },
    health: open.health,
    async stop() {
      unsubscribe()
      stopping.abort(new Refusal('UNAVAILABLE', 'the harness stops'))
      await open.stop()
    },
  }
}

function submittedSession(open: OpenHarness, id: string, changes: Map<string, Set<() => void>>, stopping: AbortSignal): Submitted {
  const { call, kernel } = open
  const session = async (): Promise<SessionView> => (await call('harness/harness.session', { session_id: id }))['session'] as SessionView

  /** Resolves with the session once `isSo` holds; reads the session again after every change. */
  async function until(isSo: (view: SessionView) => boolean): Promise<SessionView> {
    for (;;) {
      const { promise: rung, resolve } = Promise.withResolvers<void>()
      const ring = (): void => resolve()
      const bells = changes.get(id) ?? new Set<() => void>()
      changes.set(id, bells.add(ring))
      stopping.addEventListener('abort', ring)
      try {
        const view = await session()
        if (isSo(view)) return view
        await rung
        stopping.throwIfAborted()
      } finally {
        stopping.removeEventListener('abort', ring)
        bells.delete(ring)
        if (bells.size === 0) changes.delete(id)
      }
    }
  }

  const promises: { accepted?: Promise<Accepted>; result?: Promise<Result> } = {}
  /** Requested once, and only if it is awaited. */
  const markHandled = <T>(promise: Promise<T>): Promise<T> => {
    promise.catch(() => undefined)
    return promise
  }
  async function awaitAccepted(): Promise<Accepted> {
    const view = await until(({ accepted_at, ended_at }) => accepted_at !== null || ended_at !== null)
    if (view.accepted_at === null) throw new SessionEnded(view)
    const { session_id, risk_level, state, capability, callee_id } = view
    return { session_id, risk_level, state, capability, callee_id }
  }
  async function result(): Promise<Result> {
    const view = await until(({ ended_at }) => ended_at !== null)
    if (view.state !== 'COMPLETED') throw new SessionEnded(view)
    const { outputs, outputs_valid, artifacts, execution_summary } = view
    return { outputs, outputs_valid, artifacts, execution_summary }
  }
  /** The stream has no confidential data: read it from the session, which opens it. */
  async function whole(event: SessionEvent): Promise<SessionEvent> {
    if (event.sealed !== true) return event
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page = await call('harness/harness.events', { session_id: id, ...(cursor === undefined ? {} : { cursor }) })
      const found = (page['items'] as SessionEvent[]).find(({ sequence }) => sequence === event.sequence)
      if (found) return found
      cursor = page['next_cursor'] as string | null
    }
    return event
  }

  return {
    id,
    get accepted() {
      return (promises.accepted ??= markHandled(awaitAccepted()))
    },
    get result() {
      return (promises.result ??= markHandled(result()))
    },
    async *events() {
      const over = new AbortController()
      try {
        // A submission that was rejected immediately has no events, so end the stream.
        void until(({ state, last_processed_sequence }) => state === 'REJECTED' && last_processed_sequence === 0).then(
          () => over.abort(),
          () => undefined,
        )
        const signal = AbortSignal.any([stopping, over.signal])
        for await (const { item } of kernel.follow('harness/harness.follow', { session_id: id }, SYSTEM, { after: null, signal })) {
          const { event } = item as { event: SessionEvent }
          yield await whole(event)
          if (event.event_type === 'session_closed') return
        }
      } finally {
        over.abort()
      }
    },
    session,
    async abort(reason) {
      await call('harness/harness.abort', { session_id: id, ...(reason === undefined ? {} : { reason }) })
    },
  }
}
