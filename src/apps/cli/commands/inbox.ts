// `inbox`: at a terminal a list to walk through and to answer from, in a script a list to read; and single answers by id.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import type { Checkpoint } from '#protocols/collaboration/schema.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { mirroredItemId } from '#protocols/execution/mirror/ids.ts'
import { sentFile } from './artifact.ts'
import { derivedSpec, inputFlags, inputOf, keyIn } from '../derive/from-operation.ts'
import { deliveredOf } from '../inbox/deliverable.ts'
import { exits, usage } from '../exit-codes.ts'
import { flag, jsonFrom, objectIn, type Flag, type Given } from '../derive/flags.ts'
import { cardIn, cardLines } from '../inbox/card.ts'
import { liveInbox } from '../inbox/live.ts'
import { readInput } from '../input/read-input.ts'
import type { Remote } from '../remote/remote.ts'
import { show, writeJson } from '../output/render.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { columnsOf, type Io } from '../terminal.ts'
import { escapeControl } from '../output/safe-text.ts'
import { untilOf } from '../input/parse-when.ts'

const requestFlag: Flag = { ...flag('request-id', 'id', 'which item'), path: ['request_id'], required: true }
const allFlag = flag('all', null, 'every page')
/** More than anybody reads at once. */
const ALL_MAX = 10_000

/** `inbox list` with --all, and `inbox` itself, which is the same unless somebody sits at a terminal. */
export function inboxSpecs(protocol: Protocol, op: Operation): Spec[] {
  const derived = derivedSpec(protocol, op)
  const flags = [...derived.flags.filter(({ name }) => name !== 'limit'), ...derived.flags.filter(({ name }) => name === 'limit'), allFlag]
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
        given.get('all') === true ? await every(remote, input) : await remote.call('execution/inbox.list', input),
      )
    },
  }
  const open = spec('inbox', 'Everything that waits for you: walk through it and answer with one key each; in a script, the list.', {
    flags: flags.filter((one) => !inputFlags.includes(one)),
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

async function every(remote: Remote, input: Record<string, unknown>): Promise<{ items: unknown[]; next_cursor: string | null }> {
  const items: unknown[] = []
  let cursor: string | null = null
  do {
    const page: { items: unknown[]; next_cursor: string | null } = await remote.call('execution/inbox.list', {
      limit: limits.pageMax,
      ...input,
      ...(cursor === null ? {} : { cursor }),
    })
    items.push(...page.items)
    cursor = page.next_cursor
  } while (cursor !== null && items.length < ALL_MAX)
  return { items, next_cursor: cursor }
}

/** Several answers in one call. A script learns from the exit code that not all of them counted. */
export function inboxResolveSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  return {
    ...derived,
    async run(context, given) {
      const remote = await context.remote()
      const answer: {
        results: { ok: boolean; request_id: string; code?: string; message?: string; outcome?: string; receipt?: { receipt_id: string } }[]
      } = await remote.call('execution/inbox.resolve', await inputOf(context, op, derived, given), keyIn(given))
      const isWhole = answer.results.every(({ ok }) => ok)
      if (context.json) writeJson(context, answer)
      else
        for (const { ok, request_id, code = '', message = '', outcome, receipt } of answer.results) {
          const refused = outcome === 'unknown' ? 'perhaps answered' : 'not answered'
          const [sign, words] = ok
            ? [context.paint('green', '✔'), receipt === undefined ? 'voted' : `answered (receipt ${escapeControl(receipt.receipt_id)})`]
            : [context.paint('red', '✖'), `${refused}: ${escapeControl(message)} [${escapeControl(code)}]`]
          context.io.out.write(`${sign} ${escapeControl(request_id)} ${words}\n`)
        }
      return isWhole ? exits.ok : exits.refused
    },
  }
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
      const answer: { item: Item } = await remote.call('execution/inbox.get', { ...input, request_id })
      if (context.json) return show(context, op.name, answer)
      const { io, paint } = context
      const { item } = answer
      const { artifact } = cardIn(item)
      const delivered = artifact === undefined ? null : await deliveredOf(remote, artifact.artifact_id, artifact.version)
      const lines = cardLines(item, columnsOf(io.out), Date.parse(item.created_at) + item.age_seconds * 1_000, delivered)
      io.out.write(lines.map(({ text, style }) => `${style === undefined ? text : paint(style, text)}\n`).join(''))
      io.out.write(`${paint('dim', `digest ${item.digest}`)}\n`)
    },
  }
}

const answer = spec('inbox answer', 'Answer one item: approve or reject it, choose an option, or provide a value.', {
  positionals: [
    requestFlag,
    flag(
      'result',
      'text',
      'the answer: approve or reject, an option, or a value; several as a JSON list; - reads standard input, as secrets should',
    ),
  ],
  flags: [
    flag('file', 'path', 'the file that was asked for, instead of a result'),
    flag('edited', 'json', 'with approve: the whole details as you approve them, where the agent gave a schema for them'),
    flag('reason', 'text', 'why; the agent and the record get it'),
    flag('digest', 'text', 'answer only if the item still has this digest; `inbox show` prints it'),
  ],
  examples: [
    'countersign inbox answer hxp_1 approve',
    `countersign inbox answer hxp_1 approve --edited '{"amount":40}'`,
    "countersign inbox answer hxp_1 reject --reason 'Not today.'",
    "countersign inbox answer hxp_1 changes --reason 'Handle the empty list.'",
    'countersign inbox answer hxp_1 - < secret.txt',
    'countersign inbox answer hxp_1 --file contract.pdf',
  ],
  async run(context, given) {
    const remote = await context.remote()
    const request_id = await itemIdOf(remote, given.get('request-id') as string)
    const { item }: { item: Item } = await remote.call('execution/inbox.get', { request_id })
    const reason = given.get('reason') as string | undefined
    const edited = objectIn(given, 'edited')
    const input = {
      request_id,
      result: await resultFrom(context, given, item),
      digest: (given.get('digest') as string | undefined) ?? item.digest,
      ...(reason === undefined ? {} : { reason }),
      ...(edited === undefined ? {} : { edited }),
    }
    const done: Resolved = await remote.call('execution/request.resolve', input)
    if (context.json) return writeJson(context, done)
    context.io.out.write(`${context.paint('green', '✔')} ${doneAs(item, input.result, done)}\n`)
  },
})

/** The item of a checkpoint, whose id scripts have at hand; any other id is that of an item. */
async function itemIdOf(remote: Remote, id: string): Promise<string> {
  if (!id.startsWith('ckpt_')) return id
  const { checkpoint }: { checkpoint: Checkpoint } = await remote.call('collaboration/checkpoint.get', { checkpoint_id: id })
  return checkpoint.request_id ?? mirroredItemId(id)
}

type Resolved = { readonly request: { readonly status: string }; readonly receipt?: { readonly receipt_id: string } }
/** The effect of an answer, in a line. */
function doneAs(item: Item, result: unknown, { receipt }: Resolved): string {
  const { sensitive } = cardIn(item).payload
  const isVerdict = item.action === 'APPROVE' || item.kind === 'review'
  const words = isVerdict ? String(result) : sensitive === true ? 'provided a secret' : `answered ${escapeControl(JSON.stringify(result))}`
  const about = `${words}: ${escapeControl(item.title)}`
  return receipt === undefined ? `voted, ${about} (more votes are needed)` : `${about} (receipt ${escapeControl(receipt.receipt_id)})`
}

const verdicts = new Map([
  ['approve', 'approved'],
  ['yes', 'approved'],
  ['reject', 'rejected'],
  ['no', 'rejected'],
  ['changes', 'changes_requested'],
])

async function resultFrom(context: Context, of: Given, item: Item): Promise<unknown> {
  const { io } = context
  const [text, file] = [of.get('result') as string | undefined, of.get('file') as string | undefined]
  if ((text === undefined) === (file === undefined)) throw usage('give <result> or --file <path>')
  if (file !== undefined) return sentFile(context, item.request_id, file)
  return textFrom(io, text!, item)
}

async function textFrom(io: Io, text: string, item: Item): Promise<unknown> {
  const given = text === '-' ? (await readInput(io, '-', 4 * limits.textCharsMax)).toString().replace(/\r?\n$/, '') : text
  if (item.action === 'APPROVE' || item.kind === 'review') return verdicts.get(given.toLowerCase()) ?? given
  const { validation, input_type } = cardIn(item).payload
  if (validation?.multiple !== true && input_type !== 'file') return given
  if (!/^\s*[[{]/.test(given)) return validation?.multiple === true ? [given] : given
  try {
    return jsonFrom(given)
  } catch (error) {
    throw usage(`<result> ${(error as Error).message}`)
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

export const inboxAnswers: readonly Spec[] = [answer, snooze]
