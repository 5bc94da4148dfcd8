// The judgement of a witness (C2SP tlog-witness): it cosigns a checkpoint only if the log signed it and it grew out of the one that this witness
// cosigned before.
import { answerNow } from '#kernel/log/tree/asking.ts'
import { bytesOfBase64 } from '#kernel/log/tree/base64.ts'
import { checkpointIn, type OpenCheckpoint } from '#kernel/log/tree/checkpoint.ts'
import { noteIn, type Unreadable, type VerifierKey } from '#kernel/log/tree/note.ts'
import { isConsistent } from '#kernel/log/tree/proofs.ts'
import { emptyRoot, HASH_BYTES } from '#kernel/log/tree/tree.ts'
import { isSameBytes } from '#kernel/log/tree/base64.ts'
import { sha256Bytes } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import { nodeCheckpointIn } from '#workers/keys/log-key.ts'
import type { Cosigned, WitnessState } from './state.ts'

export type Answer = { readonly status: number; readonly body: string; readonly type?: string }

const SIZE_TYPE = 'text/x.tlog.size'
const EMPTY: Cosigned = { size: 0, root: emptyRoot(sha256Bytes), note: '' }

type Asked = { readonly old: number; readonly proof: readonly Uint8Array[]; readonly note: string }

/** Null: it is not an add-checkpoint request. */
function askedIn(text: string): Asked | null {
  const cut = text.indexOf('\n\n')
  if (cut < 0) return null
  const [first, ...lines] = text.slice(0, cut).split('\n')
  const [, old] = /^old (0|[1-9]\d{0,15})$/.exec(first!) ?? []
  const proof = lines.map(bytesOfBase64)
  const isProof = proof.length <= limits.logProofHashesMax && proof.every((hash) => hash?.length === HASH_BYTES)
  if (old === undefined || !Number.isSafeInteger(Number(old)) || !isProof) return null
  return { old: Number(old), proof: proof as Uint8Array[], note: text.slice(cut + 2) }
}

export type Judge = {
  /** One after the other: reading, judging and writing are one step. */
  add(text: string): Promise<Answer>
}

export type JudgeOptions = {
  readonly state: WitnessState
  readonly logs: readonly VerifierKey[]
  now(): number
  /** Told about a log that contradicts itself. */
  alarm(message: string): void
}

export function createJudge(options: JudgeOptions): Judge {
  let turn: Promise<unknown> = Promise.resolve()
  return {
    add(text) {
      const next = turn.then(() => addNow(options, text))
      turn = next.catch(() => undefined)
      return next
    },
  }
}

async function addNow({ state, logs, now, alarm }: JudgeOptions, text: string): Promise<Answer> {
  const asked = askedIn(text)
  if (asked === null) return { status: 400, body: 'it is not an add-checkpoint request: old <size>, hashes, an empty line, a checkpoint\n' }
  const opened = openedBy(asked.note, logs)
  if ('status' in opened) return opened
  const { origin, size, root } = opened
  if (asked.old > size) return { status: 400, body: `old is ${asked.old}, and the checkpoint has ${size} entries\n` }
  const before = state.latest.get(origin) ?? EMPTY
  if (asked.old !== before.size) return { status: 409, body: `${before.size}\n`, type: SIZE_TYPE }
  const isOther = size === before.size && !isSameBytes(root, before.root)
  if (isOther || !answerNow(isConsistent(before, opened, asked.proof), sha256Bytes)) {
    // Signed by the log, and against what it signed before: the file proves it to others. A wrong proof alone shows nothing.
    const file = await state.keepConflict(`${before.note}\n${text}`, now())
    alarm(`${origin}: size ${size} does not follow from size ${before.size}, see ${file}`)
    return isOther
      ? { status: 409, body: `${before.size}\n`, type: SIZE_TYPE }
      : { status: 422, body: 'it does not follow from what was cosigned before\n' }
  }
  const line = state.key.cosign(opened.text, Math.floor(now() / 1_000))
  const own = opened.signed.map((signed) => signed.line).join('')
  await state.save(origin, { size, root, note: `${opened.text}\n${own}${line}` })
  return { status: 200, body: line }
}

function openedBy(note: string, logs: readonly VerifierKey[]): OpenCheckpoint | Answer {
  let origin: string
  try {
    ;({ origin } = checkpointIn(noteIn(note).text))
  } catch (error) {
    return { status: 400, body: `${(error as Unreadable).message}\n` }
  }
  const keys = logs.filter(({ name }) => name === origin)
  if (keys.length === 0) return { status: 404, body: 'this witness does not know that log\n' }
  try {
    const opened = nodeCheckpointIn(note, keys)
    return opened.signed.length > 0 ? opened : { status: 403, body: 'no key of the log signed it\n' }
  } catch (error) {
    return { status: 403, body: `${(error as Unreadable).message}\n` }
  }
}
