// `checkpoint answer`: the question as a card, one key as the answer. What ends a task is asked twice.
import type { Checkpoint, Task } from '#protocols/collaboration/schema.ts'
import { exits, usage, type Exit } from './exits.ts'
import { flag } from './flags.ts'
import { askKey, askSome, askText, askYes, isInteractive } from './prompts.ts'
import type { Remote } from './remote.ts'
import { spec, type Context } from './spec.ts'
import { columnsOf, type Paint } from './terminal.ts'
import { inert, inertLines, wrapped } from './text.ts'

export type Question = Checkpoint
export type Reply = Readonly<Record<string, unknown>>

const KEYED_MAX = 9

export const checkpointAnswer = spec(
  'checkpoint answer',
  'Answer a question with one key; without an id, all that wait for you, one after the other.',
  {
    positionals: [{ ...flag('checkpoint-id', 'id', 'which question'), path: ['checkpoint_id'] }],
    examples: ['countersign checkpoint answer', 'countersign checkpoint answer ckpt_1'],
    async run(context, given) {
      const id = given.get('checkpoint-id') as string | undefined
      if (!isInteractive(context.io)) {
        const example = `countersign checkpoint resolve ${id ?? '<checkpoint_id>'} --action approve`
        throw usage('checkpoint answer asks questions and needs a terminal', `scripts use \`${example}\``)
      }
      const remote = await context.remote()
      if (id === undefined) return answerAll(context, remote)
      const { checkpoint }: { checkpoint: Question } = await remote.call('collaboration/checkpoint.get', { checkpoint_id: id })
      return answerOne(context, remote, checkpoint)
    },
  },
)

async function answerAll(context: Context, remote: Remote): Promise<Exit> {
  const { items }: { items: Question[] } = await remote.call('collaboration/checkpoint.list', {})
  if (items.length === 0) context.io.err.write('nothing waits for you\n')
  for (const question of items) await answerOne(context, remote, question)
  return exits.ok
}

async function answerOne(context: Context, remote: Remote, question: Question): Promise<Exit> {
  const { io, paint, paintErr } = context
  io.err.write(cardOf(question, columnsOf(io.err), paintErr))
  if (question.state !== 'pending') {
    io.err.write(`it is ${inert(question.state)} already\n`)
    return exits.refused
  }
  const reply = await replyTo(context, question)
  if (reply === null) {
    io.err.write(`left for later: countersign checkpoint answer ${inert(question.id)}\n`)
    return exits.ok
  }
  const { task }: { task: Task } = await remote.call('collaboration/checkpoint.resolve', { checkpoint_id: question.id, ...reply })
  io.out.write(`${paint('green', '✔')} ${String(reply['action'])}: task ${inert(task.id)} is ${inert(task.state)}\n`)
  return exits.ok
}

/** Which keys a question has; the server has the last word. */
export function keysFor({ kind, options, proposed_actions }: Question): [key: string, words: string][] {
  const keys: [string, string][] = []
  if (kind !== 'choice' && kind !== 'input') keys.push(['a', proposed_actions.length > 0 ? 'approve all' : 'approve'])
  if (proposed_actions.length > 0 && kind !== 'choice' && kind !== 'input') keys.push(['s', 'approve some'])
  if (kind === 'choice' || kind === 'escalation') {
    for (const [i, { label }] of options.slice(0, KEYED_MAX).entries()) keys.push([String(i + 1), label])
    if (options.length > KEYED_MAX) keys.push(['c', 'choose by id'])
  }
  if (kind === 'input' || kind === 'escalation' || kind === 'interrupt') keys.push(['p', 'provide'])
  return [...keys, ['r', 'reject'], ['q', 'later']]
}

/** null: not now. */
async function replyTo({ io, paintErr }: Context, question: Question): Promise<Reply | null> {
  const keys = keysFor(question)
  const line = `${keys.map(([key, words]) => `${paintErr('bold', key)} ${inert(words)}`).join('   ')}  ? `
  for (;;) {
    const key = await askKey(io, line, keys.map(([one]) => one).join(''))
    if (key === 'q') return null
    const reply = await replyFor(io, question, key)
    if (reply) return reply
  }
}

async function replyFor(io: Context['io'], { options, proposed_actions }: Question, key: string): Promise<Reply | null> {
  if (key === 'a') return { action: 'approve' }
  if (key === 'p') return { action: 'provide', input: await askText(io, 'What should the agent go on with?') }
  if (key === 'c') return { action: 'choose', choice: await askText(io, 'Id of the option') }
  if (key === 's') {
    const shown = proposed_actions.map(({ id, summary, risk }) => ({ value: id, label: inert(summary), hint: `${risk} risk` }))
    return { action: 'approve', approved_actions: await askSome(io, 'Which may it do? What is not chosen is denied.', shown) }
  }
  if (key !== 'r') return { action: 'choose', choice: options[Number(key) - 1]!.id }
  if (!(await askYes(io, 'A reject ends the whole task. Reject?'))) return null
  const comment = await askText(io, 'Why? (goes into the record; may be left empty)')
  return { action: 'reject', ...(comment === '' ? {} : { comment }) }
}

const riskStyles = { low: 'green', medium: 'yellow', high: 'red' } as const

/** Everything that the answer rests on, in words that cannot do anything to the terminal. */
export function cardOf(question: Question, columns: number, paint: Paint): string {
  const { id, kind, prompt, raised_by, raised_at, task_id, expires_at } = question
  const risky = (risk: string): string => paint(riskStyles[risk as keyof typeof riskStyles] ?? 'red', `[${inert(risk)}]`)
  const lines = [
    `${paint('bold', `${inert(kind)} ${inert(id)}`)}  ${paint('dim', `asked by ${inert(raised_by)} at ${inert(raised_at)} for ${inert(task_id)}`)}`,
    ...(expires_at === null ? [] : [paint('yellow', `  answer before ${inert(expires_at)}`)]),
    ...wrapped(inertLines(prompt), Math.max(24, columns - 2)).map((line) => `  ${line}`),
    ...question.context.flatMap((evidence) =>
      wrapped(inertLines(evidenceText(evidence)), Math.max(24, columns - 4)).map((line) => paint('dim', `  | ${line}`)),
    ),
    ...question.proposed_actions.map(
      (action) => `  - ${inert(action.summary)} ${risky(action.risk)}${action.detail ? paint('dim', ` ${inert(action.detail)}`) : ''}`,
    ),
    ...question.options.map(
      (option, i) =>
        `  ${i < KEYED_MAX ? i + 1 : ' '}  ${inert(option.label)} ${risky(option.risk)}${i < KEYED_MAX ? '' : ` ${inert(option.id)}`}`,
    ),
  ]
  return `${lines.join('\n')}\n`
}

function evidenceText(evidence: Question['context'][number]): string {
  if (evidence.kind === 'text') return evidence.text
  return evidence.kind === 'link' ? `${evidence.title ?? 'link'}: ${evidence.uri}` : `artifact ${evidence.artifact_id} ${evidence.version}`
}
