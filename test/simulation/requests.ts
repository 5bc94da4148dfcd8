// Requests of agents outside of any task, and the acts of everybody on them: answers right and wrong, votes, claims, questions, more time,
// withdrawals, several of them at once.
import { shownDigest } from '#protocols/execution/answering/shown-request.ts'
import type { Plan } from './clients.ts'
import type { Random } from './random.ts'
import type { Record as FactRecord } from './record.ts'
import { ADMIN, HELPER, HOSTILE, people as everybody, projects, projectsOf, REVIEWER, type ProjectName } from './world.ts'

const OPEN_MAX = 5
const agentsOf = Object.entries(projects).flatMap(([project, { agents }]) => agents.map((agent) => ({ agent, project })))
const peopleOf = (project: string): readonly string[] => [projects[project as ProjectName].principal, REVIEWER, HELPER]

type Made = Omit<Plan, 'keyed'>
export type Asking = { next(id: number): Plan }

export const isUnbound = ({ kind, task_id }: any): boolean => kind === 'request' && task_id === undefined
const isOpen = ({ status }: any): boolean => status === 'pending' || status === 'assigned'

const rightAnswers = {
  APPROVE: ['approved', 'approved', 'rejected'],
  DECIDE: ['a', 'a', 'b', 'c'],
  VERIFY: ['confirmed', 'confirmed', 'refuted', 'cannot_tell'],
  PROVIDE: ['what was asked'],
}

export function createAsking(random: Random, record: FactRecord, now: () => number): Asking {
  let last: string | undefined
  const message = (id: number): string => `~${id}~`
  const some = (probability: number, fields: () => object): object => (random.chance(probability) ? fields() : {})
  const requests = (): any[] =>
    [...record.docs].flatMap(([key, { value }]) => (key.startsWith('execution.request/') && isUnbound(value) ? [value] : []))

  function payloadOf(id: number, action: string, isDefault: boolean): object {
    if (action === 'APPROVE') return { item: message(id), details: { n: 1 }, ...some(0.2, () => ({ reject_requires_reason: true })) }
    if (action === 'PROVIDE') return { prompt: message(id), input_type: 'text', ...some(0.3, () => ({ sensitive: true })) }
    return { question: message(id), options: ['a', 'b', 'c'], ...(isDefault || random.chance(0.3) ? { default_option: 'b' } : {}) }
  }

  function create(id: number): Made {
    const { agent, project } = random.pick(agentsOf)
    const action = random.pick(['APPROVE', 'DECIDE', 'PROVIDE'])
    const timeout_seconds = random.pick([0, 1, 60, 600, 1_800, 86_400])
    const isQuorum = action !== 'PROVIDE' && random.chance(0.25)
    const role = isQuorum ? 'owner' : random.pick(['owner', 'delegate', 'pool', 'pool'])
    const fallback = random.pick(['pause', 'fail', 'fail', action === 'DECIDE' || random.chance(0.05) ? 'default' : 'fail'])
    // A request that is never over would be reminded of for a very long time.
    const remind = timeout_seconds > 60 && fallback !== 'pause' ? some(0.5, () => ({ remind_seconds: timeout_seconds / 3 + 1 })) : {}
    const input = {
      action,
      role,
      priority: random.pick(['critical', 'high', 'normal', 'low']),
      timeout_seconds,
      fallback,
      tags: random.chance(0.4) ? ['finance'] : [],
      payload: payloadOf(id, action, fallback === 'default'),
      ...remind,
      ...(isQuorum
        ? { quorum: { n: 1 + random.below(3), of: peopleOf(project) } }
        : some(0.25, () => ({ escalate: { after_seconds: random.pick([30, 300, 3_600]), to: [random.pick([REVIEWER, HELPER])] } }))),
    }
    // Nobody is taken to have approved because time has passed.
    const mustFail = fallback === 'default' && action !== 'DECIDE'
    // Some choices are claims instead, drawn by the number of the step: the histories of other actions stay as they are.
    const claim =
      action === 'DECIDE' && fallback !== 'default' && id % 3 === 0
        ? { action: 'VERIFY', payload: { claim: message(id), evidence: [{ kind: 'text', text: 'seen' }] } }
        : {}
    return { as: agent, op: 'execution/request.create', input: { ...input, ...claim }, ...(mustFail ? { mustFail } : {}) }
  }

  const answerer = ({ people, owner, project_id }: any): string =>
    random.weighted([
      [people.length > 0 ? 6 : 0, random.pick<string>(people)],
      [2, owner as string],
      [2, random.pick(peopleOf(project_id))],
    ])

  function answer(id: number, request: any): Made {
    const { action } = request
    const right = rightAnswers[action as keyof typeof rightAnswers]
    const isWrong = random.chance(0.08)
    const result: unknown = isWrong ? random.pick(action === 'PROVIDE' ? ['', 7, null] : ['maybe', '', 7, 'Approved']) : random.pick(right)
    const digest = some(0.4, () => ({ digest: shownDigest(request) }))
    const input = { request_id: request.id, result, reason: message(id), ...digest }
    return { as: answerer(request), op: 'execution/request.resolve', input, ...(isWrong ? { mustFail: true } : {}) }
  }

  function byPerson(id: number, request: any): Made {
    const { id: request_id, status, project_id, role, expires_at } = request
    const as = answerer(request)
    const later = (seconds: number): string => new Date(now() + seconds * 1_000).toISOString()
    const made = (op: string, input: object = {}): Made => ({ as, op: `execution/request.${op}`, input: { request_id, ...input } })
    return random.weighted<() => Made>([
      [role === 'pool' ? 5 : 0.2, () => made('claim', { lease_seconds: random.pick([1, 60, 900]) })],
      [status === 'assigned' ? 3 : 0.2, () => made('release')],
      [expires_at === null ? 0.2 : 3, () => made('extend', { timeout_seconds: random.pick([1, 120, 3_600, 90_000, 0]) })],
      [1.5, () => made('assign', { to: random.pick(peopleOf(project_id)) })],
      [2, () => made('snooze', { until: later(random.pick([1, 60, 600])) })],
      [request.snoozed === undefined ? 0.1 : 8, () => ({ ...made('unsnooze'), as: request.snoozed?.[0].by ?? as })],
      [1.5, () => made('question', { text: message(id) })],
      [0.7, () => made('escalate', { to: [random.pick(peopleOf(project_id))] })],
    ])()
  }

  function byAgent(id: number, request: any): Made {
    const { id: request_id, requester: as, thread = [], payload } = request
    const made = (op: string, input: object = {}): Made => ({ as, op: `execution/${op}`, input: { request_id, ...input } })
    return random.weighted<() => Made>([
      [thread.at(-1)?.kind === 'question' ? 8 : 0.3, () => made('request.reply', { text: message(id) })],
      [1.2, () => made('request.cancel', { reason: message(id) })],
      [1, () => made('request.extend', { timeout_seconds: random.pick([60, 7_200]) })],
      [2, () => made('request.get')],
      [payload.sensitive === true ? 1 : 0, () => made('secret.take')],
      // It would decide for the person.
      [0.6, () => ({ ...answer(id, request), as, mustFail: true })],
    ])()
  }

  /** Somebody whose request it is not, and who has no say in it. */
  function byStranger(id: number, request: any): Made {
    const { id: request_id, requester } = request
    const input = { request_id, reason: message(id) }
    const stranger = requester === HOSTILE ? 'agent_devin' : HOSTILE
    return random.pick<Made>([
      { as: stranger, op: 'execution/request.cancel', input, mustFail: true },
      { as: stranger, op: 'execution/request.get', input: { request_id }, mustFail: true },
      { ...answer(id, request), as: stranger, mustFail: true },
      {
        as: projects.project_default.principal === request.owner ? 'user_bob' : 'user_alice',
        op: 'execution/request.claim',
        input: { request_id },
        mustFail: true,
      },
    ])
  }

  /** An agent that was given a secret comes for it, twice too. */
  function fetch(all: readonly any[]): Made | null {
    const kept = all.filter(({ status, payload }) => status === 'completed' && payload.sensitive === true)
    if (kept.length === 0 || !random.chance(0.15)) return null
    const { id: request_id, requester } = random.pick(kept)
    return { as: requester, op: 'execution/secret.take', input: { request_id } }
  }

  /** Somebody is switched off or on, leaves a project or comes back. */
  function moves(id: number): Made {
    const isAway = (who: string): boolean => {
      const { disabled, projects: in_ } = record.docs.get(`identity.user/${who}`)!.value
      return disabled || in_.length < projectsOf(who).length
    }
    const away = everybody.filter(isAway)
    const who = away.length > 0 && random.chance(0.5) ? random.pick(away) : random.pick(everybody)
    const { disabled, projects: present } = record.docs.get(`identity.user/${who}`)!.value
    const project_id = random.pick(projectsOf(who))
    const isIn = present.some((one: any) => one.project_id === project_id)
    if (random.chance(0.5))
      return { as: ADMIN, op: 'identity/user.update', input: { user_id: who, disabled: !disabled, name: message(id) } }
    return { as: ADMIN, op: `identity/project.${isIn ? 'leave' : 'join'}`, input: { project_id, subject: who } }
  }

  return {
    next(id) {
      if (random.chance(0.06)) return { ...moves(id), keyed: random.chance(0.85) }
      const all = requests()
      const fetched = fetch(all)
      if (fetched !== null) return { ...fetched, keyed: random.chance(0.85) }
      const open = all.filter(isOpen)
      const hot = all.find((request) => request.id === last)
      const pool = open.length > 0 && random.chance(0.9) ? open : all
      const request = hot && random.chance(0.5) ? hot : pool.length > 0 ? random.pick(pool) : undefined
      last = request?.id
      const isNew = request === undefined || (open.length < OPEN_MAX && random.chance(open.length < 2 ? 0.5 : 0.2))
      const made = isNew
        ? create(id)
        : random.weighted([
            [6, answer],
            [6, byPerson],
            [2.5, byAgent],
            [0.7, byStranger],
          ])(id, request)
      return { ...made, keyed: random.chance(0.85) }
    },
  }
}
