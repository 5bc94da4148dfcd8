// The path from a fact to the person who answers for it: over its cause, its basis, and the documents that it names.
import { limits } from '#kernel/limits.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import type { Context, Read } from '#kernel/declare/operation.ts'
import { idOf, kindOf } from '#kernel/declare/schema.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { SYSTEM_SCOPE } from '#kernel/declare/access.ts'
import type { FactsOf } from '#kernel/log/store.ts'
import { PORTION } from './readers.ts'
import { followsFromBeginning, isExplainedByBeginning, keyOfId, linksIn } from './why-links.ts'
import { explainedBy, kindOfActor, type Explained } from './why-steps.ts'

export type Explanation = { readonly path: readonly Explained[]; readonly person: string | null; readonly gaps: readonly string[] }

async function factAt(read: Read, scope: string, seq: number): Promise<Explained | null> {
  const [stored] = await read.facts({ by: 'scope', scope }, { after: seq - 1, limit: 1 })
  return stored?.seq === seq ? explainedBy(stored) : null
}

/** The fact that left a document as it is. */
async function latestOf(read: Read, key: string): Promise<Explained | null> {
  const place = await read.place(kindOf(key), idOf(key))
  return place === null ? null : factAt(read, place.scope, place.seq)
}
async function beginningOf(read: Read, key: string): Promise<Explained | null> {
  let found = await latestOf(read, key)
  for (let back = 0; found !== null && back < limits.whyVersionsMax; back++) {
    const before = found.stored.images.find((image) => image.key === key)?.beforeLine
    if (before === null || before === undefined) break
    const { scope, seq } = JSON.parse(before) as { readonly scope: string; readonly seq: number }
    found = await factAt(read, scope, seq)
  }
  return found
}
/** The fact that explains a document. */
const factOf = (read: Read, key: string): Promise<Explained | null> =>
  isExplainedByBeginning(key) ? beginningOf(read, key) : latestOf(read, key)

const ULID = /_([0-9A-HJKMNP-TV-Z]{10})[0-9A-HJKMNP-TV-Z]{16}$/
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
/** The time in an id; null: it has none. */
function timeIn(id: string): number | null {
  const [, chars] = ULID.exec(id) ?? []
  return chars === undefined ? null : Array.from(chars).reduce((ms, char) => ms * 32 + DIGITS.indexOf(char), 0)
}

/** A call that was decided again keeps its ids for so long. */
const AROUND_MS = 5_000
/** A fact or a receipt by its id: neither is a document, but the id tells when it was made. */
async function factNamed(read: Read, id: string, { actor, now }: Pick<Context, 'actor' | 'now'>): Promise<Explained | null> {
  const ms = timeIn(id)
  if (ms === null || !/^(?:aud|rcp)_/.test(id) || ms > Date.parse(now) + AROUND_MS) return null
  const scopes = actor.projects === 'all' ? await read.ports.names.projects(read, limits.pageMax) : [...actor.projects.keys()]
  // Parsed, not searched: a text of an agent could hold the id.
  const isIt = ({ line, value }: Explained): boolean => {
    const receipt = line.subject.startsWith('execution.request/') ? value?.['receipt'] : null
    return line.id === id || (isObject(receipt) && receipt['receipt_id'] === id)
  }
  let examined = 0
  for (const scope of [...scopes, SYSTEM_SCOPE]) {
    const of: FactsOf = { by: 'scope', scope }
    let after = (await read.seek(scope, timestampOf(ms - AROUND_MS))) - 1
    for (; examined < limits.examinedMax; examined += PORTION) {
      const page = await read.facts(of, { after, limit: PORTION })
      const found = page.map(explainedBy).find(isIt)
      if (found !== undefined) return found
      const last = page.at(-1)
      if (last === undefined || page.length < PORTION || Date.parse(last.at) > ms + AROUND_MS) break
      after = last.seq
    }
  }
  return null
}

export async function factFor(read: Read, id: string, context: Pick<Context, 'actor' | 'now'>): Promise<Explained | null> {
  const key = keyOfId(id)
  return key === null ? factNamed(read, id, context) : factOf(read, key)
}

/** What comes before a fact, the nearest to a decision first. */
async function before(read: Read, { line, value }: Explained): Promise<(Explained | null)[]> {
  const { kind, id } = line.basis
  const found: (Explained | null)[] = []
  if (line.cause !== null) found.push(await factAt(read, line.scope, line.cause))
  if (kind === 'grant') found.push(await factOf(read, `collaboration.grant/${id}`))
  if (kind === 'policy' && id.includes('/')) found.push(await factOf(read, `execution.policy/${id.slice(id.indexOf('/') + 1)}`))
  if (followsFromBeginning(line.subject)) found.push(await beginningOf(read, line.subject))
  for (const key of value === null ? [] : linksIn(line.subject, value)) found.push(await factOf(read, key))
  if (line.task !== null && line.subject !== `collaboration.task/${line.task}`)
    found.push(await factOf(read, `collaboration.task/${line.task}`))
  if (line.actor.startsWith('agent_')) found.push(await factOf(read, `identity.agent/${line.actor}`))
  return found
}

/** The registration of an agent names the person who answers for it. */
const ownerIn = ({ line, value }: Explained): string | null =>
  line.subject.startsWith('identity.agent/') && typeof value?.['owner'] === 'string' ? value['owner'] : null

export async function pathFrom(read: Read, start: Explained): Promise<Explanation> {
  const seen = new Set<string>()
  let longest: readonly Explained[] = [start]
  async function reach(path: readonly Explained[]): Promise<Explanation | null> {
    const here = path.at(-1)!
    if (path.length > longest.length) longest = path
    if ((await kindOfActor(read, here.line.actor)) === 'human') return { path, person: here.line.actor, gaps: [] }
    const owner = ownerIn(here)
    if (owner !== null) return { path, person: owner, gaps: [] }
    if (path.length >= limits.whyStepsMax) return null
    for (const next of await before(read, here)) {
      const place = next === null ? '' : `${next.line.scope} ${next.line.seq}`
      if (next === null || seen.has(place) || seen.size >= limits.whyVersionsMax) continue
      seen.add(place)
      const found = await reach([...path, next])
      if (found !== null) return found
    }
    return null
  }
  return (await reach([start])) ?? { path: longest, person: null, gaps: [gapAt(longest.at(-1)!)] }
}

/** Why no person is named. */
function gapAt({ line }: Explained): string {
  if (line.actor.startsWith('service_')) return `${line.actor} did it: the admin key belongs to the operator, and names no person`
  return `${line.action} was done by ${line.actor}, and the record names no person before it`
}
