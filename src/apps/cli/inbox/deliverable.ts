// A deliverable as lines for its reviewer: the text itself, or the difference to the version before.
import type { Artifact } from '#protocols/collaboration/schema.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { bytesOf } from '../commands/artifact.ts'
import { changesBetween, hunksOf } from '../output/diff.ts'
import { DELIVERED_LINES_MAX, type Style } from './card.ts'
import { usage, type CliError } from '../exit-codes.ts'
import type { Remote } from '../remote/remote.ts'
import { bytesIn } from '../terminal.ts'
import { escapeControl } from '../output/safe-text.ts'

export type DeliveredLine = { readonly text: string; readonly style?: Style | undefined }
export type Delivered = {
  readonly artifact: Artifact
  readonly text: string | null
  readonly before: { readonly version: string; readonly text: string | null } | null
  /** The heading above the deliverable, written by us. */
  readonly head: string
  /** The lines as delivered: the screen marks each one as foreign text. */
  readonly lines: readonly DeliveredLine[]
}

const TEXT_BYTES_MAX = 1024 * 1024

export async function deliveredOf(remote: Remote, artifact_id: string, version?: string): Promise<Delivered> {
  const artifact = await versionOf(remote, artifact_id, version)
  const text = await textIn(remote, artifact)
  const earlier = artifact.parent_version === null ? null : await versionOf(remote, artifact.id, artifact.parent_version)
  const before = earlier && { version: earlier.version, text: await textIn(remote, earlier) }
  return { artifact, text, before, ...shownAs(artifact, text, before) }
}

async function versionOf(remote: Remote, artifact_id: string, version?: string): Promise<Artifact> {
  const input = { artifact_id, ...(version === undefined ? {} : { version }) }
  return (await remote.call('collaboration/artifact.get', input)).artifact
}

/** Too long to read in a terminal, even if it is text. */
export const isTooLong = ({ payload }: Artifact): boolean => payload.size > TEXT_BYTES_MAX

/** null: not text, too long to read, or not here. */
async function textIn(remote: Remote, artifact: Artifact): Promise<string | null> {
  if (isTooLong(artifact)) return null
  const bytes = await bytesOf(remote, artifact)
  if (bytes === null || bytes.includes(0)) return null
  try {
    return new TextDecoder('utf8', { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}

/** Whether a card shows all of the deliverable: only then can a person approve it in the terminal. */
export const isShown = ({ text, lines }: Delivered): boolean => text !== null && lines.length <= DELIVERED_LINES_MAX

/** Refuses to approve a deliverable that `inbox show` cannot show, unless a digest says which version the person has seen. */
export async function refuseUnshown(remote: Remote, item: Item, result: unknown, digest: string | undefined): Promise<void> {
  const { artifact } = item.card
  if (item.kind !== 'review' || result !== 'approved' || artifact === undefined || digest !== undefined) return
  const delivered = await deliveredOf(remote, artifact.artifact_id, artifact.version)
  if (!isShown(delivered)) throw unshown(delivered, `--digest ${item.digest}`)
}

/** `named`: the flag that says which version the person has seen. */
export function unshown({ artifact: { id, version } }: Delivered, named: string): CliError {
  const download = `countersign artifact download ${escapeControl(id)} --version ${escapeControl(version)}`
  return usage(
    'the deliverable cannot be shown here, and unseen work cannot be approved; nothing was sent',
    `open the review on the page, or look at it (\`${download}\`) and add ${escapeControl(named)}`,
  )
}

/** The agent's type, quoted unless it is one plain word: our own sentence contains it. */
const typeWord = (type: string): string => (/^\w[\w./+-]{0,59}$/.test(type) ? type : JSON.stringify(escapeControl(type)))

const linesIn = (text: string): string[] => text.replace(/\n$/, '').split('\n')

function shownAs(artifact: Artifact, text: string | null, before: Delivered['before']): Pick<Delivered, 'head' | 'lines'> {
  const { id, version, payload, type } = artifact
  const what = `Delivered: ${typeWord(type)} ${version} (${bytesIn(payload.size)})`
  const why = isTooLong(artifact) ? 'too long to show here' : 'which is not text'
  if (text === null)
    return payload.verified
      ? { head: `${what}, ${why}: countersign artifact download ${id} --version ${version}`, lines: [] }
      : { head: `${what}. Its bytes were never uploaded; they are said to be at:`, lines: [{ text: payload.uri }] }
  if (payload.kind === 'diff')
    return { head: `${what}, a diff:`, lines: linesIn(text).map((line) => ({ text: line, style: diffStyle(line) })) }
  const changes = before === null || before.text === null ? null : changesBetween(before.text, text)
  if (changes === null) return { head: `${what}:`, lines: linesIn(text).map((line) => ({ text: line })) }
  if (changes.every(({ kind }) => kind === 'same')) return { head: `${what}, the same as ${before!.version}`, lines: [] }
  const signs = { same: ' ', added: '+', removed: '-' } as const
  const styles = { same: undefined, added: 'green', removed: 'red' } as const
  const lines = hunksOf(changes).map((change) =>
    change === 'gap' ? { text: '…', style: 'dim' as const } : { text: `${signs[change.kind]}${change.text}`, style: styles[change.kind] },
  )
  return { head: `${what}, changes since ${before!.version}:`, lines }
}

function diffStyle(line: string): Style | undefined {
  if (/^(\+\+\+|---|diff |index )/.test(line)) return 'bold'
  if (line.startsWith('+')) return 'green'
  if (line.startsWith('-')) return 'red'
  return line.startsWith('@@') ? 'cyan' : undefined
}

/**
 * The subjects of reviews, each fetched once. undefined: it is being fetched, and `attempt` draws when it arrives; null: there is none.
 */
export function createDeliverables(
  remote: Remote,
  attempt: (work: () => Promise<void>) => Promise<void>,
): (item: Item) => Delivered | null | undefined {
  const fetched = new Map<string, Delivered | null>()
  return (item) => {
    const { artifact } = item.card
    if (item.kind !== 'review' || artifact === undefined) return null
    const id = `${artifact.artifact_id} ${artifact.version}`
    if (fetched.has(id)) return fetched.get(id) ?? undefined
    fetched.set(id, null)
    void attempt(async () => {
      try {
        fetched.set(id, await deliveredOf(remote, artifact.artifact_id, artifact.version))
      } catch (error) {
        fetched.delete(id)
        throw error
      }
    })
    return undefined
  }
}
