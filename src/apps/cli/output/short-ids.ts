// Short ids, shown and typed: `task_3FKEE4` means the task whose id ends with these characters. The time at the beginning of an id is the same for
// all that was made today, so its end is what tells ids apart; a beginning that one id alone has is accepted as well.
import { CliError, exits, usage } from '../exit-codes.ts'
import type { Flag, FlagValues } from '../derive/flags.ts'
import type { Remote } from '../remote/remote.ts'
import type { Spec } from '../derive/command.ts'

const DIGIT = '[0-9A-HJKMNP-TV-Z]'
const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
const WHOLE = new RegExp(`^([a-z]+)_(${DIGIT}{26}|${UUID})$`)
/** The kind of an id and its characters. A UUID, the id of a session of another harness, is shortened like any other id. */
function wholeIn(id: string): { readonly prefix: string; readonly chars: string } | null {
  const [, prefix, chars] = WHOLE.exec(id) ?? []
  return prefix === undefined ? null : { prefix, chars: chars!.replaceAll('-', '').toUpperCase() }
}
const SHORT = new RegExp(`^(?:([a-z]+)_)?(${DIGIT}{4,26})$`)
const CHARS_MIN = 6

type Listed = { readonly operation: string; readonly input: object; readonly field?: string; readonly isOfProject?: boolean }
const listOf = (operation: string, input: object = {}, field = 'id'): Listed => ({ operation, input, field })
/** A list that shows one project: it is read for each project of the caller. */
const ofProject = (operation: string): Listed => ({ ...listOf(operation), isOfProject: true })

/** Where ids of a kind are looked up, by their prefix. An id of any other kind is shown whole. */
const lists: Readonly<Record<string, readonly Listed[]>> = {
  agent: [listOf('identity/agent.list')],
  cb: [listOf('execution/channel.list')],
  chn: [listOf('execution/channel.list')],
  ckpt: [listOf('collaboration/checkpoint.list')],
  hxp: [
    listOf('execution/inbox.list', {}, 'request_id'),
    listOf('execution/inbox.list', { status: 'closed' }, 'request_id'),
    listOf('execution/request.list', { newest: true }),
  ],
  project: [listOf('identity/project.list')],
  rule: [listOf('execution/rule.list')],
  run: [ofProject('delegation/run.list')],
  sess: [listOf('identity/session.list')],
  task: [ofProject('collaboration/task.list')],
  user: [listOf('identity/user.list')],
}
/**
 * Kinds that a person can see without finding them in a list: only owners can list all runs of a project, and an answered question is not
 * in the inbox. These ids are shown in full; a short id is accepted if a list contains it.
 */
const SHOWN_WHOLE = ['ckpt', 'run']
/** Kinds with ids that people choose: the word after the prefix is enough. */
const CHOSEN = ['agent', 'user', 'project']

/** Which kinds of id a field takes. */
const fields: Readonly<Record<string, readonly string[]>> = {
  agent: ['agent'],
  agent_id: ['agent'],
  assign: ['agent', 'user'],
  assignee: ['agent', 'user'],
  actor: ['agent', 'user'],
  callback: ['cb'],
  channel_id: ['chn', 'cb'],
  checkpoint_id: ['ckpt'],
  continues: ['run'],
  members: ['user'],
  owner: ['user'],
  parent_run: ['run'],
  parent_task: ['task'],
  person: ['user'],
  principal: ['user'],
  project: ['project'],
  project_id: ['project'],
  reassign_to: ['agent', 'user'],
  request_id: ['hxp'],
  reviewers: ['user'],
  root_task_id: ['task'],
  rule_id: ['rule'],
  run_id: ['run'],
  session_id: ['sess'],
  subject: ['user', 'agent', 'project'],
  subject_id: ['task', 'ckpt', 'run', 'hxp'],
  substitute: ['user'],
  task: ['task'],
  task_id: ['task'],
  to: ['agent', 'user'],
  to_agent: ['agent'],
  user: ['user'],
  user_id: ['user'],
  whose: ['user', 'agent'],
}

/** The shortest ends that tell these ids apart; ids that cannot be looked up stay as they are. */
export function shortIds(ids: Iterable<string>): ReadonlyMap<string, string> {
  const all = [...new Set(ids)].map((id) => ({ id, whole: wholeIn(id) }))
  const endsOf = (chars: number): Map<string, number> => {
    const counts = new Map<string, number>()
    for (const { whole } of all) {
      if (!whole) continue
      const short = `${whole.prefix}_${whole.chars.slice(-chars)}`
      counts.set(short, (counts.get(short) ?? 0) + 1)
    }
    return counts
  }
  let chars = CHARS_MIN
  while (chars < 26 && [...endsOf(chars).values()].some((count) => count > 1)) chars++
  const isShort = (prefix: string): boolean => Object.hasOwn(lists, prefix) && !SHOWN_WHOLE.includes(prefix)
  return new Map(all.map(({ id, whole }) => [id, whole && isShort(whole.prefix) ? `${whole.prefix}_${whole.chars.slice(-chars)}` : id]))
}

/** How well an id fits: an end, or a word that people chose, counts before a beginning. */
type Fit = 'end' | 'beginning' | null
/** The test for ids that the text can mean; null: the text is a whole id already, or cannot be an id. */
function wantedBy(text: string, prefixes: readonly string[]): ((id: string) => Fit) | null {
  if (WHOLE.test(text)) return null
  const [, prefix, end] = SHORT.exec(text) ?? (text.includes('_') ? [] : (SHORT.exec(text.toUpperCase()) ?? []))
  if (prefix !== undefined && !prefixes.includes(prefix)) return null
  const chosen = prefix === undefined && !text.includes('_') ? prefixes.filter((known) => CHOSEN.includes(known)) : []
  if (end === undefined && chosen.length === 0) return null
  return (id) => {
    const whole = wholeIn(id)
    if (chosen.some((candidate) => id === `${candidate}_${text}`)) return 'end'
    if (end === undefined || whole === null || (prefix !== undefined && whole.prefix !== prefix)) return null
    return whole.chars.endsWith(end) ? 'end' : whole.chars.startsWith(end) ? 'beginning' : null
  }
}

const PAGE = 200
/** 2,000 ids: a short one for anything older is refused by the server, and the whole one is needed. */
const PAGES_MAX = 10
/** For all lists together, no matter how many projects there are. */
const CALLS_MAX = 100
/** For the completion of one word, which a person waits for. */
const COMPLETION_CALLS_MAX = 10
type Calls = { left: number }
/** How many matching ids a refusal shows. */
const SHOWN_MAX = 5

/** Reads the list once, or once for each project of the caller. */
async function* eachOf(remote: Remote, list: Listed, calls: Calls): AsyncIterable<Listed> {
  if (list.isOfProject !== true) return yield list
  let count = 0
  for await (const project_id of idsIn(remote, listOf('identity/project.list'), calls)) {
    count++
    yield { ...list, input: { ...list.input, project_id } }
  }
  if (count === 0) yield list
}

async function* idsIn(remote: Remote, { operation, input, field = 'id' }: Listed, calls: Calls): AsyncIterable<string> {
  let cursor: string | null = null
  for (let page = 0; page < PAGES_MAX && calls.left > 0; page++) {
    calls.left--
    let answer: { items: Record<string, string>[]; next_cursor?: string | null }
    try {
      const paged = /rule|channel/.test(operation) ? {} : { limit: PAGE, ...(cursor === null ? {} : { cursor }) }
      answer = (await remote.callAny(operation, { ...input, ...paged })) as typeof answer
    } catch (error) {
      // Skip a refused list: another list might have the id, or the server reports what is wrong with it.
      if (error instanceof CliError && error.exit === exits.refused) return
      throw error
    }
    yield* answer.items.map((item) => item[field]!)
    cursor = answer.next_cursor ?? null
    if (cursor === null) return
  }
}

async function wholeId(remote: Remote, text: string, prefixes: readonly string[]): Promise<string> {
  const fitOf = wantedBy(text, prefixes)
  if (fitOf === null) return text
  const [ends, beginnings] = [new Set<string>(), new Set<string>()]
  const calls = { left: CALLS_MAX }
  for (const prefix of prefixes.filter((known) => !text.includes('_') || text.startsWith(`${known}_`)))
    for (const kind of lists[prefix] ?? [])
      for await (const list of eachOf(remote, kind, calls))
        for await (const id of idsIn(remote, list, calls)) {
          const fit = fitOf(id)
          if (fit !== null) (fit === 'end' ? ends : beginnings).add(id)
        }
  const found = ends.size > 0 ? ends : beginnings
  const some = [...found].slice(0, SHOWN_MAX).join(', ') + (found.size > SHOWN_MAX ? ', ...' : '')
  if (found.size > 1) throw usage(`"${text}" matches several ids: ${some}`, 'type more of it')
  return [...found][0] ?? text
}

/** Placeholders of fields that share their name with an id field but hold no id. */
const NO_IDS: readonly string[] = ['time', 'folder|url']

const kindsOf = ({ path, name, placeholder }: Flag): readonly string[] =>
  NO_IDS.includes(placeholder) ? [] : (fields[(path?.at(-1) ?? name).replaceAll('-', '_')] ?? [])

/** The field of a flag that takes ids; null: it takes none. */
export const idFieldOf = (flag: Flag): string | null =>
  kindsOf(flag).length > 0 ? (flag.path?.at(-1) ?? flag.name).replaceAll('-', '_') : null

/** The newest ids that a field takes, in their shortest accepted form. */
export async function idsFor(remote: Remote, field: string): Promise<readonly string[]> {
  const calls = { left: COMPLETION_CALLS_MAX }
  const ids: string[] = []
  // Only the first list of a kind: the others have ended things.
  for (const kind of (fields[field] ?? []).flatMap((prefix) => (lists[prefix] ?? []).slice(0, 1)))
    for await (const list of eachOf(remote, kind, calls)) for await (const id of idsIn(remote, list, calls)) ids.push(id)
  return [...shortIds(ids).values()]
}

/** Expands short ids in the given values. Asks the server only for short ids. */
export async function withWholeIds({ positionals, flags }: Spec, given: FlagValues, remote: () => Promise<Remote>): Promise<FlagValues> {
  const whole = new Map(given)
  for (const flag of [...positionals, ...flags]) {
    const kinds = kindsOf(flag)
    const value = given.get(flag.name)
    const texts = (Array.isArray(value) ? value : [value]).filter((text) => typeof text === 'string')
    if (kinds.length === 0 || texts.every((text) => wantedBy(text, kinds) === null)) continue
    const found: string[] = []
    for (const text of texts) found.push(await wholeId(await remote(), text, kinds))
    whole.set(flag.name, Array.isArray(value) ? found : found[0])
  }
  return whole
}
