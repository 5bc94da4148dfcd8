// CAP: the offered capabilities and their manifests.
import { Refusal } from '#kernel/declare/errors.ts'
import { anyone } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { moreProjects, projectInput, projectsFor } from '#kernel/declare/projects.ts'
import { either, t } from '#kernel/declare/schema.ts'
import { Capability, CapabilityManifest, manifestView } from '../capabilities/manifest.ts'
import { bestOf } from '../capabilities/compatibility.ts'
import { CapabilityRef } from '../schema.ts'

const list = query({
  name: 'capability.list',
  summary: 'List the capabilities that are offered to a project, with their manifests.',
  draft: 'CAP: capability.list() -> [CapabilityManifest]',
  input: t.Object({ ...projectInput, kind: t.Optional(either('tool', 'skill')), ...pageInput }),
  output: t.Object({ items: t.Array(CapabilityManifest), next_cursor: nextCursor, ...moreProjects }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { kind } = input
    const { ids, more } = await projectsFor(read, input, actor)
    const limit = pageSize(input)
    const items: CapabilityManifest[] = []
    let place = placeOf('capability.list', input)
    for (let examined = 0, bytes = 0; examined < limits.examinedMax;) {
      const page = await read.list(
        Capability,
        'project',
        ids.map((id) => [id]),
        { after: place, limit },
      )
      for (const { id, at } of page) {
        const manifest = await read.raw(Capability, id)
        if (manifest && (kind === undefined || manifest.kind === kind)) items.push(manifestView.of(manifest))
        bytes += manifest ? JSON.stringify(manifest).length : 0
        place = at
        if (items.length === limit || bytes > limits.pageBytesMax) return { items, place, more }
      }
      examined += page.length
      if (page.length < limit) return { items, place: undefined, more }
    }
    return { items, place, more }
  },
  view: ({ items, place, more }, input) => ({
    items,
    next_cursor: place === undefined ? null : cursorOf('capability.list', input, place),
    ...more,
  }),
  example: { given: 'offering', as: 'devin', input: {} },
})

/** Versions of one capability: a source offers one at a time, and few sources share a name. */
const VERSIONS = 100

/** The capability that serves a reference: the exact version, or else the newest compatible one. */
export async function capabilityFor(
  read: Read,
  { capability_id, version }: { capability_id: string; version?: string },
  fits: (capability: Capability) => boolean,
) {
  const listed = await read.list(Capability, 'capability', [[capability_id]], { limit: VERSIONS })
  const found = await Promise.all(listed.map(({ id }) => read.maybe(Capability, id)))
  return bestOf(
    found.filter((capability): capability is Capability => capability !== null && !capability.withdrawn && fits(capability)),
    version,
  )
}

const describe = query({
  name: 'capability.describe',
  summary: 'Fetch the manifest of a capability: of the version that is named, of a compatible one, or of the newest.',
  draft: 'CAP: capability.describe(id, version)',
  input: t.Object({ capability_id: CapabilityRef.properties.capability_id, version: t.Optional(CapabilityRef.properties.version) }),
  output: t.Object({ manifest: CapabilityManifest }),
  callers: [anyone],
  async load(read, input) {
    const found = await capabilityFor(read, input, () => true)
    if (!found) throw new Refusal('NOT_FOUND', `there is no capability ${input.capability_id} ${input.version ?? ''}`.trimEnd())
    return { found }
  },
  view: ({ found }) => ({ manifest: manifestView.of(found) }),
  example: { given: 'offering', as: 'devin', input: { capability_id: 'cap:web-search', version: '2.1.0' } },
})

export const capabilityOperations = [list, describe]
