// Calls of the protocol that an operation of the wire makes, as its caller, with the key and the revision of the request.
import type { Caller, CallOptions, Kernel } from '#kernel/kernel.ts'
import { idempotencyKeyOf } from '#bindings/shared/call-options.ts'
import type { Static } from '#kernel/declare/schema.ts'
import type { AuditEvent } from '#protocols/collaboration/record/audit-view.ts'
import type { Amendment, Artifact, Checkpoint, Comment, Grant, Review, Task } from '#protocols/collaboration/schema.ts'
import type { Entry } from './objects.ts'

export type Params = Readonly<Record<string, unknown>>
export type Input = { readonly params: Params; readonly revision: unknown; readonly key: unknown }

type OfTask = `task.${'create' | 'assign' | 'start' | 'cancel' | 'amend' | 'get'}` | `ownership.${'transfer' | 'delegate'}`
type OfCheckpoint = 'task.interrupt' | `checkpoint.${'raise' | 'resolve' | 'expire' | 'get'}`
/** The fields of each operation's output that are used here. */
type Answers = Record<OfTask, { readonly task: Task }> &
  Record<OfCheckpoint, { readonly checkpoint: Checkpoint }> &
  Record<`artifact.${'commit' | 'get' | 'reference'}`, { readonly artifact: Artifact }> &
  Record<`ledger.${'read' | 'write'}`, { readonly entry: Entry }> &
  Record<`review.${'submit' | 'read'}`, { readonly review: Review }> &
  Record<'review.comment', { readonly comment: Static<typeof Comment.schema> }>
export type TaskOperation = OfTask
type Lists = {
  readonly 'task.list': Task
  readonly 'task.steering': Static<typeof Amendment.schema>
  readonly 'checkpoint.list': Checkpoint
  readonly 'grant.list': Grant
  readonly 'ledger.history': Entry
  readonly 'audit.query': AuditEvent
}
type Page<T> = { readonly items: readonly T[]; readonly next_cursor: string | null }

export type Ask = {
  readonly params: Params
  readonly actor: string
  query<K extends keyof Answers>(operation: K, input: object): Promise<Answers[K]>
  /** With the key and the revision of the request. */
  command<K extends keyof Answers>(operation: K, input: object): Promise<Answers[K]>
  page<K extends keyof Lists>(operation: K, input: object): Promise<Page<Lists[K]>>
  /** All items up to `LIST_MAX`; the wire has no pages. */
  list<K extends keyof Lists>(operation: K, input: object): Promise<readonly Lists[K][]>
  /** Whether a list had more than it gave. */
  isCut(): boolean
}

/** The longest list of an answer. A longer one is cut, and a header says so. */
export const LIST_MAX = 1_000
export const PAGE = 200

export type Called = {
  readonly input: Input
  readonly actor: { readonly id: string }
  readonly caller: Caller
  readonly options: CallOptions
}
export function callsOf(kernel: Kernel, { input: { params, revision, key }, actor, caller, options }: Called): Ask {
  let hasMore = false
  const ask: Ask = {
    params,
    actor: actor.id,
    query: <K extends keyof Answers>(operation: K, input: object) =>
      kernel.call(`collaboration/${operation}`, input, caller) as Promise<Answers[K]>,
    async command<K extends keyof Answers>(operation: K, input: object) {
      const known = revision === undefined ? input : { ...input, expected_task_revision: revision }
      const more = key === undefined ? options : { ...options, key: await ownKey(ask, key) }
      return (await kernel.call(`collaboration/${operation}`, known, caller, more)) as Answers[K]
    },
    page: <K extends keyof Lists>(operation: K, input: object) =>
      kernel.call(`collaboration/${operation}`, input, caller) as Promise<Page<Lists[K]>>,
    async list<K extends keyof Lists>(operation: K, input: object) {
      const items: Lists[K][] = []
      let cursor: string | null | undefined
      do {
        const page: Page<Lists[K]> = await ask.page(operation, { ...input, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) })
        items.push(...page.items)
        cursor = page.next_cursor
      } while (cursor !== null && items.length < LIST_MAX)
      hasMore ||= cursor !== null || items.length > LIST_MAX
      return items.slice(0, LIST_MAX)
    },
    isCut: () => hasMore,
  }
  return ask
}

/** A key belongs to one task. */
async function ownKey({ params, query }: Ask, key: unknown): Promise<string> {
  const { ckpt_id: checkpoint_id } = params
  const task_id = checkpoint_id === undefined ? params['task_id'] : (await query('checkpoint.get', { checkpoint_id })).checkpoint.task_id
  const wireKey = idempotencyKeyOf(key, 'idempotency_key', { field: 'idempotency_key' })
  return idempotencyKeyOf(`hlp/${String(task_id)}/${wireKey}`, 'idempotency_key with its task', { field: 'idempotency_key' })!
}
