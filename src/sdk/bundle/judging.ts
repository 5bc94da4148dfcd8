// The rules of a bundle: facts against the signed tree and their chains, images against their digests, receipts against the facts that they name.
import { base64Of, isSameBytes } from '#kernel/log/tree/base64.ts'
import { answerLater, answerNow } from '#kernel/log/tree/asking.ts'
import { openCheckpoint, type Claim, type OpenCheckpoint } from '#kernel/log/tree/checkpoint.ts'
import { Unreadable } from '#kernel/log/tree/note.ts'
import type { Policy } from '#kernel/log/tree/policy.ts'
import { isConsistent, rootOfInclusion } from '#kernel/log/tree/proofs.ts'
import { ERASED, PUBLISHED, REQUEST_KEY, RETIRED, type FirstLine } from '#kernel/log/bundle/bundle.ts'
import { sha256Of } from '#kernel/log/bundle/sha256.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Line } from '#kernel/log/hash-chain.ts'
import { canonicalDigest, verifyReceipt } from '../receipt.ts'
import { Broken, type MiddleLine } from './lines.ts'
import type { BundleVerdict, Voucher } from './verify.ts'

/** The last fact of a project so far. `unproven`: the line of a fact that the next one has to prove. */
type Chain = {
  readonly seq: number
  readonly index: number
  readonly hash: string
  readonly ms: number
  readonly at: number
  readonly unproven: number | null
}
/** A fact that erases images, or one whose images were erased. */
type Erasure = { readonly at: number; readonly scope: string; readonly images: readonly string[] }

export type Judging = {
  readonly policy: Policy
  readonly first: FirstLine
  readonly head: OpenCheckpoint
  readonly chains: Map<string, Chain>
  /** Facts about requests, by project and number. */
  readonly requests: Map<string, { readonly hash: string; readonly subject: string }>
  /** A key set of the published keys, by their names. */
  readonly keys: Map<string, Record<string, unknown>>
  /** Erased images, by the place of the fact that must have erased them. */
  readonly erasures: Map<number, Erasure[]>
  /** The latest time of all facts up to a place, where it rises. */
  readonly latest: { readonly index: number; readonly ms: number; readonly at: number }[]
  /** The first number of the project that the bundle is about. */
  from: number | null
  index: number
  facts: number
  receipts: number
  erased: number
}

/** Clocks of a server and its witnesses differ by less. */
const CLOCKS_MS = 60_000
const utf8 = new TextEncoder()
const textHash = (text: string): Uint8Array => sha256Of(utf8.encode(text))
const urlBase64 = (bytes: Uint8Array): string => base64Of(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
const nameOf = (key: string, version: number): string => `${version} ${key}`

export const beginJudging = (policy: Policy, first: FirstLine, head: OpenCheckpoint): Judging => ({
  policy,
  first,
  head,
  chains: new Map(),
  requests: new Map(),
  keys: new Map(),
  erasures: new Map(),
  latest: [],
  from: null,
  index: -1,
  facts: 0,
  receipts: 0,
  erased: 0,
})

// --- Checkpoints -----------------------------------------------------------------------------------------------------------

export async function checkpointIn(note: string, origin: string, policy: Policy, at: number): Promise<OpenCheckpoint> {
  const logs = policy.logs.flatMap(({ key }) => (key.name === origin ? [key] : []))
  if (logs.length === 0) throw new Broken(1, `it is of the log ${origin}, which the policy does not name`)
  const opened = await answerLater(openCheckpoint(note, [...logs, ...policy.witnesses.map(({ key }) => key)]), isSigned).catch(
    (error: unknown) => {
      throw error instanceof Unreadable ? new Broken(at, error.message) : error
    },
  )
  if (opened.origin !== origin) throw new Broken(at, `its checkpoint is of the log ${opened.origin}, and the bundle of ${origin}`)
  if (!opened.signed.some(({ time }) => time === null))
    throw new Broken(at, `its checkpoint is not signed by a key of the log ${origin} that the policy names`)
  const seen = cosignaturesOf(opened)
  if (!policy.isMet(seen.map(({ key }) => key)))
    throw new Broken(
      at,
      `too few witnesses: the policy asks for ${policy.quorum}, and ${seen.length} of its witnesses have seen this checkpoint`,
    )
  return opened
}

const cosignaturesOf = ({ signed }: OpenCheckpoint) => signed.filter((line) => line.time !== null)

async function isSigned({ key, message, signature }: Claim): Promise<boolean> {
  const { subtle } = globalThis.crypto
  try {
    const imported = await subtle.importKey('raw', Uint8Array.from(key), { name: 'Ed25519' }, false, ['verify'])
    return await subtle.verify({ name: 'Ed25519' }, imported, Uint8Array.from(signature), Uint8Array.from(message))
  } catch {
    return false
  }
}

// --- Lines -----------------------------------------------------------------------------------------------------------------

export async function judgeLine(judging: Judging, line: MiddleLine, at: number): Promise<void> {
  if (line.is === 'fact') return judgeFact(judging, line, at)
  checkProven(judging)
  if (line.is === 'seen') return judgeSeen(judging, line, at)
  await judgeReceipt(judging, line, at)
  judging.receipts++
}

type FactLine = MiddleLine & { is: 'fact' }

function judgeFact(judging: Judging, line: FactLine, at: number): void {
  const { head } = judging
  const { fact, sealed, ms } = line
  const { index } = fact
  if (index < 0 || index >= head.size) throw new Broken(at, `its place ${index} is not in a log of ${head.size} facts`)
  if (index <= judging.index) throw new Broken(at, 'facts are in the order of their places, and this one is not')
  const entry = textHash(fact.line)
  if (line.proof !== null) {
    const root = answerNow(rootOfInclusion(entry, index, head.size, line.proof), sha256Of)
    if (root === null || !isSameBytes(root, head.root)) throw new Broken(at, 'its proof does not lead to the signed checkpoint')
  }
  const hash = urlBase64(entry)
  linkChain(judging, line, hash, at)
  judgeImages(judging, fact, sealed, at)
  settleErasures(judging, sealed, index)
  noteKeys(judging, sealed, at)
  if (sealed.subject.startsWith(REQUEST_KEY)) judging.requests.set(`${sealed.scope} ${sealed.seq}`, { hash, subject: sealed.subject })
  judging.index = index
  judging.facts++
  if (ms > (judging.latest.at(-1)?.ms ?? -Infinity)) judging.latest.push({ index, ms, at })
  checkTimes(head, ms, at)
}

/** A fact cannot be later than a witness that has seen it. */
function checkTimes(head: OpenCheckpoint, ms: number, at: number): void {
  const early = cosignaturesOf(head).find(({ time }) => ms > time! * 1_000 + CLOCKS_MS)
  if (early) throw new Broken(at, `it is later than ${early.key.name} saw it`)
}

function linkChain(judging: Judging, { fact, sealed, ms, proof }: FactLine, hash: string, at: number): void {
  const { chains, first } = judging
  const { scope, seq, prev } = sealed
  const before = chains.get(scope)
  const isAbout = first.about.kind === 'project' && scope === first.about.id
  if (isAbout) judging.from ??= seq
  if ((seq === 1) !== (prev === ''))
    throw new Broken(at, `number ${seq} of ${scope} ${prev === '' ? 'follows nothing' : 'follows something'}`)
  if (before === undefined) {
    if (first.complete && isAbout && seq !== 1) throw new Broken(at, `the beginning of ${scope} is missing: this is number ${seq}`)
  } else {
    if (seq <= before.seq || fact.index - before.index < seq - before.seq)
      throw new Broken(at, `number ${seq} of ${scope} cannot be at this place behind number ${before.seq}`)
    if (seq > before.seq + 1) {
      if (before.unproven !== null) throw unprovenError(before.unproven)
      if (first.complete && isAbout) throw new Broken(at, `facts of ${scope} are missing before number ${seq}`)
    } else if (prev !== before.hash)
      // A fact without a proof of its own has to be the one that the next fact names.
      throw new Broken(before.unproven === null ? at : before.at, `number ${seq} of ${scope} does not follow number ${before.seq}`)
    if (ms < before.ms) throw new Broken(at, `number ${seq} of ${scope} is earlier than the number before it`)
  }
  // A proof covers everything that the chain leads back to.
  const unproven = proof === null ? (before?.seq === seq - 1 ? (before.unproven ?? at) : at) : null
  chains.set(scope, { seq, index: fact.index, hash, ms, at, unproven })
}

const unprovenError = (at: number): Broken => new Broken(at, 'nothing proves that it is in the log')

function checkProven({ chains }: Judging): void {
  for (const { unproven } of chains.values()) if (unproven !== null) throw unprovenError(unproven)
}

function judgeImages(judging: Judging, { images, index }: FactLine['fact'], sealed: Line, at: number): void {
  if (images.length !== sealed.images.length) throw new Broken(at, 'an image is missing or was added')
  for (const [i, image] of images.entries()) {
    const { key, version, digest } = sealed.images[i]!
    if (image.key !== key || image.version !== version) throw new Broken(at, `the image of ${key} was exchanged`)
    if ('erased' in image) {
      if (image.erased <= index) throw new Broken(at, `the image of ${key} was erased before it was there`)
      const others = judging.erasures.get(image.erased) ?? []
      judging.erasures.set(image.erased, [...others, { at, scope: sealed.scope, images: [nameOf(key, version)] }])
    } else if (urlBase64(textHash(image.salt + image.text)) !== digest) throw new Broken(at, `the image of ${key} was changed`)
  }
}

// --- Facts that others depend on -------------------------------------------------------------------------------------------

function noteKeys({ keys }: Judging, { scope, action, detail }: Line, at: number): void {
  if (scope !== 'system' || (action !== PUBLISHED && action !== RETIRED)) return
  const { kid, x, from, until } = detail ?? {}
  if (typeof kid !== 'string') throw new Broken(at, 'the key that it is about has no name')
  if (action === RETIRED) keys.set(kid, { ...keys.get(kid), 'countersign:until': until })
  else if (typeof x !== 'string' || urlBase64(textHash(canonical({ crv: 'Ed25519', kty: 'OKP', x }))) !== kid)
    throw new Broken(at, 'the published key does not have the name that it says')
  else keys.set(kid, { kty: 'OKP', crv: 'Ed25519', kid, x, 'countersign:from': from })
}

/** Only a later fact of the same project can have erased an image, and it names the image. */
function settleErasures(judging: Judging, { scope, action, detail }: Line, index: number): void {
  const named = Array.isArray(detail?.['images']) ? detail['images'] : []
  const erased = new Set(named.map(({ key, version }: { readonly key: string; readonly version: number }) => nameOf(key, version)))
  for (const erasure of judging.erasures.get(index) ?? []) {
    if (action !== ERASED || scope !== erasure.scope || !erasure.images.every((name) => erased.has(name))) throw erasureError(erasure)
    judging.erased += erasure.images.length
  }
  judging.erasures.delete(index)
}
const erasureError = ({ at, images }: Erasure): Broken =>
  new Broken(at, `the image of ${images[0]!.split(' ')[1]} is missing, and no fact says that it was erased`)

function judgeSeen(
  { policy, first, head, latest }: Judging,
  { checkpoint, proof }: MiddleLine & { is: 'seen' },
  at: number,
): Promise<void> {
  return checkpointIn(checkpoint, first.origin, policy, at).then((seen) => {
    if (!answerNow(isConsistent(seen, head, proof), sha256Of)) throw new Broken(at, 'the log did not grow out of this earlier checkpoint')
    const below = latest.filter(({ index }) => index < seen.size).at(-1)
    if (below) checkTimes(seen, below.ms, below.at)
  })
}

/** Receipts that people hand on may leave these out; a bundle shows all that was signed. */
const SHOWN = ['basis', 'duration_seconds', 'edited']

async function judgeReceipt(judging: Judging, { receipt, request }: MiddleLine & { is: 'receipt' }, at: number): Promise<void> {
  const jwks = { keys: [...judging.keys.values()] }
  // The line has exactly what the digest covers.
  const verdict = await verifyReceipt(receipt, { jwks, ...(request === undefined ? {} : { request, requestDigest: canonicalDigest }) })
  if (!verdict.ok) throw new Broken(at, `the receipt does not hold: ${verdict.words}`)
  const { log, request_id } = verdict.claims
  const missing = SHOWN.find((field) => Object.hasOwn(verdict.claims, field) && !Object.hasOwn(receipt, field))
  if (missing) throw new Broken(at, `the receipt does not show ${missing}, which was signed`)
  const fact = judging.requests.get(`${log.project_id} ${log.seq}`)
  if (fact === undefined) throw new Broken(at, 'the fact that the receipt names is not in the bundle')
  if (fact.hash !== log.hash) throw new Broken(at, 'the receipt names another fact than the record has there')
  if (fact.subject !== REQUEST_KEY + request_id) throw new Broken(at, 'the fact that the receipt names is about another request')
}

// --- The end ---------------------------------------------------------------------------------------------------------------

export function concludeJudging(judging: Judging): BundleVerdict {
  const { first, head, chains, erasures, from } = judging
  checkProven(judging)
  for (const [pending] of erasures.values()) throw erasureError(pending!)
  const { id } = first.about
  const last = chains.get(id)
  if (first.complete && (first.about.kind !== 'project' || last === undefined))
    throw new Broken(1, `it says that it is complete, and it has no facts of ${id}`)
  if (judging.facts === 0) throw new Broken(1, 'it has no facts')
  const witnesses = cosignaturesOf(head).map(({ key, time }): Voucher => ({ name: key.name, at: new Date(time! * 1_000).toISOString() }))
  return {
    genuine: true,
    about: first.about,
    origin: head.origin,
    size: head.size,
    witnesses,
    complete: first.complete ? { project_id: id, from: from!, to: last!.seq } : null,
    facts: judging.facts,
    receipts: judging.receipts,
    erased: judging.erased,
  }
}
