// Offers of capability sources, recorded by the server when it learns of them. Only a change leaves a fact, so a start costs nothing.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { Capability, CapabilityManifest, capabilityKey, OfferedBy, Offering, SourceName } from '../capabilities/manifest.ts'
import { Id } from '../schema.ts'

/** Manifests per call: their images form one batch. */
export const OFFERED_MAX = 100

const offer = command({
  name: 'capability.offer',
  summary: 'Record the capabilities that a source offers, and to which projects. The server calls it when it learns of them.',
  draft: 'CAP: CapabilityManifest; an MCP server is a source as it is',
  input: t.Object({
    source: SourceName,
    projects: t.Array(Id, { minItems: 1, maxItems: limits.projectsPerSubjectMax }),
    manifests: t.Array(CapabilityManifest, { maxItems: OFFERED_MAX }),
    offered_by: t.Optional(OfferedBy),
  }),
  output: t.Object({ changed: t.Integer(), taken: t.Array(t.String({ description: 'capabilities that another source offers already' })) }),
  callers: [system],
  requires: [],
  audit: 'capability.offered',
  async load(read, { source, manifests, offered_by }) {
    return {
      before: await Promise.all(manifests.map((manifest) => read.raw(Capability, capabilityKey(manifest)))),
      offering: offered_by ? await read.raw(Offering, `${offered_by.node}/${source}`) : null,
    }
  },
  decide({ before, offering }, { source, projects, manifests, offered_by }, { now }) {
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
    const offered = manifests.map(capabilityKey).filter((id) => !taken.includes(id))
    return {
      facts: first ? [fact('capability.offered', [first, ...others], { detail: { source, count: changed.length } })] : [],
      puts: offered_by ? claimedBy(offered_by, source, offering, offered) : [],
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

/** Drops the claims of an earlier process of the same node. */
function claimedBy({ node, epoch }: OfferedBy, source: string, offering: Offering | null, offered: readonly string[]) {
  const id = `${node}/${source}`
  const capabilities = new Set([...(offering?.epoch === epoch ? offering.capabilities : []), ...offered])
  return [put(Offering, id, { id, node, epoch, source, capabilities: [...capabilities].toSorted() })]
}

/** Offerings read at most: one for each source of each server. */
const OFFERINGS_MAX = 1_000

async function offeringsIn(read: Read): Promise<Offering[]> {
  const listed = await read.list(Offering, 'all', [['all']], { limit: OFFERINGS_MAX })
  const found = await Promise.all(listed.map(({ id }) => read.raw(Offering, id)))
  return found.filter((one) => one !== null)
}

const withdraw = command({
  name: 'capability.withdraw',
  summary: 'Withdraw capabilities that a source no longer offers, or whose source is gone. The server calls it, page by page.',
  draft: 'ours: a withdrawn capability is not found',
  input: t.Object({
    source: t.Optional(SourceName),
    keep: t.Optional(
      t.Array(t.String(), { maxItems: limits.capabilitiesPerSourceMax, description: 'with a source its capabilities, else sources' }),
    ),
    projects: t.Optional(t.Array(Id)),
    offered_by: t.Optional(OfferedBy),
    ...pageInput,
  }),
  output: t.Object({ withdrawn: t.Integer(), next_cursor: nextCursor }),
  callers: [system],
  requires: [],
  audit: 'capability.withdrawn',
  async load(read, input) {
    const { source, keep, projects, offered_by } = input
    const listed = await read.list(Capability, 'source', [source === undefined ? [] : [source]], pageIn('capability.withdraw', input))
    const kept = keep === undefined ? null : new Set(keep)
    const found = await Promise.all(listed.map(({ id }) => read.raw(Capability, id)))
    const isOwn = ({ node, epoch }: Offering): boolean => node === offered_by?.node && epoch <= offered_by.epoch
    const offerings = offered_by ? await offeringsIn(read) : []
    const elsewhere = new Set(offerings.filter((candidate) => !isOwn(candidate)).flatMap(({ capabilities }) => capabilities))
    const isGone = (capability: Capability): boolean =>
      !elsewhere.has(capability.id) &&
      (kept?.has(source === undefined ? capability.source : capability.id) === false ||
        (projects !== undefined && canonical(projects) !== canonical(capability.projects)))
    return {
      listed,
      gone: found.filter((capability): capability is Capability => capability !== null && isGone(capability)),
      ownOfferings: offerings.filter(isOwn),
    }
  },
  decide({ listed, gone, ownOfferings }, input, { now }) {
    const [first, ...others] = gone.map((capability) => image(Capability, { ...capability, withdrawn: true, updated_at: now }))
    const { next_cursor } = pageOf('capability.withdraw', input, listed, [])
    return {
      facts: first ? [fact('capability.withdrawn', [first, ...others], { detail: { count: gone.length } })] : [],
      puts: keptOf(ownOfferings, input).map(({ id, value }) => put(Offering, id, value)),
      output: { withdrawn: gone.length, next_cursor },
    }
  },
  example: { given: 'offering', as: 'system', input: { source: 'web', keep: ['cap:other@1.0.0'] } },
})

/** The offers of the server itself from now on. */
function keptOf(ownOfferings: readonly Offering[], { source, keep }: { readonly source?: string; readonly keep?: readonly string[] }) {
  if (keep === undefined) return []
  return ownOfferings.flatMap<{ readonly id: string; readonly value: Offering | null }>((offering) => {
    if (source === undefined) return keep.includes(offering.source) ? [] : [{ id: offering.id, value: null }]
    if (offering.source !== source) return []
    const capabilities = offering.capabilities.filter((id) => keep.includes(id))
    return capabilities.length === offering.capabilities.length ? [] : [{ id: offering.id, value: { ...offering, capabilities } }]
  })
}

export const offerOperations = [offer, withdraw]
