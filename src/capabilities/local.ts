// Capabilities that are functions of this process, and skills, which are only text.
import type { CapabilityManifest } from '#protocols/delegation/capabilities/manifest.ts'
import type { CapabilityRef } from '#protocols/delegation/schema.ts'
import { CapabilityFailure, type CapabilitySource } from './source.ts'

type Optional = 'output_schema' | 'prompt_template' | 'resources' | 'required_permissions' | 'description'
export type LocalManifest = Omit<CapabilityManifest, Optional> & Partial<Pick<CapabilityManifest, Optional>>
export type LocalCapability = {
  readonly manifest: LocalManifest
  run(input: unknown, signal: AbortSignal): unknown
}

const withDefaults = (manifest: LocalManifest): CapabilityManifest => ({
  description: '',
  output_schema: null,
  prompt_template: null,
  resources: [],
  required_permissions: [],
  ...manifest,
})

export function localSource(name: string, projects: readonly string[], capabilities: readonly LocalCapability[]): CapabilitySource {
  const isSame = (ref: CapabilityRef, { capability_id, version }: CapabilityRef): boolean =>
    ref.capability_id === capability_id && ref.version === version
  return {
    name,
    projects,
    start: (offer) => offer(capabilities.map(({ manifest }) => withDefaults(manifest))),
    async invoke(ref, input, signal) {
      const found = capabilities.find(({ manifest }) => isSame(ref, manifest))
      if (!found) throw new CapabilityFailure('unreachable', `${ref.capability_id} ${ref.version} is no longer offered`)
      return found.run(input, signal)
    },
    stop: () => Promise.resolve(),
  }
}

export type Skill = Omit<LocalManifest, 'kind'> & {
  readonly prompt_template: string
  /** The capabilities that its prompt mentions. */
  readonly tools?: readonly CapabilityRef[]
}

/** A skill is a set of tools plus a prompt. Invoking it returns both. */
export function skillOf({ tools = [], ...manifest }: Skill): LocalCapability {
  const { prompt_template, resources = [] } = manifest
  return {
    manifest: { ...manifest, kind: 'skill' },
    run: (input) => ({ prompt: filledIn(prompt_template, input), resources, tools }),
  }
}

/** Replaces `{{name}}` with the field of that name: a text as it is, any other value as JSON, an absent field with nothing. */
function filledIn(template: string, input: unknown): string {
  const fields = typeof input === 'object' && input !== null ? (input as Record<string, unknown>) : {}
  return template.replaceAll(/\{\{\s*([A-Za-z0-9_]{1,64})\s*\}\}/g, (_, name: string) => {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined
    return typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value)
  })
}
