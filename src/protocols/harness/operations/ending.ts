// The end of a session by the agent that executes it: completed, with outputs that match the declaration, or failed (HCP 1.0, L4).
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import { isPlainName } from '#kernel/ports/blobs.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { put } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, type Change, type Context, type Read } from '#kernel/declare/operation.ts'
import { either, t, type Static } from '#kernel/declare/schema.ts'
import { Attempt, executedSession, executor, isNotOver, isPresentAttempt } from '../access.ts'
import { Content, Id, Open, Words, type Artifact, type Session } from '../schema.ts'
import { outputProblem } from '../session/outputs.ts'
import { complete as completed, fail as failed } from '../session/ends.ts'
import { sealConfidential, unseal } from '../session/session-work.ts'
import { sessionOutcome, SessionView } from '../session/view.ts'
import { workInProgress } from './work.ts'

const ArtifactInput = t.Object({
  name: t.String({ minLength: 1, maxLength: limits.nameCharsMax }),
  type: t.Optional(t.String({ maxLength: limits.labelCharsMax, description: 'a media type such as text/csv' })),
  text: t.Optional(t.String()),
  blob: t.Optional(t.String({ description: 'bytes in base64' })),
})
type ArtifactInput = Static<typeof ArtifactInput>
const Artifacts = t.Optional(t.Array(ArtifactInput, { maxItems: limits.harnessArtifactsMax }))

type Made = { readonly artifacts: Artifact[]; readonly puts: Change[] }
const wrong = (message: string): Refusal => new Refusal('INVALID_REQUEST', message, { field: 'artifacts' })

/** The ticket of an artifact: its bearer can fetch the artifact until it expires (C38). */
export const ticketOf = ({ notary }: Pick<Context, 'notary'>, session_id: string, name: string, until: string): string =>
  notary.commit(`hcp-artifact ${session_id} ${until} ${name}`).slice(0, 32)

async function artifactsFrom(given: readonly ArtifactInput[], session: Session, context: Context): Promise<Made> {
  const prepared: Made = { artifacts: [], puts: [] }
  for (const { name, type = 'application/octet-stream', text, blob } of given) {
    if (!isPlainName(name)) throw wrong('an artifact’s name has no slash, no control and no invisible character')
    if (prepared.artifacts.some((artifact) => artifact.name === name)) throw wrong(`two artifacts are called ${name}`)
    if ((text === undefined) === (blob === undefined)) throw wrong(`${name}: give text or blob`)
    const bytes = text === undefined ? Buffer.from(blob!, 'base64') : Buffer.from(text)
    if (blob !== undefined && bytes.toString('base64').replace(/=+$/, '') !== blob.replace(/=+$/, ''))
      throw wrong(`${name}: blob is not valid base64`)
    const { plain, sealed } = await sealConfidential(context, session.data_classification, text ?? blob)
    const id = `${session.id}/${name}`
    const kept = plain as string | null
    prepared.puts.push(
      put(Content, id, {
        id,
        session: session.id,
        project_id: session.project_id,
        name,
        type,
        text: text === undefined ? null : kept,
        blob: blob === undefined ? null : (kept ?? ''),
        sealed,
      }),
    )
    const path = `/sessions/${session.id}/artifacts/${encodeURIComponent(name)}`
    const until = timestampOf(Date.parse(context.now) + limits.harnessTicketMs)
    const origin = context.terms.harness?.origin?.()
    const url =
      origin === undefined ? {} : { url: `${origin}/hcp/v1${path}?until=${until}&ticket=${ticketOf(context, session.id, name, until)}` }
    prepared.artifacts.push({
      name,
      type,
      uri: `hcp://${session.id}/artifacts/${encodeURIComponent(name)}`,
      ...url,
      size_bytes: bytes.length,
      checksum: `sha256:${sha256Hex(bytes)}`,
    })
  }
  return prepared
}

async function loadEnd(read: Read, session_id: string, context: Context) {
  const state = await executedSession(read, session_id)
  const submission = (await unseal(context, state.task.submission, state.task.sealed)) as {
    expected_output?: { schema?: object; required_fields?: string[] }
  }
  return { ...state, expected: submission.expected_output }
}

const complete = command({
  name: 'harness.complete',
  summary: 'End a session that is done, with its outputs and artifacts. Outputs that do not match the request are refused.',
  draft: 'HCP 1.0, L4: Task Completion',
  input: t.Object({ session_id: Id, attempt: Attempt, outputs: t.Optional(Open), artifacts: Artifacts }),
  output: t.Object({ session: SessionView }),
  callers: [system, executor],
  requires: [isNotOver, isPresentAttempt],
  audit: 'session.completed',
  async load(read, { session_id, outputs = {}, artifacts = [] }, context) {
    const state = await loadEnd(read, session_id, context)
    const { data_classification } = state.session
    return {
      ...state,
      sealedOutputs: await sealConfidential(context, data_classification, outputs),
      stored: await artifactsFrom(artifacts, state.session, context),
    }
  },
  decide({ sealedOutputs, stored, expected, ...state }, { outputs = {} }, context) {
    if (state.session.state !== 'ABORTING') {
      const schema = state.task.declaration?.capability.output_schema
      if (schema !== undefined) refuseMismatch(schema, outputs, 'INVALID_OUTPUT', 'outputs')
      const problem = outputProblem(outputs, expected)
      if (problem !== null) throw new Refusal('INVALID_OUTPUT', problem, { field: 'outputs' })
    }
    const work = workInProgress(state, context)
    completed(work, sealedOutputs, stored.artifacts)
    work.puts.push(...stored.puts)
    return sessionOutcome(work, { outputs: work.session.state === 'COMPLETED' ? outputs : null })
  },
  example: { given: 'executing', as: 'devin', input: ({ session: { session_id } }) => ({ session_id, outputs: { thickness: 3 } }) },
})

export const failureCodes = [
  'execution_error',
  'timeout',
  'safety_violation',
  'resource_unavailable',
  'internal_error',
  'input_error',
] as const

const fail = command({
  name: 'harness.fail',
  summary: 'End a session that cannot continue, with its partial results.',
  draft: 'HCP 1.0, L4: Task Failure; Partial Results',
  input: t.Object({
    session_id: Id,
    attempt: Attempt,
    error_code: either(...failureCodes),
    error_message: Words,
    error_details: t.Optional(
      t.Object(
        {
          phase: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
          step: t.Optional(t.Union([t.String({ maxLength: limits.labelCharsMax }), t.Number()])),
          last_checkpoint: t.Optional(t.Union([Id, t.Null()])),
          recoverable: t.Optional(t.Boolean()),
        },
        { additionalProperties: true },
      ),
    ),
    partial_outputs: t.Optional(Open),
    artifacts: Artifacts,
  }),
  output: t.Object({ session: SessionView }),
  callers: [system, executor],
  requires: [isNotOver, isPresentAttempt],
  audit: 'session.failed',
  async load(read, { session_id, error_details = {}, partial_outputs, artifacts = [] }, context) {
    const state = await loadEnd(read, session_id, context)
    const { data_classification } = state.session
    const { last_checkpoint, snapshot } = state.cursor
    const details = { last_checkpoint, recoverable: snapshot !== null, ...error_details }
    const confided = {
      error_details: await sealConfidential(context, data_classification, details),
      partial_outputs: await sealConfidential(context, data_classification, partial_outputs ?? null),
    }
    return { ...state, details, confided, stored: await artifactsFrom(artifacts, state.session, context) }
  },
  decide({ details, confided, stored, ...state }, { error_code, error_message, partial_outputs = null }, context) {
    const work = workInProgress(state, context)
    failed(work, { error_code, error_message, ...confided, artifacts: stored.artifacts })
    work.puts.push(...stored.puts)
    return sessionOutcome(work, { error_details: details, partial_outputs })
  },
  example: {
    given: 'executing',
    as: 'devin',
    input: ({ session: { session_id } }) => ({
      session_id,
      error_code: 'resource_unavailable',
      error_message: 'The oven is switched off.',
    }),
  },
})

export const endingOperations = [complete, fail]
