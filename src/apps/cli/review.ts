// Reviewing: what was delivered, what changed since the version before, and a verdict.
import type { Artifact, Task } from '#protocols/collaboration/schema.ts'
import { bytesOf } from './bytes.ts'
import { changesBetween, hunksOf } from './diff.ts'
import { CliError, exits } from './exits.ts'
import { flag, type Flag, type Given } from './flags.ts'
import type { Remote } from './remote.ts'
import { cardsOf, show, writeJson } from './show.ts'
import { spec, type Context, type Spec } from './spec.ts'
import { bytesIn, columnsOf, type Paint } from './terminal.ts'
import { inert, inertLines } from './text.ts'

const taskArgument: Flag = { ...flag('task-id', 'id', 'which task'), path: ['task_id'], required: true }
const artifactFlag = flag('artifact', 'id', 'which artifact; by default the one that was delivered last')
const commentFlag = flag('comment', 'text', 'goes into the record with the verdict')
const TEXT_BYTES_MAX = 1024 * 1024

export const reviewSpecs: readonly Spec[] = [
  spec('review show', 'Show what was delivered and what changed since the version before.', {
    positionals: [taskArgument],
    flags: [artifactFlag, flag('version', 'text', 'the version to show; by default the newest')],
    examples: ['countersign review show task_1', 'countersign review show task_1 --version v2'],
    run: showDelivered,
  }),
  spec('review approve', 'Approve what was delivered; the task completes.', {
    positionals: [taskArgument],
    flags: [artifactFlag, commentFlag],
    examples: ["countersign review approve task_1 --comment 'Well done.'"],
    run: (context, given) => submit(context, given, 'approved', []),
  }),
  spec('review changes', 'Send what was delivered back, with what to change.', {
    positionals: [taskArgument],
    flags: [
      { ...flag('change', 'text', 'what to change; repeat for more; required', { many: true }), required: true },
      artifactFlag,
      commentFlag,
    ],
    examples: ["countersign review changes task_1 --change 'Handle the empty list.' --change 'Add a test.'"],
    run(context, given) {
      return submit(context, given, 'changes_requested', given.get('change') as string[])
    },
  }),
  spec('review reject', 'Reject what was delivered; the task ends.', {
    positionals: [taskArgument],
    flags: [artifactFlag, commentFlag],
    examples: ["countersign review reject task_1 --comment 'Not what was asked for.'"],
    run: (context, given) => submit(context, given, 'rejected', []),
  }),
]

async function deliveredIn(remote: Remote, given: Given): Promise<{ task: Task; artifact: Artifact }> {
  const task_id = given.get('task-id') as string
  const { task }: { task: Task } = await remote.call('collaboration/task.get', { task_id })
  const artifact_id = (given.get('artifact') as string | undefined) ?? task.artifacts.at(-1)
  if (artifact_id === undefined) throw new CliError(exits.refused, 'NOTHING_DELIVERED', `nothing was delivered for ${task_id} yet`)
  const version = given.get('version') as string | undefined
  const { artifact }: { artifact: Artifact } = await remote.call('collaboration/artifact.get', {
    artifact_id,
    ...(version === undefined ? {} : { version }),
  })
  return { task, artifact }
}

async function submit(context: Context, given: Given, verdict: string, requested_changes: string[]): Promise<void> {
  const remote = await context.remote()
  const { task, artifact } = await deliveredIn(remote, given)
  const comment = given.get('comment') as string | undefined
  const answer = await remote.call('collaboration/review.submit', {
    task_id: task.id,
    artifact_id: artifact.id,
    // What was looked at is what is judged: a newer version that came in between is refused.
    artifact_version: artifact.version,
    verdict,
    ...(comment === undefined ? {} : { comments: [{ severity: verdict === 'approved' ? 'nit' : 'major', body: comment }] }),
    ...(requested_changes.length === 0 ? {} : { requested_changes }),
  })
  await show(context, 'review.submit', answer)
}

async function showDelivered(context: Context, given: Given): Promise<void> {
  const remote = await context.remote()
  const { artifact } = await deliveredIn(remote, given)
  const text = await textIn(remote, artifact)
  const before = artifact.parent_version === null ? null : await versionOf(remote, artifact.id, artifact.parent_version)
  const earlier = before && (await textIn(remote, before))
  if (context.json) return writeJson(context, { artifact, text, before: before && { version: before.version, text: earlier } })
  const { io, paint } = context
  const { uri: _, ...payload } = artifact.payload
  io.out.write(cardsOf({ artifact: { ...artifact, payload } }, 'artifact', columnsOf(io.out), paint))
  io.out.write(`\n${text === null ? unreadable(artifact) : bodyOf(artifact, text, before, earlier, paint)}`)
}

async function versionOf(remote: Remote, artifact_id: string, version: string): Promise<Artifact> {
  const { artifact }: { artifact: Artifact } = await remote.call('collaboration/artifact.get', { artifact_id, version })
  return artifact
}

/** null: not text, too long to read, or not here. */
async function textIn(remote: Remote, artifact: Artifact): Promise<string | null> {
  if (artifact.payload.size > TEXT_BYTES_MAX) return null
  const bytes = await bytesOf(remote, artifact)
  if (bytes === null || bytes.includes(0)) return null
  try {
    return new TextDecoder('utf8', { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}

function unreadable({ id, version, payload }: Artifact): string {
  if (!payload.verified) return `the bytes were never uploaded here; they are said to be at ${inert(payload.uri)}\n`
  return `${bytesIn(payload.size)} that are no text: countersign artifact download ${inert(id)} --version ${inert(version)}\n`
}

function bodyOf(artifact: Artifact, text: string, before: Artifact | null, earlier: string | null, paint: Paint): string {
  if (artifact.payload.kind === 'diff')
    return text
      .replace(/\n$/, '')
      .split('\n')
      .map((line) => `${paintedLine(line, paint)}\n`)
      .join('')
  const changes = before === null || earlier === null ? null : changesBetween(earlier, text)
  if (changes === null) return `${inertLines(text).replace(/\n$/, '')}\n`
  const head = paint('bold', `--- ${inert(before!.version)}\n+++ ${inert(artifact.version)}`)
  if (changes.every(({ kind }) => kind === 'same')) return `${head}\nnothing changed\n`
  const lines = hunksOf(changes).map((change) => {
    if (change === 'gap') return paint('dim', '…')
    if (change.kind === 'same') return ` ${inertLines(change.text)}`
    return change.kind === 'added' ? paint('green', `+${inertLines(change.text)}`) : paint('red', `-${inertLines(change.text)}`)
  })
  return `${[head, ...lines].join('\n')}\n`
}

function paintedLine(line: string, paint: Paint): string {
  const shown = inertLines(line)
  if (/^(\+\+\+|---|diff |index )/.test(line)) return paint('bold', shown)
  if (line.startsWith('+')) return paint('green', shown)
  if (line.startsWith('-')) return paint('red', shown)
  return line.startsWith('@@') ? paint('cyan', shown) : shown
}
