// Lists of people and agents when all is quiet, against the documents: nothing that waits for somebody is missing from their list, nothing
// else stands there, nothing twice, and the numbers are the same.
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Plan } from './clients.ts'
import type { Fail, Record as FactRecord } from './record.ts'
import { isUnbound } from './requests.ts'
import { ADMIN, HELPER, people, projects, projectsOf, REVIEWER } from './world.ts'

const REQUEST = 'execution.request/'
const RANKS = ['critical', 'high', 'normal', 'low']
const agents = Object.values(projects).flatMap((project) => project.agents)

const isOpen = ({ status }: any): boolean => status === 'pending' || status === 'assigned'
/** The one order, written down once more: critical, late or escalated, priority, risk, deadline, age. */
function orderOf({ priority, overdue, escalated_at, risk = 'R0', expires_at, created_at, id }: any): string {
  const [critical, pressing] = [priority === 'critical' ? 0 : 1, overdue || escalated_at !== undefined ? 0 : 1]
  const rank = RANKS.indexOf(priority as string)
  return `${critical} ${pressing} ${rank} ${9 - Number(risk.slice(1))} ${expires_at ?? '9999'} ${created_at} ${id}`
}

const PLACE = 'project_default'
const stoodInFor = (who: string, request: any): boolean =>
  who === HELPER && request.people.includes(REVIEWER) && request.project_id === PLACE

/** `ask`: the answer, or null if it was refused. */
export async function checkInboxes(record: FactRecord, ask: (plan: Plan) => Promise<any>, until: string, fail: Fail): Promise<void> {
  const naming = { person: REVIEWER, substitute: HELPER, project_id: PLACE, until }
  if ((await ask({ as: ADMIN, op: 'identity/substitute.add', input: naming, keyed: true })) === null) fail('no substitute could be named')
  const all = [...record.docs].flatMap(([key, { value }]) => (key.startsWith(REQUEST) ? [value] : []))
  const as = (who: string, op: string, input: object): Promise<any> => ask({ as: who, op: `execution/${op}`, input, keyed: false })
  for (const who of people) {
    const inPool = (request: any): boolean =>
      isUnbound(request) &&
      request.role === 'pool' &&
      request.status === 'pending' &&
      projectsOf(who).includes(request.project_id as string)
    const own = all.filter((request) => isOpen(request) && (request.people.includes(who) || inPool(request)))
    const others = all.filter((request) => isOpen(request) && stoodInFor(who, request))
    const wanted = [...new Set([...own, ...others])]
      .map(orderOf)
      .sort()
      .map((order) => order.split(' ').at(-1))
    const { items } = await as(who, 'inbox.list', { limit: 200 })
    const shown = items.map(({ request_id }: any) => request_id)
    if (canonical(shown) !== canonical(wanted))
      fail(`${who} has ${wanted.join() || 'nothing'} before them, and is shown ${shown.join() || 'nothing'}`)
    const counted = await as(who, 'inbox.count', {})
    if (counted.open !== own.length) fail(`${who} has ${own.length} of their own before them, and is told of ${counted.open}`)
    const told = counted.acting_for.reduce((sum: number, { open }: any) => sum + (open as number), 0)
    if (told !== others.length) fail(`${who} has ${others.length} before them in somebody's place, and is told of ${told}`)
    const stats = await as(who, 'request.stats', {})
    if (stats.unresolved !== wanted.length) fail(`${who} has ${wanted.length} before them: ${JSON.stringify(stats)}`)
  }
  for (const who of agents) {
    const asked = all.filter(({ requester }) => requester === who)
    const listed = await as(who, 'request.list', { limit: 200 })
    if (listed === null) continue // it is switched off, or has no key left
    const [shown, wanted] = [listed.items.map(({ request_id, id = request_id }: any) => id as string), asked.map(({ id }) => id as string)]
    if (canonical(shown.sort()) !== canonical(wanted.sort())) fail(`${who} asked ${wanted.join()}, and is shown ${shown.join()}`)
  }
}
