// Push notifications of A2A: addresses that hear of every change of one piece of work, for the one who gave it.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Delivery, deliveryId } from '#kernel/log/outbox-document.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import { type Actor, forAgentsToo, role, system } from '#kernel/declare/access.ts'
import { isHookAddress } from '#kernel/declare/webhook-address.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Change, type Read } from '#kernel/declare/operation.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { delegatorOf, Id, Push, PUSH_CHANNEL, PushName, PushScheme, PushSecret, pushId, Request, Run } from '../schema.ts'
import { isActive } from '../states.ts'

const DRAFT = 'A2A 1.0, 3.1.7 to 3.1.10 and 4.3 (push notifications)'
const WorkId = t.String({ minLength: 1, maxLength: limits.idCharsMax, description: 'the task, or the run of an agent without a task' })
const isRun = (work_id: string): boolean => work_id.startsWith('run_')

type Work = { readonly caller: string | null; readonly project_id: string; readonly isOfA2a: boolean; readonly isEnded: boolean }

/** A task of a person, or a run that an agent delegated without one. */
async function workOf(read: Read, work_id: string): Promise<Work> {
  if (!isRun(work_id)) return workOfTask(await read.ports.tasks.seenTask(read, work_id))
  const run = await read.maybe(Run, work_id)
  if (run === null) throw new Refusal('RUN_NOT_FOUND', `there is no run ${work_id}`)
  return workOfRun(read, run)
}
const workOfTask = (task: Awaited<ReturnType<Read['ports']['tasks']['seenTask']>>): Work => ({
  caller: task.ownership.principal,
  project_id: task.project_id,
  isOfA2a: task.origin?.protocol === 'a2a',
  isEnded: task.outcome !== null,
})
async function workOfRun(read: Read, run: Run): Promise<Work> {
  const request = await read.raw(Request, run.id)
  return {
    caller: run.task_id === null ? delegatorOf(run) : null,
    project_id: run.project_id,
    isOfA2a: request !== null && 'a2a' in request.input,
    isEnded: !isActive(run.state),
  }
}

type OfWork = { readonly work: Pick<Work, 'caller' | 'isOfA2a'> }
const itsCaller = forAgentsToo(role<OfWork>('the one who gave the work', (actor, { work }) => actor.id === work.caller))

/** What is shown: all but the credentials. */
const Shown = t.Object({
  id: PushName,
  work_id: Id,
  endpoint: t.String(),
  token: t.Optional(t.String()),
  scheme: t.Optional(t.String()),
  created_at: t.String(),
})
const shownAs = ({ config_id, work_id, endpoint, token, scheme, created_at }: Push): Static<typeof Shown> => ({
  id: config_id,
  work_id,
  endpoint,
  ...(token === undefined ? {} : { token }),
  ...(scheme === undefined ? {} : { scheme }),
  created_at,
})

/** One delivery for each address: it shows the state at the time when it is sent. One that waits after a failure goes on waiting. */
function rung(push: Pick<Push, 'id'>, queued: Delivery | null, now: string): Change[] {
  if (queued !== null && queued.due > now) return []
  const id = deliveryId(PUSH_CHANNEL, push.id, 'state')
  // Another time than that of a delivery under way, which is settled by its time.
  const due = queued === null ? now : timestampOf(Math.max(Date.parse(now), Date.parse(queued.due) + 1))
  const fresh = { id, channel: PUSH_CHANNEL, lane: push.id, due, attempt: 0, body: { push_id: push.id }, error: null }
  return [put(Delivery, id, queued === null ? fresh : { ...queued, due })]
}
const queuedOf = (read: Read, push_id: string): Promise<Delivery | null> => read.raw(Delivery, deliveryId(PUSH_CHANNEL, push_id, 'state'))
const nextLook = (now: string): string => timestampOf(Date.parse(now) + limits.a2aPushLookMs)

const set = command({
  name: 'push.set',
  summary: 'Name an address that hears of every change of work that came over A2A. The same id replaces it.',
  draft: DRAFT,
  input: t.Object({
    work_id: WorkId,
    to_agent: t.String({ minLength: 1, maxLength: limits.idCharsMax, description: 'the agent that the work was sent to' }),
    id: t.Optional(PushName),
    endpoint: t.String({ minLength: 1, maxLength: limits.a2aUrlCharsMax, description: 'the address that is posted to' }),
    token: t.Optional({ ...PushSecret, description: 'of the header X-A2A-Notification-Token' }),
    scheme: t.Optional(PushScheme),
    credentials: t.Optional({ ...PushSecret, description: 'of the header Authorization; never shown again' }),
  }),
  output: t.Object({ push: Shown }),
  callers: [itsCaller],
  requires: [
    rule<OfWork>(
      'PRECONDITION_FAILED',
      'the work came over A2A',
      ({ work }) => work.isOfA2a,
      'the work did not come over A2A: follow it with run.follow or audit.follow',
    ),
    rule<unknown, { readonly endpoint: string }>(
      'INVALID_REQUEST',
      'endpoint is an address that the server may call',
      (_, { endpoint }, { terms }) => isHookAddress(endpoint, terms.publicHooksOnly),
      'endpoint cannot be called: give an https address of the public Internet (or http and others, where the operator allows it with --webhook-private), without a name, a password or a fragment',
    ),
    rule<unknown, { readonly scheme?: string; readonly credentials?: string }>(
      'INVALID_REQUEST',
      'credentials have a scheme',
      (_, { scheme, credentials }) => credentials === undefined || scheme !== undefined,
      'credentials need a scheme, such as Bearer',
    ),
  ],
  audit: null,
  hides: true,
  async load(read, { work_id, id }) {
    const work = await workOf(read, work_id)
    const push_id = id === undefined ? null : pushId(work_id, id)
    const [before, queued] = push_id === null ? [null, null] : [await read.raw(Push, push_id), await queuedOf(read, push_id)]
    return { work, before, queued }
  },
  decide({ work, before, queued }, { work_id, id, to_agent, ...given }, { actor, now, newId }) {
    const config_id = id ?? newId('push')
    const push: Push = {
      ...given,
      id: pushId(work_id, config_id),
      work_id,
      config_id,
      agent_id: to_agent,
      project_id: work.project_id,
      owner: actor.id,
      created_at: before?.created_at ?? now,
      look_at: nextLook(now),
      sent: null,
    }
    const max = limits.a2aPushesPerTaskMax
    return {
      facts: [],
      puts: [put(Push, push.id, push), ...rung(push, queued, now)],
      atMost: [{ doc: Push, index: 'work', prefix: [work_id], max, message: `at most ${max} addresses hear of one task` }],
      output: { push: shownAs(push) },
    }
  },
  example: {
    given: 'messaged',
    as: 'devin',
    input: ({ run }) => ({ work_id: run.id, to_agent: 'agent_robin', id: 'mine', endpoint: 'https://partner.example/hook', token: 'abc' }),
  },
})

const Named = t.Object({ work_id: WorkId, id: PushName })
type OfPush = { readonly push: Push }
const itsOwner = forAgentsToo(role<OfPush>('the one who named the address', (actor, { push }) => actor.id === push.owner))

async function pushOf(read: Read, { work_id, id }: Static<typeof Named>, actor: Actor): Promise<OfPush> {
  const push = await read.raw(Push, pushId(work_id, id))
  // The work decides who may know of it; others than its caller are refused alike, whatever its addresses are.
  await workOf(read, work_id)
  if (push === null || push.owner !== actor.id) throw new Refusal('NOT_FOUND', `${work_id} has no address ${id}`)
  return { push }
}

const get = query({
  name: 'push.get',
  summary: 'Fetch an address that hears of changes, without its credentials.',
  draft: DRAFT,
  input: Named,
  output: t.Object({ push: Shown }),
  callers: [itsOwner],
  load: (read, input, { actor }) => pushOf(read, input, actor),
  view: ({ push }) => ({ push: shownAs(push) }),
  example: { given: 'pushed', as: 'devin', input: ({ run }) => ({ work_id: run.id, id: 'mine' }) },
})

async function pushesOf(read: Read, work_id: string): Promise<Push[]> {
  const listed = await read.list(Push, 'work', [[work_id]], { limit: limits.a2aPushesPerTaskMax })
  return (await Promise.all(listed.map(({ id }) => read.raw(Push, id)))).filter((one) => one !== null)
}

const list = query({
  name: 'push.list',
  summary: 'List the addresses that hear of changes of a piece of work, without their credentials.',
  draft: DRAFT,
  input: t.Object({ work_id: WorkId }),
  output: t.Object({ items: t.Array(Shown) }),
  callers: [itsCaller],
  async load(read, { work_id }, { actor }) {
    const work = await workOf(read, work_id)
    return { work, pushes: (await pushesOf(read, work_id)).filter(({ owner }) => owner === actor.id) }
  },
  view: ({ pushes }) => ({ items: pushes.map(shownAs) }),
  example: { given: 'pushed', as: 'devin', input: ({ run }) => ({ work_id: run.id }) },
})

const remove = command({
  name: 'push.remove',
  summary: 'Remove an address that hears of changes. Nothing is posted to it any more.',
  draft: DRAFT,
  input: Named,
  output: t.Object({ removed: t.Boolean() }),
  callers: [itsOwner],
  requires: [],
  audit: null,
  load: (read, input, { actor }) => pushOf(read, input, actor),
  decide: ({ push }) => ({ facts: [], puts: [put(Push, push.id, null)], output: { removed: true } }),
  example: { given: 'pushed', as: 'devin', input: ({ run }) => ({ work_id: run.id, id: 'mine' }) },
})

const OfPushId = t.Object({
  push_id: t.String({ maxLength: limits.a2aIdCharsMax, description: 'the work and the id of the address, with a slash between them' }),
})

const ring = command({
  name: 'push.ring',
  summary:
    'Queue the present state for an address. The system calls it after a change of the work; found is false where the address is gone.',
  draft: DRAFT,
  input: OfPushId,
  output: t.Object({ found: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: null,
  load: async (read, { push_id }) => ({ push: await read.raw(Push, push_id), queued: await queuedOf(read, push_id) }),
  decide: ({ push, queued }, _, { now }) => ({
    facts: [],
    puts: push === null ? [] : rung(push, queued, now),
    output: { found: push !== null },
  }),
  example: { given: 'pushed', as: 'system', input: ({ run }) => ({ push_id: pushId(run.id, 'mine') }) },
})

const record = command({
  name: 'push.record',
  summary: 'Keep the digest of the state that an address has accepted, so that it does not get the same one again.',
  draft: DRAFT,
  input: t.Object({
    ...OfPushId.properties,
    endpoint: t.String({ maxLength: limits.a2aUrlCharsMax, description: 'the address that has accepted it' }),
    sent: t.String({ maxLength: 100, description: 'the digest' }),
  }),
  output: t.Object({ recorded: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: null,
  load: async (read, { push_id }) => ({ push: await read.raw(Push, push_id) }),
  // An address that was set meanwhile has not got that state.
  decide: ({ push }, { endpoint, sent }) => ({
    facts: [],
    puts: push?.endpoint === endpoint ? [put(Push, push.id, { ...push, sent })] : [],
    output: { recorded: push?.endpoint === endpoint },
  }),
  example: {
    given: 'pushed',
    as: 'system',
    input: ({ run }) => ({ push_id: pushId(run.id, 'mine'), endpoint: 'https://partner.example/hook', sent: 'abc' }),
  },
})

/** Without an access check: an address outlives the rights of the one who named it. */
async function hasEnded(read: Read, work_id: string): Promise<boolean> {
  if (!isRun(work_id)) {
    const task = await read.ports.tasks.task(read, work_id)
    return task === null || task.outcome !== null
  }
  const run = await read.raw(Run, work_id)
  return run === null || !isActive(run.state)
}

const tidy = command({
  name: 'push.tidy',
  summary: 'Remove an address once its work has ended and its last state is posted. The system calls it by timer.',
  draft: 'ours: kept data takes a bounded space',
  input: OfPushId,
  output: t.Object({ removed: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { push_id }) {
    const push = await read.raw(Push, push_id)
    const isOver = push !== null && (await queuedOf(read, push_id)) === null && (await hasEnded(read, push.work_id))
    return { push, isOver }
  },
  decide({ push, isOver }, _, { now }) {
    if (push === null) return { facts: [], output: { removed: false } }
    return {
      facts: [],
      puts: [put(Push, push.id, isOver ? null : { ...push, look_at: nextLook(now) })],
      output: { removed: isOver },
    }
  },
  example: { given: 'pushed', as: 'system', input: ({ run }) => ({ push_id: pushId(run.id, 'mine') }) },
})

export const pushOperations = [set, get, list, remove, ring, record, tidy]
