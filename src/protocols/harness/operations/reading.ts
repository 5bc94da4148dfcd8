// Reading sessions: one, a list, their events, and a stream of these. By either id: of the session, or of the submission.
import { anyone, readsProject } from '#kernel/declare/access.ts'
import { query, stream } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { listIn, moreProjects, projectInput, projectsFor } from '#kernel/declare/projects.ts'
import { keyOf, t } from '#kernel/declare/schema.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { sessionOf } from '../access.ts'
import { Event, Id, isLateEventKey, Role, Session } from '../schema.ts'
import { EventView, eventView, SessionView, viewOf } from '../session/view.ts'

const session = query({
  name: 'harness.session',
  summary: 'Fetch one session, by its id or by that of its submission.',
  draft: 'HCP 1.0, L2: Session Properties',
  input: t.Object({ session_id: Id }),
  output: t.Object({ session: SessionView }),
  callers: [anyone],
  async load(read, { session_id }, context) {
    return { session: await viewOf(read, await sessionOf(read, session_id), context) }
  },
  view: ({ session: found }) => ({ session: found }),
  example: { given: 'submitted', as: 'alice', input: ({ session: { id } }) => ({ session_id: id }) },
})

const sessions = query({
  name: 'harness.sessions',
  summary: 'List sessions, newest first: your own, or all of a project of yours.',
  draft: 'HCP 1.0, L2: Session Properties',
  input: t.Object({ role: t.Optional(Role), ...projectInput, ...pageInput }),
  output: t.Object({ items: t.Array(SessionView), next_cursor: nextCursor, ...moreProjects }),
  callers: [anyone],
  async load(read, input, context) {
    const { actor } = context
    const { role } = input
    const { ids, more } = await projectsFor(read, input, actor)
    const whole = ids.filter((id) => actor.projects === 'all' || readsProject(actor, id))
    const ranges = [
      { index: 'project', prefixes: whole.map((id) => [id]) },
      { index: 'by', prefixes: whole.length < ids.length ? [[actor.id]] : [] },
    ]
    const listed = await listIn(read, Session, ranges, { ...pageIn('harness.sessions', input), reverse: true })
    const page = await readListed(read, Session, listed)
    const fitting = page.items.filter((item) => (role === undefined || item.role === role) && ids.includes(item.project_id))
    return { ...page, items: await Promise.all(fitting.map((session) => viewOf(read, session, context))), more }
  },
  view: ({ listed, items, isCut, more }, input) => ({ ...pageOf('harness.sessions', input, listed, items, isCut), ...more }),
  example: { given: 'submitted', as: 'alice', input: {} },
})

const events = query({
  name: 'harness.events',
  summary: 'List the events of a session in the order of their numbers, or those that arrived after it had ended.',
  draft: 'HCP 1.0, L2: Event Stream',
  input: t.Object({
    session_id: Id,
    late: t.Optional(t.Boolean({ description: 'the events that arrived after the session had ended, which are none of its own' })),
    ...pageInput,
  }),
  output: t.Object({ items: t.Array(EventView), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { notary }) {
    const found = await sessionOf(read, input.session_id)
    const listed = await read.list(Event, input.late === true ? 'late' : 'session', [[found.id]], pageIn('harness.events', input))
    const page = await readListed(read, Event, listed)
    const opened = await Promise.all(
      page.items.map(async (event) => ({
        ...event,
        data: event.sealed === undefined ? event.data : (JSON.parse(await notary.open(event.sealed)) as unknown),
      })),
    )
    return { ...page, items: opened.map((event) => eventView(event, found.session_id)) }
  },
  view: ({ listed, items, isCut }, input) => pageOf('harness.events', input, listed, items, isCut),
  example: { given: 'submitted', as: 'alice', input: ({ session: { id } }) => ({ session_id: id }) },
})

const SUBJECT = keyOf(Event, '')
const follow = stream({
  name: 'harness.follow',
  summary: 'Follow the events of a session from any cursor on, as they become durable.',
  draft: 'HCP 1.0, L2: Event Stream',
  input: t.Object({ session_id: Id }),
  output: t.Object({ event: EventView }),
  callers: [anyone],
  load: async (read, { session_id }) => ({ id: (await sessionOf(read, session_id)).id }),
  of: ({ id }) => ({ by: 'task', task: id }),
  wants(_, { images: [first] }: StoredFact) {
    return first !== undefined && first.key.startsWith(SUBJECT) && !isLateEventKey(first.key) && first.text !== null
  },
  view({ images }: StoredFact) {
    const event = JSON.parse(images[0]!.text!) as Event
    return { event: { ...eventView(event, null), ...(event.sealed === undefined ? {} : { sealed: true }) } }
  },
  example: { given: 'submitted', as: 'alice', input: ({ session: { id } }) => ({ session_id: id }) },
})

export const readingOperations = [session, sessions, events, follow]
