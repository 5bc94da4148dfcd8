// Giving places to runs that wait for one.
import { Errand, errandDone } from '#kernel/log/errand.ts'
import { system } from '#kernel/declare/access.ts'
import { command } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { admitRun } from '../runs/mailbox.ts'
import { admission, admissionId, inPlace, roomOf } from '../runs/places.ts'
import { Id, Mailbox } from '../schema.ts'

/** Runs admitted per batch. */
const PORTION = 50

const admit = command({
  name: 'run.admit',
  summary:
    'Hand over the messages of runs that wait until their agent has a place for them. The system calls it by an errand when one may be free.',
  draft: 'ours: AAP leaves it open how many runs an agent works on at a time',
  input: t.Object({ agent_id: Id }),
  output: t.Object({ admitted: t.Integer() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { agent_id }) {
    const storedErrand = await read.raw(Errand, admissionId(agent_id))
    const room = await roomOf(read, agent_id)
    const limit = Math.min(room.left, PORTION)
    const listed = limit === 0 ? [] : await read.list(Mailbox, 'waits', [[agent_id]], { limit })
    const found = await Promise.all(listed.map(({ id }) => read.raw(Mailbox, id)))
    return { storedErrand, room, waiting: found.filter((mailbox) => mailbox !== null && mailbox.waits !== undefined) }
  },
  decide({ storedErrand, room, waiting }, { agent_id }, { now }) {
    const puts = waiting.flatMap((mailbox) => admitRun(mailbox!, room, now))
    const rest = waiting.length === PORTION ? [admission(agent_id, now)] : storedErrand ? [errandDone(storedErrand.id)] : []
    return { facts: [], puts: [...puts, ...rest], atMost: waiting.length === 0 ? [] : inPlace(room), output: { admitted: waiting.length } }
  },
  example: { given: 'delegated', as: 'system', input: { agent_id: 'agent_robin' } },
})

export const admitOperations = [admit]
