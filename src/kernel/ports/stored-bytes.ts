// Sums of the bytes that are stored for a task, an actor and a project. A sum is a document that changes in the batch that stores or forgets bytes,
// so no two uploads overrun a quota together.
import { put } from '../declare/facts.ts'
import { SYSTEM_SCOPE } from '../declare/access.ts'
import { rule, type Change, type Context, type Read, type Rule } from '../declare/operation.ts'
import { doc, t } from '../declare/schema.ts'
import { limits } from '../limits.ts'

export const StoredBytes = doc('kernel.stored_bytes', t.Object({ id: t.String(), bytes: t.Integer() }), { scopeOf: () => SYSTEM_SCOPE })

/** Bytes and the accounts that they count for; a file of a request has no task. */
export type Holding = { readonly task_id?: string; readonly by: string; readonly project_id: string; readonly size: number }
/** The sums by their id. */
export type Sums = ReadonlyMap<string, number>

const kinds = ['task', 'actor', 'project'] as const
type Kind = (typeof kinds)[number]
/** The operator's quotas, in bytes; null: none. */
export type ByteQuotas = Readonly<Record<Kind, number | null>>
export const usualByteQuotas: ByteQuotas = {
  task: limits.bytesPerTaskMax,
  actor: limits.bytesPerActorMax,
  project: limits.bytesPerProjectMax,
}

/** The sums that bytes are part of. */
export const sumIds = ({ task_id, by, project_id }: Omit<Holding, 'size'>): readonly (readonly [Kind, string])[] => [
  ...(task_id === undefined ? [] : ([['task', `task/${task_id}`]] as const)),
  ['actor', `actor/${by}`],
  ['project', `project/${project_id}`],
]

/** The sums that storing or forgetting these bytes changes. */
export async function readSums(read: Read, holdings: readonly (Omit<Holding, 'size'> | null)[]): Promise<Sums> {
  const ids = [...new Set(holdings.flatMap((holding) => (holding === null ? [] : sumIds(holding).map(([, id]) => id))))]
  return new Map(await Promise.all(ids.map(async (id) => [id, (await read.raw(StoredBytes, id))?.bytes ?? 0] as const)))
}

/** The sums after bytes move from one account to another. A null account: they were not stored before, or are no longer. */
function sumsAfter(sums: Sums, from: Holding | null, to: Holding | null): Map<string, number> {
  const next = new Map<string, number>()
  const add = (of: Holding | null, sign: 1 | -1): void => {
    if (of === null) return
    for (const [, id] of sumIds(of)) next.set(id, (next.get(id) ?? sums.get(id) ?? 0) + sign * of.size)
  }
  add(from, -1)
  add(to, 1)
  return next
}

export const moveBytes = (sums: Sums, from: Holding | null, to: Holding | null): Change[] =>
  [...sumsAfter(sums, from, to)]
    // A server corrects sums of an earlier release at its start; a sum is never below zero before that.
    .map(([id, bytes]) => ({ id, bytes: Math.max(0, bytes) }))
    .filter(({ id, bytes }) => bytes !== (sums.get(id) ?? 0))
    .map((sum) => put(StoredBytes, sum.id, sum.bytes === 0 ? null : sum))

type Storing = { readonly sums: Sums; readonly stored: Holding | null; readonly holder: Omit<Holding, 'size'> }
type Announcing = { readonly size?: number }

/** The message about the quota that the bytes would exceed, or null. */
function problemOf({ sums, stored, holder }: Storing, input: Announcing, { received, terms }: Context): string | null {
  const size = received?.size ?? input.size ?? 1
  const next = sumsAfter(sums, stored, { ...holder, size })
  const quotas = terms.byteQuotas ?? usualByteQuotas
  for (const [kind, id] of sumIds(holder)) {
    const [max, before] = [quotas[kind], sums.get(id) ?? 0]
    if (max === null || next.get(id)! <= Math.max(max, before)) continue
    const whose = kind === 'task' ? 'this task' : kind === 'actor' ? 'you' : 'this project'
    return `${size} more bytes do not fit: ${before} bytes are stored for ${whose}, and at most ${max} can be. Wait until uploads that no artifact names are forgotten (a day), or ask the operator to raise --bytes-per-${kind}`
  }
  return null
}

/** Checked before the bytes are sent as well, if their size is announced. */
export const hasRoomForBytes: Rule<Storing, Announcing> = rule<Storing, Announcing>(
  'QUOTA_EXCEEDED',
  'the bytes fit into the quotas of the task, the actor and the project',
  (state, input, context) => problemOf(state, input, context) === null,
  'the bytes do not fit into the quota of the task, the actor or the project',
  (state, input, context) => problemOf(state, input, context)!,
)
