// What agents can invoke here, and the laws of it: nothing runs before its intent is on the disk, nothing runs twice, and every intent
// comes to have one outcome.
import { SYSTEM } from '#kernel/identity.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'

const INVOCATION = 'delegation.invocation/'

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

export type EffectLaws = {
  judge(fact: SeenFact): void
  /** A capability runs now. */
  onAct(id: string): void
  /** When all is quiet. */
  judgeEnd(pending: readonly string[]): void
}

export function createEffectLaws(record: FactRecord, fail: Fail): EffectLaws {
  const acted = new Set<string>()
  return {
    judge({ line, images }) {
      for (const { key, before, after } of images) {
        if (!key.startsWith(INVOCATION)) continue
        const what = `${line.action} on ${after.id}`
        const isIntent = line.action === 'delegation/capability.invoked'
        const isNew = isIntent || line.action === 'delegation/capability.denied'
        if ((before?.state ?? null) !== (isNew ? null : 'begun')) fail(`${what}: it was ${before?.state} before`)
        const run = record.docs.get(`delegation.run/${after.run_id}`)?.value
        if (isNew && (run.agent_id !== line.actor || run.state !== 'running')) fail(`${what} by ${line.actor}, whose run is ${run.state}`)
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
