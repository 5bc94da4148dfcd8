// Approving a checkpoint in part or with changes: some of the proposed actions, or the state or the artifact as the person left it.
import { isObject } from '#kernel/codec/strict-json.ts'
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cutTo } from '#kernel/codec/cut-text.ts'
import { refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { limits } from '#kernel/limits.ts'
import type { Checkpoint } from '#protocols/collaboration/schema.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { deliveredOf, isTooLong } from './deliverable.ts'
import { CliError, exits } from '../exit-codes.ts'
import { jsonFrom } from '../derive/flags.ts'
import { isYes, sure, type InboxActions, type Stage } from './actions.ts'
import { stateIn } from './card.ts'
import { evidenceIn, hasSchema, type EditedArtifact } from './keyboard-help.ts'
import type { Remote } from '../remote/remote.ts'
import { inertJson } from '../output/safe-text.ts'

type Approval = {
  readonly approved_actions?: string[]
  readonly state_patch?: unknown
  readonly edited_artifact_ref?: EditedArtifact
}

/** The checkpoint behind an item, if it is still the version that was shown: an item that has changed since is not answered. */
async function checkpointBehind(remote: Remote, { request_id, digest }: Item): Promise<Checkpoint> {
  const { item } = await remote.call('execution/inbox.get', { request_id })
  if (item.digest !== digest) throw new CliError(exits.refused, 'CHANGED', 'the item has changed since it was shown')
  const { checkpoint } = await remote.call('collaboration/checkpoint.get', { checkpoint_id: item.checkpoint_id! })
  return checkpoint
}

async function approve(
  remote: Remote,
  stage: Stage,
  answers: InboxActions,
  item: Item,
  message: string,
  how: (of: Checkpoint) => Promise<Approval>,
) {
  const { items, answered, attempt } = stage
  await attempt(() =>
    answers.busily(async () => {
      try {
        const checkpoint = await checkpointBehind(remote, item)
        await remote.call('collaboration/checkpoint.resolve', {
          checkpoint_id: checkpoint.id,
          action: 'approve',
          digest: item.digest,
          ...(await how(checkpoint)),
        })
        items.mark(item.request_id, message)
        answered(item, message)
        await items.reload(item.request_id)
      } catch (error) {
        if (!(error instanceof CliError) || error.exit !== exits.refused) throw error
        await answers.shownAgain(item, error)
      }
    }),
  )
}

/** `chosen`: the places of the actions that may be taken. */
export function approveSome(remote: Remote, stage: Stage, answers: InboxActions, item: Item, chosen: readonly number[], of: number): void {
  const denied = of - chosen.length
  const message = chosen.length === 0 ? `denied all ${of} actions` : `approved ${chosen.length} of ${of} actions`
  const how = (checkpoint: Checkpoint): Promise<Approval> =>
    Promise.resolve({ approved_actions: chosen.map((at) => checkpoint.proposed_actions[at]!.id) })
  const warning = `${chosen.length} of ${of} actions may be taken, ${denied} denied.`
  const result = chosen.length === 0 ? 'rejected' : 'approved'
  sure(stage, { item, result, warning, question: 'Answer so?' }, () => approve(remote, stage, answers, item, message, how))
}

/** Opens the state, or else the artifact, in the person's editor. */
export async function editAndApprove(
  remote: Remote,
  stage: Stage,
  answers: InboxActions,
  item: Item,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const { tell, aside, attempt } = stage
  if (hasSchema(item)) return editDetails(remote, stage, answers, item, env)
  await attempt(async () => {
    const evidence = evidenceIn(item)
    const checkpoint = await checkpointBehind(remote, item)
    const hasState = stateIn(item) !== undefined
    const before = hasState ? `${inertJson(checkpoint.state_shown, 2)}\n` : await artifactText(remote, evidence!)
    const after = await aside(() => editedIn(env, before, hasState ? 'state.json' : 'artifact.txt'))
    if (after === before) return tell('Nothing was changed, and nothing was answered')
    const how = hasState ? statePatch(checkpoint.state_shown, after) : newVersion(remote, item, evidence!, after)
    const message = hasState ? 'approved with an edited state' : 'approved with an edited artifact'
    sure(stage, { item, result: 'approved', warning: 'Your changes go along.', question: 'Approve?' }, () =>
      approve(remote, stage, answers, item, message, how),
    )
  })
}

type Editable = { readonly details?: Record<string, unknown>; readonly details_schema: object }

/** X33: edits the details in the editor and checks them against the schema; shows each changed field before anything is sent. */
async function editDetails(remote: Remote, stage: Stage, answers: InboxActions, item: Item, env: NodeJS.ProcessEnv): Promise<void> {
  const { tell, askKey, aside, attempt, items, answered } = stage
  const { request_id, digest } = item

  async function send(edited: object): Promise<void> {
    try {
      await remote.call('execution/request.resolve', { request_id, result: 'approved', edited, digest })
      items.mark(request_id, 'approved with edited details')
      answered(item, 'approved with edited details')
      await items.reload(request_id)
    } catch (error) {
      if (!(error instanceof CliError) || error.exit !== exits.refused) throw error
      await answers.shownAgain(item, error)
    }
  }

  /** Keeps the typed text, so that the person can continue with it. */
  async function edit(text: string, { details = {}, details_schema }: Editable): Promise<void> {
    const left = await aside(() => editedIn(env, text, 'details.json'))
    const { edited, problem } = checkEdited(left, details_schema)
    if (problem !== null)
      return askKey(`Not sent: ${problem}. Edit again? (y or n)`, (key) =>
        isYes(key) ? attempt(() => edit(left, { details, details_schema })) : tell('Nothing was answered'),
      )
    const changes = changesIn(details, edited)
    if (changes.length === 0) return tell('Nothing was changed, and nothing was answered')
    const more = changes.length > CHANGES_SHOWN_MAX ? [`and ${changes.length - CHANGES_SHOWN_MAX} more fields`] : []
    const warning = `Changed:\n${[...changes.slice(0, CHANGES_SHOWN_MAX), ...more].join('\n')}\n`
    sure(stage, { item, result: 'approved', warning, question: 'Approve so?' }, () => attempt(() => answers.busily(() => send(edited))))
  }

  await attempt(async () => {
    const { request } = await remote.call('execution/request.get', { request_id })
    const payload = request.payload as Editable
    await edit(`${inertJson(payload.details ?? {}, 2)}\n`, payload)
  })
}
const CHANGES_SHOWN_MAX = 8

/** The typed text, and why it cannot be sent; null: it can. */
function checkEdited(text: string, schema: object): { edited: object; problem: string | null } {
  try {
    const edited = jsonFrom(text)
    if (!isObject(edited)) return { edited: {}, problem: 'the details are one object, in braces' }
    refuseMismatch(schema, edited, 'INVALID_REQUEST', 'details')
    return { edited, problem: null }
  } catch (error) {
    return { edited: {}, problem: (error as Error).message }
  }
}

/** `amount: 99 → 40`, `to.iban: removed`: each field that differs, by its path. */
export function changesIn(before: unknown, after: unknown, path = ''): string[] {
  const [was, is] = [isObject(before) ? before : {}, isObject(after) ? after : {}]
  const short = (value: unknown): string => cutTo(inertJson(value, 0), VALUE_CHARS_MAX)
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].flatMap((name) => {
    const here = `${path}${/^[\w-]{1,60}$/.test(name) ? name : inertJson(name, 0)}`
    if (isSame(was[name], is[name])) return []
    if (!Object.hasOwn(is, name)) return [`${here}: removed`]
    if (isObject(was[name]) && isObject(is[name])) return changesIn(was[name], is[name], `${here}.`)
    return [`${here}: ${Object.hasOwn(was, name) ? short(was[name]) : 'none'} → ${short(is[name])}`]
  })
}
const VALUE_CHARS_MAX = 80

async function artifactText(remote: Remote, { artifact_id, version }: EditedArtifact): Promise<string> {
  const { text, artifact } = await deliveredOf(remote, artifact_id, version)
  if (text !== null) return text
  const why = isTooLong(artifact) ? 'too long to edit here' : 'not text'
  throw new CliError(exits.refused, 'NO_TEXT', `the artifact is ${why}: \`countersign artifact edit --file\` commits a version of your own`)
}

function statePatch(before: unknown, text: string): () => Promise<Approval> {
  const after = parseText(text)
  return () => Promise.resolve({ state_patch: patchOf(before, after) })
}
function parseText(text: string): unknown {
  try {
    return jsonFrom(text)
  } catch (error) {
    throw new CliError(exits.refused, 'NO_JSON', `nothing was answered: the state ${(error as Error).message}`)
  }
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

/** A JSON Merge Patch (RFC 7396), in which null removes a field: so no field can be set to null by one. */
export function patchOf(before: unknown, after: unknown): unknown {
  if (!isObject(after)) return after
  const from = isObject(before) ? before : {}
  const patch: Record<string, unknown> = {}
  for (const name of Object.keys(from)) if (!Object.hasOwn(after, name)) patch[name] = null
  for (const [name, value] of Object.entries(after)) {
    if (Object.hasOwn(from, name) && isSame(from[name], value)) continue
    if (value === null) throw new CliError(exits.refused, 'NO_PATCH', `${name} cannot be set to null: leave the field out to remove it`)
    patch[name] = patchOf(from[name], value)
  }
  return patch
}

/** A version by the person, while the task waits for them. */
function newVersion(remote: Remote, { task_id }: Item, { artifact_id, version }: EditedArtifact, text: string): () => Promise<Approval> {
  const bytes = Buffer.from(text)
  if (bytes.length > limits.inlineBytesMax)
    throw new CliError(exits.refused, 'TOO_LARGE', 'the text is too long for the screen: `countersign artifact edit --file` commits it')
  return async () => {
    const { artifact } = await remote.call('collaboration/artifact.edit', {
      task_id: task_id!,
      artifact_id,
      parent_version: version,
      payload: { kind: 'inline', uri: `data:text/plain;charset=utf-8;base64,${bytes.toString('base64')}` },
    })
    return { edited_artifact_ref: { artifact_id, version: artifact.version } }
  }
}

async function editedIn(env: NodeJS.ProcessEnv, text: string, name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'countersign-edit-'))
  const file = join(folder, name)
  try {
    await writeFile(file, text, { mode: 0o600 })
    const editor = env['VISUAL'] || env['EDITOR'] || 'vi'
    // An editor is a command line of the user's own, such as `code --wait`.
    const child = spawn('sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit', env })
    const code = await new Promise<number | null>((done, failed) => child.on('error', failed).on('exit', done))
    if (code !== 0) throw new CliError(exits.refused, 'EDITOR', `nothing was answered: \`${editor}\` ended with ${code}`)
    return await readFile(file, 'utf8')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
