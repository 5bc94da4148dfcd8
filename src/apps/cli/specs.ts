// Every command there is: one for each operation, some of them with more than can be derived, and those that stand for none.
import type { Operation, Protocol } from '#kernel/operation.ts'
import { agentRun } from './agent-run.ts'
import { askSpecs } from './ask.ts'
import { replaySpec, verifySpec } from './audit.ts'
import { committingSpec, downloadSpec, uploadSpec } from './bytes.ts'
import { completionSpec } from './completion.ts'
import { derivedSpec } from './derived.ts'
import { doctorSpec } from './doctor.ts'
import { streamSpec, taskFollow } from './follow.ts'
import { inboxAnswers, inboxGetSpec, inboxResolveSpec, inboxSpecs } from './inbox.ts'
import { loginSpecs } from './login.ts'
import { receiptSpecs } from './receipt.ts'
import { reviewSpecs } from './review.ts'
import type { Spec } from './spec.ts'
import { upSpec } from './up.ts'

/** What nouns are about, in the order of the help. Others follow. */
export const nouns: Readonly<Record<string, string>> = {
  task: 'work that is handed over: create, assign, follow, steer, end',
  checkpoint: 'questions that wait for a person',
  review: 'what was delivered, and the verdict on it',
  artifact: 'what was delivered: bytes, versions, references',
  grant: 'what an agent may do without asking',
  ledger: 'what a project remembers',
  audit: 'the record: query, replay, verify, follow',
  receipt: 'signed answers: verify them, and the keys that they are signed with',
  run: 'what an agent is at: start, progress, complete, fail',
  inbox: 'what waits for you, or for an agent: list, follow, answer',
  filter: 'saved inbox filters',
  ask: 'ask a person from a script, and wait for the answer: decide, approve, provide',
  request: 'what agents ask of people: create, await, resolve, claim, assign',
  rule: 'who answers what your agents ask, in your place',
  policy: 'whether a timeout may decide what your agents ask',
  group: 'names for several people, to escalate to',
  file: 'files that people give as answers',
  secret: 'secrets that people give as answers: taken once',
  channel: 'where you are told what comes into your inbox',
  callback: 'where an agent has its receipts posted',
  notice: 'what was said to you, and whether it arrived',
  memo: 'notes of a run',
  capability: 'what agents can invoke: tools, functions, skills',
  ownership: 'who holds a task',
  reviewer: 'who else may decide about a task',
  user: 'people',
  agent: 'agents: their cards, work that they pass on, and any command as one',
  delivery: 'what became of messages to webhooks',
  webhook: 'the secret that messages to a webhook are signed with',
  project: 'projects and who is in them',
  key: 'API keys',
  subject: 'people who come with tokens of an OAuth or OpenID Connect issuer',
  substitute: 'who decides in whose place, and until when',
  session: 'browsers that are signed in',
  me: 'who you are',
  ticket: 'what opens a socket, once',
  login: 'store your key; `login issue` makes a link that signs somebody in',
}

type Special = (protocol: Protocol, op: Operation) => Spec | Spec[]
const special: Readonly<Record<string, Special>> = {
  'collaboration/artifact.commit': committingSpec,
  'collaboration/artifact.edit': committingSpec,
  'collaboration/audit.replay': replaySpec,
  'collaboration/audit.verify': verifySpec,
  'execution/inbox.get': inboxGetSpec,
  'execution/inbox.list': inboxSpecs,
  'execution/inbox.resolve': inboxResolveSpec,
}

function specFor(protocol: Protocol, op: Operation): Spec | Spec[] {
  const own = special[`${protocol.name}/${op.name}`]
  if (own) return own(protocol, op)
  if (op.kind === 'stream') return streamSpec(protocol, op)
  if (op.kind === 'command' && op.upload) return uploadSpec(protocol, op)
  return op.kind === 'query' && op.download ? downloadSpec(protocol, op) : derivedSpec(protocol, op)
}

export function specsOf(protocols: readonly Protocol[]): Spec[] {
  const derived = protocols.flatMap((protocol) => protocol.operations.flatMap((op) => specFor(protocol, op)))
  const all: Spec[] = [
    upSpec,
    ...loginSpecs,
    doctorSpec,
    ...derived,
    taskFollow,
    agentRun,
    ...askSpecs,
    ...inboxAnswers,
    ...reviewSpecs,
    ...receiptSpecs,
  ]
  all.push(completionSpec(() => all))
  const places = Object.keys(nouns)
  const placeOf = ({ words }: Spec): number =>
    words.length === 1 ? -1 : places.indexOf(words[0]!) < 0 ? places.length : places.indexOf(words[0]!)
  return all.toSorted((a, b) => placeOf(a) - placeOf(b))
}
