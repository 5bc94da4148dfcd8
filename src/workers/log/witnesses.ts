// The witnesses of the log, asked after each checkpoint: C2SP `add-checkpoint`. A witness cosigns a checkpoint only if the tree grew out of the
// one that it saw before, so an operator cannot show two records to two people.
import { answerNow } from '#kernel/log/tree/asking.ts'
import { base64Of } from '#kernel/log/tree/base64.ts'
import { signaturesOf } from '#kernel/log/tree/checkpoint.ts'
import { signatureLines, Unreadable } from '#kernel/log/tree/note.ts'
import type { Policy, PolicyWitness } from '#kernel/log/tree/policy.ts'
import { limits } from '#kernel/limits.ts'
import { isSignedBy } from '../keys/log-key.ts'
import type { WorkerLog } from '../worker.ts'

/** `refused`: it has seen another tree, or does not take ours. `behind`: it has not cosigned the newest checkpoint yet. */
export type WitnessState = 'ok' | 'behind' | 'unreachable' | 'refused'
export type WitnessHealth = { readonly name: string; readonly size: number; readonly state: WitnessState }

export type Witnesses = {
  /** Asks those that have not cosigned it; resolves with the signature lines of those that answered with one. */
  ask(checkpoint: ToWitness, signal: AbortSignal): Promise<readonly string[]>
  /** Whether each one has cosigned the checkpoint of this size. */
  isCosigned(size: number): boolean
  health(): readonly WitnessHealth[]
}
export type ToWitness = {
  readonly size: number
  /** The signed text, and the whole note. */
  readonly text: string
  readonly note: string
  consistency(old: number): Promise<readonly Uint8Array[]>
}

type Asked = { readonly witness: PolicyWitness; size: number; state: WitnessState; reason: string }

/** A witness answers in milliseconds; a slow one is asked again with the next checkpoint. */
const ANSWER_MS = 5_000
const SIZE_TYPE = 'text/x.tlog.size'
const TEXT_BYTES_MAX = limits.logNoteCharsMax

const isCosigned = (asked: Asked, size: number): boolean => asked.state === 'ok' && asked.size === size

export function createWitnesses({ witnesses }: Pick<Policy, 'witnesses'>, log: WorkerLog): Witnesses {
  const all: Asked[] = witnesses.filter(({ url }) => url !== null).map((witness) => ({ witness, size: 0, state: 'behind', reason: '' }))

  function note(asked: Asked, state: WitnessState, reason: string): void {
    const isNews = reason !== asked.reason
    Object.assign(asked, { state, reason })
    // Once for each reason, not with every checkpoint.
    if (!isNews) return
    const fields = { witness: asked.witness.key.name }
    if (state === 'refused') log.error(fields, `a witness refuses the log: ${reason}`)
    else if (reason !== '') log.warn(fields, `a witness did not cosign: ${reason}`)
    else log.info(fields, 'a witness cosigns the log')
  }

  async function askOne(asked: Asked, checkpoint: ToWitness, signal: AbortSignal): Promise<string | null> {
    try {
      const verdict = await cosignatureOf(asked, checkpoint, signal)
      if (verdict.line !== null) asked.size = checkpoint.size
      note(asked, verdict.state, verdict.reason)
      return verdict.line
    } catch (error) {
      if (!signal.aborted) note(asked, 'unreachable', `no usable answer from ${asked.witness.url}: ${(error as Error).message}`)
      return null
    }
  }

  return {
    async ask(checkpoint, signal) {
      const missing = all.filter((asked) => !isCosigned(asked, checkpoint.size))
      const lines = await Promise.all(missing.map((asked) => askOne(asked, checkpoint, signal)))
      return lines.filter((line) => line !== null)
    },
    isCosigned: (size) => all.every((asked) => isCosigned(asked, size)),
    health: () => all.map(({ witness, size, state }) => ({ name: witness.key.name, size, state })),
  }
}

type Verdict = { readonly state: WitnessState; readonly line: string | null; readonly reason: string }

/** A witness that knows another size says so once; then it is asked again from there. */
async function cosignatureOf(asked: Asked, checkpoint: ToWitness, signal: AbortSignal): Promise<Verdict> {
  let old = asked.size
  for (let attempt = 0; attempt < 2; attempt++) {
    const { status, type, text } = await post(asked.witness, old, checkpoint, signal)
    if (status === 200) return { state: 'ok', line: lineIn(text, asked.witness, checkpoint.text), reason: '' }
    if (status !== 409) return refusal(status, text)
    const isSame = old === checkpoint.size && text === `${old}\n`
    if (isSame) return { state: 'refused', line: null, reason: `it has seen another tree of ${old} facts` }
    if (type !== SIZE_TYPE || !/^(0|[1-9]\d{0,15})\n$/.test(text)) throw new Error('it answers 409 without its size')
    old = Number(text)
    if (old > checkpoint.size)
      return { state: 'refused', line: null, reason: `it has seen ${old} facts, and the log has ${checkpoint.size}` }
  }
  return { state: 'behind', line: null, reason: 'it names another size each time' }
}

function refusal(status: number, text: string): Verdict {
  const reason = `status ${status} ${text.trim().slice(0, 200)}`
  // Others say that the witness does not know the log or its key, or come from something in between.
  if (status === 422) return { state: 'refused', line: null, reason }
  throw new Error(reason)
}

async function post({ url }: PolicyWitness, old: number, checkpoint: ToWitness, signal: AbortSignal) {
  const proof = (await checkpoint.consistency(old)).map((hash) => `${base64Of(hash)}\n`).join('')
  const response = await fetch(`${url!.replace(/\/$/, '')}/add-checkpoint`, {
    method: 'POST',
    headers: { 'content-type': 'text/plain; charset=utf-8' },
    body: `old ${old}\n${proof}\n${checkpoint.note}`,
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
  })
  return { status: response.status, type: (response.headers.get('content-type') ?? '').split(';')[0], text: await boundedText(response) }
}

async function boundedText({ body }: Response): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body ?? []) {
    bytes += part.length
    if (bytes > TEXT_BYTES_MAX) throw new Error(`its answer has over ${TEXT_BYTES_MAX} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

/** Other lines of the answer are not ours to pass on. */
function lineIn(text: string, { key }: PolicyWitness, signedText: string): string {
  const signed = answerNow(signaturesOf(signedText, signatureLines(text), [key]), isSignedBy)
  const [first] = signed
  if (first === undefined) throw new Unreadable('its answer has no signature of its key')
  return first.line
}
