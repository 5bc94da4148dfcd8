// A history of two harnesses with a broker between them, drawn by a seed: tasks, work, aborts, kills, cuts, lost and repeated messages. Then
// everything comes to rest, and the laws are looked at: nothing lost, nothing twice, in order, the same on both sides.
import { manualClock, settled } from '../../support/in-process/manual-clock.ts'
import { createRandom, type Random } from '../random.ts'
import { createBroker, NO_FAULTS } from './broker.ts'
import { lawsBroken } from './laws.ts'
import { createSide, type Side } from './side.ts'

const STEPS = 60
/** Of a history that does not come to rest. */
const [ROUNDS_MAX, STEPS_MAX] = [40, 2_000]
const [SECOND, MINUTE] = [1_000, 60_000]
type History = { readonly seed: number; readonly broken: readonly string[]; readonly happened: ReadonlyMap<string, number> }

type Run = { readonly run: { readonly session_id?: string }; readonly attempt: number }

export async function simulate(seed: number): Promise<History> {
  const random = createRandom(seed)
  const clock = manualClock()
  const broker = createBroker(random)
  const happened = new Map<string, number>()
  const note = (what: string): void => void happened.set(what, (happened.get(what) ?? 0) + 1)
  const caller = await createSide('lab-a', broker, clock, random)
  const callee = await createSide('lab-b', broker, clock, random)
  await callee.world().call('admin', 'harness/harness.declare', {
    agent_id: 'agent_devin',
    capability: { name: 'count', version: '1.0.0', description: 'Counts.', safety: { requires_human_approval: false } },
  })
  await callee.world().call('admin', 'harness/harness.allow', { caller_id: 'lab-a' })
  // In every other history nothing is held up for longer than an event waits for an earlier one.
  const parks = seed % 2 === 0
  const submitted: { readonly id: string; readonly to: string }[] = []
  const at = new Map<string, Run>()
  broker.setFaults({ lose: 0.1, unconfirmed: 0.1, again: 0.05, shuffle: 0.3, park: parks ? 0.06 : 0 })
  for (const side of [caller, callee]) side.setBusy(0.02)

  /** Refusals are part of the history: a commit that was refused, a session that has ended meanwhile. */
  const tried = async <T>(what: string, go: () => Promise<T>): Promise<T | null> => {
    try {
      const answer = await Promise.race([
        go(),
        settled()
          .then(settled)
          .then(() => null),
      ])
      if (answer !== null) note(what)
      return answer
    } catch {
      return null
    }
  }
  const drained = async (): Promise<boolean> => {
    let moved = false
    for (let [still, steps] = [0, 0]; still < 12; still++) {
      while (steps++ < STEPS_MAX && broker.step()) {
        ;[moved, still] = [true, 0]
        await ticks(4)
      }
      await clock.advance(SECOND)
    }
    return moved
  }
  const acts = actsOf({ random, caller, callee, submitted, at, tried, note })
  for (let i = 0; i < STEPS; i++) {
    const act = random.weighted(acts)
    await act()
    for (let turns = random.below(6); turns > 0; turns--) if (broker.step()) await ticks(random.below(12))
    if (random.chance(0.3)) await clock.advance(random.below(3 * SECOND))
    if (random.chance(0.08)) {
      // Nothing is held up for so long but what is parked.
      await drained()
      await clock.advance(random.below(2 * MINUTE))
      broker.release()
    }
  }
  broker.release()
  broker.setFaults(NO_FAULTS)
  for (const side of [caller, callee]) side.setBusy(0)
  for (let [quiet, rounds] = [0, 0]; quiet < 8 && rounds < ROUNDS_MAX; rounds++) {
    const moved = await drained()
    await clock.advance(MINUTE)
    quiet = moved ? 0 : quiet + 1
  }
  return { seed, broken: await lawsBroken({ caller, callee, broker, submitted, parks }), happened }
}

/** A few turns of the promises, so that a kill falls between a commit and its acknowledgement. */
async function ticks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await (i % 4 === 3 ? new Promise((done) => setImmediate(done)) : Promise.resolve())
}

type Acting = {
  readonly random: Random
  readonly caller: Side
  readonly callee: Side
  readonly submitted: { id: string; to: string }[]
  readonly at: Map<string, Run>
  tried<T>(what: string, go: () => Promise<T>): Promise<T | null>
  note(what: string): void
}
function actsOf({ random, caller, callee, submitted, at, tried, note }: Acting): [number, () => Promise<unknown>][] {
  const submit = async (): Promise<void> => {
    const to = random.chance(0.1) ? 'lab-nobody' : 'lab-b'
    const input = { callee_id: to, capability: 'count', intent: 'Count.', inputs: { n: submitted.length } }
    const answer = await tried('submitted', () => caller.world().call('alice', 'harness/harness.submit', input))
    if (answer !== null) submitted.push({ id: answer.session.id, to })
  }
  const take = async (): Promise<void> => {
    const input = { agent_id: 'agent_devin', worker: `w${random.below(3)}`, lease: 'PT10M' }
    const taken = await tried('taken', () => callee.world().call('devin', 'delegation/mailbox.take', input))
    for (const item of (taken?.items ?? []) as Run[]) if (item.run.session_id !== undefined) at.set(item.run.session_id, item)
  }
  const work = async (): Promise<void> => {
    const all = [...at]
    if (all.length === 0) return
    const [session_id, { attempt }] = random.pick(all)
    const [verb, more] = random.weighted<[string, object]>([
      [8, ['report', { event_type: 'log', data: { level: 'info', message: `line ${random.below(1_000)}` } }]],
      [3, ['report', { event_type: 'progress', data: { stage: 'counting', percent: random.below(100) } }]],
      [2, ['snapshot', { description: 'so far', state: { n: random.below(9) } }]],
      [1, ['pause', {}]],
      [2, ['resume', {}]],
      [3, ['complete', { outputs: { count: random.below(1_000) } }]],
      [1, ['fail', { error_code: 'execution_error', error_message: 'It broke.' }]],
    ])
    await tried(verb, () => callee.world().call('devin', `harness/harness.${verb}`, { session_id, attempt, ...more }))
  }
  const abort = async (): Promise<void> => {
    if (submitted.length === 0) return
    const { id } = random.pick(submitted)
    await tried('aborted', () => caller.world().call('alice', 'harness/harness.abort', { session_id: id, reason: 'Never mind.' }))
  }
  const kill = async (): Promise<void> => {
    const side = random.pick([caller, callee])
    side.kill()
    note(`${side.id} killed`)
    await side.start()
  }
  return [
    [5, submit],
    [4, take],
    [16, work],
    [1, abort],
    [3, kill],
  ]
}
