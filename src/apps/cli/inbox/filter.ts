// A filter of the inbox as people write it, `priority:high kind:review login @mine`, and as the server takes it.

export type Query = Readonly<Record<string, unknown>>
export type Filter = { /** As it is shown and edited. */ readonly text: string; readonly query: Query }

const fields = new Map([
  ['action', 'action'],
  ['agent', 'agent_id'],
  ['assignee', 'assignee'],
  ['kind', 'kind'],
  ['priority', 'priority'],
  ['project', 'project_id'],
  ['snoozed', 'snoozed'],
  ['status', 'status'],
  ['task', 'task_id'],
])
const names = new Map([...fields].map(([name, field]) => [field, name]))

const valueOf = (field: string, text: string): unknown =>
  field === 'action' ? text.toUpperCase() : field === 'snoozed' ? text !== 'false' : text

/** Fields, words that the item must contain, and the name of a saved filter. Quotes keep spaces together. `whose`: the inbox. */
export function filterFrom(text: string, whose: Query): Filter {
  const query: Record<string, unknown> = { ...whose }
  const terms: string[] = []
  for (const word of text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []) {
    const bare = word.replaceAll('"', '')
    const at = bare.indexOf(':')
    const field = fields.get(bare.slice(0, Math.max(0, at)))
    if (field !== undefined && at < bare.length - 1) query[field] = valueOf(field, bare.slice(at + 1))
    else if (bare.startsWith('@') && bare.length > 1) query['filter'] = bare.slice(1)
    else if (bare !== '') terms.push(bare)
  }
  return { text: text.trim(), query: terms.length === 0 ? query : { ...query, text: terms.join(' ') } }
}

const quoteWord = (text: string): string => (/[\s"]/.test(text) ? `"${text.replaceAll('"', '')}"` : text)

/** The filter that flags of the command make, in the words in which it can be edited. */
export function filterOf(query: Query): Filter {
  const { person: _, text, filter, ...rest } = query
  const parts = Object.entries(rest).map(([field, value]) => `${names.get(field) ?? field}:${quoteWord(String(value))}`)
  const saved = typeof filter === 'string' ? [quoteWord(`@${filter}`)] : []
  return { text: [...parts, ...saved, ...(typeof text === 'string' ? [text] : [])].join(' '), query }
}

/** The person whose inbox was asked for; null: the caller's own. */
export const personIn = ({ person }: Query): string | null => (typeof person === 'string' ? person : null)

/** The part of a query that says whose inbox it is; no filter changes it. */
export const whoseIn = ({ person }: Query): Query => (person === undefined ? {} : { person })
