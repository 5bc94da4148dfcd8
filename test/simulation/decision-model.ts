// Beside a task's own life: the questions that were asked about it, who can answer them, and what an agent is forbidden to do. A second
// account, small and apart from the code that is tested.
import assert from 'node:assert/strict'
import type { Perform } from '#kernel/call/effects.ts'
import type { World } from '../support/in-process/world.ts'
import {
  call,
  idOf,
  isAgent,
  isPrincipal,
  leading,
  PRINCIPAL,
  promptOf,
  type Model,
  type ModelQuestion,
  type ModelTask,
  type Real,
  type Try,
} from './task-model.ts'

// --- An answer counts only for the question, the options and the arguments that were shown ---------------------------------------

/** Every question that was ever asked is as it was asked, and has the answer that was given to it and no other. */
export async function compareQuestions(world: World, { questions }: ModelTask, ids: Real['tasks'][number]): Promise<void> {
  const { items } = await call(world, PRINCIPAL, 'checkpoint.list', { task_id: ids.id, limit: 200 })
  const real = ids.questions.map((id) => items.find((one: any) => one.id === id))
  assert.equal(items.length, ids.questions.length)
  assert.deepEqual(
    real.map(({ prompt, kind, state, options, proposed_actions, raised_by, supersedes, resolution }: any) => ({
      by: raised_by === 'agent_system' ? 'system' : 'executor',
      prompt,
      kind,
      state,
      options: options.map(({ id }: any) => id),
      actions: proposed_actions.map(({ id }: any) => id),
      supersedes: supersedes === undefined ? null : ids.questions.indexOf(supersedes.checkpoint_id),
      answer: resolution && {
        action: resolution.action,
        choice: resolution.choice ?? null,
        approved: resolution.approved_actions ?? [],
        denied: resolution.denied_actions ?? [],
      },
    })),
    questions.map((question: ModelQuestion, index) => ({ ...question, prompt: promptOf(index) })),
  )
}

// --- What is denied never runs -----------------------------------------------------------------------------------------------------

const manifest = (name: string, required_permissions: readonly string[]) => ({
  capability_id: `cap:${name}`,
  version: '1.0.0',
  kind: 'tool',
  name,
  description: '',
  input_schema: { type: 'object' },
  output_schema: { type: 'object' },
  prompt_template: null,
  resources: [],
  required_permissions,
})
const needs: Readonly<Record<string, readonly string[]>> = { 'cap:open': [], 'cap:guarded': ['shell:read'] }
export const capabilities = Object.keys(needs)
export const scopes = ['cap:open', 'shell:read', 'shell:*'] as const

export const offer = (world: World): Promise<unknown> =>
  world.call('system', 'delegation/capability.offer', {
    source: 'tools',
    projects: ['project_default'],
    manifests: Object.entries(needs).map(([id, permissions]) => manifest(id.slice('cap:'.length), permissions)),
  })

/** Each invocation that runs is counted, outside of the installation. */
export const counting =
  (ran: { times: number }): Perform =>
  (_, __, conclude) => {
    ran.times++
    return conclude({ output: {}, duration_ms: 1 })
  }

export const grant = (as: string, scope: string, decision: 'allow' | 'deny'): Try => ({
  message: `${as} grants: ${decision} ${scope}`,
  as,
  expected({ state }) {
    if (!isPrincipal(as)) return 'UNAUTHORIZED'
    if (state === 'completed' || state === 'rejected') return 'PRECONDITION_FAILED'
    // A substitute allows nothing for longer than they are one.
    return as === PRINCIPAL || decision === 'deny' ? null : 'UNAUTHORIZED'
  },
  effect: (task) => void task.grants.push({ scope, decision }),
  call: ({ id }, world) => call(world, as, 'grant.add', { task_id: id, scope, decision, until: 'task' }),
})

const covers = (granted: string, scope: string): boolean =>
  granted === scope || (granted.endsWith(':*') && scope.startsWith(granted.slice(0, -1)))
const has = ({ grants }: ModelTask, decision: string, scope: string): boolean =>
  grants.some((one) => one.decision === decision && covers(one.scope, scope))

/** Agents put always the open capability before people, with a word. */
const approvalOf = ({ approvals, executor }: ModelTask, capability_id: string, word: string): number =>
  approvals.findIndex((one) => capability_id === 'cap:open' && one.agent === executor && one.word === word)

/** Only while the agent works on it: whose run it is otherwise, other tries ask. */
export const invoke = (capability_id: string, word: string): Try => ({
  message: `its executor invokes ${capability_id} with ${word}`,
  as: 'its executor',
  expected(task) {
    if (task.state !== 'in_progress' || !isAgent(task.executor!)) return undefined
    const isDenied = [capability_id, ...needs[capability_id]!].some((scope) => has(task, 'deny', scope))
    const isAllowed = needs[capability_id]!.every((scope) => has(task, 'allow', scope))
    const isConfirmed = !task.confirms || has(task, 'allow', capability_id) || approvalOf(task, capability_id, word) !== -1
    return isDenied || !isAllowed || !isConfirmed ? 'PERMISSION_DENIED' : null
  },
  effect(task) {
    task.ran++
    // An answer is good for what was shown, once; a grant is there before it.
    if (task.confirms && !has(task, 'allow', capability_id)) task.approvals.splice(approvalOf(task, capability_id, word), 1)
  },
  async call({ run }, world, task) {
    const input = { run_id: run, ref: { capability_id, version: '1.0.0' }, input: { word } }
    const { ok, error } = await world.call(task.executor!, 'delegation/capability.invoke', input)
    if (!ok) throw Object.assign(new Error(error.message), { code: error.code })
  },
})

/** Acts of an agent at work, and what it is allowed and forbidden meanwhile: half of the time they are its next step. */
const acts: readonly Try[] = [
  ...['read', 'drop', 'read', 'drop'].map((word) => invoke('cap:open', word)),
  invoke('cap:guarded', 'read'),
  ...(['shell:read', 'shell:*'] as const).map((scope) => grant(PRINCIPAL, scope, 'allow')),
  grant(PRINCIPAL, 'cap:open', 'allow'),
  ...(['shell:*', 'cap:open'] as const).map((scope) => grant(PRINCIPAL, scope, 'deny')),
]
export function leadingOn(task: ModelTask, pick: number): Try {
  const isActing = task.state === 'in_progress' && isAgent(task.executor!) && pick % 2 === 0
  return isActing ? acts[(pick / 2) % acts.length]! : leading(task, Math.floor(pick / 2))
}

// --- Every open question has a person who can answer it, and who sees it -------------------------------------------------------------

/** Somebody is switched off or on. */
export async function move(model: Model, world: World, who: 'alice' | 'rita'): Promise<void> {
  const isAway = !model.away.delete(who)
  if (isAway) model.away.add(who)
  await world.call('admin', 'identity/user.update', { user_id: idOf(who), disabled: isAway })
  await lookAgain(world, who)
}

/** An owner names a substitute for the principal, or sends them away again. */
export async function substitute(model: Model, world: World): Promise<void> {
  const input = { person: idOf(PRINCIPAL), substitute: 'user_bob', project_id: 'project_default' }
  if (model.hasDeputy) await world.call('owner', 'identity/substitute.remove', input)
  else await world.call('owner', 'identity/substitute.add', { ...input, until: '2026-12-01T00:00:00Z' })
  model.hasDeputy = !model.hasDeputy
  await lookAgain(world, PRINCIPAL)
}

/** As the timer does that each of these changes sets. */
async function lookAgain(world: World, who: string): Promise<void> {
  for (const index of [0, 1]) await world.call('system', 'execution/recipient.check', { person: idOf(who), from: { index } })
}

/** The people who can answer at present, as they are called in the cast. */
export function deciders({ away, hasDeputy }: Model, { reviewers, executor }: ModelTask): string[] {
  const own = [PRINCIPAL, ...reviewers.filter((who) => who !== executor)].filter((who) => !away.has(who))
  return away.has(PRINCIPAL) && hasDeputy ? [...own, 'deputy'] : own
}

export async function compareRecipients(world: World, model: Model, task: ModelTask, task_id: string): Promise<void> {
  if (task.state !== 'blocked' && task.state !== 'review_ready') return
  const able = deciders(model, task)
  const seenBy = async (who: string): Promise<any[]> => (await world.call(who, 'execution/inbox.list', { task_id })).items
  if (able.length === 0) {
    const items = await seenBy('owner')
    assert.deepEqual(
      items.map(({ no_decider }) => no_decider),
      [true],
      'nobody can decide, and the owner sees it',
    )
    return
  }
  const seen = await Promise.all(able.map(seenBy))
  assert.ok(
    seen.some((items) => items.length === 1),
    `one of ${able.join()} can answer and sees it`,
  )
}
