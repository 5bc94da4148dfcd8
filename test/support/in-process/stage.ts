// A world at a named scene, and what tests ask of it: calls, refusals that change nothing, events and facts.
import assert from 'node:assert/strict'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Refs, Step } from '#kernel/declare/operation.ts'
import type { Store } from '#kernel/log/store.ts'
import { duePrefix, dueUntil, idIn, kindOf } from '#kernel/declare/schema.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { memoryDisk, memoryStore, type MemoryDisk } from '#stores/memory.ts'
import { createWorld, settled, stateHash, type World, type WorldOptions } from './world.ts'

export const HOUR_MS = 3_600_000

export type Stage = {
  readonly world: World
  readonly refs: Refs
  readonly disk: MemoryDisk
  /** Calls a collaboration operation. */
  call(as: string, operation: string, input?: object, key?: string): Promise<any>
  /** The call answers this code and leaves every document as it was. Returns the refusal. */
  refused(code: string, as: string, operation: string, input: object, key?: string): Promise<Refusal>
  /** The task as it is now. */
  task(id?: string): Promise<any>
  /** The task's audit events, oldest first, without those of its runs and of its items in the inbox. */
  events(id?: string): Promise<any[]>
  actions(id?: string): Promise<string[]>
  /** Runs the timers that are due, as the worker would; answers what they called. */
  ring(): Promise<string[]>
}

type StageOptions = { readonly asksPerMinute?: number; readonly store?: Store; readonly disk?: MemoryDisk }

export async function stage(scene: string | readonly Step[] = 'empty', options: StageOptions = {}): Promise<Stage> {
  const { disk = memoryDisk(), ...others } = options
  const world = await createWorld({ store: memoryStore({ disk }), ...others })
  const steps = typeof scene === 'string' ? collaboration.scenes[scene] : scene
  assert.ok(steps, `there is a scene ${JSON.stringify(scene)}`)
  return stageOf(world, await world.play(steps), disk)
}

/** More agents of the project, each under its name: `third` is agent_third. */
export async function enlist({ world, call }: Stage, ...names: string[]): Promise<void> {
  for (const name of names) {
    await call('admin', 'identity/agent.add', { id: `agent_${name}`, name, owner: 'user_alice' })
    world.cast[name] = { ...world.cast['devin']!, id: `agent_${name}` }
  }
}

/** Another store may be filled with it. */
type Opening = (disk: MemoryDisk) => Store | Promise<Store>

/** The same scene once more, without playing it: a copy of its disk under a new kernel. */
export async function again(
  { world, refs, disk }: Stage,
  open: Opening = (copy) => memoryStore({ disk: copy }),
  more: WorldOptions = {},
): Promise<Stage> {
  const copy = structuredClone(disk)
  // Ids are made from time and seeded chance: a later start keeps them apart from those on the disk.
  const other = await createWorld({ store: await open(copy), populated: false, startMs: world.kernel.now() + 1, seed: 2, ...more })
  return stageOf(other, structuredClone(refs), copy)
}

function stageOf(world: World, refs: Refs, disk: MemoryDisk): Stage {
  const call: Stage['call'] = (as, operation, input = {}, key) =>
    world.call(as, operation.includes('/') ? operation : `collaboration/${operation}`, input, key === undefined ? {} : { key })
  const events: Stage['events'] = async (id = refs['task'].id) => {
    const { items } = await call('admin', 'audit.query', { task_id: id, limit: 200 })
    return (items as any[]).filter(({ protocol }) => protocol === 'collaboration')
  }
  return {
    world,
    refs,
    disk,
    call,
    events,
    async refused(code, as, operation, input, key) {
      const before = await stateHash(world.store)
      const refusal = await refusalOf(call(as, operation, input, key))
      assert.equal(refusal.code, code, `${as} ${operation}: ${refusal.message}`)
      assert.equal(await stateHash(world.store), before, `${as} ${operation}: a refusal changes nothing`)
      return refusal
    },
    task: async (id = refs['task'].id) => (await call('admin', 'task.get', { task_id: id })).task,
    actions: async (id) => (await events(id)).map((event) => event.action as string),
    async ring() {
      const called: string[] = []
      const now = new Date(world.kernel.now()).toISOString()
      for (const entry of await world.store.scan(duePrefix, dueUntil(now), 1_000)) {
        const [found] = await world.store.read([idIn(entry)])
        const due = found && kindOf(idIn(entry)).due(found.value)
        if (!due || due.at > now) continue
        await call('system', due.call, due.input)
        // Left over from members who joined before the scene began.
        if (due.call !== 'execution/recipient.check') called.push(due.call)
      }
      return called
    },
  }
}

/** The refusal of a call that must be refused. */
export async function refusalOf(calling: Promise<unknown>): Promise<Refusal> {
  let answer: unknown
  try {
    answer = await calling
  } catch (error) {
    assert.equal(error instanceof Refusal, true, String(error))
    return error as Refusal
  }
  return assert.fail(`was not refused, but answered ${JSON.stringify(answer).slice(0, 300)}`)
}

/** Every fact in the record, as its sealed line. */
export async function linesOf(world: World): Promise<any[]> {
  await settled()
  const facts = await world.store.facts({ by: 'position' }, { after: null, limit: 100_000 })
  return facts.map((stored) => JSON.parse(stored.line))
}

/** The outcome of each concurrent call, as a word or an error code; sorted, because the winner is not deterministic. */
export async function raced(calls: readonly Promise<any>[], word: (answer: any) => string): Promise<string[]> {
  const settled = await Promise.allSettled(calls)
  const outcomes = settled.map((one): string => (one.status === 'fulfilled' ? word(one.value) : (one.reason as Refusal).code))
  return outcomes.toSorted()
}

type Racing = Readonly<Record<string, (on: Stage) => Promise<any>>>
/**
 * Races all calls, and each against each other, in time and late, each time on a copy of the scene. At most one call wins, not counting
 * `cancel`, which ends anything a task waits for and so can come second. `judge` gets the winners; every call must win at least once.
 */
export async function raceAll(ready: Stage, calls: Racing, judge: (on: Stage, won: readonly string[], message: string) => Promise<void>) {
  const names = Object.keys(calls)
  const pairs = names.flatMap((one) => names.filter((other) => other !== one).map((other) => [one, other]))
  const winners = new Set<string>()
  for (const racing of [names, ...pairs]) {
    for (const late of [0, 2 * HOUR_MS]) {
      const on = await again(ready)
      on.world.advance(late)
      const message = await raced(
        racing.map((name) => calls[name]!(on).then(() => name)),
        (name) => `won: ${name}`,
      )
      const won = message.filter((word) => word.startsWith('won: ')).map((word) => word.slice('won: '.length))
      assert.ok(won.filter((name) => name !== 'cancel').length <= 1, message.join())
      for (const name of won) winners.add(name)
      await judge(on, won, message.join())
    }
  }
  assert.equal(winners.size, names.length, [...winners].join())
}
