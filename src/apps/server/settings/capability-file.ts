// The operator's file of capability sources. An entry that is not understood is an error with a sentence, never ignored.
import { hacpSource } from '#capabilities/hacp.ts'
import { localSource, skillOf, type Skill } from '#capabilities/local.ts'
import { mcpSource, type McpSettings } from '#capabilities/mcp.ts'
import type { CapabilitySource, SourceLog } from '#capabilities/source.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { parse, t, type SchemaNode, type Static, type TSchema } from '#kernel/declare/schema.ts'
import { CapabilityManifest, Permission, SourceName } from '#protocols/delegation/capabilities/manifest.ts'
import { CapabilityRef } from '#protocols/delegation/schema.ts'
import { StartError } from '../start-error.ts'
import { bytesOfFile } from './operator-file.ts'
import { version as serverVersion } from '../../version.ts'

const Texts = t.Array(t.String({ maxLength: 10_000 }), { maxItems: 200 })
const Dictionary = t.Record(t.String(), t.String({ maxLength: 10_000 }))
const Projects = t.Optional(
  t.Array(t.String({ pattern: '^project_[A-Za-z0-9_-]{1,64}$' }), { minItems: 1, maxItems: limits.projectsPerSubjectMax }),
)
const common = {
  projects: Projects,
  permissions: t.Optional(t.Record(t.String(), t.Array(Permission, { maxItems: limits.permissionsMax }))),
}

const Child = t.Object({
  ...common,
  command: t.String({ minLength: 1 }),
  args: t.Optional(Texts),
  env: t.Optional(Dictionary),
  cwd: t.Optional(t.String()),
})
const Remote = t.Object({ ...common, url: t.String({ pattern: '^https?://' }), headers: t.Optional(Dictionary) })

const { kind: _, capability_id, version, name, input_schema, prompt_template: __, ...rest } = CapabilityManifest.properties
const SkillEntry = t.Object({
  capability_id,
  version,
  name,
  input_schema,
  prompt_template: t.String({ minLength: 1, maxLength: limits.capabilityBytesMax }),
  description: t.Optional(rest.description),
  resources: t.Optional(rest.resources),
  required_permissions: t.Optional(rest.required_permissions),
  tools: t.Optional(t.Array(CapabilityRef, { maxItems: limits.capabilitiesMax })),
})
const DeviceEntry = t.Object({ projects: Projects, socket: t.String({ minLength: 1, maxLength: 4_096 }) })
const Skills = t.Object({ projects: Projects, skills: t.Array(SkillEntry, { maxItems: 1_000 }) })

const DEFAULT_PROJECTS = ['project_default']

export type Env = Readonly<Record<string, string | undefined>>
type Making = { readonly clock: Clock; readonly log: SourceLog; readonly env: Env }

export const readCapabilities = (path: string, making: Making): CapabilitySource[] =>
  readOperatorFile(path, (value) => sourcesIn(value, making))

/** The content of a file of the operator, or the sentence that ends the start. */
export function readOperatorFile<T>(path: string, contentOf: (value: unknown) => T): T {
  const wrong = (message: string): never => {
    throw new StartError(`${path}: ${message}`)
  }
  let value: unknown
  try {
    value = decode(bytesOfFile(path))
  } catch (error) {
    if (error instanceof Refusal) return wrong(error.message.replace('the body', 'the file'))
    return wrong(`the file cannot be read: ${(error as Error).message}`)
  }
  try {
    return contentOf(value)
  } catch (error) {
    if (error instanceof Refusal || error instanceof Misunderstood) return wrong(error.message)
    throw error
  }
}

export class Misunderstood extends Error {}

function sourcesIn(value: unknown, making: Making): CapabilitySource[] {
  const { mcpServers = {}, skills = {}, devices = {}, ...others } = dictionary(value, 'the file')
  for (const field of Object.keys(others))
    throw new Misunderstood(`unknown setting ${JSON.stringify(field)}: there are mcpServers, skills and devices`)
  const servers = Object.entries(dictionary(mcpServers, 'mcpServers')).map(([source, entry]) =>
    mcpSource(settingsOf(nameIn('mcpServers', source), entry, making.env), making.clock, making.log),
  )
  const packages = Object.entries(dictionary(skills, 'skills')).map(([source, entry]) => {
    const { projects = DEFAULT_PROJECTS, skills: listed } = parseSetting(Skills, entry, `skills.${source}`)
    return localSource(
      nameIn('skills', source),
      projects,
      listed.map((skill) => skillOf(skill as Skill)),
    )
  })
  const boards = Object.entries(dictionary(devices, 'devices')).map(([source, entry]) => {
    const { projects = DEFAULT_PROJECTS, socket } = parseSetting(DeviceEntry, entry, `devices.${source}`)
    return hacpSource({ name: nameIn('devices', source), projects, socket }, serverVersion, making.clock, making.log)
  })
  const all = [...servers, ...packages, ...boards]
  const names = all.map((source) => source.name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw new Misunderstood(`there are two sources named ${twice}`)
  return all
}

export function settingsOf(source: string, entry: unknown, env: Env): McpSettings {
  const where = `mcpServers.${source}`
  const isRemote = Object.hasOwn(dictionary(entry, where), 'url')
  const fill = (texts: Readonly<Record<string, string>> = {}): Record<string, string> =>
    Object.fromEntries(Object.entries(texts).map(([field, text]) => [field, fillVariables(text, env, where)]))
  if (isRemote) {
    const { url, headers, projects = DEFAULT_PROJECTS, permissions = {} } = parseSetting(Remote, entry, where)
    if (!URL.canParse(url)) throw new Misunderstood(`${where}.url is not an address`)
    return { name: source, projects, permissions, server: { url, headers: fill(headers) } }
  }
  const { command, args = [], env: childEnv, cwd, projects = DEFAULT_PROJECTS, permissions = {} } = parseSetting(Child, entry, where)
  const folder = cwd === undefined ? {} : { cwd }
  return { name: source, projects, permissions, server: { command, args, env: fill(childEnv), ...folder } }
}

/** `${NAME}` is an environment variable of the server: secrets need not be in the file. */
const fillVariables = (text: string, env: Env, where: string): string =>
  text.replaceAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_match, variable: string) => {
    const value = env[variable]
    if (value === undefined) throw new Misunderstood(`${where} asks for the environment variable ${variable}, which is not set`)
    return value
  })

function parseSetting<S extends TSchema>(schema: S, value: unknown, where: string): Static<S> {
  const known = Object.keys((schema as SchemaNode).properties ?? {})
  const unknown = Object.keys(dictionary(value, where)).find((field) => !known.includes(field))
  if (unknown !== undefined) throw new Misunderstood(`unknown setting ${where}.${unknown}: there are ${known.join(', ')}`)
  try {
    return parse(schema, value)
  } catch (error) {
    if (error instanceof Refusal) throw new Misunderstood(`${where}: ${error.message}`)
    throw error
  }
}

export function nameIn(where: string, source: string): string {
  try {
    return parse(SourceName, source)
  } catch {
    throw new Misunderstood(
      `${where}: ${JSON.stringify(source)} is not a name for a source: it has up to 63 small letters, digits, . _ or -`,
    )
  }
}

export function dictionary(value: unknown, where: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Misunderstood(`${where} must be an object`)
  return value as Record<string, unknown>
}
