// Plug-ins: the operator's own modules in a folder, read once at the start. Each exports `tools`; their names are in reverse-DNS form. They run in
// separate processes.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fields, FileProblem, flag, integer, list, objectWith, text } from '#devices/file-reader.ts'
import { Cancelled } from '#devices/port.ts'
import type { DeviceTool } from '#devices/tools/tool.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Value } from '#kernel/log/store.ts'
import type { RiskLevel, Tool } from '#protocols/hardware/daemon/tools.ts'
import type { Logger } from '../server/log.ts'
import { ConfigError } from '../server/settings/config.ts'
import { hostOf, type PluginHost } from './plugin-host.ts'

/** `com.acme.modbus.read`, and `com.acme.modbus.read.v2` for a breaking change. */
const NAME = /^[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9_-]*){2,}$/
const RESERVED = ['hw', 'gpio', 'i2c', 'uart', 'file', 'sys', 'proc', 'sensor']

const callable = (value: unknown, place: string): true => {
  if (value !== 'function') throw new FileProblem(`${place} must be a function`)
  return true
}
const Exported = objectWith({
  name: text,
  version: integer(1, 1_000),
  risk_level: integer(0, 3),
  timeout_ms: integer(1, 600_000),
  description: text,
  params_schema: fields,
  flag: text,
  personal: flag,
  execute: callable,
  resource: callable,
})

function pluginOf(value: unknown, place: string, host: PluginHost): DeviceTool {
  const exported = Exported(value, place)
  const { name, risk_level, execute, resource, description, params_schema } = exported
  if (name === undefined || !NAME.test(name) || RESERVED.includes(name.split('.')[0]!))
    throw new FileProblem(`${place}.name must be in reverse-DNS form, such as com.acme.modbus.read`)
  if (risk_level === undefined || !execute || !description || !params_schema)
    throw new FileProblem(`${place} needs name, risk_level, description, params_schema and execute`)
  // A microphone is never a pure read.
  if (exported.personal && risk_level < 1) throw new FileProblem(`${place}.risk_level must be at least 1 for personal data`)
  const tool: Tool = {
    name,
    version: exported.version ?? 1,
    risk_level: risk_level as RiskLevel,
    timeout_ms: exported.timeout_ms ?? 5_000,
    supports_rollback: false,
    flag: exported.flag ?? `CAP_${name.split('.').slice(0, -1).join('_').toUpperCase().replaceAll('-', '_')}`,
    description,
    params_schema,
    ...(exported.personal ? { personal: true } : {}),
  }
  return {
    tool,
    target: () => ({ resource: null, target: name }),
    async execute(_, { args, signal }) {
      const result = await host.execute(name, args, signal)
      return { result: typeof result === 'object' && result !== null ? (result as Value) : { value: result } }
    },
    async resource(args) {
      if (!resource) return null
      try {
        const found = await host.resource(name, args)
        return typeof found === 'string' ? found.slice(0, 200) : null
      } catch (error) {
        const reason = error instanceof Cancelled ? 'it took too long' : (error as Error).message
        throw new Refusal('TOOL_FAILED', `${name} could not say which resource it uses: ${reason}`)
      }
    },
  }
}

export type Plugins = { readonly list: readonly DeviceTool[]; stop(): void }
export const noPlugins: Plugins = { list: [], stop() {} }

export async function readPlugins(folder: string, log: Pick<Logger, 'error'>): Promise<Plugins> {
  let files: string[]
  try {
    files = readdirSync(folder)
      .filter((name) => /\.(?:ts|js)$/.test(name))
      .toSorted()
  } catch (error) {
    throw new ConfigError(`the plug-ins cannot be read: ${(error as Error).message} (see --plugins)`)
  }
  const started = await Promise.allSettled(files.map((file) => hostOf(join(folder, file), log)))
  const hosts = started.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  const stop = (): void => hosts.forEach((host) => host.stop())
  try {
    const plugins = started.flatMap((outcome, i) => {
      if (outcome.status === 'rejected') throw outcome.reason
      return pluginsIn(outcome.value, join(folder, files[i]!))
    })
    const names = plugins.map(({ tool }) => tool.name)
    const twice = names.find((name, i) => names.indexOf(name) !== i)
    if (twice !== undefined) throw new ConfigError(`two plug-ins are called ${twice}`)
    return { list: plugins, stop }
  } catch (error) {
    stop()
    throw error
  }
}

function pluginsIn(host: PluginHost, path: string): DeviceTool[] {
  try {
    return list((value, place) => pluginOf(value, place, host))(host.tools, 'tools')
  } catch (error) {
    throw new ConfigError(`${path}: ${(error as Error).message}`)
  }
}
