// Every open question has a person who can answer it, and who sees it (X27, X28); written down a second time, and looked at when all is
// quiet. A question that a task's own people cannot decide any more is seen by those who can name a substitute.
import type { Plan } from './clients.ts'
import type { Fail, Record as FactRecord } from './record.ts'
import { OWNER, people } from './world.ts'

const REQUEST = 'execution.request/'
const isOpen = ({ status }: any): boolean => status === 'pending' || status === 'assigned'

export async function checkRecipients(record: FactRecord, now: string, ask: (plan: Plan) => Promise<any>, fail: Fail): Promise<void> {
  const all = [...record.docs].flatMap(([key, { value }]) => (key.startsWith(REQUEST) && isOpen(value) ? [value] : []))
  if (all.length === 0) return
  const isAble = (who: string, project_id: string): boolean => {
    const user = record.docs.get(`identity.user/${who}`)?.value
    if (user === undefined || user.disabled) return false
    return user.role === 'owner' || user.projects.some((one: any) => one.project_id === project_id)
  }
  /** The people who answer in the place of one who is gone. */
  const standIns = (whose: string, project_id: string): string[] =>
    people.filter((one) =>
      record.docs
        .get(`identity.user/${one}`)!
        .value.acts_for.some(
          ({ user_id, from, until, project_id: where = project_id }: any) =>
            user_id === whose && from <= now && now < until && where === project_id && isAble(one, project_id),
        ),
    )
  const lists = new Map<string, ReadonlySet<string>>()
  for (const who of [...people, OWNER]) {
    const answer = await ask({ as: who, op: 'execution/inbox.list', input: { limit: 200 }, keyed: false })
    lists.set(who, new Set((answer?.items ?? []).map(({ request_id }: any) => request_id)))
  }
  const sees = (who: string, id: string): boolean => lists.get(who)?.has(id) === true

  for (const request of all) {
    const { id, project_id, quorum, votes = [], no_decider = false } = request
    const task = request.task_id === undefined ? null : record.docs.get(`collaboration.task/${request.task_id}`)!.value
    const judges: string[] = task && [task.ownership.principal, ...task.reviewers.filter((who: string) => who !== task.executor)]
    const able = (whose: readonly string[]): string[] =>
      whose.flatMap((who) => (isAble(who, project_id) ? who : standIns(who, project_id).slice(0, 1)))
    if (task !== null && able(judges).length === 0) {
      if (!no_decider) fail(`${id} waits for ${judges.join()}, who cannot answer, and nobody is told`)
      if (!sees(OWNER, id)) fail(`${id} has nobody who can decide, and its owners do not see it`)
      continue
    }
    const mayAnswer =
      task === null ? (quorum?.of ?? [request.owner, ...request.people, ...(request.role === 'pool' ? people : [])]) : judges
    if (!able([...mayAnswer]).some((who) => sees(who, id))) fail(`${id} is open, and nobody who can answer it sees it`)
    for (const who of request.people) if (!isAble(who, project_id)) fail(`${id} stands before ${who}, who cannot answer`)
    if (quorum === undefined) continue
    const given = votes.map(({ by, in_place_of = by }: any) => in_place_of)
    const most = Math.max(0, ...[...Map.groupBy(votes, ({ result }: any) => result)].map(([result, those]) => (request.action === 'APPROVE' && result !== 'approved' ? 0 : those.length))) // prettier-ignore
    const left = quorum.of.filter((who: string) => !given.includes(who) && able([who]).length > 0).length
    if (most + left < quorum.n) fail(`${id} needs ${quorum.n} of ${quorum.of.join()}, and only ${most + left} can be had`)
  }
}

/** Back to the people whom every other law counts on. */
export function returning(record: FactRecord, projectsOf: (who: string) => readonly string[]): Plan[] {
  return people.flatMap((who) => {
    const { disabled, projects, acts_for } = record.docs.get(`identity.user/${who}`)!.value
    const missing = projectsOf(who).filter((id) => !projects.some((one: any) => one.project_id === id))
    const as = 'service_admin'
    return [
      ...acts_for.map(({ user_id: person, project_id }: any) => {
        const input = { person, substitute: who, ...(project_id === undefined ? {} : { project_id }) }
        return { as, op: 'identity/substitute.remove', input, keyed: true }
      }),
      ...(disabled ? [{ as, op: 'identity/user.update', input: { user_id: who, disabled: false, name: who }, keyed: true }] : []),
      ...missing.map((project_id) => ({ as, op: 'identity/project.join', input: { project_id, subject: who }, keyed: true })),
    ]
  })
}
