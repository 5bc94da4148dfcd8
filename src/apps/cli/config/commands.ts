// `apply` makes a server what a configuration says, `export-config` writes down what it is.
import { stringify } from 'yaml'
import { limits } from '#kernel/limits.ts'
import { CliError, exits, type Exit } from '../exit-codes.ts'
import type { Context } from '../derive/command.ts'
import type { Remote } from '../remote/remote.ts'
import { escapeControl } from '../output/safe-text.ts'
import { writeJson } from '../output/render.ts'
import { tableOf } from '../terminal.ts'
import { problemsIn, problemsAt, refuseProblems, strangersIn } from './check.ts'
import { Misplaced } from './document.ts'
import { readConfig, type Joined } from './files.ts'
import { configOf, groupOf, itemsOf, type Item } from './items.ts'
import { planOf, type Change, type Owned, type PartPlan, type Plan } from './plan.ts'
import { listAll, readState, type State } from './state.ts'
import { shownValue, type Step } from './steps.ts'

const DEFAULT_NAME = 'default'
/** The largest commit of a slow machine. */
const APPLY_MS_MAX = 5 * 60_000
export type Asked = { readonly path: string; readonly isDry: boolean; readonly prunes: boolean }
/** A step has at most the bytes of a request, so that a chunk with one more fits. */
const CHUNK_BYTES = limits.configBodyBytesMax / 2

export async function apply(context: Context, { path, isDry, prunes }: Asked): Promise<Exit> {
  const { name, joined } = await readChecked(context, path)
  const remote = await context.remote()
  const plan = await planFor(remote, joined, name, prunes)
  refuseProblems(plan.problems, joined.placeOf)
  if (!context.json) showPlan(context, plan, isDry)
  const outcomes = isDry ? [] : await carryOut(remote, name, plan, joined)
  return conclude(context, { name, plan, outcomes, isDry })
}

async function readChecked({ io }: Context, path: string): Promise<{ readonly name: string; readonly joined: Joined }> {
  try {
    const joined = await readConfig(io, path)
    refuseProblems(problemsIn(joined.value), joined.placeOf)
    const { name = DEFAULT_NAME } = joined.value as { name?: string }
    return { name, joined }
  } catch (error) {
    if (!(error instanceof Misplaced)) throw error
    throw problemsAt([{ path: '', message: error.message }], () => error.place)
  }
}

async function planFor(remote: Remote, { value, placeOf }: Joined, name: string, prunes: boolean): Promise<Plan> {
  const wanted = itemsOf(value)
  const { owned, seesAll } = await ownedBy(remote, name, wanted)
  const ids = [...new Set([...wanted.map(({ part }) => part), ...owned.mine.keys()])]
  const hasPolicy = [...wanted.map(({ kind }) => kind), ...[...owned.mine.values()].flat()].some((one) => one.startsWith('policy'))
  const state = await readState(remote, { ids, wantsPolicy: hasPolicy })
  // Others are shown a part of the people alone: the server knows the rest.
  if (seesAll) refuseProblems(strangersIn(wanted, knownIn(wanted, state)), placeOf)
  return planOf(wanted, { present: state.items, owned, prunes, me: (await remote.call('identity/me.get', {})).id })
}

/** An owner of a project sees what files have set in it; owners of the installation see it for all parts. */
async function ownedBy(
  remote: Remote,
  name: string,
  wanted: readonly Item[],
): Promise<{ readonly owned: Owned; readonly seesAll: boolean }> {
  const listed = await listAll(remote, 'identity/config.list', {}).catch((error: unknown) => {
    if (error instanceof CliError && error.code === 'UNAUTHORIZED') return null
    throw error
  })
  const parts = [...new Set(wanted.map(({ part }) => part))]
  const found = listed ?? (await Promise.all(parts.map((part) => listAll(remote, 'identity/config.list', { part })))).flat()
  const others = Map.groupBy(
    found.filter((one) => one.name !== name),
    ({ part }) => part,
  )
  return {
    seesAll: listed !== null,
    owned: {
      mine: new Map(found.filter((one) => one.name === name).map(({ part, owns }) => [part, owns])),
      others: new Map([...others].map(([part, configs]) => [part, new Set(configs.flatMap(({ owns }) => owns))])),
    },
  }
}

function knownIn(wanted: readonly Item[], { items, people, agents }: State) {
  const namesOf = (kind: Item['kind']): string[] => wanted.filter((item) => item.kind === kind).map((item) => item.name)
  const groups = [...wanted, ...items.values()].flatMap((item) =>
    item.kind === 'group' ? [`${item.part} ${item.name}`] : item.kind === 'link' ? [`${item.part} ${groupOf(item)}`] : [],
  )
  return { people: new Set([...people, ...namesOf('person')]), agents: new Set([...agents, ...namesOf('agent')]), groups: new Set(groups) }
}

const countOf = (changes: number): string => `${changes} ${changes === 1 ? 'change' : 'changes'}`

// --- Carrying it out -------------------------------------------------------------------------------------------------------

type Outcome = { readonly part: string; readonly ok: boolean; readonly error: CliError | null }

/** A project that is refused stays as it was, and the others are applied; without the installation's part, none is. */
async function carryOut(remote: Remote, name: string, { parts }: Plan, joined: Joined): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const part of parts) {
    if (part.isOwned && part.changes.length === 0) continue
    const error = await applyPart(remote, name, part, joined)
    outcomes.push({ part: part.part, ok: error === null, error })
    if (error !== null && part.part === 'installation') break
  }
  return outcomes
}

async function applyPart(
  remote: Remote,
  name: string,
  { part, changes, before, owns }: PartPlan,
  joined: Joined,
): Promise<CliError | null> {
  const steps = changes.flatMap((change) => change.steps.map((step) => ({ step, change })))
  const chunks = part === 'installation' ? chunksOf(steps) : [steps]
  // Until the last commit it owns what is still to be removed, so that a failed one is continued by the next call.
  const meanwhile = [...new Set([...before, ...owns])].toSorted()
  for (const chunk of chunks) {
    try {
      const input = { name, part, owns: chunk === chunks.at(-1) ? [...owns] : meanwhile, steps: chunk.map(({ step }) => step) }
      await remote.call('identity/config.apply', input, { timeoutMs: APPLY_MS_MAX })
    } catch (error) {
      if (!(error instanceof CliError)) throw error
      const at = chunk[Number(error.details['step'])]?.change
      return at === undefined ? error : withPlace(error, at, joined)
    }
  }
  return null
}

/** The installation is large: it is one commit as long as it fits into a request. */
function chunksOf<T extends { readonly step: Step }>(steps: readonly T[]): T[][] {
  const chunks: T[][] = [[]]
  let bytes = 0
  for (const one of steps) {
    const size = Buffer.byteLength(JSON.stringify(one.step))
    if (chunks.at(-1)!.length === limits.configStepsMax || (bytes > 0 && bytes + size > CHUNK_BYTES)) {
      chunks.push([])
      bytes = 0
    }
    chunks.at(-1)!.push(one)
    bytes += size
  }
  return chunks
}

function withPlace({ exit, code, message, hint, details }: CliError, { item, change }: Change, { placeOf }: Joined): CliError {
  const { file, line } = placeOf(item.path)
  const place = change === 'remove' ? `to remove ${item.kind} ${item.name}` : `${file}:${line}`
  return new CliError(exit, code, `${place}: ${message}`, hint, details)
}

// --- Showing it ------------------------------------------------------------------------------------------------------------

const columns = ['CHANGE', 'PART', 'KIND', 'NAME', 'FIELDS'].map((title) => ({ title }))
const VALUE_CHARS = 60
const brief = (value: unknown): string => {
  const text = shownValue(value)
  return text.length > VALUE_CHARS ? `${text.slice(0, VALUE_CHARS)}…` : text
}
const fieldsIn = ({ change, fields }: Change): string =>
  Object.entries(fields)
    .map(([name, { before, after }]) => (change === 'change' ? `${name}: ${brief(before)} → ${brief(after)}` : `${name}: ${brief(after)}`))
    .join('; ')

function showPlan({ io, paint }: Context, { parts }: Plan, isDry: boolean): void {
  const changes = parts.flatMap((part) => part.changes)
  if (changes.length === 0) return void io.out.write('nothing to change\n')
  const rows = changes.map((one) => [one.change, one.item.part, one.item.kind, one.item.name, fieldsIn(one)])
  io.out.write(tableOf(columns, rows, io.out, paint))
  if (isDry) io.out.write(`${countOf(changes.length)}, nothing is applied yet\n`)
}

type Applied = { readonly name: string; readonly plan: Plan; readonly outcomes: readonly Outcome[]; readonly isDry: boolean }

function conclude(context: Context, { name, plan, outcomes, isDry }: Applied): Exit {
  const [first, ...others] = outcomes.flatMap(({ error }) => (error === null ? [] : [error]))
  const done = new Set(outcomes.filter(({ ok }) => ok).map(({ part }) => part))
  const isMade = (part: string): boolean => !isDry && done.has(part)
  if (context.json) {
    const changes = plan.parts.flatMap(({ changes: some }) =>
      some.map(({ change, item: { part, kind, name: id }, fields }) => ({ change, part, kind, name: id, fields, applied: isMade(part) })),
    )
    writeJson(context, { name, dry_run: isDry, changes })
  } else if (done.size > 0) {
    const count = plan.parts.filter(({ part }) => done.has(part)).reduce((sum, { changes }) => sum + changes.length, 0)
    context.io.out.write(`${context.paint('green', '✔')} applied ${countOf(count)}\n`)
  }
  for (const error of others) context.io.err.write(`countersign: ${escapeControl(error.message)}\n`)
  if (first) throw first
  return exits.ok
}

export async function exportConfig(context: Context, name: string | undefined): Promise<void> {
  const { items } = await readState(await context.remote(), { ids: null, wantsPolicy: true })
  const config = { ...(name === undefined ? {} : { name }), ...configOf([...items.values()]) }
  if (context.json) return writeJson(context, config)
  context.io.out.write(stringify(config, { aliasDuplicateObjects: false, lineWidth: 0, version: '1.2', schema: 'core' }))
}
