// Offers of capability sources, recorded by the server when it learns of them. Only a change leaves a fact, so a start costs nothing.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { fact, image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { Capability, CapabilityManifest, capabilityKey, SourceName } from '../capabilities/manifest.ts'
import { Id } from '../schema.ts'

/** Offered at once: their images make one batch. */
export const OFFERED_MAX = 100

const offer = command({
  name: 'capability.offer',
  summary: 'Record the capabilities that a source offers, and to which projects. The server calls it when it learns of them.',
  draft: 'CAP: CapabilityManifest; an MCP server is a source as it is',
  input: t.Object({
    source: SourceName,
    projects: t.Array(Id, { minItems: 1, maxItems: limits.projectsPerSubjectMax }),
    manifests: t.Array(CapabilityManifest, { maxItems: OFFERED_MAX }),
  }),
  output: t.Object({ changed: t.Integer(), taken: t.Array(t.String({ description: 'capabilities that another source offers already' })) }),
  callers: [system],
  requires: [],
  audit: 'capability.offered',
  async load(read, { manifests }) {
    return { before: await Promise.all(manifests.map((one) => read.raw(Capability, capabilityKey(one)))) }
  },
  decide({ before }, { source, projects, manifests }, { now }) {
    const taken: string[] = []
    const changed = manifests.flatMap((manifest, i) => {
      const id = capabilityKey(manifest)
      if (Buffer.byteLength(canonical(manifest)) > limits.capabilityBytesMax)
        throw new Refusal('INVALID_REQUEST', `the manifest of ${id} has more than ${limits.capabilityBytesMax} bytes`, {
          field: 'manifests',
        })
      const was = before[i] ?? null
      if (was && !was.withdrawn && was.source !== source) {
        taken.push(id)
        return []
      }
      const next: Capability = { id, ...manifest, source, projects, withdrawn: false, updated_at: was?.updated_at ?? now }
      return was && canonical(was) === canonical(next) ? [] : [image(Capability, { ...next, updated_at: now })]
    })
    const [first, ...others] = changed
    return {
      facts: first ? [fact('capability.offered', [first, ...others], { detail: { source, count: changed.length } })] : [],
      output: { changed: changed.length, taken },
    }
  },
  example: {
    given: 'empty',
    as: 'system',
    input: {
      source: 'web',
      projects: ['project_default'],
      manifests: [
        {
          capability_id: 'cap:web-search',
          version: '2.1.0',
          kind: 'tool',
          name: 'Web search',
          description: 'Searches the web.',
          input_schema: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
          output_schema: null,
          prompt_template: null,
          resources: [],
          required_permissions: [],
        },
      ],
    },
  },
})

const withdraw = command({
  name: 'capability.withdraw',
  summary: 'Withdraw capabilities that a source offers no more, or whose source is gone. The server calls it, page by page.',
  draft: 'ours: a withdrawn capability is not found',
  input: t.Object({
    source: t.Optional(SourceName),
    keep: t.Optional(
      t.Array(t.String(), { maxItems: limits.capabilitiesPerSourceMax, description: 'with a source its capabilities, else sources' }),
    ),
    projects: t.Optional(t.Array(Id)),
    ...pageInput,
  }),
  output: t.Object({ withdrawn: t.Integer(), next_cursor: nextCursor }),
  callers: [system],
  requires: [],
  audit: 'capability.withdrawn',
  async load(read, input) {
    const { source, keep, projects } = input
    const listed = await read.list(Capability, 'source', [source === undefined ? [] : [source]], pageIn('capability.withdraw', input))
    const kept = keep === undefined ? null : new Set(keep)
    const found = await Promise.all(listed.map(({ id }) => read.raw(Capability, id)))
    const isGone = (one: Capability): boolean =>
      kept?.has(source === undefined ? one.source : one.id) === false ||
      (projects !== undefined && canonical(projects) !== canonical(one.projects))
    return { listed, gone: found.filter((one): one is Capability => one !== null && isGone(one)) }
  },
  decide({ listed, gone }, input, { now }) {
    const [first, ...others] = gone.map((one) => image(Capability, { ...one, withdrawn: true, updated_at: now }))
    const { next_cursor } = pageOf('capability.withdraw', input, listed, [])
    return {
      facts: first ? [fact('capability.withdrawn', [first, ...others], { detail: { count: gone.length } })] : [],
      output: { withdrawn: gone.length, next_cursor },
    }
  },
  example: { given: 'offering', as: 'system', input: { source: 'web', keep: ['cap:other@1.0.0'] } },
})

export const offerOperations = [offer, withdraw]
