// The record as it grows, one line per event. It outlives connections; Ctrl-C ends it.
import type { Operation, Protocol } from '#kernel/operation.ts'
import { exits, type Exit } from './exits.ts'
import { derivedSpec, inputOf } from './derived.ts'
import { flag } from './flags.ts'
import type { Answer } from './remote.ts'
import { styleOf, writeJson } from './show.ts'
import { spec, type Context, type Spec } from './spec.ts'
import { inert, padded } from './text.ts'

const afterFlag = flag('after', 'cursor', 'go on behind this place; `latest` begins with what comes from now on')

type Event = {
  readonly at: string
  readonly action: string
  readonly actor: string
  readonly subject: { readonly kind: string; readonly id: string }
  readonly behalf: string | null
  readonly detail: Answer | null
  readonly changes: readonly { readonly kind: string; readonly id: string; readonly after: Answer | null }[]
}

/** A stream operation as a command. */
export function streamSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const made: Spec = {
    ...derived,
    flags: [...derived.flags, afterFlag],
    run: async (context, given) =>
      follow(
        context,
        derived.operation!,
        await inputOf(context, op, made, given),
        (given.get('after') as string | undefined) ?? null,
        () => false,
      ),
  }
  return made
}

export const taskFollow = spec('task follow', 'Watch a task live, from its first event until it ends.', {
  positionals: [{ ...flag('task-id', 'id', 'which task'), path: ['task_id'], required: true }],
  flags: [afterFlag, flag('keep', null, 'go on after the task has ended')],
  examples: [
    'countersign task follow task_1',
    'countersign task follow task_1 --after latest',
    'countersign task follow task_1 --json | jq .event.action',
  ],
  run: (context, given) => {
    const task_id = given.get('task-id') as string
    const isOver = (event: Event): boolean => given.get('keep') !== true && event.changes.some((change) => endedIn(change, task_id))
    return follow(context, 'collaboration/audit.follow', { task_id }, (given.get('after') as string | undefined) ?? null, isOver)
  },
})

const endedIn = ({ kind, id, after }: Event['changes'][number], task_id: string): boolean =>
  kind === 'task' && id === task_id && (after?.['state'] === 'completed' || after?.['state'] === 'rejected')

async function follow(
  context: Context,
  operation: string,
  input: object,
  after: string | null,
  isOver: (event: Event) => boolean,
): Promise<Exit> {
  const remote = await context.remote()
  const leaving = new AbortController()
  const leave = (): void => leaving.abort()
  process.once('SIGINT', leave)
  process.once('SIGTERM', leave)
  try {
    for await (const { cursor, item } of remote.follow(operation, input, { after, signal: leaving.signal })) {
      const event = (item['event'] ?? item) as Event
      if (context.json) writeJson(context, { cursor, ...item }, 0)
      else context.io.out.write(`${lineOf(event, context)}\n`)
      if (isOver(event)) return exits.ok
    }
  } finally {
    process.off('SIGINT', leave)
    process.off('SIGTERM', leave)
  }
  return exits.interrupted
}

function lineOf({ at, action, actor, subject, behalf, changes, detail }: Event, { paint }: Context): string {
  const who = behalf === null ? inert(actor) : `${inert(actor)} for ${inert(behalf)}`
  const state = changes.find(({ kind }) => kind === 'task')?.after?.['state']
  const prompt = changes.find(({ kind, after }) => kind === 'checkpoint' && after?.['state'] === 'pending')?.after?.['prompt']
  const shown = typeof state === 'string' ? (styleOf(state) === null ? state : paint(styleOf(state)!, state)) : ''
  const more = typeof prompt === 'string' ? `"${inert(prompt)}"` : detail === null ? '' : inert(JSON.stringify(detail))
  return [paint('dim', inert(at)), padded(inert(action), 26), padded(who, 16), inert(subject.id), shown, more]
    .filter((part) => part !== '')
    .join('  ')
}
