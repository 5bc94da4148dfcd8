// Links of the record: from a document to those that it follows from, by the fields that this server wrote. Texts of agents and people are never
// searched for ids: an agent could name an approval that it never got.
import { isObject } from '#kernel/codec/strict-json.ts'
import type { Value } from '#kernel/log/store.ts'

/** The kind of a document by the prefix of its id. */
const kinds: Readonly<Record<string, string>> = {
  task: 'collaboration.task',
  ckpt: 'collaboration.checkpoint',
  rev: 'collaboration.review',
  grant: 'collaboration.grant',
  hxp: 'execution.request',
  run: 'delegation.run',
  inv: 'delegation.invocation',
  call: 'gate.call',
  agent: 'identity.agent',
  project: 'identity.project',
}
/** null: ids of this form have no document, or not one that can be found by key. */
export function keyOfId(id: string): string | null {
  const kind = kinds[id.slice(0, id.indexOf('_'))]
  if (kind !== undefined) return `${kind}/${id}`
  if (id.includes('@')) return `collaboration.artifact/${id}`
  if (/^[^/]+\/\d+$/.test(id)) return `hardware.event/${id}`
  // Sessions of harnesses have ids of their own form.
  return /^(?:aud|rcp)_/.test(id) ? null : `harness.session/${id}`
}

/** Fields that name what a document follows from, the nearest to a decision first. */
const fields: Readonly<Record<string, readonly string[]>> = {
  'gate.call': ['request_id', 'task_id', 'agent_id'],
  'execution.request': ['task_id', 'requester'],
  'collaboration.checkpoint': ['request_id', 'task_id'],
  'collaboration.artifact': ['provenance.produced_by', 'provenance.actor'],
  'collaboration.review': ['task_id'],
  'collaboration.grant': ['task_id'],
  'collaboration.task': ['parent_task'],
  'delegation.run': ['continues', 'parent_run', 'task_id', 'delegated_by', 'agent_id'],
  'delegation.invocation': ['approval.checkpoint_id', 'run_id'],
  'harness.session': ['run_id', 'task_id', 'agent_id'],
  'hardware.event': ['task_id', 'agent_id'],
}
/** For documents of other kinds. */
const usual = ['request_id', 'checkpoint_id', 'run_id', 'task_id', 'agent_id']

function textAt(value: Value, path: string): string | null {
  let found: unknown = value
  for (const name of path.split('.')) found = isObject(found) ? found[name] : undefined
  return typeof found === 'string' ? found : null
}

/** What decided about it, where no field of its own names that: a rule or a grant for a call, the item of a session. */
function decidersOf(kind: string, value: Value): string[] {
  if (kind === 'harness.session') return [`execution.request/hxp_${String(value['id'])}`]
  if (kind !== 'gate.call') return []
  const [by, scope] = [textAt(value, 'basis.kind'), textAt(value, 'policy.scope')]
  if (by === 'grant') return [`collaboration.grant/${textAt(value, 'basis.id')}`]
  return by === 'policy' && scope !== null ? [`execution.policy/${scope}`] : []
}

/** The keys of the documents that this one names. */
export function linksIn(key: string, value: Value): string[] {
  const kind = key.slice(0, key.indexOf('/'))
  const names = fields[kind] ?? usual
  const linked = names.flatMap((name) => {
    const id = textAt(value, name)
    const linked = id === null ? null : keyOfId(id)
    return linked === null || linked === key ? [] : [linked]
  })
  return [...decidersOf(kind, value), ...linked]
}

/** Documents whose beginning says who asked for them. Of all others the present state does: it holds the answer. */
const explainedByBeginning = new Set(['collaboration.task', 'collaboration.grant', 'delegation.run', 'identity.agent', 'identity.project'])
export const isExplainedByBeginning = (key: string): boolean => explainedByBeginning.has(key.slice(0, key.indexOf('/')))
/** What happens to them later follows from their beginning. */
export const followsFromBeginning = (key: string): boolean => isExplainedByBeginning(key) || key.startsWith('harness.session/')
