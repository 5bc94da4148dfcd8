// The installation that every run starts from: made once, copied for each seed. Two projects, two people with tasks, a reviewer
// for both, four agents of which one is hostile, and the admin key.
import { contracts } from '#contracts/index.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { authenticate } from '#protocols/identity/authenticate.ts'
import { ADMIN_SERVICE } from '#protocols/identity/schema.ts'
import { directory, people as directoryPeople } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { memoryDisk, memoryStore, type MemoryDisk } from '#stores/memory.ts'
import { testNotary } from '../support/in-process/notary.ts'
import { offerAll } from './capabilities.ts'
import { START_MS } from './machine.ts'
import { createRandom } from './random.ts'

export const projects = {
  project_default: { principal: 'user_alice', agents: ['agent_devin', 'agent_robin'] },
  project_other: { principal: 'user_bob', agents: ['agent_nemo', 'agent_mole'] },
} as const
export type ProjectName = keyof typeof projects
export const REVIEWER = 'user_rita'
/** Somebody more in both projects: for votes, pools and escalations. */
export const HELPER = 'user_hana'
/** Owns the installation, is in no project, and does nothing but look. */
export const OWNER = 'user_olga'
export const HOSTILE = 'agent_mole'
export const ADMIN = ADMIN_SERVICE
/** Those who answer. */
export const people: readonly string[] = [...Object.values(projects).map(({ principal }) => principal), REVIEWER, HELPER]
export const projectsOf = (who: string): string[] =>
  Object.entries(projects).flatMap(([id, { principal }]) => (principal === who || who === REVIEWER || who === HELPER ? [id] : []))

export type Template = {
  readonly disk: MemoryDisk
  /** The same with a task under way in each project, one of them with a part that another agent works on. */
  readonly atWork: MemoryDisk
  /** The same, and whatever the agents do there is confirmed beforehand. */
  readonly confirming: MemoryDisk
  readonly tokens: ReadonlyMap<string, string>
}
/** One history in so many begins at work: those are about what agents do with capabilities. */
const AT_WORK_ONE_IN = 4
export const isAtWork = (seed: number): boolean => seed % AT_WORK_ONE_IN === 2
/** How a history begins. */
export type Scene = { readonly isAtWork: boolean; readonly isConfirming: boolean }
/** Half of those: people approve actions one by one, each with its arguments. */
export const isConfirming = (seed: number): boolean => seed % (2 * AT_WORK_ONE_IN) === 6

export async function createTemplate(): Promise<Template> {
  const disk = memoryDisk()
  const random = createRandom(0)
  let now = START_MS - 1_000
  const open = (on: MemoryDisk): Kernel =>
    createKernel({
      store: memoryStore({ disk: on, salt: () => Buffer.from(random.bytes(6)).toString('base64url') }),
      protocols,
      contracts,
      directory,
      people: directoryPeople,
      now: () => now++,
      entropy: random.bytes,
      asksPerMinute: null,
      notary: testNotary,
    })
  const kernel = open(disk)
  const call = (operation: string, input: object): Promise<any> => kernel.call(operation, input, SYSTEM)

  for (const [id, { principal, agents }] of Object.entries(projects)) {
    await call('identity/project.add', { id, name: id })
    await call('identity/user.add', { id: principal, name: principal, project_id: id })
    for (const agent of agents) await call('identity/agent.add', { id: agent, name: agent, owner: principal, project_id: id })
  }
  for (const both of [REVIEWER, HELPER]) {
    await call('identity/user.add', { id: both, name: both })
    await call('identity/project.join', { project_id: 'project_other', subject: both })
  }
  await call('identity/user.add', { id: OWNER, name: OWNER, role: 'owner', project_id: null })
  const tokens = new Map<string, string>()
  for (const subject of [
    ADMIN,
    OWNER,
    REVIEWER,
    HELPER,
    ...Object.values(projects).flatMap(({ principal, agents }) => [principal, ...agents]),
  ])
    tokens.set(subject, ((await call('identity/key.issue', { subject })) as { key: string }).key)
  await offerAll(kernel, 0)
  const callAs =
    ({ store, call: callOn }: Kernel) =>
    (as: string, operation: string, input: object): Promise<any> =>
      callOn(operation, input, () => authenticate(store, { kind: 'bearer', token: tokens.get(as)! }, now))
  for (const { principal } of Object.values(projects))
    await callAs(kernel)(principal, 'execution/rule.add', { tag: 'finance', delegate_to: REVIEWER })
  await kernel.store.close()
  const working = async (isConfirmed: boolean): Promise<MemoryDisk> => {
    const begun = copyOf(disk)
    const own = open(begun)
    await beginWork(callAs(own), isConfirmed)
    await own.store.close()
    return begun
  }
  return { disk, atWork: await working(false), confirming: await working(true), tokens }
}

type Call = (as: string, operation: string, input: object) => Promise<any>
/** An action whose approval permits a capability, with this word and no other. */
export const actionWith = (word: string): object => ({
  id: word,
  kind: 'cap:open',
  summary: word,
  detail: JSON.stringify({ word }),
  risk: 'high',
})

async function beginWork(call: Call, isConfirmed: boolean): Promise<void> {
  for (const [project_id, { principal, agents }] of Object.entries(projects)) {
    const [first, second] = agents
    const spec = { goal: 'work', ...(isConfirmed ? { constraints: { autonomy: 'confirm_each_action' } } : {}) }
    const { id: task_id } = (await call(principal, 'collaboration/task.create', { project_id, spec, delegable: true })).task
    await call(principal, 'collaboration/task.assign', { task_id, assignee: first })
    await call(first, 'collaboration/task.start', { task_id })
    if (isConfirmed) {
      const question = { task_id, kind: 'approval', prompt: 'May I?', proposed_actions: ['read', 'drop'].map(actionWith) }
      const { checkpoint } = await call(first, 'collaboration/checkpoint.raise', question)
      const answer = { checkpoint_id: checkpoint.id, action: 'approve', approved_actions: ['read'] }
      await call(principal, 'collaboration/checkpoint.resolve', answer)
    }
    if (project_id !== 'project_default') continue
    const { child } = await call(first, 'collaboration/ownership.delegate', { task_id, to: second, spec: { goal: 'a part' } })
    await call(second, 'collaboration/task.start', { task_id: child.id })
  }
}

export const copyOf = ({ facts, seals, images, docs, entries, counts, groups }: MemoryDisk): MemoryDisk => ({
  facts: [...facts],
  seals: [...seals],
  images: [...images],
  docs: new Map(docs),
  entries: new Set(entries),
  counts: new Map(counts),
  groups: [...groups],
  watching: new Set(),
})
