// The protocol of the servers' simulation: as small as it can be, and with everything that several servers may do twice or lose. A note is
// written, read, rung by a timer and posted by the outbox; an act is an effect between two facts.
import { Refusal } from '#kernel/declare/errors.ts'
import { factOf, image, put } from '#kernel/declare/facts.ts'
import { anyone, system } from '#kernel/declare/access.ts'
import { command, query, type Protocol } from '#kernel/declare/operation.ts'
import { doc, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { Delivery, deliveryId } from '#kernel/log/outbox-document.ts'

export const SCOPE = 'project_sim'
export const POST = 'post'
export const WORLD = 'world'

const Id = t.String({ minLength: 1, maxLength: 80 })
/** `n` counts how often it was changed, `by` names the call that did it last. */
export const Note = doc(
  'sim.note',
  t.Object({ id: Id, n: t.Integer(), by: t.String(), due: nullable(t.String()), rung: t.Integer(), posted: t.Array(t.String()) }),
  {
    scopeOf: () => SCOPE,
    due: ({ id, due }) => (due === null ? [] : [{ at: due, call: 'sim/note.ring', input: { id } }]),
  },
)
export type Note = Static<typeof Note.schema>
export const Act = doc('sim.act', t.Object({ id: Id, by: t.String(), state: t.String() }), { scopeOf: () => SCOPE })

const events = {
  'note.written': Note,
  'note.reminded': Note,
  'note.rung': Note,
  'note.posting': Note,
  'note.posted': Note,
  'act.begun': Act,
  'act.ended': Act,
}
const fact = factOf(events)

const draft = 'ours: a simulation'
const example = { given: 'empty', as: 'system', input: { id: 'one', by: 'me' } }
const output = t.Object({ note: Note.schema })
const none = (id: string): Note => ({ id, n: 0, by: '', due: null, rung: 0, posted: [] })
const changed = (note: Note | null, id: string, change: Partial<Note>): Note => {
  const before = note ?? none(id)
  return { ...before, n: before.n + 1, ...change }
}
const written = { draft, output, requires: [], example }

const write = command({
  ...written,
  name: 'note.write',
  summary: 'Write a note.',
  input: t.Object({ id: Id, by: t.String() }),
  callers: [anyone],
  audit: 'note.written',
  load: async (read, { id }) => ({ note: await read.raw(Note, id) }),
  decide({ note }, { id, by }) {
    const next = changed(note, id, { by })
    return { facts: [fact('note.written', [image(Note, next)])], output: { note: next } }
  },
})

const get = query({
  name: 'note.get',
  summary: 'Read a note.',
  draft,
  input: t.Object({ id: Id }),
  output,
  callers: [anyone],
  load: async (read, { id }) => ({ note: (await read.raw(Note, id)) ?? none(id) }),
  view: ({ note }) => ({ note }),
  example,
})

const remind = command({
  ...written,
  name: 'note.remind',
  summary: 'Have a note rung later.',
  input: t.Object({ id: Id, by: t.String(), ms: t.Integer() }),
  callers: [anyone],
  audit: 'note.reminded',
  load: async (read, { id }) => ({ note: await read.raw(Note, id) }),
  decide({ note }, { id, by, ms }, { now }) {
    const due = note?.due ?? new Date(Date.parse(now) + ms).toISOString()
    const next = changed(note, id, { by, due })
    return { facts: [fact('note.reminded', [image(Note, next)])], output: { note: next } }
  },
})

const ring = command({
  ...written,
  name: 'note.ring',
  summary: 'Its time has come.',
  input: t.Object({ id: Id }),
  callers: [system],
  audit: 'note.rung',
  load: async (read, { id }) => ({ note: await read(Note, id) }),
  decide({ note }, { id }, { now }) {
    if (note.due === null || note.due > now) throw new Refusal('PRECONDITION_FAILED', `${id} is not due`)
    const next = changed(note, id, { due: null, rung: note.rung + 1 })
    return { facts: [fact('note.rung', [image(Note, next)])], output: { note: next } }
  },
})

const post = command({
  ...written,
  name: 'note.post',
  summary: 'Have a note posted.',
  input: t.Object({ id: Id, by: t.String() }),
  callers: [anyone],
  audit: 'note.posting',
  load: async (read, { id }) => ({ note: await read.raw(Note, id) }),
  decide({ note }, { id, by }, { now }) {
    const next = changed(note, id, { by })
    const delivery = deliveryId(POST, id, String(next.n).padStart(6, '0'))
    const body = { id, delivery }
    const puts = [put(Delivery, delivery, { id: delivery, channel: POST, lane: id, due: now, attempt: 0, body, error: null })]
    return { facts: [fact('note.posting', [image(Note, next)])], puts, output: { note: next } }
  },
})

const posted = command({
  ...written,
  name: 'note.posted',
  summary: 'It was posted.',
  input: t.Object({ id: Id, delivery: t.String() }),
  callers: [system],
  audit: 'note.posted',
  load: async (read, { id }) => ({ note: await read(Note, id) }),
  decide({ note }, { id, delivery }) {
    if (note.posted.includes(delivery)) return { facts: [], output: { note } }
    const next = changed(note, id, { posted: [...note.posted, delivery] })
    return { facts: [fact('note.posted', [image(Note, next)])], output: { note: next } }
  },
})

const Outcome = t.Object({ done: t.Boolean() })
const Acted = t.Object({ act: t.String(), outcome: t.String() })

const act = command({
  name: 'act.begin',
  summary: 'Do something outside.',
  draft,
  input: t.Object({ by: t.String() }),
  output: Acted,
  callers: [anyone],
  requires: [],
  audit: 'act.begun',
  effect: { port: WORLD, conclude: 'sim/act.conclude' },
  load: () => Promise.resolve({}),
  decide(_, { by }, { newId }) {
    const id = newId('act')
    return {
      facts: [fact('act.begun', [image(Act, { id, by, state: 'begun' })])],
      effect: { id, request: { id } },
      output: { act: id, outcome: 'open' },
    }
  },
  example,
})

const conclude = command({
  name: 'act.conclude',
  summary: 'Record what came of it.',
  draft,
  input: t.Object({ id: Id, outcome: t.Optional(Outcome) }),
  output: Acted,
  callers: [system],
  requires: [],
  audit: 'act.ended',
  load: (read, { id }) => read(Act, id),
  decide(begun, { outcome }) {
    const state = outcome === undefined ? 'unknown' : 'done'
    return { facts: [fact('act.ended', [image(Act, { ...begun, state })])], output: { act: begun.id, outcome: state } }
  },
  example,
})

export const simProtocol: Protocol = {
  name: 'sim',
  title: 'Notes and acts of a simulation',
  version: '1',
  operations: [write, get, remind, ring, post, posted, act, conclude],
  events,
  codes: {},
  scenes: { empty: [] },
}
