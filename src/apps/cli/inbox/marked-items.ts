// One answer for several marked items: each is sent with the digest of what was shown, and each has an outcome of its own.
import { limits } from '#kernel/limits.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { reasonFor, sure, warningFor, type InboxActions, type Stage } from './actions.ts'
import { verdictOf } from './keyboard-help.ts'
import type { Remote } from '../remote/remote.ts'

const itemCount = (count: number): string => (count === 1 ? '1 item' : `${count} items`)

/** `key` is a, r, A or R. */
export function answerMany(remote: Remote, stage: Stage, answers: InboxActions, marked: readonly Item[], key: string): void {
  const { tell, ask, attempt, items, answered } = stage
  const lower = key.toLowerCase()
  const foreign = marked.find((item) => verdictOf(item, lower) === undefined)
  if (foreign !== undefined) return tell(`Not answered: "${foreign.title}" takes another answer; unmark it with space`, 'red')
  const guarded = marked.find((item) => item.guard.batch !== null)
  if (guarded !== undefined) return tell(`Not answered: "${guarded.title}" goes alone. ${guarded.guard.batch} Unmark it with space`, 'red')
  const result = verdictOf(marked[0]!, lower)!

  async function send(reason: string | undefined): Promise<void> {
    const refused: string[] = []
    for (let at = 0; at < marked.length; at += limits.answersMax) {
      const portion = marked.slice(at, at + limits.answersMax)
      const input = portion.map(({ request_id, digest }) => ({ request_id, digest, result, ...(reason === undefined ? {} : { reason }) }))
      const { results } = await remote.call('execution/inbox.resolve', { answers: input })
      for (const [i, { request_id, ok, receipt, message = '' }] of results.entries()) {
        const item = portion[i]!
        const outcome = receipt === undefined ? `${result}, your vote` : result
        if (ok) {
          items.mark(request_id, outcome)
          answered(item, outcome)
        } else {
          refused.push(`"${item.title}": ${message}`)
          await items.reload(request_id)
        }
      }
    }
    items.picked.clear()
    const done = marked.length - refused.length
    if (refused.length === 0) tell(`✔ ${result}: ${itemCount(done)}`, 'green')
    else tell(`✔ ${result}: ${itemCount(done)}; refused: ${refused.join('; ')}`, 'red')
  }

  const go = (reason?: string): void => {
    const warned = marked.filter((item) => warningFor(item, result) !== null).length
    const warning = warned === 0 ? null : `${itemCount(marked.length)}. ${itemCount(warned)} would end a task.`
    const question = result === 'approved' ? 'Approve all of them?' : 'Reject all of them?'
    sure(stage, { item: marked[0]!, result, warning, question }, () => attempt(() => answers.busily(() => send(reason))))
  }
  const required = marked.map((item) => reasonFor(item, result)).find((message) => message !== null) ?? null
  if (required === null && key === lower) return go()
  ask(required ?? `Why? One reason for ${itemCount(marked.length)}.`, (text) => {
    if (text.trim() !== '') return go(text)
    return required === null ? go() : tell('Not answered: a reason is required here', 'red')
  })
}
