// The delivery of a remote agent: each of its artifacts becomes an artifact of the task; a run without a task ends with their text.
import { limits } from '#kernel/limits.ts'
import type { Outcome } from '../programs/conversation.ts'
import { inlineUri, ofTask } from '../programs/lines.ts'
import type { Talk } from './conversation.ts'
import { sayingOf, type RemotePart, type RemoteTask } from './remote.ts'

type Piece = { readonly type: string; readonly bytes: Buffer; readonly media_type: string; readonly name: string }

/** Text as text, data as JSON, bytes as bytes. A file with only an address stays an address in the text: nothing is fetched. */
function piecesOf({ artifacts, status }: RemoteTask): Piece[] {
  const pieces = artifacts.flatMap(({ name, artifactId, parts }, i): Piece[] => {
    const type = name || 'text'
    const textParts = parts.filter(({ raw, data }) => raw === undefined && data === undefined)
    const others = parts.filter(({ raw, data }) => raw !== undefined || data !== undefined)
    const label = fileName(artifactId, `artifact-${i + 1}`)
    return [
      ...(textParts.length === 0 ? [] : [textPiece(type, sayingOf(textParts), `${label}.txt`)]),
      ...others.map((part) => pieceOf(part, type, label)),
    ]
  })
  if (pieces.length > 0) return pieces
  return status.text === '' ? [] : [textPiece('text', status.text, 'result.txt')]
}
const textPiece = (type: string, text: string, name: string): Piece => ({ type, bytes: Buffer.from(text), media_type: 'text/plain', name })
function pieceOf({ raw, data, mediaType, filename }: RemotePart, type: string, label: string): Piece {
  if (raw === undefined)
    return { type, bytes: Buffer.from(JSON.stringify(data)), media_type: 'application/json', name: fileName(filename, `${label}.json`) }
  const isType = /^[a-z0-9][a-z0-9.+-]*\/[a-z0-9][a-z0-9.+-]*$/.test(mediaType ?? '')
  return {
    type,
    bytes: Buffer.from(raw, 'base64'),
    media_type: isType ? mediaType! : 'application/octet-stream',
    name: fileName(filename, label),
  }
}
/** The name comes from another system: no folders, no control characters. */
const fileName = (name: string | undefined, otherwise: string): string =>
  (name ?? '')
    .replaceAll(/[^\w .()-]/g, '_')
    .replace(/^[. ]+/, '')
    .slice(0, 100) || otherwise

export async function deliver(talk: Talk, task: RemoteTask): Promise<Outcome> {
  const { port, item, note } = talk
  const pieces = piecesOf(task)
  if (pieces.length === 0) return { kind: 'failed', message: 'the remote agent completed its task and delivered nothing', isFatal: true }
  const { id, task_id } = item.run
  if (task_id === null) {
    const text = pieces.map(({ bytes }) => bytes.toString('utf8')).join('\n\n')
    const result = { text: text.slice(0, limits.textCharsMax) }
    return act(talk, () => port.call('delegation/run.complete', { run_id: id, attempt: talk.item.attempt, result }))
  }
  for (const [i, piece] of pieces.entries()) {
    const isLast = i === pieces.length - 1
    const outcome = await commit(talk, task_id, piece, `a2a/${id}/${i}`, isLast)
    if (outcome.kind !== 'over' || isLast) {
      if (outcome.kind === 'over') note(`delivered ${pieces.length} artifacts`)
      return outcome
    }
  }
  return { kind: 'over' }
}

async function commit(talk: Talk, task_id: string, piece: Piece, idempotencyKey: string, isLast: boolean): Promise<Outcome> {
  const { type, bytes, media_type, name } = piece
  const isInline = bytes.length <= limits.inlineBytesMax / 2 && media_type === 'text/plain'
  const payload = isInline
    ? { kind: 'inline' as const, uri: inlineUri(bytes.toString('utf8')) }
    : { kind: 'blob' as const, ...(await talk.port.upload(task_id, bytes, { media_type, name })) }
  return act(talk, () =>
    talk.port.call(
      'collaboration/artifact.commit',
      { ...(ofTask(talk.item) as { task_id: string }), type, payload, ...(isLast ? {} : { final: false as const }) },
      { idempotencyKey },
    ),
  )
}

/** A call that ends the run or leads to its end. If a person stopped the run, the deliverables stay for the answer. */
async function act(talk: Talk, call: () => Promise<unknown>): Promise<Outcome> {
  try {
    await call()
    return { kind: 'over' }
  } catch (error) {
    const { code, message } = error as { readonly code?: unknown; readonly message: string }
    if (typeof code !== 'string' || talk.outcome !== null) throw error
    const { run } = await talk.port.call('delegation/run.get', { run_id: talk.item.run.id })
    if (run.state === 'completed' || run.state === 'failed') return { kind: 'over' }
    if (run.state === 'blocked') return { kind: 'waits' }
    return code === 'CONFLICT' ? { kind: 'lost' } : { kind: 'failed', message, isFatal: true }
  }
}
