// Laws of the inbox, written down a second time: each thing that waits on a person has one open item, and every open item of a task stands
// for such a thing; an ended one never changes; and both sides say the same about who decided what.
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'
import { isAllDenied } from './question-laws.ts'

const REQUEST = 'execution.request/'
const TASK = 'collaboration.task/'
const CHECKPOINT = 'collaboration.checkpoint/'

const isOpen = ({ status }: any): boolean => status === 'pending' || status === 'assigned'

export type ItemLaws = { judge(fact: SeenFact): void; judgeGroup(): void }

export function createItemLaws(record: FactRecord, fail: Fail): ItemLaws {
  const open = new Map<string, Set<string>>()
  let tasks = new Set<string>()
  let ended = new Set<string>()
  const docOf = (key: string): any => record.docs.get(key)?.value ?? null

  function judge({ line, images }: SeenFact): void {
    for (const { key, before, after } of images) {
      if (key.startsWith(TASK)) tasks.add(after.id)
      if (!key.startsWith(REQUEST)) continue
      if (before?.receipt !== undefined) fail(`${line.action} changes ${key}, which has ended`)
      if (isOpen(after) === (after.receipt !== undefined)) fail(`${line.action} leaves ${key} ${after.status} with its receipt`)
      if (after.receipt !== undefined) ended.add(after.id)
      if (after.task_id === undefined) continue
      const items = open.get(after.task_id) ?? new Set()
      open.set(after.task_id, items)
      if (isOpen(after)) items.add(after.id)
      else items.delete(after.id)
      tasks.add(after.task_id)
    }
  }

  function judgeGroup(): void {
    const [all, over] = [tasks, ended]
    tasks = new Set()
    ended = new Set()
    for (const id of all) {
      const task = docOf(TASK + id)
      if (task !== null) judgeTask(task)
    }
    for (const id of over) judgeEnd(docOf(REQUEST + id))
  }

  function judgeTask(task: any): void {
    const items = [...(open.get(task.id) ?? [])].map((id) => docOf(REQUEST + id))
    const waits: string | null = task.state === 'review_ready' ? 'review' : task.pending_checkpoint
    const stands = items.map(({ kind, checkpoint_id }) => (kind === 'review' ? 'review' : checkpoint_id)).join()
    if (stands !== (waits ?? '')) fail(`${task.id} is ${task.state} and waits for ${waits}, and in the inbox stands: ${stands}`)
    const judges = [task.ownership.principal, ...task.reviewers.filter((who: string) => who !== task.executor)]
    // A person who is gone, or was until now, is looked at when all is quiet.
    const isThere = (who: string): boolean => {
      const user = docOf(`identity.user/${who}`)
      return !user.disabled && user.projects.some((one: any) => one.project_id === task.project_id)
    }
    for (const { id, people, gone } of judges.every(isThere) ? items : [])
      if (gone === undefined && people.join() !== [...new Set(judges)].join())
        fail(`${id} is for ${people.join()}, and ${task.id} is decided by ${judges.join()}`)
  }

  function judgeEnd({ id, kind, action, task_id, checkpoint_id, receipt }: any): void {
    if (task_id === undefined || kind === 'review') return
    if (checkpoint_id === undefined) {
      if (receipt.basis.kind !== 'grant') fail(`${id} was answered for ${task_id}, which it never asked`)
      return
    }
    const { state, resolution, takeover } = docOf(CHECKPOINT + checkpoint_id)
    const { by, status, result } = receipt
    if (state === 'pending') return fail(`${id} has ended, and ${checkpoint_id} still waits`)
    if (state === 'expired' && status === 'completed') return fail(`${id} was answered, and ${checkpoint_id} expired`)
    if (state === 'expired' || by === 'agent_system') return
    if (resolution.by !== by) fail(`${id} was decided by ${by}, and ${checkpoint_id} by ${resolution.by}`)
    // Somebody who took the work over has delivered: nothing was asked, and nothing is approved.
    if (status === 'cancelled' && resolution.edited_artifact_ref !== undefined && takeover) return
    const isYes = resolution.action === 'approve' && !isAllDenied(resolution)
    if (isYes !== (result === 'approved')) fail(`${id} says ${result}, and ${checkpoint_id} ${resolution.action}`)
    // A rejection answers what was to be approved; with it nobody has chosen or provided anything.
    const no = action === 'APPROVE' ? 'completed rejected' : 'cancelled null'
    if (resolution.action === 'reject' && `${status} ${result}` !== no) fail(`${id} says ${result}, and ${checkpoint_id} was rejected`)
  }

  return { judge, judgeGroup }
}
