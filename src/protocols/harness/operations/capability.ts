// Capabilities that this harness offers to others, with the rules of its own side (HCP 1.0, L3: Capability Declaration).
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { administrator, installationOwner, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf, readListed } from '#kernel/declare/paging.ts'
import { schemaProblem } from '#kernel/declare/foreign-schema.ts'
import { either, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import { ceilingOf, floorOf, isAbove, minuteOfDay } from '../gate/risk.ts'
import { Capability, ContextRule, Duration, Id, Name, NewDeclaration, RiskRule, SafetyEnvelope } from '../schema.ts'

const DeclareInput = t.Object({
  capability: NewDeclaration,
  agent_id: Id,
  approvers: t.Optional(t.Array(Id, { maxItems: 20, description: 'people who approve risky work; the owner of the agent by default' })),
  risk_rules: t.Optional(t.Array(RiskRule, { maxItems: limits.harnessRulesMax, description: 'inputs that raise the risk' })),
  context_rules: t.Optional(
    t.Array(ContextRule, { maxItems: limits.harnessRulesMax, description: 'hours, and other work on a resource, that raise the risk' }),
  ),
  safety_envelope: t.Optional(SafetyEnvelope),
  abort_timeout: t.Optional(Duration),
  approval_timeout: t.Optional(nullable(Duration)),
  ask_from: t.Optional(either('R1', 'R2', 'R3')),
})
type DeclareInput = Static<typeof DeclareInput>

const wrong = (field: string, message: string): Refusal => new Refusal('INVALID_REQUEST', message, { field })

function refuseOddDeclaration(input: DeclareInput, approvers: number): void {
  const { capability, risk_rules = [], context_rules = [], safety_envelope = {} } = input
  for (const name of ['input_schema', 'output_schema'] as const) {
    const schema = capability[name]
    if (schema === undefined) continue
    if (Buffer.byteLength(canonical(schema)) > limits.harnessSchemaBytesMax)
      throw wrong(`capability.${name}`, `capability.${name} is at most ${limits.harnessSchemaBytesMax} bytes`)
    const problem = schemaProblem(schema, `capability.${name}`)
    if (problem !== null) throw wrong(`capability.${name}`, problem)
  }
  const [floor, ceiling] = [floorOf(capability), ceilingOf(capability)]
  if (isAbove(floor, ceiling))
    throw wrong('capability.safety.risk_ceiling', `the ceiling ${ceiling} is below the floor ${floor}: nothing would ever be accepted`)
  const reachesR5 = floor === 'R5' || [...risk_rules, ...context_rules].some(({ raise_to }) => raise_to === 'R5')
  if (reachesR5 && approvers < 2) throw wrong('approvers', 'R5 needs the approval of two people: name at least two approvers')
  for (const rule of context_rules)
    if (rule.kind === 'hours' && minuteOfDay('2026-01-01T00:00:00.000Z', rule.zone) === null)
      throw wrong('context_rules', `there is no time zone ${rule.zone}`)
  for (const [name, { min, max }] of Object.entries(safety_envelope.parameters ?? {}))
    if (min !== undefined && max !== undefined && min > max)
      throw wrong('safety_envelope', `the least value of ${name} is above the greatest`)
  if (Object.keys(safety_envelope.parameters ?? {}).length > limits.harnessRulesMax)
    throw wrong('safety_envelope', `a safety envelope has at most ${limits.harnessRulesMax} parameters`)
}

/** People of a project of the agent: others could not see what they are asked. */
async function approversIn(
  read: Read,
  input: DeclareInput,
  agent: { owner: string | null; projects: ReadonlyMap<string, unknown> },
): Promise<number> {
  const named = [...new Set(input.approvers ?? [])]
  for (const id of named) {
    const person = await read.subject(id)
    const isThere = person?.kind === 'human' && [...agent.projects.keys()].some((project) => person.projects.has(project))
    if (!isThere) throw wrong('approvers', `${id} is not a person of a project of the agent`)
  }
  return named.length > 0 ? named.length : agent.owner === null ? 0 : 1
}

const declare = command({
  name: 'harness.declare',
  summary:
    'Offer a capability of an agent to other harnesses, with its risk rules, approvers and safety envelope. A later one replaces it.',
  draft: 'HCP 1.0, L3: Capability Declaration; Risk Assessment; Safety Envelope',
  input: DeclareInput,
  output: t.Object({ capability: Capability.schema }),
  callers: [system, administrator, installationOwner],
  requires: [],
  audit: 'capability.declared',
  async load(read, input) {
    const agent = await read.subject(input.agent_id)
    if (agent === null || agent.kind !== 'agent') throw new Refusal('NOT_FOUND', `there is no agent ${input.agent_id}`)
    const before = await read.raw(Capability, input.capability.name)
    return { before, approvers: await approversIn(read, input, agent), count: await read.count(Capability, 'agent', [agent.id]) }
  },
  decide({ before, approvers, count }, input, { now }) {
    refuseOddDeclaration(input, approvers)
    const abort_timeout = input.abort_timeout ?? 'PT30S'
    durationMs(abort_timeout, 'INVALID_REQUEST', 'abort_timeout')
    const approval_timeout = input.approval_timeout ?? null
    if (approval_timeout !== null) durationMs(approval_timeout, 'INVALID_REQUEST', 'approval_timeout')
    const max_duration = input.capability.constraints?.max_duration
    if (max_duration !== undefined) durationMs(max_duration, 'INVALID_REQUEST', 'capability.constraints.max_duration')
    if (before === null && count >= limits.harnessRulesMax)
      throw new Refusal('QUOTA_EXCEEDED', `an agent offers at most ${limits.harnessRulesMax} capabilities`)
    const capability: Capability = {
      id: input.capability.name,
      capability: input.capability,
      agent_id: input.agent_id,
      approvers: [...new Set(input.approvers ?? [])],
      risk_rules: input.risk_rules ?? [],
      context_rules: input.context_rules ?? [],
      safety_envelope: input.safety_envelope ?? {},
      abort_timeout,
      approval_timeout,
      ask_from: input.ask_from ?? null,
      declared_at: now,
      withdrawn: false,
    }
    const moved = before !== null && !before.withdrawn && before.agent_id !== capability.agent_id ? { from_agent: before.agent_id } : null
    return {
      facts: [fact('capability.declared', [image(Capability, capability)], moved === null ? {} : { detail: moved })],
      output: { capability },
    }
  },
  example: {
    given: 'empty',
    as: 'admin',
    input: {
      agent_id: 'agent_devin',
      capability: {
        name: 'synthesis',
        version: '1.2.0',
        description: 'Grows a film.',
        safety: { risk_ceiling: 'R4', requires_human_approval: false },
      },
      risk_rules: [{ path: 'temperature', op: '>', value: 800, raise_to: 'R4' }],
    },
  },
})

const withdraw = command({
  name: 'harness.withdraw',
  summary: 'Stop offering a capability. Open sessions continue.',
  draft: 'HCP 1.0, L3: Capability Declaration',
  input: t.Object({ capability: Name }),
  output: t.Object({ capability: Capability.schema }),
  callers: [system, administrator, installationOwner],
  requires: [],
  audit: 'capability.withdrawn',
  async load(read, { capability }) {
    const found = await read.raw(Capability, capability)
    if (found === null || found.withdrawn) throw new Refusal('NOT_FOUND', `there is no capability ${capability}`)
    return { found }
  },
  decide({ found }) {
    const next: Capability = { ...found, withdrawn: true }
    return { facts: [fact('capability.withdrawn', [image(Capability, next)])], output: { capability: next } }
  },
  example: { given: 'declared', as: 'admin', input: { capability: 'synthesis' } },
})

const capabilities = query({
  name: 'harness.capabilities',
  summary: 'List the capabilities that this harness offers to others.',
  draft: 'HCP 1.0, L3: Capability Declaration',
  input: t.Object({ ...pageInput }),
  output: t.Object({ items: t.Array(Capability.schema), next_cursor: nextCursor }),
  callers: [system, administrator, installationOwner],
  async load(read, input) {
    return readListed(read, Capability, await read.list(Capability, 'all', [[]], pageIn('harness.capabilities', input)))
  },
  view: ({ listed, items, isCut }, input) => pageOf('harness.capabilities', input, listed, items, isCut),
  example: { given: 'declared', as: 'admin', input: {} },
})

export const capabilityOperations = [declare, withdraw, capabilities]
