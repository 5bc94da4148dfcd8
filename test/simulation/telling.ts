// Acts of people and agents about being told, and about being away: channels, callbacks, webhooks of agents, many answers in one call, substitutes.
import { shownDigest } from '#protocols/execution/answering/shown-request.ts'
import type { Plan } from './clients.ts'
import { subscription, type NoticeLaws } from './notice-laws.ts'
import type { Random } from './random.ts'
import type { Record as FactRecord } from './record.ts'
import { isUnbound } from './requests.ts'
import { ADMIN, HELPER, OWNER, people, projects, projectsOf } from './world.ts'

/** Where browsers are reached. */
export const PUSH_SERVICE = 'https://push.example.com/'
type Made = Omit<Plan, 'keyed'>
const agents = Object.values(projects).flatMap((project) => project.agents)
const isOpen = ({ status }: any): boolean => status === 'pending' || status === 'assigned'
const HOOKS_MAX = 2

export type Telling = {
  next(id: number): Plan
  /** The same request, with a callback of the agent if it has one, and at night with a risk. */
  withMore(plan: Plan): Plan
}

/** `night`: this history has quiet hours, pushes, mails and floors. */
export function createTelling(random: Random, record: FactRecord, now: () => number, night: Pick<NoticeLaws, 'tokenFor'> | null): Telling {
  const message = (id: number): string => `~${id}~`
  const ofKind = (prefix: string): any[] => [...record.docs].flatMap(([key, { value }]) => (key.startsWith(prefix) ? [value] : []))
  const present = (prefix: string): any[] => ofKind(prefix).filter(({ removed_at }) => removed_at === null)

  /** Where a person is told at night: on a phone, by mail, and not when they sleep. */
  function nightly(id: number, as: string, own: readonly any[]): Made {
    const unconfirmed = own.find(({ confirmed, id: one }) => confirmed === false && night!.tokenFor(one) !== undefined)
    if (unconfirmed !== undefined) return { as, op: 'execution/channel.confirm', input: { token: night!.tokenFor(unconfirmed.id) } }
    const label = message(id)
    const quiet = random.chance(0.6)
      ? {
          quiet_hours: {
            ...random.pick([
              { from: '20:00', to: '08:00' },
              { from: '00:00', to: '12:00' },
            ]),
            offset_minutes: random.pick([0, 330, -480]),
            ...(random.chance(0.3) ? { days: 'mon-fri' } : {}),
          },
        }
      : {}
    const where = random.pick([
      { kind: 'push', endpoint: `${PUSH_SERVICE}${label}`, keys: subscription },
      { kind: 'email', address: 'somebody@example.com' },
      { endpoint: 'https://example.com/told' },
    ])
    return { as, op: 'execution/channel.add', input: { ...where, label, min_priority: 'low', ...quiet } }
  }

  /** A person gives what their agents ask a least risk. */
  function floors(): Made {
    const [project_id, { principal, agents: own }] = random.pick(Object.entries(projects))
    const risk = (): string => random.pick(['R1', 'R2', 'R3', 'R4'])
    const all = [
      ...own.flatMap((agent_id) => (random.chance(0.7) ? [{ agent_id, risk: risk() }] : [])),
      ...(random.chance(0.7) ? [{ tag: 'finance', risk: risk() }] : []),
    ]
    const whose = random.chance(0.2) ? { project_id } : {}
    return { as: principal, op: 'execution/policy.set', input: { floors: all, ...whose } }
  }

  function channel(id: number): Made {
    const as = random.pick(people)
    const own = present('execution.channel/').filter(({ person }) => person === as)
    const isNew = own.length < 2 * HOOKS_MAX || own.some(({ confirmed }) => confirmed === false)
    if (night !== null && isNew && random.chance(0.8)) return nightly(id, as, own)
    if (own.length === 0 || (own.length < HOOKS_MAX && random.chance(0.3))) {
      const min_priority = random.pick(['low', 'low', 'high'])
      return { as, op: 'execution/channel.add', input: { endpoint: 'https://example.com/told', label: message(id), min_priority } }
    }
    const op = random.chance(0.7) ? 'execution/channel.test' : 'execution/channel.remove'
    return { as, op, input: { channel_id: random.pick(own).id } }
  }

  function callback(id: number): Made {
    const as = random.pick(agents)
    const own = present('execution.callback/').filter(({ agent_id }) => agent_id === as)
    if (own.length === 0 || (own.length < HOOKS_MAX && random.chance(0.3)))
      return { as, op: 'execution/channel.add', input: { endpoint: 'https://example.com/receipts', label: message(id) } }
    const op = random.chance(0.5) ? 'execution/channel.rotate' : 'execution/channel.remove'
    return { as, op, input: { channel_id: random.pick(own).id } }
  }

  const isHooked = (agent: string): boolean => record.docs.get(`delegation.card/${agent}`)?.value.reach === 'webhook'

  /** An agent wants its messages by HTTP from now on, or comes for them again; runs that have begun stay as they are. */
  function card(id: number): Made {
    const others = agents.filter((agent) => !isHooked(agent))
    const as = random.pick(others.length > 0 && random.chance(0.8) ? others : agents)
    const reach = random.chance(0.8) ? { reach: 'webhook', endpoint: 'https://example.com/agent' } : {}
    return { as, op: 'delegation/agent.publish', input: { name: as, description: message(id), ...reach } }
  }

  function answers(id: number): Made | null {
    const as = random.pick(people)
    const open = ofKind('execution.request/').filter((request) => isUnbound(request) && isOpen(request))
    const mine = open.filter((request) => request.people.includes(as) || request.quorum?.of.includes(as) || random.chance(0.3))
    if (mine.length === 0) return null
    const said = mine.slice(0, 1 + random.below(3)).map((request) => {
      const { action } = request
      const result =
        action === 'APPROVE'
          ? random.pick(['approved', 'rejected'])
          : action === 'DECIDE'
            ? random.pick(['a', 'b', 'x'])
            : action === 'VERIFY'
              ? random.pick(['confirmed', 'refuted', 'x'])
              : 'it'
      return { request_id: request.id as string, digest: shownDigest(request), result, reason: message(id) }
    })
    return { as, op: 'execution/inbox.resolve', input: { answers: said } }
  }

  /** Somebody stands in for another person: by their own word, or by that of an owner or the administrator. */
  function substitution(): Made {
    const person = random.pick(people.filter((who) => who !== HELPER))
    const as = random.pick([person, person, OWNER, ADMIN])
    const { acts_for } = record.docs.get(`identity.user/${HELPER}`)!.value
    const entry = acts_for.find(({ user_id }: any) => user_id === person)
    const project_id = entry === undefined ? (random.chance(0.5) ? random.pick(projectsOf(person)) : undefined) : entry.project_id
    const who = { person, substitute: HELPER, ...(project_id === undefined ? {} : { project_id }) }
    if (entry !== undefined && random.chance(0.5)) return { as, op: 'identity/substitute.remove', input: who }
    const until = new Date(now() + random.pick([60, 3_600, 86_400]) * 1_000).toISOString()
    return { as, op: 'identity/substitute.add', input: { ...who, until } }
  }

  return {
    next(id) {
      const make = random.weighted<() => Made | null>([
        [night === null ? 3 : 8, () => channel(id)],
        [3, () => callback(id)],
        [night === null ? 0 : 8, floors],
        // Early, so that many runs begin with it.
        [agents.some(isHooked) ? 2 : 20, () => card(id)],
        [8, () => answers(id)],
        [3, substitution],
      ])
      return { ...(make() ?? channel(id)), keyed: random.chance(0.85) }
    },
    withMore(plan) {
      if (plan.op !== 'execution/request.create') return plan
      const own = present('execution.callback/').filter(({ agent_id }) => agent_id === plan.as)
      const callback = own.length === 0 ? {} : { callback: random.pick(own).id }
      const risk =
        night !== null && plan.input.fallback !== 'default' && random.chance(0.8) ? { risk: random.pick(['R1', 'R2', 'R3', 'R4']) } : {}
      return { ...plan, input: { ...plan.input, ...callback, ...risk } }
    },
  }
}
