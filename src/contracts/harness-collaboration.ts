// The contract from sessions to deliverables: when a session of a task completes, the outputs of the other harness are committed for review.
import { limits } from '#kernel/limits.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Contract } from '#kernel/declare/operation.ts'
import { Task } from '#protocols/collaboration/schema.ts'
import { contractsBetween } from './contract.ts'

const up = contractsBetween({ from: 'harness', to: 'collaboration' })

const delivers = up('completed-delivers', 'session.completed', 'artifact.commit', async ({ subject }, read) => {
  const { id, role, task_id, outputs, artifacts, sealed } = subject
  const task = role === 'caller' && task_id !== null ? await read.raw(Task, task_id) : null
  if (task === null || task.state !== 'in_progress') return null
  // Confidential or oversized outputs stay in the session, and the deliverable names the session.
  const whole = sealed === null ? canonical({ outputs, artifacts }) : null
  const fits = whole !== null && Buffer.byteLength(whole) <= limits.inlineBytesMax
  const uri = `data:application/json;base64,${Buffer.from(fits ? whole : canonical({ session: id })).toString('base64')}`
  return { task_id: task.id, type: 'outputs', payload: { kind: 'inline', uri } }
})

export const harnessToCollaboration: readonly Contract[] = [delivers]
