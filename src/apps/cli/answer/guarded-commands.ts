// Commands that answer by the bare operation, `request resolve`, `checkpoint resolve` and `inbox resolve`, behind the same guard as `inbox answer`.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import type { Input } from '#sdk/client.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import { payloadOf } from '../inbox/card.ts'
import { refuseUnshown } from '../inbox/deliverable.ts'
import { derivedSpec, inputOf, keyIn } from '../derive/from-operation.ts'
import { flag, type FlagValues } from '../derive/flags.ts'
import type { Remote } from '../remote/remote.ts'
import { show, writeJson } from '../output/render.ts'
import type { Spec } from '../derive/command.ts'
import { escapeControl } from '../output/safe-text.ts'
import { itemIdOf } from './answer.ts'
import { confirmAnswer, phraseFor } from './guard.ts'
import { isJudged, refuseForeignWord } from './words.ts'

const confirmFlag = flag('confirm', 'text', 'from R4 on: the phrase of the item, as `inbox show` prints it')

/** The item as the caller sees it; null: the caller cannot answer it, and the server will say so. Others than people would be denied. */
async function itemAt(remote: Remote, id: string): Promise<Item | null> {
  try {
    const { kind } = await remote.call('identity/me.get', {})
    if (kind !== 'human') return null
    const request_id = await itemIdOf(remote, id)
    return (await remote.call('execution/inbox.get', { request_id })).item
  } catch (error) {
    if (error instanceof CliError && error.exit === exits.refused) return null
    throw error
  }
}

/** The label of an option that was given by its id. */
function labelOf(item: Item, result: unknown): unknown {
  const { options = [], option_ids = [] } = payloadOf(item)
  const at = (option_ids as readonly unknown[]).indexOf(result)
  return at === -1 ? result : options[at]
}

type Answering = {
  readonly id: string
  readonly result: unknown
}

function guardedSpec(protocol: Protocol, op: Operation, answerIn: (input: Record<string, unknown>, given: FlagValues) => Answering): Spec {
  const derived = derivedSpec(protocol, op)
  const spec: Spec = {
    ...derived,
    flags: [...derived.flags, confirmFlag],
    async run(context, given) {
      const input = await inputOf(context, op, derived, given)
      const remote = await context.remote()
      const { id, result } = answerIn(input, given)
      const item = await itemAt(remote, id)
      if (item !== null) {
        // A value given as JSON is literal.
        const word = given.get('result')
        if (typeof word === 'string' && !isJudged(item)) refuseForeignWord(item, word, false)
        await refuseUnshown(remote, item, result, input['digest'] as string | undefined)
        await confirmAnswer(context.io, item, labelOf(item, result), given.get('confirm') as string | undefined)
      }
      await show(context, op.name, await remote.callAny(`${protocol.name}/${op.name}`, input, keyIn(given)))
    },
  }
  return spec
}

export const requestResolveSpec = (protocol: Protocol, op: Operation): Spec =>
  guardedSpec(protocol, op, ({ request_id, result }) => ({ id: request_id as string, result }))

/** The answers of a checkpoint are actions. Actions that permit nothing need no phrase. */
export const checkpointResolveSpec = (protocol: Protocol, op: Operation): Spec =>
  guardedSpec(protocol, op, ({ checkpoint_id, action, approved_actions, choice }) => {
    const isNo = action === 'reject' || action === 'reassign' || (Array.isArray(approved_actions) && approved_actions.length === 0)
    return { id: checkpoint_id as string, result: isNo ? 'rejected' : (choice ?? 'approved') }
  })

/** Several answers in one call. A script learns from the exit code that not all of them counted. */
export function inboxResolveSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  return {
    ...derived,
    async run(context, given) {
      const remote = await context.remote()
      const input = (await inputOf(context, op, derived, given)) as Input<'execution/inbox.resolve'>
      await refuseUnfit(remote, input.answers)
      const answer = await remote.call('execution/inbox.resolve', input, keyIn(given))
      const isWhole = answer.results.every(({ ok }) => ok)
      if (context.json) writeJson(context, answer)
      else
        for (const { ok, request_id, code = '', message = '', outcome, receipt } of answer.results) {
          const refused = outcome === 'unknown' ? 'perhaps answered' : 'not answered'
          const [sign, outcomeText] = ok
            ? [context.paint('green', '✔'), receipt === undefined ? 'voted' : `answered (receipt ${escapeControl(receipt.receipt_id)})`]
            : [context.paint('red', '✖'), `${refused}: ${escapeControl(message)} [${escapeControl(code)}]`]
          context.io.out.write(`${sign} ${escapeControl(request_id)} ${outcomeText}\n`)
        }
      return isWhole ? exits.ok : exits.refused
    },
  }
}

/** A batch with an item that needs its own confirmation is refused as a whole: nothing of it is sent. */
async function refuseUnfit(remote: Remote, answers: readonly { request_id: string; result: unknown }[]): Promise<void> {
  const unfit: string[] = []
  for (const { request_id, result } of answers) {
    const item = await itemAt(remote, request_id)
    if (item === null) continue
    const why = (answers.length > 1 ? item.guard.batch : null) ?? (phraseFor(item, result) === null ? null : 'It needs --confirm.')
    if (why !== null) unfit.push(`${request_id}: ${escapeControl(why)}`)
  }
  if (unfit.length > 0)
    throw usage(`these cannot be part of a batch; nothing was sent:\n${unfit.join('\n')}`, 'answer each with `countersign inbox answer`')
}
