// The delivery of an ACP agent: its text of the last turn, and the changes of the folder as a patch.
import { limits } from '#kernel/limits.ts'
import type { Outcome } from '../programs/conversation.ts'
import { inlineUri } from '../programs/lines.ts'
import { untilFree, type Talk } from './talk.ts'

type Code = { readonly code?: unknown; readonly message: string }

export async function deliver(talk: Talk): Promise<Outcome> {
  const { port, item, folder, snapshot, note } = talk
  const patch = snapshot === null ? null : await folder.patchSince(snapshot)
  const text = talk.text.trim()
  if (text === '' && patch === null) return { kind: 'failed', message: 'the agent ended its turn and said nothing', isFatal: false }
  const { id, task_id } = item.run
  if (task_id === null) {
    const result = { text: text.slice(0, limits.textCharsMax), ...(patch === null ? {} : { files: patch.files.slice(0, 100) }) }
    return act(talk, () => port.call('delegation/run.complete', { run_id: id, attempt: talk.item.attempt, result }))
  }
  const fence = () => ({ task_id, run_id: id, attempt: talk.item.attempt })
  const commit = async (key: string, type: string, content: string, kind: 'inline' | 'diff', isLast: boolean): Promise<Outcome> => {
    const bytes = Buffer.from(content)
    const payload =
      bytes.length <= limits.inlineBytesMax / 2 ? { kind, uri: inlineUri(content) } : { kind, ...(await port.upload(task_id, bytes)) }
    const options = { idempotencyKey: `acp/${id}/${key}` }
    return act(talk, () =>
      port.call('collaboration/artifact.commit', { ...fence(), type, payload, ...(isLast ? {} : { final: false as const }) }, options),
    )
  }
  if (patch === null) return commit('text', 'text', text, 'inline', true).then(announce)
  if (text !== '') {
    const first = await commit('text', 'text', text, 'inline', false)
    if (first.kind !== 'over') return first
  }
  return commit('patch', patch.isCut ? 'files' : 'patch', patch.text, patch.isCut ? 'inline' : 'diff', true).then(announce)

  function announce(outcome: Outcome): Outcome {
    if (outcome.kind === 'over') note(`delivered${patch === null ? '' : `, ${patch.files.length} changed files`}`)
    return outcome
  }
}

/** A call that ends the run, or leads to it. It waits while a person has stopped the run. */
async function act(talk: Talk, call: () => Promise<unknown>): Promise<Outcome> {
  for (;;) {
    const { attempt } = talk.item
    try {
      await call()
      return { kind: 'over' }
    } catch (error) {
      const { code, message } = error as Code
      if (typeof code !== 'string' || talk.outcome !== null) throw error
      const { run } = await talk.port.call('delegation/run.get', { run_id: talk.item.run.id })
      if (run.state === 'completed' || run.state === 'failed') return { kind: 'over' }
      if (talk.item.attempt !== attempt) continue
      if (run.state === 'blocked') await untilFree(talk)
      else if (code === 'CONFLICT') return { kind: 'lost' }
      else return { kind: 'failed', message, isFatal: true }
      if (talk.closing.signal.aborted) return talk.outcome ?? { kind: 'stopped' }
    }
  }
}
