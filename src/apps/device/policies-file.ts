// The policies file: the permissions and rates of each client. An invalid entry stops the start, because a policy that restricts less than the
// operator meant is worse than none.
import { isAbsolute, join, normalize } from 'node:path'
import { limits } from '#kernel/limits.ts'
import { at, fields, FileProblem, flag, integer, list, number, record, objectWith, text, type Reader } from '#devices/file-reader.ts'
import type { Program } from '#devices/tools/tool.ts'
import { policyDefaults, type Policy, type Rate } from '#protocols/hardware/daemon/policy.ts'
import { boardTools, patternMatches, procTools } from '#protocols/hardware/daemon/tools.ts'

export type NamedPolicy = {
  readonly policy: Policy
  /** The configured path, made absolute; null: no separate socket. */
  readonly socket: string | null
  readonly group: string | null
  readonly subjects: readonly string[]
}
export type Policies = { readonly named: readonly NamedPolicy[]; readonly programs: ReadonlyMap<string, Program> }

const folder: Reader<string> = (value, place) => {
  const path = text(value, place)
  if (!isAbsolute(path) || path.includes('\0')) throw new FileProblem(`${place} must be an absolute path`)
  const plain = normalize(path).replace(/\/+$/, '') || '/'
  if (plain === '/proc' || plain.startsWith('/proc/')) throw new FileProblem(`${place}: /proc is never served`)
  return plain
}
const count = (min: number, max = 1_000_000): Reader<number> => integer(min, max)

const RateFields = objectWith({ per_second: number, burst: number })
const rate: Reader<Rate> = (value, place) => {
  const { per_second = 100, burst = Math.max(1, per_second * 2) } = RateFields(value, place)
  if (per_second <= 0 || burst < 1) throw new FileProblem(`${place}: per_second must be greater than 0, and burst at least 1`)
  return { per_second, burst }
}

const PolicyFields = objectWith({
  socket: text,
  group: text,
  subjects: list(text),
  tools: list(text),
  max_risk_level: integer(0, 3),
  relax_to: integer(0, 3),
  approvals: flag,
  read: list(folder),
  write: list(folder),
  file_bytes_max: count(1, limits.fileBytesMax),
  rate: record(rate),
  queue: count(1, 10_000),
  concurrent: count(1, 256),
  sessions: count(1, 10_000),
  idle_seconds: number,
  lock_wait_ms: count(0),
  approval_seconds: count(1, limits.approvalSecondsMax),
})

function policyOf(value: unknown, place: string, name: string, data: string): NamedPolicy {
  if (!/^[A-Za-z0-9_-]{1,40}$/.test(name)) throw new FileProblem(`${place}: a policy's name has 1 to 40 of the characters A-Z a-z 0-9 _ -`)
  const { socket = null, group = null, subjects = [], ...fields } = PolicyFields(value, place)
  const max_risk_level = fields.max_risk_level ?? policyDefaults.max_risk_level
  const policy: Policy = { ...policyDefaults, ...fields, name, max_risk_level, relax_to: fields.relax_to ?? max_risk_level }
  if (policy.idle_seconds <= 0) throw new FileProblem(`${place}.idle_seconds must be greater than 0`)
  return { policy, socket: socket === null ? null : isAbsolute(socket) ? socket : join(data, socket), group, subjects }
}

const ProgramFields = objectWith({ argv: list(text), args: flag })
const program: Reader<Program> = (value, place) => {
  const { argv = [], args = false } = Array.isArray(value) ? { argv: list(text)(value, place) } : ProgramFields(value, place)
  if (argv.length === 0 || !isAbsolute(argv[0]!)) throw new FileProblem(`${place} must begin with the absolute path of a program`)
  return { argv, takesArgs: args }
}

/** `further`: the names of plug-in tools; null: unknown here. */
export function readPolicies(value: unknown, data: string, further: readonly string[] | null): Policies {
  const { policies: inner, proc, ...unknown } = fields(value, 'the file')
  for (const name of Object.keys(unknown)) throw new FileProblem(`${name} is unknown; known: policies, proc`)
  const named = Object.values(record((policy, place, name) => policyOf(policy, place, name, data))(inner, 'policies'))
  if (named.length === 0) throw new FileProblem('policies must name at least one policy')
  const { programs = {} } = proc === undefined ? {} : objectWith({ programs: record(program) })(proc, 'proc')
  if (further !== null) refuseUnknownTools(named, further)
  refuseTwice(named)
  return { named, programs: new Map(Object.entries(programs)) }
}

function refuseUnknownTools(named: readonly NamedPolicy[], further: readonly string[]): void {
  const names = [...boardTools, ...procTools].map(({ name }) => name).concat(further)
  for (const { policy } of named) {
    for (const [i, pattern] of policy.tools.entries())
      if (!names.some((name) => patternMatches(pattern, name)))
        throw new FileProblem(`policies.${policy.name}.tools[${i}]: there is no tool ${JSON.stringify(pattern)}`)
    for (const tool of Object.keys(policy.rate))
      if (!names.includes(tool)) throw new FileProblem(`${at(`policies.${policy.name}.rate`, tool)}: there is no such tool`)
  }
}

function refuseTwice(named: readonly NamedPolicy[]): void {
  const seen = new Map<string, string>()
  for (const { policy, socket, subjects } of named) {
    for (const way of [...(socket === null ? [] : [socket]), ...subjects]) {
      if (seen.has(way)) throw new FileProblem(`policies.${policy.name}: ${way} belongs to the policy ${seen.get(way)} already`)
      seen.set(way, policy.name)
    }
  }
}

/** Without a file: every tool of the board but `proc.*`, cap 2, no paths. */
export const usualPolicies = (): Policies => ({
  named: [
    {
      policy: { ...policyDefaults, name: 'default', tools: [...new Set(boardTools.map(({ name }) => `${name.split('.')[0]}.*`))] },
      socket: null,
      group: null,
      subjects: [],
    },
  ],
  programs: new Map(),
})
