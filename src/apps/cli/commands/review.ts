// Reviewing: what was delivered, what changed since the version before, and a verdict.
import type { Artifact, Task } from '#protocols/collaboration/schema.ts'
import type { Input } from '#sdk/client.ts'
import { deliveredOf, unshown } from '../inbox/deliverable.ts'
import { CliError, exits } from '../exit-codes.ts'
import { flag, type Flag, type FlagValues } from '../derive/flags.ts'
import type { Remote } from '../remote/remote.ts'
import { show, writeJson } from '../output/render.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { columnsOf } from '../terminal.ts'
import { markedLines, ownLines } from '../output/safe-text.ts'

const taskArgument: Flag = { ...flag('task-id', 'id', 'the task'), path: ['task_id'], required: true }
const artifactFlag = flag('artifact', 'id', 'the artifact; the last delivered one by default')
const commentFlag = flag('comment', 'text', 'goes into the record with the verdict')

export const reviewSpecs: readonly Spec[] = [
  spec('review show', 'Show the deliverable and its changes since the version before.', {
    positionals: [taskArgument],
    flags: [artifactFlag, flag('version', 'text', 'the version to show; by default the newest')],
    examples: ['countersign review show task_1', 'countersign review show task_1 --version v2'],
    run: showDelivered,
  }),
  spec('review approve', 'Approve the deliverable; the task completes.', {
    positionals: [taskArgument],
    flags: [
      artifactFlag,
      flag('version', 'text', 'the version that you have looked at; required where `review show` cannot show it'),
      commentFlag,
    ],
    examples: ["countersign review approve task_1 --comment 'Well done.'", 'countersign review approve task_1 --version v2'],
    run: (context, given) => submit(context, given, 'approved', []),
  }),
  spec('review changes', 'Send the deliverable back, with the changes to make.', {
    positionals: [taskArgument],
    flags: [
      { ...flag('change', 'text', 'a change to make; repeat for more; required', { many: true }), required: true },
      artifactFlag,
      commentFlag,
    ],
    examples: ["countersign review changes task_1 --change 'Handle the empty list.' --change 'Add a test.'"],
    run(context, given) {
      return submit(context, given, 'changes_requested', given.get('change') as string[])
    },
  }),
  spec('review reject', 'Reject the deliverable; the task ends.', {
    positionals: [taskArgument],
    flags: [artifactFlag, commentFlag],
    examples: ["countersign review reject task_1 --comment 'Not what was asked for.'"],
    run: (context, given) => submit(context, given, 'rejected', []),
  }),
]

async function deliveredIn(remote: Remote, given: FlagValues): Promise<{ task: Task; artifact: Artifact }> {
  const task_id = given.get('task-id') as string
  const { task } = await remote.call('collaboration/task.get', { task_id })
  const artifact_id = (given.get('artifact') as string | undefined) ?? task.delivered?.artifact_id ?? task.artifacts.at(-1)
  if (artifact_id === undefined) throw new CliError(exits.refused, 'NOTHING_DELIVERED', `nothing was delivered for ${task_id} yet`)
  const version = given.get('version') as string | undefined
  const { artifact } = await remote.call('collaboration/artifact.get', {
    artifact_id,
    ...(version === undefined ? {} : { version }),
  })
  return { task, artifact }
}

async function submit(
  context: Context,
  given: FlagValues,
  verdict: Input<'collaboration/review.submit'>['verdict'],
  requested_changes: string[],
): Promise<void> {
  const remote = await context.remote()
  const { task, artifact } = await deliveredIn(remote, given)
  if (verdict === 'approved' && given.get('version') === undefined) {
    const delivered = await deliveredOf(remote, artifact.id, artifact.version)
    if (delivered.text === null) throw unshown(delivered, `--version ${artifact.version}`)
  }
  const comment = given.get('comment') as string | undefined
  const answer = await remote.call('collaboration/review.submit', {
    task_id: task.id,
    artifact_id: artifact.id,
    // The verdict is for the version that was shown: the server refuses it if a newer one has arrived.
    artifact_version: artifact.version,
    verdict,
    ...(comment === undefined ? {} : { comments: [{ severity: verdict === 'approved' ? 'nit' : 'major', body: comment }] }),
    ...(requested_changes.length === 0 ? {} : { requested_changes }),
  })
  await show(context, 'review.submit', answer)
}

async function showDelivered(context: Context, given: FlagValues): Promise<void> {
  const remote = await context.remote()
  const { artifact } = await deliveredIn(remote, given)
  const { text, before, head, lines } = await deliveredOf(remote, artifact.id, artifact.version)
  if (context.json) return writeJson(context, { artifact, text, before })
  const { io, paint } = context
  const columns = columnsOf(io.out)
  const { id, version, provenance, payload } = artifact
  const about = `${id} ${version} by ${provenance.actor}, ${provenance.produced_at}${payload.verified === false ? ', its bytes were never seen here' : ''}`
  io.out.write(`${ownLines(about, columns).map((line) => paint('dim', line)).join('\n')}\n`) // prettier-ignore
  const shown = lines.flatMap(({ text: line, style }) =>
    markedLines(line, columns).map((marked) => (style === undefined ? marked : paint(style, marked))),
  )
  io.out.write(`\n${[...ownLines(head, columns).map((line) => paint('bold', line)), ...shown].join('\n')}\n`)
}
