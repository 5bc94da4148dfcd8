// CAP manifests: the self-description of a capability, and the record of an invocation: hashes, never arguments or output.
import { SYSTEM_SCOPE } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { doc, either, index, nullable, pick, t, type Static } from '#kernel/declare/schema.ts'
import { CapabilityRef, Id, Open, Run, Timestamp } from '../schema.ts'

export const CapabilityId = t.String({
  pattern: '^cap:[A-Za-z0-9][A-Za-z0-9._%/-]{0,190}$',
  description: '`cap:` and a name, such as cap:web-search; slashes are allowed',
})
export const Version = t.String({ pattern: '^[0-9A-Za-z][0-9A-Za-z.+_-]{0,39}$', description: 'a version such as 2.1.0' })
/** A scope in the form that grants use. */
export const Permission = t.String({
  pattern: '^[a-z0-9][a-z0-9._-]{0,63}(:[a-z0-9][a-z0-9._-]{0,63}){0,5}$',
  description: 'words joined by colons, such as deploy:staging',
})
const Resource = t.Object({
  uri: t.String({ minLength: 1, maxLength: 2_000 }),
  name: t.Optional(t.String({ maxLength: limits.nameCharsMax })),
  media_type: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
})

const manifestFields = {
  capability_id: CapabilityId,
  version: Version,
  kind: either('tool', 'skill'),
  name: t.String({ minLength: 1, maxLength: limits.nameCharsMax }),
  description: t.String({ maxLength: limits.textCharsMax }),
  input_schema: Open,
  output_schema: nullable(Open),
  // For skills, with the same bound as for tools.
  prompt_template: nullable(t.String({ maxLength: limits.capabilityBytesMax })),
  resources: t.Array(Resource, { maxItems: limits.resourcesMax }),
  required_permissions: t.Array(Permission, { maxItems: limits.permissionsMax }),
}

/** CAP's CapabilityManifest. */
export const CapabilityManifest = t.Object(manifestFields)
export type CapabilityManifest = Static<typeof CapabilityManifest>

export const SourceName = t.String({
  pattern: '^[a-z0-9][a-z0-9._-]{0,62}$',
  description: 'up to 63 small letters, digits, . _ or -',
})

/** A capability as its source offers it. A withdrawn capability stays as a document, because the record refers to it. */
export const Capability = doc(
  'delegation.capability',
  t.Object({
    id: t.String(),
    ...manifestFields,
    source: SourceName,
    projects: t.Array(Id), // the projects that the operator offers it in
    withdrawn: t.Boolean(),
    updated_at: Timestamp,
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: ({ projects }, actor) =>
      actor.projects !== 'all' && projects.some((id) => (actor.projects as ReadonlyMap<string, unknown>).has(id)),
    indexes: {
      project: index((capability) => (capability.withdrawn ? [] : capability.projects.map((id) => [id]))),
      capability: index((capability) => (capability.withdrawn ? [] : [[capability.capability_id]])),
      source: index((capability) => (capability.withdrawn ? [] : [[capability.source]])),
    },
  },
)
export type Capability = Static<typeof Capability.schema>
export const capabilityKey = ({ capability_id, version }: CapabilityRef): string => `${capability_id}@${version}`

/**
 * The server that has a source, if several share a store, and the epoch of its lease. Its offers count until another process of the same
 * name starts.
 */
export const OfferedBy = t.Object({
  node: t.String({ minLength: 1, maxLength: 200, description: 'the server that offers it, by its name' }),
  epoch: t.Integer({ description: 'the epoch of that server: each of its starts has its own' }),
})
export type OfferedBy = Static<typeof OfferedBy>

/** The offer of a source of one server. A capability is withdrawn when no server offers it. */
export const Offering = doc(
  'delegation.offering',
  t.Object({
    id: t.String(), // `${node}/${source}`
    node: t.String(),
    epoch: t.Integer(),
    source: SourceName,
    capabilities: t.Array(t.String()), // by their keys
  }),
  { scopeOf: () => SYSTEM_SCOPE, indexes: { all: index(() => [['all']]) } },
)
export type Offering = Static<typeof Offering.schema>

/** A capability as agents see it. */
export const manifestView = pick(Capability.schema, [
  'capability_id',
  'version',
  'kind',
  'name',
  'description',
  'input_schema',
  'output_schema',
  'prompt_template',
  'resources',
  'required_permissions',
])

// --- Invocation --------------------------------------------------------------------------------------------------------------

/** CAP's five errors. Each is an answer of the capability layer, an InvokeResult, not a refusal of the call. */
export const InvokeCode = either('NOT_FOUND', 'INVALID_INPUT', 'PERMISSION_DENIED', 'EXECUTION_FAILED', 'TIMEOUT')
export type InvokeCode = Static<typeof InvokeCode>
const InvokeError = t.Object({ code: InvokeCode, message: t.String() })

/** CAP's InvokeResult. */
export const InvokeResult = t.Object({
  ok: t.Boolean(),
  output: t.Unknown(),
  error: nullable(InvokeError),
  duration_ms: t.Integer(),
  // Ours: its id in the record, and the version that served it; null if nothing was recorded.
  invocation_id: nullable(Id),
  ref: nullable(CapabilityRef),
})
export type InvokeResult = Static<typeof InvokeResult>

/** Why it failed, as a code. The message of the source goes to the caller and stays out of the record. */
export const Reason = either('denied', 'failed', 'unreachable', 'stopped', 'timeout', 'output_invalid', 'output_too_large', 'unknown')

/** An action that a person approved at a checkpoint. */
const Approval = t.Object({ checkpoint_id: Id, action_id: t.String() })
export type Approval = Static<typeof Approval>

export const Invocation = doc(
  'delegation.invocation',
  t.Object({
    id: Id,
    run_id: Id,
    agent_id: Id,
    project_id: Id,
    correlation_id: Id,
    root_task_id: Id,
    task_id: nullable(Id),
    ref: CapabilityRef,
    source: SourceName,
    permissions: t.Array(t.String()), // scopes that it needed, each allowed by a grant of the task
    approval: t.Optional(Approval), // the approved action, if no grant covered the capability
    input_hash: t.String(), // SHA-256 over the canonical JSON of the input
    timeout_ms: t.Integer(),
    state: either('begun', 'succeeded', 'failed'),
    begun_at: Timestamp,
    ended_at: nullable(Timestamp),
    duration_ms: nullable(t.Integer()),
    error: nullable(InvokeCode),
    reason: nullable(Reason),
    output_hash: nullable(t.String()),
    output_bytes: nullable(t.Integer()),
  }),
  {
    scopeOf: (invocation) => invocation.project_id,
    taskOf: (invocation) => invocation.correlation_id,
    rootOf: (invocation) => invocation.root_task_id,
    within: (invocation) => ({ doc: Run, id: invocation.run_id }),
    indexes: {
      run: index((invocation) => [[invocation.run_id]], 1),
      agent: index((invocation) => (invocation.state === 'begun' ? [[invocation.agent_id]] : []), 1),
      open: index((invocation) => (invocation.state === 'begun' ? [['all']] : []), 1),
      approval: index(({ approval }) => (approval ? [[`${approval.checkpoint_id}/${approval.action_id}`]] : []), 1),
    },
  },
)
export type Invocation = Static<typeof Invocation.schema>

/** The request to the port. */
export type InvokeRequest = {
  readonly invocation_id: string
  readonly run_id: string
  readonly source: string
  readonly ref: CapabilityRef
  readonly input: unknown
  readonly timeout_ms: number
}

/** The port's report. */
export const InvokeOutcome = t.Object({
  output: t.Optional(t.Unknown()),
  error: t.Optional(t.Object({ code: either('EXECUTION_FAILED', 'TIMEOUT'), reason: Reason, message: t.String() })),
  duration_ms: t.Integer({ minimum: 0 }),
})
export type InvokeOutcome = Static<typeof InvokeOutcome>
