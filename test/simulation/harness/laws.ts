// Laws of two harnesses at rest: every task was done once, every event came once and in order, and both sides say the same.
import { Delivery } from '#kernel/log/outbox-document.ts'
import { END, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import { Session } from '#protocols/harness/schema.ts'
import { isEnded } from '#protocols/harness/states.ts'
import type { SimulatedBroker } from './broker.ts'
import type { Side } from './side.ts'

type Rest = {
  readonly caller: Side
  readonly callee: Side
  readonly broker: SimulatedBroker
  readonly submitted: readonly { readonly id: string; readonly to: string }[]
  /** Whether something was held up for longer than an event waits for an earlier one. */
  readonly parks: boolean
}
type Told = {
  readonly late?: boolean
  readonly sequence: number
  readonly event_type: string
  readonly data: unknown
  readonly message_id: string
}

export async function lawsBroken({ caller, callee, broker, submitted, parks }: Rest): Promise<string[]> {
  const broken: string[] = []
  const law = (holds: boolean, message: string): void => void (holds || broken.push(message))
  law(broker.isEmpty(), 'a message stays in a queue')
  law(broker.dead.length === 0, `a message was put aside: ${broker.dead[0]}`)
  for (const side of [caller, callee]) law((await unsent(side)) === 0, `the outbox of ${side.id} is not empty`)
  const theirs = await sessionsIn(callee)
  for (const { id, to } of submitted) {
    const own = await sessionOf(caller, id)
    if (to !== 'lab-b') {
      law(own.state === 'REJECTED' && own.reason === 'unroutable', `${id} went to nobody, and is ${own.state} (${own.reason})`)
      continue
    }
    const made = theirs.filter(({ submit_id }) => submit_id === id)
    law(made.length === 1, `the submission ${id} has ${made.length} sessions`)
    const [other] = made
    if (other === undefined) continue
    law(own.session_id === other.id, `${id} does not know its session`)
    law(JSON.stringify(own.outputs) === JSON.stringify(other.outputs), `${id} has other outputs here than there`)
    law(own.abort_reason === null || isEnded(own.state), `${id} was aborted and goes on`)
    const said = await eventsOf(callee, other.id)
    const behind = await eventsOf(caller, id, true)
    const heard = [...(await eventsOf(caller, id)), ...behind].toSorted((a, b) => a.sequence - b.sequence)
    law(parks || behind.length === 0, `${id} has ${behind.length} events after its end`)
    // A change of state that comes late moves nothing, and an end never comes so late.
    const isSame = own.state === other.state || (!isEnded(other.state) && heard.some(({ late }) => late === true))
    law(isSame, `${id} is ${own.state} here and ${other.state} there`)
    law(
      JSON.stringify(heard.map(wordOf)) === JSON.stringify(said.map(wordOf)),
      `${id} heard other events than were said: ${heard.length} of ${said.length}`,
    )
    law(parks || heard.every(({ late }) => late !== true), `${id} went on without an event that was on its way`)
    law(
      said.every(({ sequence }, i) => sequence === i + 1),
      `the numbers of ${id} have a gap`,
    )
    const order = await orderIn(caller, id)
    law(
      order.every((sequence, i) => i === 0 || sequence > order[i - 1]!),
      `${id} was processed in the order ${order.join(' ')}`,
    )
  }
  return broken
}

const wordOf = ({ sequence, event_type, data, message_id }: Told): unknown[] => [sequence, event_type, data, message_id]

async function unsent({ store }: Side): Promise<number> {
  const prefix = prefixOf(Delivery, 'due', ['amqp'])
  return (await store.scan(prefix, prefix + END, 10)).length
}
async function sessionsIn({ store }: Side): Promise<Session[]> {
  const first = keyOf(Session, '')
  const keys = await store.keys(first, first + END, 10_000)
  return (await store.read(keys)).map((found) => found!.value as Session)
}
const sessionOf = async ({ store }: Side, id: string): Promise<Session> => (await store.read([keyOf(Session, id)]))[0]!.value as Session

async function eventsOf(side: Side, session_id: string, late = false): Promise<Told[]> {
  const all: Told[] = []
  for (let cursor: string | undefined; ;) {
    const page = await side.world().call('admin', 'harness/harness.events', { session_id, late, limit: 100, ...(cursor ? { cursor } : {}) })
    all.push(...(page.items as Told[]))
    if (page.next_cursor === null) return all
    cursor = page.next_cursor as string
  }
}

/** Numbers of the events as they stand in the record, without those that came late. */
async function orderIn({ store }: Side, session: string): Promise<number[]> {
  const facts = await store.facts({ by: 'task', task: session }, { after: null, limit: 10_000 })
  return facts
    .map(({ line }) => JSON.parse(line) as { action: string; detail: { sequence: number; late?: boolean } })
    .filter(({ action, detail }) => action === 'harness/session.event' && detail.late !== true)
    .map(({ detail }) => detail.sequence)
}
