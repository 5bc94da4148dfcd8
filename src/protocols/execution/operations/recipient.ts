// Changes of recipients: a person is switched off, leaves a project, comes back, or gets a substitute, and their open requests are checked
// again (X27, X28). Their registration belongs to another chain than the requests, so an errand connects the two.
import { Errand, errand, errandDone } from '#kernel/log/errand.ts'
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, type Made, type Read } from '#kernel/declare/operation.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { endedWith } from '../answering/receipt.ts'
import { CANNOT_ANSWER, lookedAt } from '../asking/recipients.ts'
import { outOfReach } from '../answering/quorum.ts'
import { taskBehind } from '../access.ts'
import { isOpen, Request, Timestamp } from '../schema.ts'

const CHECK = 'execution/recipient.check'
const Whose = t.String({
  maxLength: 2 * limits.idCharsMax,
  description: 'a person; pool/<project_id>, for unclaimed items there; or group:<project_id>/<name>, for items that its people answer',
})

const note = command({
  name: 'recipient.note',
  summary: 'Check the open items of a changed person again, now and at the given times. The system calls it.',
  draft: 'ours: X27, every question has a person who can answer it',
  input: t.Object({ person: Whose, at: t.Optional(t.Array(Timestamp, { maxItems: 2 })) }),
  output: t.Object({}),
  callers: [system],
  requires: [],
  audit: null,
  load: () => Promise.resolve(null),
  decide(_, { person, at = [] }, { now }) {
    const times = at.filter((time) => time > now)
    return {
      facts: [],
      puts: [
        errand(errandOf({ person }), now, CHECK, { person }),
        ...times.map((time) => errand(errandOf({ person, at: time }), time, CHECK, { person, at: time })),
      ],
      output: {},
    }
  },
  example: { given: 'empty', as: 'system', input: { person: 'user_alice' } },
})

/** Requests in one batch: small, so that it does not delay other batches. */
const PORTION = 50
const indexes = ['open', 'gone'] as const
const Place = t.Object({
  index: t.Integer({
    minimum: 0,
    maximum: 1,
    description: '0: requests that are open for the person; 1: requests that others answer because the person is gone',
  }),
  at: t.Optional(t.String({ maxLength: 1_000, description: 'the place in that list to continue after; without one, from its beginning' })),
  is_second: t.Optional(t.Boolean({ description: 'the lists were looked through once' })),
})
type Place = Static<typeof Place>

type Looked = { readonly facts: readonly Made[]; readonly next: Place | null }
type Making = Parameters<typeof endedWith>[2]

/**
 * Requests of one project from this place on; a batch belongs to one chain, so the next call handles the next project. A request that becomes
 * overdue between two calls moves to the front of its list. So the next project begins at the front, where rerouted requests are gone, and a
 * list of several pages is looked through twice.
 */
async function rerouteFrom(read: Read, person: string, from: Place, making: Making): Promise<Looked> {
  const { at: _, ...list } = from
  const listed = await read.list(Request, indexes[from.index]!, [[person]], { after: from.at, limit: PORTION })
  const facts: Made[] = []
  let project: string | null = null
  for (const row of listed) {
    const request = await read.raw(Request, row.id)
    const change = request === null || !isOpen(request) ? null : await factOf(read, request, making)
    if (change !== null && project !== null && project !== request!.project_id) return { facts, next: list }
    if (change !== null) {
      facts.push(change)
      project = request!.project_id
    }
  }
  if (listed.length === PORTION) return { facts, next: { ...list, at: listed.at(-1)!.at } }
  if (from.at !== undefined && from.is_second !== true) return { facts, next: { index: from.index, is_second: true } }
  return { facts, next: from.index + 1 < indexes.length ? { index: from.index + 1 } : null }
}

async function factOf(read: Read, request: Request, making: Making): Promise<Made | null> {
  const { next, reach } = await lookedAt(read, request, await taskBehind(read, request.task_id), making.now)
  const ending = reach === null ? null : outOfReach(next, reach)
  if (ending !== null) return fact('request.failed', [image(Request, endedWith(next, ending, making))], { basis: ending.basis })
  if (next === request) return null
  const { assigned_to: from } = request
  const { assigned_to: to } = next
  const isAssigned = to !== null && to !== from
  const detail = { from, to, reason: CANNOT_ANSWER }
  return fact(isAssigned ? 'request.assigned' : 'request.rerouted', [image(Request, next)], isAssigned ? { detail } : {})
}

type Checking = { readonly person: string; readonly at?: string; readonly from?: object }
/** One for now, one for the rest of a look that is under way, and one for each time that was noted. */
const errandOf = ({ person, at, from }: Checking): string => `recipient/${person}/${at ?? (from === undefined ? 'now' : 'next')}`

const check = command({
  name: 'recipient.check',
  summary: 'Find another person for each open request that its person cannot answer. The system calls it.',
  draft: 'ours: X27, X28',
  input: t.Object({ person: Whose, at: t.Optional(Timestamp), from: t.Optional(Place) }),
  output: t.Object({ changed: t.Integer() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, input, context) {
    // Read the errand first, so that any later change is checked again.
    const storedErrand = await read.raw(Errand, errandOf(input))
    return { storedErrand, ...(await rerouteFrom(read, input.person, input.from ?? { index: 0 }, context)) }
  },
  decide({ storedErrand, facts, next }, { person }, { now }) {
    const rest = next === null ? [] : [errand(errandOf({ person, from: next }), now, CHECK, { person, from: next })]
    return { facts, puts: [...(storedErrand ? [errandDone(storedErrand.id)] : []), ...rest], output: { changed: facts.length } }
  },
  example: { given: 'asked', as: 'system', input: { person: 'user_alice' } },
})

export const recipientOperations = [note, check]
