// `inbox`: at a terminal a list to walk through and to answer from, in a script a list to read; and single answers by id.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import { answerSpec, itemIdOf, requestFlag } from '../answer/answer.ts'
import { derivedSpec, everyPage, inputFlags, inputOf } from '../derive/from-operation.ts'
import { deliveredOf } from '../inbox/deliverable.ts'
import { usage } from '../exit-codes.ts'
import { flag, type Flag } from '../derive/flags.ts'
import { cardLines, isOpen } from '../inbox/card.ts'
import { liveInbox } from '../inbox/live.ts'
import { show } from '../output/render.ts'
import { spec, type Spec } from '../derive/command.ts'
import { columnsOf } from '../terminal.ts'
import { escapeControl } from '../output/safe-text.ts'
import { untilOf } from '../input/parse-when.ts'

/** `inbox list` with --all, and `inbox` itself, which does the same unless it runs in a terminal. */
export function inboxSpecs(protocol: Protocol, op: Operation): Spec[] {
  const derived = derivedSpec(protocol, op)
  const isLast = ({ name }: Flag): boolean => name === 'limit' || name === 'all'
  const flags = [...derived.flags.filter((flag) => !isLast(flag)), ...derived.flags.filter(isLast)]
  const list: Spec = {
    ...derived,
    flags,
    examples: ['countersign inbox list', 'countersign inbox list --priority critical --all --json'],
    async run(context, given) {
      const input = await inputOf(context, op, list, given)
      const remote = await context.remote()
      await show(
        context,
        op.name,
        given.get('all') === true
          ? await everyPage(remote, 'execution/inbox.list', input)
          : await remote.callAny('execution/inbox.list', input),
      )
    },
  }
  const open = spec('inbox', 'Everything that waits for you: walk through it and answer with one key each; in a script, the list.', {
    flags: flags.filter((flag) => !inputFlags.includes(flag)),
    examples: ['countersign inbox', 'countersign inbox --kind review', 'countersign inbox --json | jq .items[].title'],
    async run(context, given) {
      const { io } = context
      const isLive = io.input.isTTY === true && io.out.isTTY === true && !context.json && io.env['TERM'] !== 'dumb'
      if (!isLive || given.get('all') === true || given.get('cursor') !== undefined) return list.run(context, given)
      const { limit: _, ...query } = await inputOf(context, op, list, given)
      return liveInbox(context, await context.remote(), query)
    },
  })
  return [open, list]
}

/** One item as a person should see it before they answer. */
export function inboxGetSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  return {
    ...derived,
    async run(context, given) {
      const remote = await context.remote()
      const input = await inputOf(context, op, derived, given)
      const request_id = await itemIdOf(remote, input['request_id'] as string)
      const answer = await remote.call('execution/inbox.get', { ...input, request_id })
      if (context.json) return show(context, op.name, answer)
      const { io, paint } = context
      const { item } = answer
      const { artifact } = item.card
      const delivered = artifact === undefined ? null : await deliveredOf(remote, artifact.artifact_id, artifact.version)
      const lines = cardLines(item, columnsOf(io.out), Date.parse(item.created_at) + item.age_seconds * 1_000, delivered)
      io.out.write(lines.map(({ text, style }) => `${style === undefined ? text : paint(style, text)}\n`).join(''))
      const { confirm } = item.guard
      if (confirm !== null && isOpen(item))
        io.out.write(`${paint('yellow', `To answer: --confirm ${JSON.stringify(escapeControl(confirm))}`)}\n`)
      io.out.write(`${paint('dim', `digest ${item.digest}`)}\n`)
    },
  }
}

const snooze = spec('inbox snooze', 'Hide one item from yourself until a time; others see it as before.', {
  positionals: [requestFlag, flag('until', 'time', '30m, 2h, 1d, tomorrow, PT2H or a time; an hour by default')],
  examples: ['countersign inbox snooze hxp_1 2h', 'countersign inbox snooze hxp_1 tomorrow'],
  async run(context, given) {
    const until = untilOf((given.get('until') as string | undefined) ?? '1h', Date.now())
    if (until === null) throw usage('<until> must be a time such as 30m, 2h, 1d, tomorrow, PT2H or 2026-12-24T09:00:00Z')
    const input = { request_id: given.get('request-id') as string, until }
    await show(context, 'request.snooze', await (await context.remote()).call('execution/request.snooze', input))
  },
})

export const inboxAnswers: readonly Spec[] = [answerSpec, snooze]
