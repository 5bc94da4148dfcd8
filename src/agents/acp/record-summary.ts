// The latest deliverables of a task as text, for an agent whose own session is gone.
import type { Port } from '../programs/conversation.ts'

const SHOWN_CHARS = 8_000

export async function recordOf({ call }: Port, task_id: string | null): Promise<string> {
  if (task_id === null) return 'nothing'
  const { task } = await call('collaboration/task.get', { task_id })
  const parts: string[] = []
  for (const artifact_id of task.artifacts.slice(-2)) {
    const { artifact } = await call('collaboration/artifact.get', { artifact_id })
    const { uri, kind } = artifact.payload
    const at = uri.indexOf(',')
    const isText = uri.startsWith('data:') && at > 0
    const text = isText
      ? textIn(uri.slice(0, at), uri.slice(at + 1)).slice(0, SHOWN_CHARS)
      : `(${kind}, ${artifact.payload.size ?? '?'} bytes)`
    parts.push(`You delivered ${artifact.type} ${artifact_id} ${artifact.version}:\n${text}`)
  }
  return parts.length === 0 ? 'You delivered nothing yet.' : parts.join('\n\n')
}
const textIn = (head: string, body: string): string =>
  head.endsWith(';base64') ? Buffer.from(body, 'base64').toString() : decodeURIComponent(body)
