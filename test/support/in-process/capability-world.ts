// A world with sources of capabilities behind its kernel, and a run of devin's on a task of alice's to invoke them from.
import { localSource, type LocalCapability, type LocalManifest } from '#capabilities/local.ts'
import { createCapabilityRegistry, type CapabilityRegistry } from '#capabilities/registry.ts'
import type { CapabilitySource } from '#capabilities/source.ts'
import { realClock } from '#apps/server/clock.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { createEffectRunner, type EffectRunner } from '#workers/effect-runner.ts'
import { silent } from './worker-world.ts'
import { createWorld, type World } from './world.ts'

export type CapabilityWorld = {
  readonly world: World
  readonly capabilities: CapabilityRegistry
  readonly effects: EffectRunner
  readonly task_id: string
  readonly run_id: string
  /** Invokes as devin, in its run. */
  invoke(capability_id: string, input?: unknown, more?: object, key?: string): Promise<any>
  /** The events of the task's invocations, oldest first, with their documents. */
  events(): Promise<any[]>
  close(): Promise<void>
}
type Options = { readonly clock?: Clock; readonly store?: Store; readonly log?: typeof silent }

export async function capabilityWorld(
  sources: readonly CapabilitySource[],
  { clock = realClock, store, log = silent }: Options = {},
): Promise<CapabilityWorld> {
  const capabilities = createCapabilityRegistry(sources, clock, log)
  const effects = createEffectRunner({ capability: capabilities.invoke }, clock, log, 50)
  const world = await createWorld({ perform: effects.perform, ...(store ? { store } : {}) })
  await capabilities.start(world.kernel)
  const refs = await world.play(delegation.scenes['working']!)
  const run_id: string = refs['run'].id
  const task_id: string = refs['task'].id
  return {
    world,
    capabilities,
    effects,
    task_id,
    run_id,
    invoke: (capability_id, input, { version = '1.0.0', ...more }: any = {}, key) =>
      world.call(
        'devin',
        'delegation/capability.invoke',
        { run_id, attempt: 1, ref: { capability_id, version }, ...(input === undefined ? {} : { input }), ...more },
        key === undefined ? {} : { key },
      ),
    async events() {
      const { items } = await world.call('admin', 'collaboration/audit.query', { task_id, limit: 200 })
      return (items as any[]).filter(({ action }) => action.startsWith('capability.'))
    },
    async close() {
      await effects.stop()
      await capabilities.stop()
      await world.close()
    },
  }
}

const anything: LocalManifest['input_schema'] = { type: 'object' }

/** A function as a capability of version 1.0.0. */
export const capability = (name: string, run: LocalCapability['run'], more: Partial<LocalManifest> = {}): LocalCapability => ({
  manifest: { capability_id: `cap:${name}`, version: '1.0.0', kind: 'tool', name, input_schema: anything, ...more },
  run,
})

export const local = (...all: readonly LocalCapability[]): CapabilitySource => localSource('local', ['project_default'], all)

/** Resolves when what is asked for has come true. */
export async function until(what: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> {
  const end = Date.now() + ms
  while (!(await what())) {
    if (Date.now() > end) throw new Error('it did not come true in time')
    await new Promise((done) => setTimeout(done, 10))
  }
}
