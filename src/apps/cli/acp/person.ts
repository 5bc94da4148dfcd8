// The person at an editor: the login that its answers count for.
import type { Person } from '#gate/acp/questions.ts'
import { isForEditor } from '#protocols/execution/access.ts'
import type { Output } from '#sdk/client.ts'
import type { Transport } from '#sdk/transport/transport.ts'
import { usage } from '../exit-codes.ts'

const REASON = 'answered in the editor'
const ELSEWHERE = 'its risk is R4 or above, or several or named people answer it'

/** Refuses a login of another person, as soon as the server says whose it is. */
export async function openPerson(transport: Transport, as: string | undefined): Promise<Person> {
  const wanted = as === undefined || as.includes('_') ? as : `user_${as}`
  let checked: Promise<string | null> | null = null
  /** Why the login does not count; null: it does. */
  const check = (): Promise<string | null> =>
    (checked ??= transport.call('identity/me.get', {}).then(
      (answer) => {
        const { id, kind } = answer as Output<'identity/me.get'>
        if (kind !== 'human') return `the stored login is of ${id}, who is no person`
        return wanted === undefined || wanted === id ? null : `the stored login is of ${id}, not of ${wanted}`
      },
      (error: unknown) => {
        checked = null
        throw error
      },
    ))
  const refusal = await check().catch(() => null)
  if (refusal !== null && as !== undefined) throw usage(refusal, `log in as ${wanted}: \`countersign login --as ${wanted}\``)
  return {
    async refusal(request_id) {
      const wrong = await check()
      if (wrong !== null) return wrong
      const { request } = (await transport.call('execution/request.get', { request_id })) as Output<'execution/request.get'>
      return isForEditor(request) ? null : ELSEWHERE
    },
    async answer(request_id, verdict) {
      const result = verdict === 'allow' ? 'approved' : 'rejected'
      await transport.call('execution/request.resolve', { request_id, result, reason: REASON, surface: 'editor' })
    },
  }
}
