// Queries: read, authorize, show. A query decides and commits nothing, but it costs work: actors pay for what they read, and take turns.
import type { Caller, KernelOptions, Turns } from '../types.ts'
import { timestampOf } from '../ports/clock.ts'
import { contextOf, type ContextPorts } from './context.ts'
import type { Denials } from './denials.ts'
import type { DueOnRead } from './due-on-read.ts'
import { readingAt, type Draft } from './unit-of-work.ts'
import { Refusal } from '../declare/errors.ts'
import { authorizeReader, refusalOfLoad, type Actor } from '../declare/access.ts'
import type { Query, Read } from '../declare/operation.ts'
import { unitsOf, type Quota } from './quota/quota.ts'
import { assertMatches } from '../declare/schema.ts'
import { inputOf } from './input.ts'

export type Reading = {
  /** Refuses an actor that does not take its answers, before the server works for it. */
  admit(actor: Actor): void
  /** Refuses an actor whose read quota is used up, and waits for the actor's turn. */
  begin(actor: Actor): Promise<void> | undefined
  /** Checks the quota again after the wait for a turn: other queries of the actor may have overdrawn it. */
  stillPays(actor: Actor): void
  end(actor: Actor, draft: Draft): void
  /** Charges a read that is no query: a replayed answer, or the start of a stream. */
  again(actor: Actor): void
  charge(actor: Actor, units: number): void
}

export function createReading(quota: Quota, turns: Turns | undefined): Reading {
  return {
    admit({ id, kind }) {
      if (kind !== 'system') turns?.admit(id)
    },
    begin({ id, kind }) {
      if (kind === 'system') return undefined
      quota.read(id)
      return turns?.begin(id)
    },
    stillPays({ id, kind }) {
      if (kind !== 'system') quota.stillPays(id)
    },
    end({ id, kind }, { rows, chars }) {
      if (kind === 'system') return
      const units = unitsOf(rows, chars)
      quota.charge(id, units - 1)
      turns?.end(id, units)
    },
    again({ id, kind }) {
      if (kind !== 'system') quota.read(id)
    },
    charge({ id, kind }, units) {
      if (kind !== 'system') quota.charge(id, units)
    },
  }
}

type Parts = {
  readonly options: KernelOptions
  readonly given: ContextPorts
  readonly denials: Denials
  readonly reading: Reading
  readerAs(draft: Draft, actor: Actor): Read
  readonly settle: DueOnRead
}

export function createQueries({ options, given, denials, reading, readerAs, settle }: Parts) {
  const draftNow = (): Draft => readingAt(timestampOf(options.now()))
  async function look(op: Query, input: unknown, actor: Actor, draft: Draft) {
    const context = contextOf(given, actor, draft)
    const read = readerAs(draft, actor)
    let state: unknown
    try {
      state = await op.load(read, input, context)
    } catch (error) {
      throw refusalOfLoad(error, op.name, op.callers, actor)
    }
    authorizeReader(op.name, op.callers, actor, state)
    return { state, context, read }
  }
  const actorOf = (caller: Caller): Actor | Promise<Actor> => (typeof caller === 'function' ? caller() : caller)

  return async function ask(name: string, op: Query, raw: unknown, caller: Caller, since?: number): Promise<unknown> {
    const barrier = options.store.fresh(since)
    if (barrier) await barrier
    let draft = draftNow()
    const resolving = actorOf(caller)
    let actor = resolving instanceof Promise ? await resolving : resolving
    if (actor.kind === 'agent') options.presence?.heard(actor.id)
    try {
      const input = inputOf(op, raw, actor)
      const turn = reading.begin(actor)
      if (turn) await turn
      try {
        // The credential may have been revoked during the wait.
        if (turn) {
          actor = await actorOf(caller)
          reading.stillPays(actor)
        }
        let seen = await look(op, input, actor, draft)
        const settling = settle(op.looksAt, input)
        if (settling && (await settling)) {
          draft = draftNow()
          seen = await look(op, input, actor, draft)
        }
        const { state, context, read } = seen
        const viewed: unknown = op.view(state, input, context, read)
        const output: unknown = viewed instanceof Promise ? await viewed : viewed
        if (options.checksAnswers ?? true) assertMatches(op.output, output, op.name)
        return output
      } finally {
        reading.end(actor, draft)
      }
    } catch (error) {
      if (error instanceof Refusal) denials.record(draft, name, actor, error)
      throw error
    }
  }
}
