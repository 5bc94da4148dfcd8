// All commands: one for each operation, some with hand-written additions, and the commands without an operation.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import { acpSpec } from '../acp/commands.ts'
import { agentRun } from '../commands/agent-run.ts'
import { askSpecs } from '../ask/index.ts'
import { acceptSpec, exportSpec, replaySpec, verifySpec } from '../commands/audit.ts'
import { whySpec } from '../commands/why.ts'
import { committingSpec, downloadSpec, uploadSpec } from '../commands/artifact.ts'
import { completionSpec, idsSpec } from './completion.ts'
import { configSpecs } from '../config/specs.ts'
import { derivedSpec } from './from-operation.ts'
import { databaseSpecs } from '../commands/database.ts'
import { deviceSpecs } from '../device/commands.ts'
import { doctorSpec } from '../commands/doctor.ts'
import { streamSpec, taskFollow } from '../commands/follow.ts'
import { hookSpecs } from '../hook/commands.ts'
import { permissionsSpec } from '../harness/permissions.ts'
import { gateSpecs } from '../gate/commands.ts'
import { firstWords } from './help.ts'
import { checkpointResolveSpec, inboxResolveSpec, requestResolveSpec } from '../answer/guarded-commands.ts'
import { inboxAnswers, inboxGetSpec, inboxSpecs } from '../commands/inbox.ts'
import { mcpSpec } from '../mcp/commands.ts'
import { logSpecs } from '../log/commands.ts'
import { loginSpecs } from '../commands/login.ts'
import { policySuggestSpec, policyTestSpec } from '../commands/policy.ts'
import { receiptSpecs } from '../commands/receipt.ts'
import { reviewSpecs } from '../commands/review.ts'
import { taskCreateSpec } from '../commands/task.ts'
import type { Spec } from './command.ts'
import { upSpec } from '../commands/up.ts'

/** Nouns, for the first page of the help. */
export const nouns: Readonly<Record<string, string>> = {
  task: 'delegated work: create, assign, follow, steer, end',
  checkpoint: 'questions that block a task until a person answers',
  review: 'verdicts on deliverables: show, approve, ask for changes, reject',
  artifact: 'deliverables: bytes, versions, references',
  grant: 'advance permissions, so that an agent need not ask',
  ledger: "a project's memory: values under keys, with their history",
  audit: 'the record: query, replay, verify, follow',
  log: 'the log over all facts: its state, the policy for verifiers, its key, a copy to publish',
  receipt: 'signed answers: verify them, and the keys that they are signed with',
  run: "an agent's work on a task: start, progress, complete, fail",
  inbox: "a person's inbox: list, follow, answer",
  mailbox: "an agent's mailbox: take, ack, extend, release",
  filter: 'saved inbox filters',
  ask: 'ask a person from a script, and wait for the answer: decide, approve, provide, verify',
  request: "agents' requests to people: create, await, resolve, claim, assign",
  rule: "routing rules for your agents' requests",
  policy: 'rules for what your agents ask and for the tools that they call: set, test, suggest, why',
  group: 'names for several people: to escalate to, to approve, and for groups of an issuer',
  file: 'files given as answers',
  secret: 'secrets given as answers; each is handed over once',
  channel: 'notification channels (push, e-mail, webhook)',
  notice: 'notifications sent to you, and their delivery',
  memo: 'notes of a run',
  capability: 'capabilities that agents can invoke: tools, functions, skills',
  ownership: 'pass a task on to another agent',
  reviewer: 'further people who can decide about a task',
  user: 'people',
  agent: 'agents: add, publish a card, discover, delegate, run a command as one',
  delivery: 'delivery log of messages to webhooks',
  webhook: 'signing secrets of webhooks',
  push: 'addresses that hear of changes of work that came over A2A',
  project: 'projects and their members',
  config: 'what configuration files have set: list; `countersign apply` sets it',
  key: 'API keys',
  subject: 'people who log in with an OAuth or OpenID Connect issuer',
  substitute: 'deputies, with dates',
  harness: 'tasks to and from other harnesses: declare, allow, submit, follow, abort',
  session: 'browsers that are logged in',
  passkey: 'devices of people that sign answers; the page adds them',
  device: 'hardware: the daemon of a board, its tools and its audit; devices that are linked to the server',
  call: 'calls of agents to tools at the gate: list, show, cancel',
  tool: 'tools behind gates: their definitions, and the trust in changed ones',
  gate: 'MCP servers behind the policy: each call is allowed, asked or denied',
  event: "lines of a device's audit, as the server has recorded them",
  me: 'your own identity',
  ticket: 'one-time tokens that open a WebSocket',
  hook: 'hooks of Claude Code, Codex, Gemini, Cursor and OpenCode: their tools ask Countersign',
  login: 'log in; `login list` shows your logins, `login issue` makes a link for a browser',
}

type Special = (protocol: Protocol, op: Operation) => Spec | Spec[]
const special: Readonly<Record<string, Special>> = {
  'collaboration/artifact.commit': committingSpec,
  'collaboration/artifact.edit': committingSpec,
  'collaboration/audit.export': exportSpec,
  'collaboration/audit.replay': replaySpec,
  'collaboration/audit.verify': verifySpec,
  'collaboration/audit.why': whySpec,
  'collaboration/checkpoint.resolve': checkpointResolveSpec,
  'collaboration/task.create': taskCreateSpec,
  'execution/inbox.get': inboxGetSpec,
  'execution/inbox.list': inboxSpecs,
  'execution/inbox.resolve': inboxResolveSpec,
  'execution/request.resolve': requestResolveSpec,
  'gate/policy.suggest': policySuggestSpec,
  'gate/policy.test': policyTestSpec,
}

function specFor(protocol: Protocol, op: Operation): Spec | Spec[] {
  const specialSpec = special[`${protocol.name}/${op.name}`]
  if (specialSpec) return specialSpec(protocol, op)
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
    ...logSpecs,
    ...receiptSpecs,
    acceptSpec,
    ...configSpecs,
    ...databaseSpecs,
    ...deviceSpecs,
    ...gateSpecs,
    mcpSpec,
    acpSpec,
    permissionsSpec,
    ...hookSpecs,
  ]
  all.push(
    completionSpec(() => all),
    idsSpec,
  )
  const placeOf = ({ path }: Spec): number => (firstWords.includes(path[0]!) ? firstWords.indexOf(path[0]!) : firstWords.length)
  return all.toSorted((a, b) => placeOf(a) - placeOf(b))
}
