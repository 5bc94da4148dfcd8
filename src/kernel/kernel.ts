// The kernel, the one entrance for every binding. A query is read, authorized and shown (call/query.ts); a command takes the steps of
// call/command.ts. This file adds long polls, errands, fan-outs, streams, and the checks before an upload.
import type { Caller, CallOptions, Kernel, KernelOptions } from './types.ts'
import { portsOf } from './ports/between-protocols.ts'
import { timestampOf } from './ports/clock.ts'
import type { NamedCovered } from './ports/passkeys.ts'
import { createCommandRunner, type Attempted } from './call/command.ts'
import { contextOf, givenBy } from './call/context.ts'
import { bookkeeping, refuseHidden, Reply } from './log/outbox-document.ts'
import { createDenials } from './call/denials.ts'
import { draftAt, readingAt, type Draft } from './call/unit-of-work.ts'
import { isAway, kernelCodes, Refusal, StoreUnavailable, type Fault } from './declare/errors.ts'
import { createEffects } from './call/effects.ts'
import { callEach } from './call/fan-out.ts'
import { authorizeReader, SYSTEM, type Actor } from './declare/access.ts'
import type { Command, Context, Read } from './declare/operation.ts'
import { createQueries, createReading } from './call/query.ts'
import { createQuota } from './call/quota/quota.ts'
import { readerOf } from './call/reader.ts'
import { createTextIndex } from './search/text-index.ts'
import { assertMatches } from './declare/schema.ts'
import { inputOf } from './call/input.ts'
import { replyIdOf } from './call/idempotency.ts'
import { registryOf, type Served } from './call/registry.ts'
import { createDueOnRead } from './call/due-on-read.ts'
import { doErrands, type DueErrand } from './call/errands-at-once.ts'
import { createStreams } from './log/streams.ts'
import { createTail } from './log/tail.ts'
import { createWaiters } from './call/waiters.ts'

export type { Caller, CallOptions, Kernel, KernelOptions } from './types.ts'

export function createKernel(options: KernelOptions): Kernel {
  const { store, now } = options
  const protocols = [bookkeeping, ...options.protocols]
  const registry = registryOf(protocols, options.contracts)
  const effects = createEffects(options.perform, (name, input, as) => call(name, input, as))
  const given = givenBy(options)
  const { newId, notary } = given
  const ports = portsOf(options.protocols)
  const texts = createTextIndex(store, options.sleep)
  const outside = { ...options, signable }
  const readerAs = (draft: Draft, actor: Actor): Read => readerOf(store, texts, outside, ports, draft, actor)
  const codes = Object.assign({}, kernelCodes, ...protocols.map((protocol) => protocol.codes)) as Record<string, Fault>
  const denials = createDenials(store, codes, newId, now)
  const quota = createQuota(options)
  const reading = createReading(quota, options.turns)
  const settle = createDueOnRead(store, now, call, options.timekeeper)
  const runQuery = createQueries({ options, given, denials, reading, readerAs, settle })
  const tail = options.tail ?? createTail(store, options.bug)
  const waiting = createWaiters(now, options.sleep)
  tail.hear(({ wakes }) => waiting.ring(wakes))
  tail.hear(texts.heard)
  const commands = createCommandRunner({ options, given, registry, denials, quota, reading, effects, tail, readerAs, call, settle })

  async function signable(draft: Draft, actor: Actor, name: string, raw: unknown): Promise<NamedCovered> {
    const operation = name.includes('/') ? name : [...registry.keys()].find((full) => full.endsWith(`/${name}`))
    const op = operation === undefined ? undefined : registry.get(operation)?.op
    if (operation === undefined || op?.kind !== 'command' || op.signs === undefined)
      throw new Refusal('INVALID_REQUEST', `operation: no passkey signs ${name}`, { field: 'operation' })
    const input = inputOf(op, raw, actor)
    const { state, context } = (await commands.admit(draft, op, input, actor)) as { state: unknown; context: Context }
    return { ...op.signs(state, input, context).toSign(), operation }
  }

  function call(name: string, raw: unknown, caller: Caller, more: CallOptions = {}): Promise<unknown> {
    const served = registry.get(name)
    return served?.op.kind === 'query' ? runQuery(name, served.op, raw, caller, more.since) : runCommand(name, served, raw, caller, more)
  }

  async function runCommand(name: string, served: Served | undefined, raw: unknown, caller: Caller, more: CallOptions): Promise<unknown> {
    if (served?.op.kind !== 'command') throw new Refusal('NOT_FOUND', `there is no operation ${name}`)
    if (served.op.fan) {
      const output = await callEach({ call, check, notary }, name, served.op, raw, caller, more)
      if (options.checksAnswers ?? true) assertMatches(served.op.output, output, name)
      return output
    }
    if (!served.op.waits) {
      const done = await commands.run({ served, raw, caller, options: more, waiter: null, isFirst: true })
      if (done.errands && done.errands.length > 0) await doErrands(done.errands, onErrand)
      if (served.op.finish) return finish(served.op, done)
      // Performed outside the retry loop of `run`: an effect is never started twice, even if it fails.
      return done.outcome ? done.outcome() : done.output
    }
    const waiter = waiting.waiter(more.signal)
    try {
      for (let isFirst = true; ; isFirst = false) {
        // Resolve the caller again each time: a credential that was revoked during the wait gets nothing.
        const done = await commands.run({ served, raw, caller, options: more, waiter, isFirst })
        if (done.nothing === null || !(await waiter.wait(done.nothing.again)))
          return served.op.finish ? await finish(served.op, done) : done.output
      }
    } finally {
      waiter.leave()
    }
  }

  async function onErrand({ call: name, input }: DueErrand, as: Actor): Promise<readonly DueErrand[]> {
    const request = { served: registry.get(name)!, raw: input, caller: as, options: {}, waiter: null, isFirst: true }
    return (await commands.run(request)).errands ?? []
  }

  /** Completes the answer with a read as the system: the actor may have lost access since, but the answer is about its own call. */
  async function finish(op: Command, { output, actor, isDone }: Attempted): Promise<unknown> {
    try {
      return await op.finish!(output, () => {
        const draft = readingAt(timestampOf(now()))
        return { read: readerAs(draft, SYSTEM), context: contextOf(given, actor, draft) }
      })
    } catch (error) {
      if (!isDone || !isAway(error)) throw error
      const message = 'the call might have been carried out, but its answer cannot be read now: retry with the same idempotency key'
      throw new StoreUnavailable(message, { retry_after: 1, outcome: 'unknown' })
    }
  }

  async function check(name: string, raw: unknown, caller: Caller, { key }: CallOptions = {}): Promise<void> {
    const op = registry.get(name)?.op
    if (op?.kind !== 'command') throw new Refusal('NOT_FOUND', `there is no command ${name}`)
    await store.fresh()
    const draft = draftAt(timestampOf(now()))
    const actor = typeof caller === 'function' ? await caller() : caller
    try {
      const input = inputOf(op, raw, actor)
      const replyId = key === undefined ? undefined : replyIdOf(actor, key)
      const reply = replyId === undefined ? null : await readerAs(draft, SYSTEM).maybe(Reply, replyId)
      // A retry gets its stored answer, unless the actor can no longer read it.
      if (reply) return await refuseHidden(readerAs(draft, actor), draft, reply.about ?? [])
      await commands.admit(draft, op, input, actor)
    } catch (error) {
      if (error instanceof Refusal) denials.record(draft, name, actor, error)
      throw error
    }
  }

  const streams = createStreams(store, tail, {
    now,
    streamOf(name) {
      const op = registry.get(name)?.op
      return op?.kind === 'stream' ? op : undefined
    },
    async load(draft, op, raw, actor) {
      const input = inputOf(op, raw, actor)
      const state: unknown = await op.load(readerAs(draft, actor), input, contextOf(given, actor, draft))
      authorizeReader(op.name, op.callers, actor, state)
      return { input, state }
    },
    denied: denials.record,
    begins: reading.again,
    presence: options.presence,
  })

  const figures = (): ReturnType<Kernel['stats']> => ({ conflicts: commands.conflicts(), denials: denials.count(), ...waiting.stats() })
  function release(): void {
    texts.stop()
    waiting.stop()
  }
  return { store, tail, protocols: options.protocols, codes, call, check, ...streams, charge: reading.charge, now, stats: figures, release }
}
