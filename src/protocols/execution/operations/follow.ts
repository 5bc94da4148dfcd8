// The inbox as it changes. A fact is written once for everybody; whom it concerns stands in its own image, so that it costs nothing
// to leave it out for the others.
import { human, isIn, type Actor } from '#kernel/declare/access.ts'
import { stream, type Read } from '#kernel/declare/operation.ts'
import { keyOf, t } from '#kernel/declare/schema.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { shownDigest } from '../answering/shown-request.ts'
import { titleOf } from '../inbox/item.ts'
import { isBefore } from '../inbox/readers.ts'
import { Action } from '../asking/payload.ts'
import { Id, Kind, Priority, Request, Status, taskDoc, Timestamp } from '../schema.ts'

type Change = { readonly event: string; readonly at: string; readonly after: Request; readonly before: Request | null }

const SUBJECT = keyOf(Request, '')
const imageIn = ({ images }: StoredFact) => (images[0]?.key.startsWith(SUBJECT) && images[0].text !== null ? images[0] : null)

/** Each fact is parsed once, however many follow. */
const parsed = new WeakMap<StoredFact, Change>()
function changeIn(fact: StoredFact): Change {
  const known = parsed.get(fact)
  if (known) return known
  const { text, before } = imageIn(fact)!
  const { action } = JSON.parse(fact.line) as { action: string }
  const change = {
    event: action.slice(action.lastIndexOf('.') + 1),
    at: fact.at,
    after: JSON.parse(text!) as Request,
    before: before === null ? null : (JSON.parse(before) as Request),
  }
  parsed.set(fact, change)
  return change
}

/** Those in whose inbox it stands now or stood until now; what somebody puts off is their own affair. */
async function concerns(fact: StoredFact, actor: Actor, read: Read): Promise<boolean> {
  const { event, after, before } = changeIn(fact)
  if (!isIn(actor, fact.scope) && !Request.reaches(after, actor)) return false
  if (!isBefore(actor, after) && (before === null || !isBefore(actor, before))) return false
  if (event === 'snoozed' || event === 'unsnoozed') return fact.actor === actor.id
  return after.task_id === undefined || after.no_decider === true || (await read.maybe(taskDoc(), after.task_id)) !== null
}

const follow = stream({
  name: 'inbox.follow',
  summary: 'Follow what comes into your inbox, changes there and leaves it, from any place on.',
  draft: 'ours: the inbox',
  input: t.Object({}),
  output: t.Object({
    event: t.String({ description: 'created, completed, cancelled, ...: the word of the record' }),
    request_id: Id,
    at: Timestamp,
    item: t.Object({
      kind: Kind,
      action: Action,
      status: Status,
      priority: Priority,
      title: t.String(),
      digest: t.String(),
      expires_at: Request.schema.properties.expires_at,
      overdue: t.Boolean(),
    }),
  }),
  callers: [human],
  load: (read, _, { actor }) => Promise.resolve({ read, actor }),
  of: () => ({ by: 'position' }),
  wants: (_, fact) => imageIn(fact) !== null,
  sees:
    ({ read, actor }) =>
    (fact) =>
      concerns(fact, actor, read),
  view(fact) {
    const { event, at, after } = changeIn(fact)
    const { id, kind, action, status, priority, expires_at, overdue } = after
    const item = { kind, action, status, priority, title: titleOf(after), digest: shownDigest(after), expires_at, overdue }
    return { event, request_id: id, at, item }
  },
  example: { given: 'asked', as: 'alice', input: {} },
})

export const followOperations = [follow]
