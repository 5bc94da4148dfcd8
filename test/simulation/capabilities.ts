// Capabilities of the simulation, and their laws: nothing runs before its intent is on the disk, nothing runs twice, and every intent comes
// to have one outcome.
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'

const INVOCATION = 'delegation.invocation/'
const TASK = 'collaboration.task/'

const manifest = (name: string, version: string, required_permissions: readonly string[]) => ({
  capability_id: `cap:${name}`,
  version,
  kind: 'tool',
  name,
  description: '',
  input_schema: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
  output_schema: { type: 'object', required: ['done'] },
  prompt_template: null,
  resources: [],
  required_permissions,
})

/** The source is there in another version, and the one before is gone. */
export async function offerAll(kernel: Kernel, start: number): Promise<void> {
  const version = `1.${start}.0`
  const manifests = [manifest('open', version, []), manifest('guarded', version, ['shell:read'])]
  await kernel.call('delegation/capability.offer', { source: 'tools', projects: ['project_default', 'project_other'], manifests }, SYSTEM)
  await kernel.call(
    'delegation/capability.withdraw',
    { source: 'tools', keep: manifests.map((one) => `${one.capability_id}@${version}`) },
    SYSTEM,
  )
}

/** A deny on the task or on one above it, as it was when the fact was made. A new attempt is not below the task that it tries again. */
function denyOn(record: FactRecord, task_id: string, run_id: string | null, scope: string, at: string): any {
  const valueOf = (key: string): any => record.docs.get(key)?.value
  let deny = denyOf(record, task_id, run_id, scope, at)
  for (let task = valueOf(TASK + task_id); deny === null && task.parent_task !== null;) {
    const above = valueOf(TASK + task.parent_task)
    const run = valueOf(`delegation.work/${above.id}`)?.current_run ?? null
    if (!(task.new_attempt && above.state === 'rejected')) deny = denyOf(record, above.id, run, scope, at)
    task = above
  }
  return deny
}

const covers = (granted: string, scope: string): boolean =>
  granted === scope || (granted.endsWith(':*') && scope.startsWith(granted.slice(0, -1)))

/** A deny of a scope, or of a family that it is of, among the grants of one task. */
function denyOf(record: FactRecord, task_id: string, run_id: string | null, scope: string, at: string): any {
  const lasts = ({ until, run }: any): boolean => (until === 'session' ? run !== null && run === run_id : until === 'task' || until > at)
  for (const [key, { value }] of record.docs) {
    if (!key.startsWith('collaboration.grant/') || value.task_id !== task_id || value.decision !== 'deny') continue
    if (value.revoked_at === null && covers(value.scope, scope) && lasts(value)) return value
  }
  return null
}

/**
 * Where each action is confirmed, an answer permits what was shown and nothing else: the capability, with those arguments, to the agent that
 * asked, once. Without such an answer somebody has allowed the capability beforehand. Words of what is wrong; null: nothing is.
 */
function unconfirmed(record: FactRecord, { task_id, agent_id, approval, input_hash, ref }: any, used: Set<string>): string | null {
  const docOf = (key: string): any => record.docs.get(key)?.value
  if (task_id === null || docOf(TASK + task_id).spec.constraints.autonomy !== 'confirm_each_action') return null
  if (approval === undefined) {
    const isAllowed = [...record.docs].some(
      ([key, { value }]) =>
        key.startsWith('collaboration.grant/') && value.task_id === task_id && value.decision === 'allow' && covers(value.scope, ref.capability_id), // prettier-ignore
    )
    return isAllowed ? null : 'nobody has allowed it'
  }
  const { checkpoint_id, action_id } = approval
  if (used.has(`${checkpoint_id}/${action_id}`)) return `${action_id} of ${checkpoint_id} was carried out before`
  used.add(`${checkpoint_id}/${action_id}`)
  const asked = docOf(`collaboration.checkpoint/${checkpoint_id}`)
  let first = asked
  while (first.escalates !== undefined) first = docOf(`collaboration.checkpoint/${first.succeeds}`)
  if (first.raised_by !== agent_id) return `${checkpoint_id} was asked by ${first.raised_by}`
  if (asked.resolution?.approved_actions?.includes(action_id) !== true) return `${action_id} of ${checkpoint_id} was not approved`
  const { kind, detail } = asked.proposed_actions.find(({ id }: any) => id === action_id)
  if (kind !== ref.capability_id) return `${kind} was shown`
  return input_hash === `sha256:${sha256Hex(canonical(JSON.parse(detail)))}` ? null : `it was shown with ${detail}`
}

export type EffectLaws = {
  judge(fact: SeenFact): void
  /** A capability runs now. */
  onAct(id: string): void
  /** When all is quiet. */
  judgeEnd(pending: readonly string[]): void
}

export function createEffectLaws(record: FactRecord, happened: (what: string) => void, fail: Fail): EffectLaws {
  const acted = new Set<string>()
  const approvals = new Set<string>()
  return {
    judge({ line, images }) {
      if (line.action === 'collaboration/grant.used' && line.detail?.['decision'] === 'allow') {
        const { task_id, id, run = null } = images[0]!.after
        const scope = line.detail['scope'] as string
        const deny = denyOn(record, task_id, run, scope, line.at)
        if (deny !== null) fail(`${id} allows ${scope}, which ${deny.id} denies`)
      }
      for (const { key, before, after } of images) {
        if (!key.startsWith(INVOCATION)) continue
        const what = `${line.action} on ${after.id}`
        const isIntent = line.action === 'delegation/capability.invoked'
        const isNew = isIntent || line.action === 'delegation/capability.denied'
        if ((before?.state ?? null) !== (isNew ? null : 'begun')) fail(`${what}: it was ${before?.state} before`)
        const run = record.docs.get(`delegation.run/${after.run_id}`)?.value
        if (isNew && (run.agent_id !== line.actor || run.state !== 'running')) fail(`${what} by ${line.actor}, whose run is ${run.state}`)
        // A denied capability never runs.
        const { required_permissions } = record.docs.get(`delegation.capability/${after.ref.capability_id}@${after.ref.version}`)!.value
        for (const scope of isIntent ? [after.ref.capability_id, ...required_permissions] : []) {
          const deny = after.task_id === null ? null : denyOn(record, after.task_id, after.run_id, scope, line.at)
          if (deny !== null) fail(`${what}: ${deny.id} denies ${scope}`)
        }
        const wrong = isIntent ? unconfirmed(record, after, approvals) : null
        if (wrong !== null) fail(`${what}: ${wrong}`)
        if (isIntent && after.approval !== undefined) happened('approved action')
        if (!isNew && line.actor !== 'agent_system') fail(`${what} by ${line.actor}`)
        if (after.state === 'succeeded' && !acted.has(after.id)) fail(`${what}: it never ran`)
        if (after.error === 'PERMISSION_DENIED' && acted.has(after.id)) fail(`${what}: it ran all the same`)
      }
    },
    onAct(id) {
      const begun = record.docs.get(INVOCATION + id)?.value
      if (begun?.state !== 'begun') fail(`${id} runs, and the record says ${begun?.state}`)
      if (acted.has(id)) fail(`${id} runs a second time`)
      acted.add(id)
    },
    judgeEnd(pending) {
      for (const key of pending) fail(`${key} has no outcome`)
      for (const [key, { value }] of record.docs) if (key.startsWith(INVOCATION) && value.state === 'begun') fail(`${key} never ended`)
    },
  }
}
