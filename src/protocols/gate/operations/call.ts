// A call after its proposal: waiting for people, running once with the approved arguments, and its end.
import { Refusal } from '#kernel/declare/errors.ts'
import { anyone, installationOwner, system } from '#kernel/declare/access.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { either, nullable, t } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { refusalNow, rulingNow } from '../approval.ts'
import { answerable, callOf, caller, callerOfAll, isBegun, projectOwner, type OfCall, type OfCalls } from '../access.ts'
import { fact } from '../events.ts'
import { forgetCall } from '../forgetting.ts'
import {
  answerOf,
  Call,
  CallAnswer,
  CallState,
  Id,
  isOpenCall,
  OfRule,
  OpenCall,
  digestKey,
  Question,
  Timestamp,
  Tool,
  toolId,
} from '../schema.ts'
import { sampleOfCall, sampleOwed, sampleRejected, suspensionLifted, type OfSample } from '../standing.ts'

const sampledCallOf = async (read: Read, { call_id }: { readonly call_id: string }): Promise<OfCall & { readonly sample: OfSample }> => {
  const found = await callOf(read, call_id)
  return { ...found, sample: await sampleOfCall(read, found.call) }
}

const CallId = { ...Id, description: 'the id of the call' }

const get = query({
  name: 'call.get',
  summary: 'Fetch one call.',
  draft: 'ours: see call.propose',
  input: t.Object({ call_id: CallId }),
  output: CallAnswer,
  callers: [anyone],
  load: async (read, { call_id }) => callOf(read, call_id),
  view: ({ call }, _, context) => answerOf(call, context),
  example: { given: 'asked', as: 'devin', input: ({ call_id }) => ({ call_id }) },
})

const list = query({
  name: 'call.list',
  summary: 'List calls that you may see, the newest first.',
  draft: 'ours: see call.propose',
  input: t.Object({
    state: t.Optional({ ...CallState, description: 'only calls in this state' }),
    agent_id: t.Optional({ ...Id, description: 'only calls of this agent' }),
    ...pageInput,
  }),
  output: t.Object({ items: t.Array(CallAnswer), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const page = { ...pageIn('call.list', input), reverse: true }
    const projects = actor.projects === 'all' ? null : [...actor.projects.keys()]
    const isWaiting = input.state === 'waiting' || input.state === 'approved'
    const listed =
      actor.kind === 'agent'
        ? await read.list(Call, 'agent', [[actor.id]], page)
        : await read.list(Call, isWaiting ? 'waiting' : 'project', projects === null ? [[]] : projects.map((id) => [id]), page)
    return readListed(read, Call, listed)
  },
  view({ listed, items, isCut }, input, context) {
    const isWanted = ({ state, agent_id }: CallAnswer): boolean =>
      (input.state === undefined || input.state === state) && (input.agent_id === undefined || input.agent_id === agent_id)
    const page = pageOf('call.list', input, listed, items, isCut)
    return { ...page, items: page.items.map((call) => answerOf(call, context)).filter(isWanted) }
  },
  example: { given: 'asked', as: 'devin', input: {} },
})

const WaitSeconds = t.Optional(t.Integer({ minimum: 0, maximum: limits.waitMsMax / 1_000, description: 'seconds to wait, 0 by default' }))

const wait = command({
  name: 'call.await',
  summary: 'Wait until a call is decided, and fetch it.',
  draft: 'ours: see call.propose',
  input: t.Object({
    call_id: CallId,
    wait_seconds: WaitSeconds,
  }),
  output: CallAnswer,
  callers: [caller],
  requires: [],
  audit: null,
  waits: ({ call_id, wait_seconds = 0 }) => (wait_seconds === 0 ? null : { wakeIds: [call_id], maxMs: wait_seconds * 1_000 }),
  load: async (read, { call_id }) => callOf(read, call_id),
  decide: ({ call }, _, context) => ({
    facts: [],
    output: answerOf(call, context),
    ...(call.state === 'waiting' ? { nothing: { again: null } } : {}),
  }),
  example: { given: 'asked', as: 'devin', input: ({ call_id }) => ({ call_id }) },
})

const waitForAny = command({
  name: 'call.await_any',
  summary: 'Wait until one of several calls is decided, and fetch the decided ones: a gate with many waiting calls needs one long poll.',
  draft: 'ours: see call.propose',
  input: t.Object({
    call_ids: t.Array(Id, { minItems: 1, maxItems: limits.gateCallsAwaitedMax, uniqueItems: true, description: 'the ids of the calls' }),
    wait_seconds: WaitSeconds,
  }),
  output: t.Object({ items: t.Array(CallAnswer) }),
  callers: [callerOfAll],
  requires: [],
  audit: null,
  waits: ({ call_ids, wait_seconds = 0 }) => (wait_seconds === 0 ? null : { wakeIds: call_ids, maxMs: wait_seconds * 1_000 }),
  load: async (read, { call_ids }): Promise<OfCalls> => ({ calls: await Promise.all(call_ids.map((id) => read(Call, id))) }),
  decide({ calls }, _, context) {
    const decided = calls.filter(({ state }) => state !== 'waiting')
    return {
      facts: [],
      output: { items: decided.map((call) => answerOf(call, context)) },
      ...(decided.length === 0 ? { nothing: { again: null } } : {}),
    }
  },
  example: { given: 'asked', as: 'devin', input: ({ call_id }) => ({ call_ids: [call_id] }) },
})

const begin = command({
  name: 'call.begin',
  summary: 'Begin an approved call: it uses the approval up, once, for exactly these arguments.',
  draft: 'ours: see call.propose',
  input: t.Object({ call_id: CallId, digest: t.String({ maxLength: 100, description: 'the digest that was approved' }) }),
  output: CallAnswer,
  callers: [caller],
  requires: [
    rule<OfCall>(
      'CALL_USED',
      'the approval is unused',
      ({ call }) => call.state !== 'begun' && call.state !== 'ended',
      'the call has run already: propose it again',
    ),
    rule<OfCall>(
      'CALL_NOT_APPROVED',
      'the call is approved',
      ({ call }) => call.state === 'approved',
      'the call is not approved',
      ({ call }) => `the call is ${call.state}${call.reason === null ? '' : `: ${call.reason}`}`,
    ),
    rule<OfCall, { readonly digest: string }>(
      'CALL_MISMATCH',
      'the digest is the approved one',
      ({ call }, { digest }) => call.digest === digest,
      'the digest is not that of the approved call: propose the call as it is now',
    ),
  ],
  audit: 'call.begun',
  async load(read, { call_id }, { now }) {
    const state = await callOf(read, call_id)
    const { project_id, server, tool } = state.call
    return { ...state, pinned: await read.raw(Tool, toolId(project_id, server, tool)), ...(await rulingNow(read, state, now)) }
  },
  decide({ call, pinned, ...now }, _, context) {
    const why = refusalNow(call, now, context)
    if (why !== null) throw new Refusal('CALL_NOT_APPROVED', `${why}: propose the call again`)
    if (call.definition_digest !== null && pinned !== null && pinned.trusted.digest !== call.definition_digest)
      throw new Refusal('TOOL_CHANGED', `the definition of ${call.server}/${call.tool} has changed: a person has to trust it (tool.trust)`)
    const next: Call = { ...call, state: 'begun', begun_at: context.now }
    return {
      facts: [fact('call.begun', [image(Call, next)], call.basis.kind === 'grant' ? { basis: { kind: 'grant', id: call.basis.id! } } : {})],
      output: answerOf(next, context),
    }
  },
  example: { given: 'allowed', as: 'devin', input: ({ call_id, digest }) => ({ call_id, digest }) },
})

const conclude = command({
  name: 'call.conclude',
  summary: 'Report the end of a call. Of its result, the record keeps a keyed digest and the size.',
  draft: 'ours: see call.propose',
  input: t.Object({
    call_id: CallId,
    outcome: { ...either('succeeded', 'failed', 'unknown'), description: 'unknown: the upstream ended before it answered' },
    size: t.Optional(t.Integer({ minimum: 0, description: 'the size of the result in bytes' })),
    hash: t.Optional(t.String({ maxLength: 100, description: 'SHA-256 of the result' })),
  }),
  output: CallAnswer,
  callers: [caller, system],
  requires: [isBegun],
  audit: 'call.ended',
  async load(read, { call_id }) {
    const state = await callOf(read, call_id)
    const { agent_id, digest } = state.call
    return { ...state, head: await read.raw(OpenCall, digestKey(agent_id, digest)) }
  },
  decide({ call, head }, { outcome, size = 0, hash = '' }, context) {
    const { now, notary } = context
    const result = { hash: notary.commit(`${call.id} ${hash}`), size }
    const next: Call = { ...call, state: 'ended', outcome, result, ended_at: now }
    return {
      // If the outcome is unknown, the next question about the same call says so.
      puts: head?.call_id === call.id && outcome !== 'unknown' ? [put(OpenCall, head.id, null)] : [],
      facts: [fact('call.ended', [image(Call, next)], { detail: { outcome } })],
      output: answerOf(next, context),
    }
  },
  example: { given: 'begun', as: 'devin', input: ({ call_id }) => ({ call_id, outcome: 'succeeded', size: 12 }) },
})

const isStillOpen = rule<OfCall>(
  'PRECONDITION_FAILED',
  'the call has not begun or ended',
  ({ call }) => isOpenCall(call),
  'the call has begun or ended already',
)

const cancel = command({
  name: 'call.cancel',
  summary: 'Withdraw a call that has not begun; its question ends.',
  draft: 'ours: see call.propose',
  input: t.Object({ call_id: CallId, reason: t.Optional(t.String({ maxLength: limits.reasonCharsMax, description: 'the reason' })) }),
  output: CallAnswer,
  callers: [caller, answerable, projectOwner, installationOwner],
  requires: [isStillOpen],
  audit: 'call.cancelled',
  load: sampledCallOf,
  decide({ call, sample }, { reason = null }, context) {
    const { now } = context
    const next: Call = { ...call, state: 'cancelled', reason: reason ?? 'the call was withdrawn', decided_at: now, ended_at: now }
    return {
      facts: [fact('call.cancelled', [image(Call, next)])],
      puts: [...forgetCall(call), ...(call.state === 'waiting' ? sampleOwed(sample) : [])],
      output: answerOf(next, context),
    }
  },
  example: { given: 'asked', as: 'devin', input: ({ call_id }) => ({ call_id }) },
})

const leave = command({
  name: 'call.leave',
  summary: 'Say that no client waits for a call: its question stays open, and the same call collects the answer later.',
  draft: 'ours: see call.propose',
  input: t.Object({ call_id: CallId }),
  output: CallAnswer,
  callers: [caller],
  requires: [],
  audit: 'call.left',
  load: async (read, { call_id }) => callOf(read, call_id),
  decide({ call }, _, context) {
    if (call.state !== 'waiting' || call.unattended) return { facts: [], output: answerOf(call, context) }
    const next: Call = { ...call, unattended: true }
    return { facts: [fact('call.left', [image(Call, next)])], output: answerOf(next, context) }
  },
  example: { given: 'asked', as: 'devin', input: ({ call_id }) => ({ call_id }) },
})

const settle = command({
  name: 'call.settle',
  summary: 'Take over the answer to the question of a call. The system calls it.',
  draft: 'ours: see call.propose',
  input: t.Object({
    call_id: CallId,
    result: either('approved', 'rejected', 'expired', 'cancelled'),
    person: t.Optional({ ...Id, description: 'the person who answered' }),
    reason: t.Optional(t.String({ maxLength: limits.reasonCharsMax })),
    expires_at: t.Optional(nullable(Timestamp)),
  }),
  output: CallAnswer,
  callers: [system],
  requires: [
    rule<OfCall>(
      'PRECONDITION_FAILED',
      'the call waits for people',
      ({ call }) => call.state === 'waiting',
      'the call does not wait for people',
    ),
  ],
  audit: 'call.approved',
  load: sampledCallOf,
  decide({ call, sample }, { result, person, reason, expires_at = call.expires_at }, context) {
    const { now } = context
    const state = ({ approved: 'approved', rejected: 'denied', expired: 'expired', cancelled: 'cancelled' } as const)[result]
    const basis: Call['basis'] = person === undefined ? { kind: 'system', id: result } : { kind: 'human', id: person }
    const ended_at = state === 'approved' ? null : now
    const next: Call = {
      ...call,
      state,
      basis,
      reason: reason ?? (state === 'approved' ? null : reasons[result]),
      expires_at,
      decided_at: now,
      ended_at,
    }
    const suspended = result === 'rejected' ? sample : []
    const ofSample =
      result === 'rejected'
        ? sampleRejected(sample, { call_id: call.id, by: person ?? null, at: now })
        : result === 'approved'
          ? []
          : sampleOwed(sample)
    return {
      facts: [
        fact(`call.${result}`, [image(Call, next)], { detail: { result } }),
        ...suspended.map(({ rule: { scope, rule: id } }) =>
          fact('rule.suspended', [image(Call, next)], { cause: 0, detail: { scope, rule: id } }),
        ),
      ],
      puts: [...(state === 'approved' ? [put(Question, call.id, null)] : forgetCall(call)), ...ofSample],
      output: answerOf(next, context),
    }
  },
  example: { given: 'asked', as: 'system', input: ({ call_id }) => ({ call_id, result: 'approved', person: 'user_alice' }) },
})
const reasons = {
  approved: '',
  rejected: 'a person rejected it',
  expired: 'nobody answered in time',
  cancelled: 'the question was withdrawn',
} as const

const resume = command({
  name: 'rule.resume',
  summary: 'Let the rules allow calls again that the rejection of this call suspended. The system calls it when an owner says so.',
  draft: 'ours: rules that earn themselves',
  input: t.Object({ call_id: CallId, scope: { ...Id, description: 'the scope of the rule: a project, a person, or installation' } }),
  output: t.Object({ rules: t.Array(OfRule) }),
  callers: [system],
  requires: [],
  audit: 'rule.resumed',
  load: sampledCallOf,
  decide({ call, sample }, { scope }) {
    const resumed = sample.filter(
      ({ rule, standing }) => rule.scope === scope && standing?.suspended.some(({ call_id }) => call_id === call.id) === true,
    )
    return {
      facts: resumed.map(({ rule: { rule: id } }) => fact('rule.resumed', [image(Call, call)], { detail: { scope, rule: id } })),
      puts: suspensionLifted(resumed, call.id),
      output: { rules: resumed.map(({ rule: one }) => one) },
    }
  },
  example: { given: 'suspended', as: 'system', input: ({ call_id }) => ({ call_id, scope: 'installation' }) },
})

export const callOperations = [get, list, wait, waitForAny, begin, conclude, cancel, leave, settle, resume]
