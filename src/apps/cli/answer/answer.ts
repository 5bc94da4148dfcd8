// `inbox answer`: answers one item by its id. The kind of question decides the accepted words; a risk above R3 needs the phrase of the
// item; every question can be declined.
import { limits } from '#kernel/limits.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { mirroredItemId } from '#protocols/execution/mirror/ids.ts'
import type { Output } from '#sdk/client.ts'
import { sentFile } from '../commands/artifact.ts'
import { CliError, usage } from '../exit-codes.ts'
import { flag, jsonFrom, objectIn, type Flag, type FlagValues } from '../derive/flags.ts'
import { handingOver } from '../inbox/actions.ts'
import { payloadOf } from '../inbox/card.ts'
import { refuseUnshown } from '../inbox/deliverable.ts'
import { readInput } from '../input/read-input.ts'
import type { Remote } from '../remote/remote.ts'
import { writeJson } from '../output/render.ts'
import { spec, type Context } from '../derive/command.ts'
import { escapeControl } from '../output/safe-text.ts'
import { confirmAnswer } from './guard.ts'
import { isJudged, refuseForeignWord, verdictFor } from './words.ts'

export const requestFlag: Flag = { ...flag('request-id', 'id', 'which item'), path: ['request_id'], required: true }

export const answerSpec = spec('inbox answer', 'Answer one item: approve or reject it, choose an option, provide a value, or decline it.', {
  positionals: [
    requestFlag,
    flag(
      'result',
      'text',
      'the answer: approve, reject or changes; tell or end for an escalation, resume or end for an interrupt; an option; a value; - reads standard input',
    ),
  ],
  flags: [
    flag(
      'value',
      'text',
      'the value itself, whatever word it is, such as the literal word reject; - reads standard input, as secrets should',
    ),
    flag('file', 'path', 'the requested file, instead of a result'),
    flag('edited', 'json', 'with approve: the whole details as you approve them, where the agent gave a schema for them'),
    flag('to', 'agent', 'hand the task of an escalation to this agent, instead of a result'),
    flag('decline', null, 'give no answer and say why (--reason); the agent gets that, and stops waiting'),
    flag('reason', 'text', 'why; the agent and the record get it, with a yes too'),
    flag('confirm', 'text', 'from R4 on: the phrase of the item, as `inbox show` prints it'),
    flag('digest', 'text', 'answer only if the item still has this digest; `inbox show` prints it'),
  ],
  examples: [
    'countersign inbox answer hxp_1 approve',
    `countersign inbox answer hxp_1 approve --edited '{"amount":40}'`,
    'countersign inbox answer hxp_1 approve --confirm db-payments-0',
    "countersign inbox answer hxp_1 reject --reason 'Not today.'",
    "countersign inbox answer hxp_1 changes --reason 'Handle the empty list.'",
    "countersign inbox answer hxp_1 tell --reason 'Use the staging key.'",
    'countersign inbox answer hxp_1 --to agent_kim',
    "countersign inbox answer hxp_1 --decline --reason 'I do not hand out that token.'",
    'countersign inbox answer hxp_1 - < secret.txt',
    'countersign inbox answer hxp_1 --file contract.pdf',
  ],
  async run(context, given) {
    const act = oneOf(given)
    const remote = await context.remote()
    const request_id = await itemIdOf(remote, given.get('request-id') as string)
    const { item } = await remote.call('execution/inbox.get', { request_id })
    const reason = given.get('reason') as string | undefined
    const looked = given.get('digest') as string | undefined
    const digest = looked ?? item.digest
    if (act === 'to') return handOver(context, remote, { ...item, digest }, given.get('to') as string, reason)
    const why = reason === undefined ? {} : { reason }
    if (act === 'decline')
      return finish(context, item, 'declined', await remote.call('execution/request.decline', { request_id, digest, reason: reason! }))
    const edited = objectIn(given, 'edited')
    const result = await resultFrom(context, given, item)
    if (item.asks === 'escalation' && result === 'approved' && (reason ?? '').trim() === '')
      throw usage('the agent asks what to do, and tell says something to the agent: give it with --reason')
    await refuseUnshown(remote, item, result, looked)
    await confirmAnswer(context.io, item, result, given.get('confirm') as string | undefined)
    const input = { request_id, result, digest, ...why, ...(edited === undefined ? {} : { edited }) }
    return finish(context, item, result, await remote.call('execution/request.resolve', input))
  },
})

type Resolved = Output<'execution/request.resolve'>

function finish(context: Context, item: Item, result: unknown, done: Resolved): void {
  if (context.json) return writeJson(context, done)
  context.io.out.write(`${context.paint('green', '✔')} ${doneAs(item, result, done)}\n`)
}

const ways = ['result', 'value', 'file', 'to', 'decline'] as const

function oneOf(given: FlagValues): (typeof ways)[number] {
  const used = ways.filter((name) => given.get(name) !== undefined && given.get(name) !== false)
  if (used.length !== 1) throw usage('give one of <result>, --value <text>, --file <path>, --to <agent> and --decline')
  const [way] = used as [(typeof ways)[number]]
  if (way === 'decline' && given.get('reason') === undefined) throw usage('--decline needs --reason <text>: the agent gets it')
  if ((way === 'decline' || way === 'to') && (given.get('edited') !== undefined || given.get('confirm') !== undefined))
    throw usage(`--edited and --confirm go with an answer, not with --${way}`)
  return way
}

/** The item of a checkpoint, whose id scripts have at hand; any other id is that of an item. */
export async function itemIdOf(remote: Remote, id: string): Promise<string> {
  if (!id.startsWith('ckpt_')) return id
  const { checkpoint } = await remote.call('collaboration/checkpoint.get', { checkpoint_id: id })
  return checkpoint.request_id ?? mirroredItemId(id)
}

async function handOver(context: Context, remote: Remote, item: Item, assignee: string, comment: string | undefined): Promise<void> {
  if (item.kind !== 'escalation')
    throw usage('--to answers an escalation, and this is none', 'hand any task to another agent with `countersign task reassign`')
  const input = { ...handingOver(item, assignee), ...(comment === undefined ? {} : { comment }) }
  const done = await remote.call('collaboration/checkpoint.resolve', input)
  const connected = await isConnected(remote, assignee)
  if (context.json) return writeJson(context, { ...done, connected })
  const offline = connected === false ? '; it is offline and receives the task when it connects' : ''
  context.io.out.write(`${context.paint('green', '✔')} handed to ${escapeControl(assignee)}: ${escapeControl(item.title)}${offline}\n`)
}

/** null: not known. The task is handed over either way. */
async function isConnected(remote: Remote, agent_id: string): Promise<boolean | null> {
  try {
    const { agent } = await remote.call('identity/agent.get', { agent_id })
    return agent.last_seen !== null && Date.now() - Date.parse(agent.last_seen) <= limits.connectedMs
  } catch (error) {
    if (error instanceof CliError) return null
    throw error
  }
}

/** The effect of an answer, in a line. */
function doneAs(item: Item, result: unknown, { receipt }: Resolved): string {
  const { sensitive } = payloadOf(item)
  const isWord = isJudged(item) || result === 'declined'
  const message = isWord ? String(result) : sensitive === true ? 'provided a secret' : `answered ${escapeControl(JSON.stringify(result))}`
  const about = `${message}: ${escapeControl(item.title)}`
  return receipt === undefined ? `voted, ${about} (more votes are needed)` : `${about} (receipt ${escapeControl(receipt.receipt_id)})`
}

async function resultFrom(context: Context, given: FlagValues, item: Item): Promise<unknown> {
  const { io } = context
  const file = given.get('file') as string | undefined
  if (file !== undefined) return sentFile(context, item.request_id, file)
  const value = given.get('value') as string | undefined
  const source = value ?? (given.get('result') as string)
  const text = source === '-' ? (await readInput(io, '-', 4 * limits.textCharsMax)).toString().replace(/\r?\n$/, '') : source
  refuseForeignWord(item, text, value !== undefined)
  if (isJudged(item)) return verdictFor(item, text)
  const { validation, input_type } = payloadOf(item)
  if (validation?.multiple !== true && input_type !== 'file') return text
  if (!/^\s*[[{]/.test(text)) return validation?.multiple === true ? [text] : text
  try {
    return jsonFrom(text)
  } catch (error) {
    throw usage(`<result> ${(error as Error).message}`)
  }
}
