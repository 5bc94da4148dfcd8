// The facts of a bundle: the history of one document, or a stretch of a project's record, with the facts that their verification needs.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { idOf, kindOf, kindsKnown, type AnyDoc } from '#kernel/declare/schema.ts'
import type { Line } from '#kernel/log/hash-chain.ts'
import type { Place, StoredFact } from '#kernel/log/store.ts'
import { REQUEST_KEY } from '#kernel/log/bundle/bundle.ts'
import { limits } from '#kernel/limits.ts'
import { PORTION } from './readers.ts'

/** Where a fact is. */
export type Spot = Pick<Place, 'scope' | 'seq' | 'position'>
/** A stretch of a chain, both ends included; null: none. */
export type Stretch = { readonly scope: string; readonly from: number; readonly to: number } | null
export type Plan = { readonly stretch: Stretch; readonly single: readonly Spot[] }

/** Kinds of documents that an id can name, by its prefix. */
const kindsOf: Readonly<Record<string, readonly string[]>> = {
  task: ['collaboration.task', 'hardware.task', 'harness.task'],
  ckpt: ['collaboration.checkpoint'],
  rev: ['collaboration.review'],
  art: ['collaboration.artifact_head'],
  grant: ['collaboration.grant'],
  led: ['collaboration.ledger_head'],
  hxp: ['execution.request'],
  run: ['delegation.run'],
  inv: ['delegation.invocation'],
  call: ['gate.call'],
  user: ['identity.user'],
  agent: ['identity.agent'],
  project: ['identity.project'],
  key: ['identity.key'],
  pk: ['identity.passkey'],
  dev: ['hardware.device'],
}

export type Found = { readonly doc: AnyDoc; readonly kind: string; readonly spot: Spot }

/** The document that an id names, with the fact that left it as it is; null: no fact is about it. */
export async function documentOf(read: Read, id: string): Promise<Found | null> {
  const names = kindsOf[id.slice(0, Math.max(0, id.indexOf('_')))] ?? []
  for (const doc of kindsKnown().filter(({ kind }) => names.includes(kind))) {
    const spot = await read.place(doc, id)
    if (spot) return { doc, kind: doc.kind.slice(doc.kind.indexOf('.') + 1), spot }
  }
  return null
}

export async function factAt(read: Read, { scope, seq }: Pick<Spot, 'scope' | 'seq'>): Promise<StoredFact | null> {
  const [fact] = await read.facts({ by: 'scope', scope }, { after: seq - 1, limit: 1, asStored: true })
  return fact?.seq === seq ? fact : null
}

/** Every fact with an image of the document, the newest first. */
export async function historyOf(read: Read, doc: AnyDoc, id: string): Promise<Spot[]> {
  const spots: Spot[] = []
  const key = `${doc.kind}/${id}`
  let next: Pick<Spot, 'scope' | 'seq'> | null = await read.place(doc, id)
  while (next !== null) {
    const fact: StoredFact | null = await factAt(read, next)
    if (fact === null) break
    const { scope, seq, position } = fact
    spots.push({ scope, seq, position })
    refuseMany(spots.length)
    const before = fact.images.find((image) => image.key === key)?.beforeLine ?? null
    next = before === null ? null : (JSON.parse(before) as Line)
  }
  return spots
}

export async function factsOfTask(read: Read, task: string): Promise<Spot[]> {
  const spots: Spot[] = []
  for (let after: number | null = null; ;) {
    const page: StoredFact[] = await read.facts({ by: 'task', task }, { after, limit: PORTION, asStored: true })
    spots.push(...page.map(({ scope, seq, position }) => ({ scope, seq, position })))
    refuseMany(spots.length)
    if (page.length < PORTION) return spots
    after = page.at(-1)!.position
  }
}

function refuseMany(count: number): void {
  if (count > limits.bundleFactsMax)
    throw new Refusal('INVALID_REQUEST', `more than ${limits.bundleFactsMax} facts are about it: export the project`, { field: 'id' })
}

/** Facts that published or retired the keys of receipts: a verifier that trusts the log needs no key set. */
export async function keyFacts(read: Read): Promise<Spot[]> {
  const kind = kindsKnown().find((doc) => doc.kind === 'identity.receipt_key')
  if (!kind) return []
  const all = await Promise.all((await read.ports.names.receiptKeys(read)).map((kid) => historyOf(read, kind, kid)))
  return all.flat()
}

export const inOrder = (spots: readonly Spot[]): Spot[] =>
  [...new Map(spots.map((spot) => [spot.position, spot])).values()].toSorted((a, b) => a.position - b.position)

export type Planned = { readonly fact: StoredFact; readonly isLast: boolean }

/** The facts of a plan behind a position, in order. `isLast`: the next one of its chain is not in the bundle, so it needs a proof. */
export async function* factsIn(read: Read, { stretch, single }: Plan, after: number, nextSeq: number): AsyncGenerator<Planned> {
  const spots = single.filter(({ position }) => position > after)
  let seq = nextSeq
  while (stretch !== null && seq <= stretch.to) {
    const page = await read.facts({ by: 'scope', scope: stretch.scope }, { after: seq - 1, limit: PORTION, asStored: true })
    if (page.length === 0) throw new Refusal('INTERNAL', `the record of ${stretch.scope} has no number ${seq}`)
    for (const fact of page) {
      if (fact.seq > stretch.to) break
      while (spots.length > 0 && spots[0]!.position < fact.position) yield* singleFact(read, spots.shift()!)
      yield { fact, isLast: fact.seq === stretch.to }
      seq = fact.seq + 1
    }
  }
  for (const spot of spots) yield* singleFact(read, spot)
}

async function* singleFact(read: Read, spot: Spot): AsyncGenerator<Planned> {
  const fact = await factAt(read, spot)
  if (fact) yield { fact, isLast: true }
}

/** The request that a fact ended; null: it ended none. */
export async function endedRequest(read: Read, { line, position }: StoredFact): Promise<string | null> {
  const { subject } = JSON.parse(line) as Line
  if (!subject.startsWith(REQUEST_KEY)) return null
  const id = idOf(subject)
  const place = await read.place(kindOf(subject), id)
  return place?.position === position ? id : null
}
