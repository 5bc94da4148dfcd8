// The policy of C2SP: which logs and witnesses a verifier trusts, and how many witnesses must have seen a checkpoint.
import { limits } from '../../limits.ts'
import type { Hashing } from './asking.ts'
import { COSIGNATURE_KEY, hasControls, isSameKey, LOG_KEY, Unreadable, verifierKeyIn, type VerifierKey } from './note.ts'

export type PolicyLog = { readonly key: VerifierKey; readonly url: string | null }
export type PolicyWitness = PolicyLog & { readonly name: string }

export type Policy = {
  readonly logs: readonly PolicyLog[]
  readonly witnesses: readonly PolicyWitness[]
  /** The name of a witness or a group, or `none`. */
  readonly quorum: string
  /** Whether the cosignatures of these witnesses are enough. */
  isMet(seen: readonly VerifierKey[]): boolean
}

type Group = { readonly least: number; readonly members: readonly string[] }
const NONE = 'none'

type Draft = {
  readonly logs: PolicyLog[]
  readonly witnesses: PolicyWitness[]
  readonly groups: Map<string, Group>
  /** Names that are members of a group: each counts in one way only. */
  readonly members: Set<string>
  quorum: string | null
}

export function* policyIn(text: string): Hashing<Policy> {
  if (text.length > limits.logPolicyCharsMax) throw new Unreadable(`the policy has over ${limits.logPolicyCharsMax} characters`)
  if (hasControls(text, '\t')) throw new Unreadable('the policy has control characters: its lines end with LF alone')
  const draft: Draft = { logs: [], witnesses: [], groups: new Map(), members: new Set(), quorum: null }
  for (const [i, line] of text.split('\n').entries()) {
    const words = line.split(/[ \t]+/).filter((word) => word !== '')
    if (words.length === 0 || words[0]!.startsWith('#')) continue
    try {
      yield* addLine(draft, words)
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      throw new Unreadable(`line ${i + 1} of the policy: ${error.message}`)
    }
  }
  const { logs, witnesses, groups, quorum } = draft
  if (quorum === null) throw new Unreadable('the policy names no quorum: add a line `quorum <name>`, or `quorum none`')
  return { logs, witnesses, quorum, isMet: (seen) => isMetBy(quorum, { witnesses, groups }, seen) }
}

function* addLine(draft: Draft, [kind, ...words]: readonly string[]): Hashing<void> {
  if (kind === 'log') yield* addLog(draft, words)
  else if (kind === 'witness') yield* addWitness(draft, words)
  else if (kind === 'group') addGroup(draft, words)
  else if (kind === 'quorum') setQuorum(draft, words)
  else throw new Unreadable(`${JSON.stringify(kind)} is unknown: a line begins with log, witness, group or quorum`)
}

function checkRoom(count: number): void {
  if (count >= limits.logPolicyEntriesMax) throw new Unreadable(`over ${limits.logPolicyEntriesMax} entries of one kind`)
}

function* addLog(draft: Draft, [text, url, ...more]: readonly string[]): Hashing<void> {
  if (text === undefined || more.length > 0) throw new Unreadable('a log is `log <vkey> [<url>]`')
  const key = yield* verifierKeyIn(text)
  if (key.type !== LOG_KEY) throw new Unreadable(`${key.name} is the key of a witness, not of a log`)
  checkNewKey(draft, key)
  checkRoom(draft.logs.length)
  draft.logs.push({ key, url: url ?? null })
}

function* addWitness(draft: Draft, [name, text, url, ...more]: readonly string[]): Hashing<void> {
  if (name === undefined || text === undefined || more.length > 0) throw new Unreadable('a witness is `witness <name> <vkey> [<url>]`')
  const key = yield* verifierKeyIn(text)
  if (key.type !== COSIGNATURE_KEY) throw new Unreadable(`${key.name} is the key of a log, not of a witness`)
  checkNewKey(draft, key)
  checkNewName(draft, name)
  checkRoom(draft.witnesses.length)
  draft.witnesses.push({ name, key, url: url ?? null })
}

function checkNewKey({ logs, witnesses }: Draft, key: VerifierKey): void {
  const other = [...logs, ...witnesses].find((party) => isSameKey(party.key, key))
  if (other) throw new Unreadable(`${key.name} has the same key as ${other.key.name}: each counts once, and a log is not its own witness`)
}
const isKnown = ({ witnesses, groups }: Pick<Draft, 'witnesses' | 'groups'>, name: string): boolean =>
  groups.has(name) || witnesses.some((witness) => witness.name === name)
function checkNewName(draft: Draft, name: string): void {
  if (name === NONE || isKnown(draft, name)) throw new Unreadable(`the name ${name} is taken`)
}

function addGroup(draft: Draft, [name, least, ...members]: readonly string[]): void {
  if (name === undefined || least === undefined || members.length === 0)
    throw new Unreadable('a group is `group <name> <all, any or a number> <name>...`')
  checkNewName(draft, name)
  checkRoom(draft.groups.size)
  for (const member of members) {
    if (!isKnown(draft, member)) throw new Unreadable(`${member} is not defined on a line before`)
    if (draft.members.has(member)) throw new Unreadable(`${member} is a member of a group already: it counts once`)
    draft.members.add(member)
  }
  const count = least === 'all' ? members.length : least === 'any' ? 1 : /^[1-9]\d{0,3}$/.test(least) ? Number(least) : 0
  if (count < 1 || count > members.length) throw new Unreadable(`${least} is not a number from 1 to ${members.length}, all or any`)
  draft.groups.set(name, { least: count, members })
}

function setQuorum(draft: Draft, [name, ...more]: readonly string[]): void {
  if (name === undefined || more.length > 0) throw new Unreadable('a quorum is `quorum <name>`')
  if (draft.quorum !== null) throw new Unreadable('there is a second quorum')
  if (name !== NONE && !isKnown(draft, name)) throw new Unreadable(`${name} is not defined on a line before`)
  draft.quorum = name
}

function isMetBy(name: string, policy: Pick<Draft, 'witnesses' | 'groups'>, seen: readonly VerifierKey[]): boolean {
  if (name === NONE) return true
  const group = policy.groups.get(name)
  if (group) return group.members.filter((member) => isMetBy(member, policy, seen)).length >= group.least
  const witness = policy.witnesses.find((candidate) => candidate.name === name)
  return witness !== undefined && seen.some((key) => isSameKey(key, witness.key))
}
