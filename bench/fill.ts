// A data folder as years of use leave it: tasks of many people and agents in the states that tasks are in, made by the operations
// themselves. Nothing is written past the kernel, and nothing is kept from one run to the next.
import { realClock, realEntropy } from '#apps/server/clock.ts'
import { openDataFolder } from '#apps/server/folder/data-folder.ts'
import { openKeyFiles } from '#apps/server/folder/key-files.ts'
import { setUp } from '#apps/server/folder/first-start.ts'
import { contracts } from '#contracts/index.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { directory } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { flowSteps, remember, type FlowRefs } from '#test/support/as-processes/flow.ts'
import { createNotary, taggerOf } from '#workers/keys/notary.ts'
import { createVerification, NOTHING_VERIFIED } from '#workers/upkeep/record-verifier.ts'

const CALLERS = 256
const PAIRS = 25
const SAY_EVERY = 10_000

type Step = (typeof flowSteps)[number]
const stepsTo = (...names: string[]): Step[] => names.map((name) => flowSteps.find(({ operation }) => operation.endsWith(name))!)
const begun = stepsTo('task.create', 'task.assign', 'task.start')
const approval = flowSteps.findLast(({ operation }) => operation.endsWith('review.submit'))!
/** How far tasks have come, and how many in a hundred. Most are over; a tenth went the whole reference flow. */
const ways: readonly { readonly share: number; readonly steps: readonly Step[] }[] = [
  { share: 6, steps: begun.slice(0, 1) },
  { share: 4, steps: begun.slice(0, 2) },
  { share: 10, steps: begun },
  { share: 3, steps: [...begun, ...stepsTo('checkpoint.raise')] },
  { share: 7, steps: [...begun, ...stepsTo('artifact.commit')] },
  { share: 60, steps: [...begun, ...stepsTo('artifact.commit'), approval] },
  { share: 10, steps: flowSteps.slice(0, -1) },
]
const wayOf = new Array<readonly Step[]>().concat(...ways.map(({ share, steps }) => Array.from({ length: share }, () => steps)))

type Pair = { readonly alice: Actor; readonly devin: Actor }

/** People, each with an agent. The first are called as those of the reference flow. */
async function registered(kernel: Kernel): Promise<Pair[]> {
  const projects = new Map([['project_default', 'member']] as const)
  const pairs: Pair[] = []
  for (let i = 0; i < PAIRS; i++) {
    const [person, agent] = i === 0 ? ['user_alice', 'agent_devin'] : [`user_${i}`, `agent_${i}`]
    await kernel.call('identity/user.add', { id: person, name: person }, SYSTEM)
    await kernel.call('identity/agent.add', { id: agent, name: agent, owner: person }, SYSTEM)
    pairs.push({ alice: { id: person, kind: 'human', projects }, devin: { id: agent, kind: 'agent', projects } })
  }
  return pairs
}

async function play(kernel: Kernel, pair: Pair, i: number): Promise<void> {
  // Neighbours in time are of different kinds, as with people.
  const steps = wayOf[(i * 37) % wayOf.length]!
  const refs: FlowRefs = { tag: `stored-${i}` }
  for (const { as, operation, input } of steps) {
    const asked = operation.endsWith('task.assign') ? { ...input(refs), assignee: pair.devin.id } : input(refs)
    remember(refs, await kernel.call(operation, asked, pair[as]))
  }
}

/** A new folder and a kernel on it, without the server around them and without quotas. */
export async function openNew(data: string) {
  const folder = openDataFolder(data)
  const keys = await openKeyFiles(folder.keys, true, { now: realClock.now, entropy: realEntropy })
  const store = sqliteStore(folder.database, { tag: taggerOf(keys.server) })
  const kernel = createKernel({
    store,
    protocols,
    contracts,
    directory,
    notary: createNotary(keys.server, keys.ring),
    terms: { asksOpenMax: null, criticalPerHourMax: null },
    now: realClock.now,
    entropy: realEntropy,
    asksPerMinute: null,
    checksAnswers: false,
  })
  await setUp(kernel, folder.adminKey)
  return { kernel, store, folder }
}

/** Fills a new folder with so many tasks and closes it, as a clean stop does. */
export async function fill(data: string, tasks: number, say: (line: string) => void): Promise<void> {
  const { kernel, store, folder } = await openNew(data)
  const pairs = await registered(kernel)
  const began = performance.now()
  let next = 0
  const work = async (): Promise<void> => {
    while (next < tasks) {
      const i = next++
      // Shifts the pairs with each hundred, so that every pair has tasks of every kind.
      await play(kernel, pairs[(i + Math.floor(i / wayOf.length)) % PAIRS]!, i)
      if ((i + 1) % SAY_EVERY === 0) say(`${(i + 1).toLocaleString('en')} tasks after ${seconds(began)}`)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, work))
  say(`${tasks.toLocaleString('en')} tasks and ${store.stats().position.toLocaleString('en')} facts were made in ${seconds(began)}`)
  await store.close()
  folder.release()
}

/** Runs the whole verification in one go; a running server does it in small steps. */
export async function verifyAll(data: string, say: (line: string) => void): Promise<void> {
  const folder = openDataFolder(data)
  const store = sqliteStore(folder.database)
  const began = performance.now()
  const verification = createVerification(store, NOTHING_VERIFIED)
  for (;;) {
    const { marker, difference, facts } = await verification.next()
    if (difference) throw new Error(`the record of the benchmark is not in order: ${difference.what}`)
    if (facts > 0) continue
    await folder.marker.write(marker)
    say(`${marker.position.toLocaleString('en')} facts were verified in ${seconds(began)}`)
    break
  }
  await store.close()
  folder.release()
}

const seconds = (began: number): string => `${((performance.now() - began) / 1_000).toFixed(1)} s`
