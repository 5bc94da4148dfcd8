// The proposal of a call: the server decides by policy and grants whether the call is allowed, asked about or denied.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { authorize } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { command, type Change, type Context, type Decision, type Granted, type Read } from '#kernel/declare/operation.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { evaluate, type Ruling } from '#kernel/policy/evaluate.ts'
import { mustBeAsked } from '#kernel/policy/gate-policy.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { judgesOf, type KnownTask } from '#kernel/ports/tasks.ts'
import { agent, projectOf, worksOn } from '../access.ts'
import { hasChanged } from '../approval.ts'
import { definitionDigest, digestOf } from '../digest.ts'
import { fact } from '../events.ts'
import { forgetCall } from '../forgetting.ts'
import {
  answerOf,
  Call,
  CallAnswer,
  Client,
  Id,
  isOpenCall,
  Kind,
  LongArguments,
  Open,
  OpenCall,
  digestKey,
  hasLapsed,
  expireCall,
  Question,
  SealedArguments,
  ServerName,
  Tool,
  toolId,
  ToolName,
} from '../schema.ts'
import { hintsIn, sealedBy } from '../arguments/kept-arguments.ts'
import { longArguments } from '../arguments/long-arguments.ts'
import { redact as redactArguments } from '../arguments/redaction.ts'
import { policiesFor, sampleFor, sampleTaken, type PolicyWithStanding } from '../standing.ts'

/** The name of the tool that a gate adds to the tools of its upstream. */
export const RESERVED = 'countersign_await'

const ProposeInput = t.Object({
  server: ServerName,
  tool: ToolName,
  kind: t.Optional(Kind),
  arguments: { ...Open, description: 'the arguments, as the tool gets them' },
  definition: t.Optional(nullable({ ...Open, description: 'the definition of the tool, as its server lists it' })),
  hints: t.Optional({ ...Open, description: "the server's own claims, such as readOnlyHint" }),
  task_id: t.Optional({ ...Id, description: 'the task that the agent works on' }),
  client: t.Optional(Client),
  begin: t.Optional(t.Boolean({ description: 'begin the call in the same batch if it is allowed: it runs now' })),
  redact: t.Optional(
    t.Array(t.String({ maxLength: limits.gatePatternCharsMax }), {
      maxItems: limits.gatePatternsMax,
      description: 'JSON pointers to arguments that people are not shown',
    }),
  ),
})
type ProposeInput = Static<typeof ProposeInput>

type Proposing = {
  readonly project_id: string
  readonly task: KnownTask | null
  readonly policies: readonly PolicyWithStanding[]
  readonly grant: Granted | null
  readonly pinned: Tool | null
  readonly digest: string
  readonly open: Call | null
  /** The approved call, if the time of its approval is over. */
  readonly late: Call | null
  /** The same call ran before, and its end is not known. */
  readonly unfinished: Call | null
  readonly ruling: Ruling
  /** The people whom the rules name; null: the usual people are asked. */
  readonly people: { readonly ids: readonly string[]; readonly quorum: number } | null
  /** The arguments, if the rule stores them; null: only their digest is stored. */
  readonly sealed: string | null
  /** The arguments, if they are too long for the card. */
  readonly long: Awaited<ReturnType<typeof longArguments>>
}

async function taskOf(read: Read, task_id: string | undefined, agent_id: string): Promise<KnownTask | null> {
  if (task_id === undefined) return null
  const task = await read.ports.tasks.task(read, task_id)
  if (!worksOn(task, agent_id)) throw new Refusal('NOT_FOUND', `you work on no task ${task_id}`, { field: 'task_id' })
  return task
}

/** If several scopes name people: only people whom all of these scopes name. */
async function peopleOf(read: Read, project_id: string, { verdict, whom, quorum }: Ruling): Promise<Proposing['people']> {
  if (verdict !== 'ask' || whom.length === 0) return null
  const named = await Promise.all(
    whom.map(async ({ people = [], groups = [] }) => {
      const members = await Promise.all(groups.map((name) => read.ports.policies.group(read, project_id, name)))
      return new Set([...people, ...members.flatMap((ids) => ids ?? [])])
    }),
  )
  return { ids: [...named[0]!].filter((id) => named.every((ids) => ids.has(id))), quorum: quorum ?? 1 }
}

type Granting = { readonly scope: string; readonly risk: Ruling['risk']; readonly agent: string }
/** The grant that covers the call, if the rules for approvals leave the decision to the person who gave it. */
async function grantFor(read: Read, task: KnownTask, { scope, risk, agent: agent_id }: Granting, now: string): Promise<Granted | null> {
  const grant = await read.grant(task.id, scope, now)
  const of = { project_id: task.project_id, risk, agent: agent_id, principal: task.ownership.principal }
  return grant !== null && (await read.ports.policies.mayGrant(read, { ...of, grant })) ? grant : null
}

const sizeOf = (value: object): number => Buffer.byteLength(canonical(value))

export const propose = command({
  name: 'call.propose',
  summary: 'Propose a call to a tool. The policy allows it, denies it, or asks people.',
  draft: 'ours: agents that exist already, behind one policy and one inbox',
  input: ProposeInput,
  output: CallAnswer,
  callers: [agent],
  requires: [],
  audit: 'call.asked',
  asks: true,
  bodyBytesMax: limits.gateProposalBytesMax,
  async load(read, input, context): Promise<Proposing> {
    const { actor, now, notary } = context
    authorize('call.propose', [agent], actor, null)
    const { server, tool, arguments: args, definition = null, task_id } = input
    const owner = (await read.subject(actor.id))?.owner ?? null
    const task = await taskOf(read, task_id, actor.id)
    const project_id = task?.project_id ?? projectOf(actor)
    const digest = digestOf({ agent: actor.id, server, tool, definition, arguments: args })
    const head = await read.raw(OpenCall, digestKey(actor.id, digest))
    const before = head === null ? null : await read.raw(Call, head.call_id)
    const asked = before !== null && isOpenCall(before) && before.decision === 'ask' ? before : null
    const isLate = asked !== null && hasLapsed(asked, context)
    const open = isLate ? null : asked
    const policies = await policiesFor(read, project_id, owner)
    const { kind = 'tool', hints = {} } = input
    const ruling = evaluate(
      policies,
      { kind, name: `${server}/${tool}`, agent: actor.id, project: project_id, arguments: args, hints },
      now,
    )
    return {
      project_id,
      task,
      policies,
      ruling,
      people: await peopleOf(read, project_id, ruling),
      sealed: await sealedBy(ruling, input, notary),
      long: open === null ? await longArguments(args, redactedBy(ruling, input), notary) : null,
      grant:
        task === null ? null : await grantFor(read, task, { scope: `gate:${server}/${tool}`, risk: ruling.risk, agent: actor.id }, now),
      pinned: await read.raw(Tool, toolId(project_id, server, tool)),
      digest,
      open,
      late: isLate ? asked : null,
      unfinished: before !== null && (before.state === 'begun' || before.outcome === 'unknown') ? before : null,
    }
  },
  decide(state, input, context): Decision<CallAnswer> {
    const { open, late, ruling } = state
    const isDenied = ruling.verdict === 'deny' || state.grant?.decision === 'deny'
    if (open !== null && !isDenied) return returnTo(open, state.policies, context)
    const before = open ?? late
    const call = callFor(state, input, context)
    const action = ({ approved: 'call.allowed', waiting: 'call.asked', denied: 'call.denied' } as const)[
      call.state as 'approved' | 'waiting' | 'denied'
    ]
    const pinned = pinFor(state, input, context)
    const begun: Call | null = input.begin === true && call.state === 'approved' ? { ...call, state: 'begun', begun_at: context.now } : null
    const basis =
      call.basis.id === null ? {} : { basis: { kind: call.basis.kind === 'grant' ? 'grant' : 'policy', id: call.basis.id } as const }
    return {
      facts: [
        // A question or an approval from before the denial is void.
        ...(open === null ? [] : [fact('call.cancelled', [image(Call, voidCall(open, context.now))])]),
        ...(late === null ? [] : [fact('call.expired', [image(Call, expireCall(late))])]),
        ...(pinned === null ? [] : [fact(pinned.offered === null ? 'tool.pinned' : 'tool.changed', [image(Tool, pinned)])]),
        fact(action, [image(Call, call)], { detail: { server: call.server, tool: call.tool, rule: call.rule }, ...basis }),
        ...(begun === null ? [] : [fact('call.begun', [image(Call, begun)], call.basis.kind === 'grant' ? basis : {})]),
      ],
      puts: [
        ...(before === null || call.state === 'waiting' ? [] : forgetCall(before)),
        ...(call.state === 'waiting' ? [pointerTo(call), ...questionAbout(call, state, input, context)] : []),
        ...(state.sealed === null ? [] : [put(SealedArguments, call.id, { id: call.id, sealed: state.sealed })]),
        ...sampleTaken(call, state.policies),
      ],
      output: answerOf(begun ?? call, context),
    }
  },
  example: {
    given: 'empty',
    as: 'devin',
    input: {
      server: 'files',
      tool: 'read_file',
      arguments: { path: '/tmp/a.txt' },
      definition: { name: 'read_file', inputSchema: { type: 'object' } },
    },
  },
})

const voidCall = (open: Call, now: string): Call => ({
  ...open,
  state: 'cancelled',
  reason: 'the policy denies it since then',
  decided_at: now,
  ended_at: now,
})

/** The same call again: a client waits for it now, and a changed policy has seen its arguments. */
function returnTo(open: Call, policies: readonly PolicyWithStanding[], context: Context): Decision<CallAnswer> {
  const isOutdated = hasChanged(policies, open)
  const next: Call = { ...open, unattended: false, ...(isOutdated ? { ruled_at: context.now } : {}) }
  const facts = open.unattended || isOutdated ? [fact('call.returned', [image(Call, next)])] : []
  return { facts, output: answerOf(next, context) }
}

function pointerTo(call: Call): Change {
  const id = digestKey(call.agent_id, call.digest)
  return put(OpenCall, id, { id, call_id: call.id })
}

const redactedBy = ({ redact: hidden }: Ruling, { redact = [] }: ProposeInput): string[] => [...new Set([...redact, ...hidden])]

function questionAbout(call: Call, state: Proposing, input: ProposeInput, context: Context): Change[] {
  const { id } = call
  return [
    put(Question, id, questionOf(call, state, input, context)),
    ...(state.long === null ? [] : [put(LongArguments, id, { id, ...state.long })]),
  ]
}

function questionOf(
  call: Call,
  { people, long, ruling, unfinished, task }: Proposing,
  { arguments: args }: ProposeInput,
  { now }: Context,
): Question {
  const { id, server, tool, rule, changed, expires_at } = call
  const asked = people ?? besideTask(task)
  const shown =
    long === null
      ? { arguments: redactArguments(args, call.redact) }
      : { arguments_file: { name: 'arguments.json', size: long.size, sha256: long.sha256 } }
  return {
    id,
    details: { server, tool, ...shown, rule, call_id: id, changed, ...(unfinished === null ? {} : { earlier: mayHaveActed(unfinished) }) },
    people: asked === null ? null : [...asked.ids],
    quorum: asked?.quorum ?? null,
    ...(call.task_id !== null && asked === null && canBeGranted(ruling, { people, changed, tool })
      ? { scope: `gate:${server}/${tool}` }
      : {}),
    timeout_seconds: expires_at === null ? 0 : Math.max(1, Math.round((Date.parse(expires_at) - Date.parse(now)) / 1_000)),
  }
}

/** A task in progress waits for one question at a time. About other calls, its people are asked without a checkpoint. */
const besideTask = (task: KnownTask | null): Proposing['people'] =>
  task === null || task.state === 'in_progress' ? null : { ids: judgesOf(task), quorum: 1 }

const mayHaveActed = ({ id, begun_at }: Call): string =>
  `the same call began at ${begun_at!}, and its end is not known: it may have acted (${id})`

/** The first definition of a tool is trusted; a later one waits for a person. Null: nothing changes. */
function pinFor(
  { pinned, project_id }: Proposing,
  { server, tool, definition = null, kind = 'tool' }: ProposeInput,
  { now }: Context,
): Tool | null {
  if (definition === null || kind !== 'tool') return null
  return pinAfter(pinned, { project_id, server, name: tool, definition }, now)
}

export type Reported = { readonly project_id: string; readonly server: string; readonly name: string; readonly definition: object }
/** The pin after a definition was seen; null: unchanged. */
export function pinAfter(pinned: Tool | null, { project_id, server, name, definition }: Reported, now: string): Tool | null {
  const seen = { digest: definitionDigest(definition), definition }
  if (pinned === null) {
    const id = toolId(project_id, server, name)
    return { id, project_id, server, name, trusted: seen, offered: null, trusted_by: null, first_seen_at: now, changed_at: null }
  }
  if (pinned.trusted.digest === seen.digest || pinned.offered?.digest === seen.digest) return null
  return { ...pinned, offered: seen, changed_at: now }
}

type Ruled = Pick<Call, 'state' | 'decision' | 'basis' | 'rule' | 'policy' | 'risk' | 'reason' | 'instead'> & {
  readonly expires_at: string | null
}

function callFor(state: Proposing, input: ProposeInput, context: Context): Call {
  const { server, tool, kind = 'tool', arguments: args, definition = null, client = {} } = input
  const { actor, now, newId, notary } = context
  const { project_id, task, digest, pinned } = state
  const size = sizeOf(args)
  const digestOfDefinition = definition === null ? null : definitionDigest(definition)
  const changed = pinned !== null && digestOfDefinition !== null && pinned.trusted.digest !== digestOfDefinition
  const { ruling } = state
  const id = newId('call')
  const sample = sampleFor(id, ruling, state.policies, notary)
  const ruled = ruledBy(ruling, { ...state, size, definition, changed, tool, kind, sample }, context)
  return {
    id,
    agent_id: actor.id,
    project_id,
    task_id: task?.id ?? null,
    root_task_id: task?.root_task_id ?? null,
    kind,
    server,
    tool,
    digest,
    definition_digest: digestOfDefinition,
    changed,
    ...ruled,
    arguments: { hash: notary.commit(`${id} ${canonical(args)}`), size },
    result: null,
    outcome: null,
    request_id: ruled.state === 'waiting' ? requestIdOf(id) : null,
    redact: redactedBy(ruling, input),
    ...definedFields({ hints: hintsIn(input.hints), sample: ruled.state === 'waiting' && !changed ? sample : undefined }),
    client,
    unattended: false,
    created_at: now,
    decided_at: ruled.state === 'waiting' ? null : now,
    begun_at: null,
    ended_at: ruled.state === 'denied' ? now : null,
  }
}

/** A call and its question differ only in the prefix of their ids, so each is found from the other by key. */
const requestIdOf = (call_id: string): string => `hxp_${call_id.slice('call_'.length)}`

type Facts = Pick<Proposing, 'grant' | 'people' | 'policies'> & {
  readonly sample: Call['sample']
  readonly size: number
  readonly definition: object | null
  readonly changed: boolean
  readonly tool: string
  readonly kind: string
}

function ruledBy(ruling: Ruling, facts: Facts, { now }: Context): Ruled {
  const { grant, people, policies, size, definition, changed, tool, kind, sample } = facts
  const { rule, scope, risk, expires } = ruling
  const policy = scope === null ? null : { scope, updated_at: policies.find((candidate) => candidate.scope === scope)?.updated_at ?? null }
  const common = { rule: rule?.id ?? null, policy, risk, instead: rule?.instead ?? null, expires_at: null }
  const basis = { kind: rule === null ? 'default' : 'policy', id: rule === null ? 'default' : `${scope ?? ''}#${rule.id}` } as const
  const deny = (reason: string, by: Call['basis'] = basis): Ruled => ({ ...common, state: 'denied', decision: 'deny', basis: by, reason })
  if (kind === 'tool' && tool === RESERVED)
    return deny(`${RESERVED} is a tool of the gate: a server cannot have one of that name`, { kind: 'system', id: 'reserved' })
  if (size > limits.gateArgumentsBytesMax)
    return deny(`the arguments have ${size} bytes, at most ${limits.gateArgumentsBytesMax} are allowed`, { kind: 'system', id: 'size' })
  if (definition !== null && sizeOf(definition) > limits.toolDefinitionBytesMax)
    return deny(`the definition of the tool has more than ${limits.toolDefinitionBytesMax} bytes`, { kind: 'system', id: 'size' })
  if (grant?.decision === 'deny') return deny('the principal of the task has denied it beforehand', { kind: 'grant', id: grant.id })
  if (people !== null && people.ids.length < people.quorum)
    return deny(`the rules ask for ${people.quorum} people, and name ${people.ids.length} of this project together`)
  if (ruling.verdict === 'deny') return deny(rule?.reason ?? 'the policy denies it')
  if (grant?.decision === 'allow' && canBeGranted(ruling, facts))
    return { ...common, state: 'approved', decision: 'allow', basis: { kind: 'grant', id: grant.id }, reason: null }
  if (ruling.verdict === 'allow' && !changed && sample === undefined)
    return { ...common, state: 'approved', decision: 'allow', basis, reason: null }
  const expires_at = expires === null ? null : timestampOf(Date.parse(now) + durationMs(expires, 'INVALID_REQUEST', 'expires'))
  const why = ruling.verdict === 'allow' && !changed ? SAMPLED : ruling.isSuspended ? SUSPENDED : null
  return { ...common, state: 'waiting', decision: 'ask', basis, reason: why ?? rule?.reason ?? null, expires_at }
}
/** A grant of the task spares the question, unless the rules name people, the risk is high or the tool has changed. */
const canBeGranted = ({ verdict, risk }: Ruling, { people, changed, tool }: Pick<Facts, 'people' | 'changed' | 'tool'>): boolean =>
  verdict === 'ask' && !changed && !mustBeAsked(risk) && people === null && /^[A-Za-z0-9._%/-]{1,120}$/.test(tool)

const SAMPLED = 'the rule allows it; this is one of the sampled calls that still go to a person'
const SUSPENDED = 'the rule that allows it is suspended, because a person rejected such a call'
