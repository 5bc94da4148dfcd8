// A protocol that is as small as it can be and meets every kind of answer, for tests of bindings and workers.
import { Delivery, deliveryId } from '#kernel/log/outbox-document.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { factOf, image, put } from '#kernel/declare/facts.ts'
import { anyone, human, system, type Actor } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { command, query, rule, type Protocol } from '#kernel/declare/operation.ts'
import { doc, t, type Static } from '#kernel/declare/schema.ts'
import type { Store } from '#kernel/log/store.ts'

const SCOPE = 'project_toy'
const Times = t.Array(t.Object({ at: t.String(), call: t.String() }))
export const Note = doc('toy.note', t.Object({ id: t.String(), text: t.String(), times: t.Integer(), due: t.Optional(Times) }), {
  scopeOf: () => SCOPE,
  due: ({ id, due = [] }) => due.map((one) => ({ ...one, input: { id } })),
})
type Note = Static<typeof Note.schema>
const events = { 'note.written': Note, 'note.kept': Note, 'note.reminded': Note, 'note.posted': Note }
const fact = factOf(events)

const Id = t.String({ minLength: 1, maxLength: 80 })
const output = t.Object({ note: Note.schema })
const noteInput = t.Object({ id: Id, text: t.Optional(t.String({ maxLength: 200_000 })), rank: t.Optional(t.Number()) })
const example = { given: 'empty', as: 'alice', input: { id: 'one', text: 'hello' } }
const draft = 'ours: a toy'

type Held = { readonly note: Note | null }
/** A document that the clock writes is done with the first of its times. */
const written = ({ note }: Held, { id, text = '' }: { id: string; text?: string }): Note => {
  const [, ...later] = (note?.due ?? []).toSorted((a, b) => (a.at < b.at ? -1 : 1))
  return { id, text, times: (note?.times ?? 0) + 1, ...(later.length > 0 ? { due: later } : {}) }
}

const write = command({
  name: 'note.write',
  summary: 'Write a note.',
  draft,
  input: noteInput,
  output,
  callers: [anyone],
  requires: [],
  audit: 'note.written',
  load: async (read, { id }) => ({ note: await read.maybe(Note, id) }),
  decide(state, input) {
    const note = written(state, input)
    return { facts: [fact('note.written', [image(Note, note)])], output: { note } }
  },
  example,
})

const get = query({
  name: 'note.get',
  summary: 'Fetch a note.',
  draft,
  input: t.Object({ id: Id }),
  output,
  callers: [human, system],
  load: async (read, { id }) => ({ note: await read(Note, id) }),
  view: ({ note }) => ({ note }),
  example: { given: 'empty', as: 'alice', input: ({ note }) => ({ id: note.id }) },
})

const keep = command({
  ...write,
  name: 'note.keep',
  summary: 'For the system alone.',
  callers: [system],
  audit: 'note.kept',
})

const burn = command({
  ...write,
  name: 'note.burn',
  summary: 'A note can be burned once.',
  requires: [rule<Held>('NOTE_GONE', 'the note is not burned yet', ({ note }) => note === null, 'the note is burned already')],
})

const ask = command({ ...write, name: 'note.ask', summary: 'It takes a person’s attention.', asks: true })

const crash = command({
  ...write,
  name: 'note.crash',
  summary: 'It has a bug.',
  decide() {
    throw new Error('the cause of the trouble')
  },
})

const odd = command({
  ...write,
  name: 'note.odd',
  summary: 'It refuses with a code that stands in no table.',
  decide() {
    throw new Refusal('ODD', 'an odd refusal')
  },
})

const remind = command({
  name: 'note.remind',
  summary: 'Call operations later.',
  draft,
  input: t.Object({ id: Id, due: Times }),
  output: t.Object({}),
  callers: [anyone],
  requires: [],
  audit: 'note.reminded',
  load: async (read, { id }) => ({ note: await read.maybe(Note, id) }),
  decide({ note }, { id, due }) {
    const next = { id, text: 'reminder', times: note?.times ?? 0, due }
    return { facts: [fact('note.reminded', [image(Note, next)])], output: {} }
  },
  example,
})

const post = command({
  name: 'note.post',
  summary: 'Put deliveries into the outbox.',
  draft,
  input: t.Object({ lane: Id, orders: t.Array(t.String(), { maxItems: 10_000 }) }),
  output: t.Object({}),
  callers: [anyone],
  requires: [],
  audit: 'note.posted',
  load: () => Promise.resolve({}),
  decide(_, { lane, orders }, { now, newId }) {
    const note = { id: newId('note'), text: 'posted', times: 1 }
    const puts = orders.map((order) => {
      const id = deliveryId('post', lane, order)
      return put(Delivery, id, { id, channel: 'post', lane, due: now, attempt: 0, body: { order }, error: null })
    })
    return { facts: [fact('note.posted', [image(Note, note)])], puts, output: {} }
  },
  example,
})

export type Gate = {
  pass(): Promise<void>
  open(): void
  /** Resolves when so many calls wait for it. */
  reached(calls?: number): Promise<void>
}
export function createGate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>()
  const watched: { readonly calls: number; readonly done: () => void }[] = []
  let waiting = 0
  return {
    pass() {
      waiting++
      for (const { calls, done } of watched) if (waiting >= calls) done()
      return promise
    },
    open: resolve,
    reached: (calls = 1) => new Promise((done) => (waiting >= calls ? done() : watched.push({ calls, done }))),
  }
}

/** Decides only when it is let: a call that is under way for as long as a test wants. */
function waitCommand(gate: Promise<void> | Gate) {
  return command({
    ...write,
    name: 'note.wait',
    async load(read, { id }) {
      await ('pass' in gate ? gate.pass() : gate)
      return { note: await read.maybe(Note, id) }
    },
  })
}

export const toyProtocol = (gate: Promise<void> | Gate = Promise.resolve()): Protocol => ({
  name: 'toy',
  title: 'A toy',
  version: '1',
  operations: [write, get, keep, burn, ask, crash, odd, remind, post, waitCommand(gate)],
  events,
  codes: { NOTE_GONE: 'gone' },
  scenes: { empty: [] },
})

type ToyOptions = { readonly gate?: Promise<void> | Gate; readonly now?: () => number; readonly asksPerMinute?: number | null }

export function toyKernel(store: Store, { gate, now = Date.now, asksPerMinute = null }: ToyOptions = {}): Kernel {
  return createKernel({
    store,
    protocols: [toyProtocol(gate)],
    contracts: [],
    directory: () => Promise.resolve(null),
    now,
    entropy: (count) => crypto.getRandomValues(new Uint8Array(count)),
    asksPerMinute,
  })
}

const projects = new Map([[SCOPE, 'owner' as const]])
export const alice: Actor = { id: 'user_alice', kind: 'human', projects }
export const devin: Actor = { id: 'agent_devin', kind: 'agent', projects }

/** Keys that are their owner's name; taking one out revokes it. */
export function toyKeys(): { keys: Map<string, Actor>; authenticate(credential: { token: string }): Promise<Actor> } {
  const keys = new Map<string, Actor>([
    ['key-alice', alice],
    ['key-devin', devin],
    ['key-admin', { id: 'service_admin', kind: 'service', projects: 'all' }],
  ])
  return {
    keys,
    authenticate({ token }) {
      const actor = keys.get(token)
      return actor ? Promise.resolve(actor) : Promise.reject(new Refusal('UNAUTHENTICATED', 'a valid API key or session is required'))
    },
  }
}
