// Documents of the gate: a call of an agent to a tool, the open call of each digest, and the pinned definition of a tool.
import { SYSTEM_SCOPE } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import type { Context } from '#kernel/declare/operation.ts'
import { doc, either, index, nullable, pick, t, type Static } from '#kernel/declare/schema.ts'
import { Risk, Verdict } from '#kernel/policy/gate-policy.ts'

const text = (maxLength: number, description?: string) => t.String({ maxLength, ...(description ? { description } : {}) })
export const Id = text(limits.idCharsMax)
export const Timestamp = text(40)
export const ServerName = t.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
  description: 'the name of the server at the gate: letters, digits, . _ or -',
})
export const ToolName = t.String({ minLength: 1, maxLength: limits.labelCharsMax, description: 'the name of the tool, resource or prompt' })
export const Kind = either('tool', 'resource', 'prompt')
export const Open = t.Object({}, { additionalProperties: true })
/** Claims of the program in front of the gate. */
export const Client = t.Object({
  name: t.Optional(text(limits.labelCharsMax, 'the name that the program gives itself')),
  version: t.Optional(text(limits.labelCharsMax, 'its version')),
  session_id: t.Optional(text(limits.labelCharsMax, 'its session')),
  sub_agent: t.Optional(text(limits.labelCharsMax, 'the part of the agent that calls')),
})

export const callStates = ['proposed', 'waiting', 'approved', 'begun', 'ended', 'denied', 'expired', 'cancelled'] as const
export type CallState = (typeof callStates)[number]
export const CallState = either(...callStates)
/** A person or the agent can still change its outcome. */
export const isOpenCall = ({ state }: Call): boolean => state === 'proposed' || state === 'waiting' || state === 'approved'

/** The record of arguments or a result: a digest that only this server can compute, and the size in bytes. */
const Kept = t.Object({ hash: text(100), size: t.Integer() })

/** A rule as it was written when it counted. */
export const OfRule = t.Object({ scope: Id, rule: text(limits.labelCharsMax), digest: text(100) })
export type OfRule = Static<typeof OfRule>

export const Call = doc(
  'gate.call',
  t.Object({
    id: Id,
    agent_id: Id,
    project_id: Id,
    task_id: nullable(Id),
    root_task_id: nullable(Id),
    kind: Kind,
    server: ServerName,
    tool: ToolName,
    digest: text(100, 'over agent, server, tool, definition and arguments'),
    definition_digest: nullable(text(100)),
    changed: t.Boolean({ description: 'the definition differs from the trusted one' }),
    state: CallState,
    decision: Verdict,
    basis: t.Object({ kind: either('policy', 'grant', 'default', 'human', 'system'), id: nullable(text(limits.labelCharsMax)) }),
    rule: nullable(text(limits.labelCharsMax, 'the rule that decided')),
    /** The version of the policy that decided. */
    policy: nullable(t.Object({ scope: Id, updated_at: nullable(Timestamp) })),
    risk: nullable(Risk),
    reason: nullable(text(limits.textCharsMax)),
    instead: nullable(text(limits.textCharsMax)),
    arguments: Kept,
    result: nullable(Kept),
    outcome: nullable(either('succeeded', 'failed', 'unknown')),
    request_id: nullable(Id),
    redact: t.Array(text(limits.gatePatternCharsMax)),
    /** The server's claims about the tool, for rehearsals. */
    hints: t.Optional(t.Object({ readOnlyHint: t.Optional(t.Boolean()), destructiveHint: t.Optional(t.Boolean()) })),
    /** The rules that allow the call but send it, as a sample, to a person all the same. */
    sample: t.Optional(t.Array(OfRule)),
    client: Client,
    /** The gate has stopped waiting for it: a repeated call collects the answer. */
    unattended: t.Boolean({ description: 'no client waits for the answer' }),
    created_at: Timestamp,
    expires_at: nullable(Timestamp),
    decided_at: nullable(Timestamp),
    begun_at: nullable(Timestamp),
    ended_at: nullable(Timestamp),
    /** When a changed policy last saw the open call with its arguments; before that, `created_at`. */
    ruled_at: t.Optional(Timestamp),
  }),
  {
    scopeOf: (call) => call.project_id,
    taskOf: (call) => call.task_id,
    rootOf: (call) => call.root_task_id ?? call.task_id,
    visibleTo: (call, actor) => actor.kind !== 'agent' || actor.id === call.agent_id,
    wakes: (call) => call.id,
    indexes: {
      project: index((call) => [[call.project_id, call.created_at]]),
      agent: index((call) => [[call.agent_id, call.created_at]]),
      waiting: index((call) => (call.state === 'waiting' || call.state === 'approved' ? [[call.project_id, call.created_at]] : [])),
    },
  },
)
export type Call = Static<typeof Call.schema>

/** An approval of people has the time of its question. */
export const hasLapsed = ({ state, decision, expires_at }: Call, { hasPassed }: Pick<Context, 'hasPassed'>): boolean =>
  state === 'approved' && decision === 'ask' && expires_at !== null && hasPassed(expires_at)
export const LAPSED = 'the approval was not used in time'
export const expireCall = (call: Call): Call => ({ ...call, state: 'expired', reason: LAPSED, ended_at: call.expires_at })

/** The answer of every operation about a call. */
export const CallView = pick(Call.schema, [
  'agent_id',
  'project_id',
  'task_id',
  'kind',
  'server',
  'tool',
  'digest',
  'changed',
  'state',
  'decision',
  'basis',
  'rule',
  'risk',
  'reason',
  'instead',
  'arguments',
  'result',
  'outcome',
  'request_id',
  'redact',
  'client',
  'unattended',
  'created_at',
  'expires_at',
  'decided_at',
  'begun_at',
  'ended_at',
])
export const CallAnswer = t.Object({ call_id: Id, ...CallView.schema.properties, url: nullable(text(limits.textCharsMax)) })
export type CallAnswer = Static<typeof CallAnswer>
export function answerOf(call: Call, context: Pick<Context, 'terms' | 'hasPassed'>): CallAnswer {
  const origin = context.terms.origin?.()
  const url = call.request_id === null || origin === undefined ? null : `${origin}/inbox/${call.request_id}`
  return { call_id: call.id, ...CallView.of(hasLapsed(call, context) ? expireCall(call) : call), url }
}

/** The asked call of an agent under its digest, until its end is known: a repeated call finds its question, or that its effect might have happened. */
export const OpenCall = doc('gate.open_call', t.Object({ id: text(200), call_id: Id }), {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: () => false,
})
export const digestKey = (agent_id: string, digest: string): string => `${agent_id}/${digest}`

/** The question about a call until it is settled; the record keeps it with the request. */
export const Question = doc(
  'gate.question',
  t.Object({
    id: Id, // of the call
    details: Open,
    people: nullable(t.Array(Id)),
    quorum: nullable(t.Integer()),
    timeout_seconds: t.Integer(),
    /** The grant that would spare the next question of the task. */
    scope: t.Optional(text(limits.nameCharsMax)),
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: () => false },
)
export type Question = Static<typeof Question.schema>

/** The arguments of a call, encrypted under the server's own key, if its rule has `record: "sealed"`. Only rehearsals open them. */
export const SealedArguments = doc('gate.sealed_arguments', t.Object({ id: Id, sealed: t.String() }), {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: () => false,
})

const Suspended = t.Object({ ...OfRule.properties, call_id: Id, by: nullable(Id), at: Timestamp })
export type Suspended = Static<typeof Suspended>
/** The standing of the sampled rules of one scope, under its id. */
export const Standing = doc(
  'gate.standing',
  t.Object({
    id: Id,
    suspended: t.Array(Suspended),
    /** A sample of these was withdrawn before a person answered: the next call is asked. */
    owed: t.Array(OfRule),
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: () => false },
)
export type Standing = Static<typeof Standing.schema>
/** The arguments of an asked call, if they are too long for its card. People who can read the question can read them. */
export const LongArguments = doc('gate.long_arguments', t.Object({ id: Id, sealed: t.String(), sha256: text(100), size: t.Integer() }), {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: () => false,
})
export type LongArguments = Static<typeof LongArguments.schema>

export const Tool = doc(
  'gate.tool',
  t.Object({
    id: text(400), // `${project_id}/${server}/${name}`
    project_id: Id,
    server: ServerName,
    name: ToolName,
    /** The definition that calls run with. */
    trusted: t.Object({ digest: text(100), definition: Open }),
    /** A later definition that a person has not trusted yet. */
    offered: nullable(t.Object({ digest: text(100), definition: Open })),
    trusted_by: nullable(Id),
    first_seen_at: Timestamp,
    changed_at: nullable(Timestamp),
  }),
  {
    scopeOf: (tool) => tool.project_id,
    indexes: { project: index((tool) => [[tool.project_id, tool.server, tool.name]]) },
  },
)
export type Tool = Static<typeof Tool.schema>
export const toolId = (project_id: string, server: string, name: string): string => `${project_id}/${server}/${name}`
