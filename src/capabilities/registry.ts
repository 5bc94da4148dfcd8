// The capability registry: all sources behind one port. It stores their offers as documents, and routes each call to its source within
// bounds of time and size.
import type { Clock } from '#kernel/ports/clock.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { messageOf } from '#kernel/codec/cut-text.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import type { Caller, Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { END, keyOf, parse } from '#kernel/declare/schema.ts'
import {
  CapabilityManifest,
  capabilityKey,
  Offering,
  type InvokeOutcome,
  type InvokeRequest,
  type OfferedBy,
} from '#protocols/delegation/capabilities/manifest.ts'
import { OFFERED_MAX } from '#protocols/delegation/operations/offer.ts'
import { CapabilityFailure, type CapabilitySource, type SourceLog } from './source.ts'

export type CapabilityRegistry = {
  /** The port that an invocation goes through. */
  invoke(request: unknown, signal: AbortSignal): Promise<InvokeOutcome>
  /** The reason why only another server can perform the request; null: this one can. */
  elsewhere(request: unknown): string | null
  /** Withdraws capabilities that are no longer offered, and starts every source. */
  start(kernel: Kernel): Promise<void>
  stop(): Promise<void>
}

const SLEEP_MS_MAX = 60_000
const MESSAGE_CHARS_MAX = 2_000
const RETRY_MS = 1_000

/** `self`: identifies this server among the servers that share the store. */
export function createCapabilityRegistry(
  sources: readonly CapabilitySource[],
  clock: Clock,
  log: SourceLog,
  self: () => OfferedBy | undefined = () => undefined,
): CapabilityRegistry {
  const named = new Map(sources.map((source) => [source.name, source]))
  if (named.size !== sources.length) throw new Error('two sources of capabilities have the same name')
  /** The last put of each source. Lists of a source are stored in order, so that an older one cannot overwrite a newer one. */
  const putting = new Map<string, Promise<void>>()
  const stopping = new AbortController()
  const offeredBy = (): { offered_by?: OfferedBy } => {
    const offered_by = self()
    return offered_by ? { offered_by } : {}
  }
  const withdraw = (kernel: Kernel, input: object): Promise<number> => withdrawAll(kernel, { ...input, ...offeredBy() }, SYSTEM)

  async function put(kernel: Kernel, { name, projects }: CapabilitySource, manifests: readonly CapabilityManifest[]): Promise<void> {
    const usable = usableOf(manifests, name, log)
    let changed = 0
    for (let i = 0; i < usable.length; i += OFFERED_MAX) {
      const input = { source: name, projects, manifests: usable.slice(i, i + OFFERED_MAX), ...offeredBy() }
      const offered = (await kernel.call('delegation/capability.offer', input, SYSTEM)) as { changed: number; taken: string[] }
      changed += offered.changed
      if (offered.taken.length > 0) log.warn({ source: name, taken: offered.taken }, 'another source offers these capabilities already')
    }
    const withdrawn = await withdraw(kernel, { source: name, keep: usable.map(capabilityKey) })
    log.info({ source: name, offered: usable.length, changed, withdrawn }, 'a source of capabilities is ready')
  }

  /** Retries until the offer is stored: a source reports it only once. */
  async function putUntilDone(kernel: Kernel, source: CapabilitySource, manifests: readonly CapabilityManifest[]): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        return await put(kernel, source, manifests)
      } catch (error) {
        log.error({ err: error, source: source.name }, 'could not record the offers of a source; retrying')
        await clock.sleep(RETRY_MS, stopping.signal)
      }
    }
  }

  function offer(kernel: Kernel, source: CapabilitySource, manifests: readonly CapabilityManifest[]): void {
    const before = putting.get(source.name) ?? Promise.resolve()
    putting.set(
      source.name,
      before.then(() => putUntilDone(kernel, source, manifests)),
    )
  }

  return {
    async start(kernel) {
      await withdraw(kernel, { keep: [...named.keys()] })
      // A source that cannot be reached yet keeps its offers, except in projects that it no longer serves.
      for (const { name, projects } of sources) await withdraw(kernel, { source: name, projects: [...projects] })
      for (const source of sources) source.start((manifests) => offer(kernel, source, manifests))
      // Functions of this process are offered immediately, other sources once they are reachable.
      await Promise.all(putting.values())
    },
    elsewhere(request) {
      const { source } = request as InvokeRequest
      if (named.has(source) || self() === undefined) return null
      return `the source ${source} is on another server: send the call there`
    },
    async invoke(request, signal) {
      const { source, ref, input, timeout_ms, run_id, invocation_id } = request as InvokeRequest
      const began = clock.now()
      const outcome = await withinTime(clock, timeout_ms, signal, async (enough) => {
        const found = named.get(source)
        if (!found) throw new CapabilityFailure('unreachable', `${source} is no longer a source of this server`)
        return { output: boundOutput(await found.invoke(ref, input, enough, { run_id, invocation_id })) }
      })
      return { ...outcome, duration_ms: Math.max(0, clock.now() - began) }
    },
    async stop() {
      stopping.abort()
      await Promise.all(sources.map((source) => source.stop().catch(() => undefined)))
      await Promise.all(putting.values())
    },
  }
}

/** Withdraws page by page. Returns the number of withdrawn capabilities. */
export async function withdrawAll(kernel: Kernel, input: object, as: Caller): Promise<number> {
  let withdrawn = 0
  for (let cursor: string | null = null; ;) {
    const more: object = cursor === null ? input : { ...input, cursor }
    const page = (await kernel.call('delegation/capability.withdraw', { ...more, limit: limits.pageMax }, as)) as Withdrawn
    withdrawn += page.withdrawn
    cursor = page.next_cursor
    if (cursor === null) return withdrawn
  }
}

/** Withdraws the offers of ended servers, unless another server makes them too. */
export async function withdrawEnded(kernel: Kernel, isEnded: (node: string, epoch: number) => boolean, as: Caller): Promise<number> {
  const { store } = kernel
  await store.fresh()
  const keys = await store.keys(keyOf(Offering, ''), keyOf(Offering, END), OFFERINGS_MAX)
  const ended = new Map<string, OfferedBy>()
  for (const found of keys.length === 0 ? [] : await store.read(keys)) {
    const { node, epoch } = (found?.value ?? { node: '', epoch: 0 }) as Offering
    if (found && isEnded(node, epoch)) ended.set(`${node} ${epoch}`, { node, epoch })
  }
  let withdrawn = 0
  for (const offered_by of ended.values()) withdrawn += await withdrawAll(kernel, { keep: [], offered_by }, as)
  return withdrawn
}
const OFFERINGS_MAX = 1_000

type Withdrawn = { readonly withdrawn: number; readonly next_cursor: string | null }

/** Manifests are external input: a manifest that cannot be stored or shown is left out and logged. */
function usableOf(manifests: readonly CapabilityManifest[], source: string, log: SourceLog): CapabilityManifest[] {
  const kept = new Map<string, CapabilityManifest>()
  for (const manifest of manifests.slice(0, limits.capabilitiesPerSourceMax)) {
    try {
      const text = JSON.stringify(manifest)
      if (Buffer.byteLength(text) > limits.capabilityBytesMax)
        throw new Error(`its manifest has more than ${limits.capabilityBytesMax} bytes`)
      const usable = parse(CapabilityManifest, decodeText(text))
      if (kept.has(capabilityKey(usable))) throw new Error('the source offers two capabilities with this id and version')
      kept.set(capabilityKey(usable), usable)
    } catch (error) {
      log.warn({ source, capability: manifest.capability_id, error: shownMessage(error) }, 'a capability is left out')
    }
  }
  if (manifests.length > limits.capabilitiesPerSourceMax)
    log.warn(
      { source, offered: manifests.length },
      `a source has at most ${limits.capabilitiesPerSourceMax} capabilities: the others are left out`,
    )
  return [...kept.values()]
}

class Unfit extends Error {
  readonly reason: 'output_too_large' | 'output_invalid'
  constructor(reason: Unfit['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

/** The output as plain JSON that every caller can read. The decoder for external input checks it, too. */
function boundOutput(output: unknown): unknown {
  let text: string
  try {
    text = JSON.stringify(output ?? null)
  } catch {
    throw new Unfit('output_invalid', 'the output cannot be written as JSON')
  }
  if (Buffer.byteLength(text) > limits.invokeOutputBytesMax)
    throw new Unfit('output_too_large', `the output is larger than ${limits.invokeOutputBytesMax} bytes`)
  try {
    return decodeText(text)
  } catch (error) {
    throw new Unfit('output_invalid', `the output is not valid JSON: ${shownMessage(error)}`)
  }
}

type Ended = Pick<InvokeOutcome, 'output' | 'error'>

/** The result of the work, or a timeout. It does not wait for a source that ignores its abort signal. */
async function withinTime(clock: Clock, ms: number, stop: AbortSignal, work: (signal: AbortSignal) => Promise<Ended>): Promise<Ended> {
  const late = new AbortController()
  const over = new AbortController()
  const done = work(AbortSignal.any([late.signal, stop])).catch((error: unknown): Ended => ({ error: errorOf(error) }))
  const stopped = new Promise<Ended>((resolve) => {
    const message = 'the server is stopping: the outcome is unknown'
    const tell = (): void => resolve({ error: { code: 'EXECUTION_FAILED', reason: 'stopped', message } })
    if (stop.aborted) tell()
    stop.addEventListener('abort', tell, { signal: over.signal })
  })
  const first = await Promise.race([done, stopped, sleepFor(clock, ms, over.signal)])
  over.abort()
  if (first !== undefined) return first
  late.abort()
  return { error: { code: 'TIMEOUT', reason: 'timeout', message: `it took longer than ${ms} ms` } }
}

async function sleepFor(clock: Clock, ms: number, signal: AbortSignal): Promise<undefined> {
  for (let left = ms; left > 0 && !signal.aborted; left -= SLEEP_MS_MAX) await clock.sleep(Math.min(left, SLEEP_MS_MAX), signal)
}

function errorOf(error: unknown): NonNullable<InvokeOutcome['error']> {
  const reason = error instanceof CapabilityFailure || error instanceof Unfit ? error.reason : 'failed'
  return { code: 'EXECUTION_FAILED', reason, message: shownMessage(error) }
}

/** The error message of a source for the caller, cut and cleaned for display. */
const shownMessage = (error: unknown): string => messageOf(error, MESSAGE_CHARS_MAX).replaceAll('\0', '').toWellFormed()
