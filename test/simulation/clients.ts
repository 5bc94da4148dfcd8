// The clients: they send, lose answers, send again under the same key or twice at once, and remember every answer. Each thing they were
// told is held against the disk at the moment it is said.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { authenticate } from '#protocols/identity/authenticate.ts'
import { BATCH, isReassign, leaves, marked, markerIn, operations, REASSIGN, targetOf } from './authors.ts'
import type { Machine } from './machine.ts'
import type { Processes } from './processes.ts'
import { shownTo } from './question-laws.ts'
import type { Random } from './random.ts'
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'
import { ADMIN } from './world.ts'

export type Plan = {
  readonly as: string
  readonly op: string
  readonly input: any
  /** Whatever happens, this must be refused. */
  readonly mustFail?: boolean
  /** Sent under an idempotency key, so that it may be sent again. */
  readonly keyed: boolean
}
export type Intent = Plan & {
  readonly id: number
  /** Between which times the server's clock was since the first attempt. */
  since: number
  until: number
  inFlight: number
  /** Answers on their way to the client, and times that it will be sent again. */
  queued: number
  effects: number
  /** Of a batch of answers: the requests for which its answer counted. */
  readonly parts: Set<string>
  /** The effect may be that of another act of the same agent, which begins the run as well. */
  isDoubtful: boolean
  /** The task that its effect was about. */
  task: string | null
  /** Attempts of which nobody heard. */
  lost: number
  answer: string | null
  /** The question as it stood before the person who answers it; null: it is no answer. */
  readonly shown: string | null
  /** The newest attempt at its run that anybody had been told of when it was sent first. */
  readonly newest: number
  done: boolean
}

const WEEK_MS = 7 * 24 * 3_600_000

export type Clients = {
  start(plan: Plan): Intent
  /** Sends once more what nobody has heard of; answers whether there was something. */
  retryOne(): boolean
  waiting(): number
  started(): number
  /** Calls whose outcome is open. */
  inFlight(): readonly Intent[]
  /** Whether a call is under way whose fact could not be told from the one that this plan leaves. */
  isTaken(plan: Plan): boolean
  /** The fact that somebody's call left: it must be a call that is under way, and the call's only one. */
  claim(fact: SeenFact): void
  onCrash(): void
  onClock(): void
  /** Whether all calls began within the time for which answers are kept. */
  areRecent(): boolean
  settle(): void
}

export type ClientOptions = {
  readonly machine: Machine
  readonly random: Random
  readonly record: FactRecord
  readonly tokens: Map<string, string>
  readonly fail: Fail
  readonly happened: (what: string) => void
  readonly processes: Processes
}

export function createClients({ machine, random, record, tokens, fail, happened, processes }: ClientOptions): Clients {
  const intents: Intent[] = []
  let open: Intent[] = []
  const retries: Intent[] = []

  function start(plan: Plan): Intent {
    const intent = {
      ...plan,
      id: intents.length,
      since: machine.now(),
      until: machine.now(),
      inFlight: 0,
      queued: 0,
      effects: 0,
      parts: new Set<string>(),
      isDoubtful: false,
      task: null,
      lost: 0,
      answer: null,
      shown: shownTo(plan.op, plan.input, (key) => record.docs.get(key)?.value ?? null),
      newest: processes.newest(plan.input.run_id ?? plan.input.parent_run),
      done: false,
    }
    intents.push(intent)
    open.push(intent)
    send(intent)
    if (intent.keyed && machine.isFaulty() && random.chance(0.15)) {
      happened('duplicate')
      send(intent)
    }
    return intent
  }

  function send(intent: Intent): void {
    const kernel = machine.kernel()
    if (kernel === null || !machine.isServing()) return queue(intent)
    const mine = machine.process()
    const sent = { facts: record.size(), answered: intent.answer !== null }
    intent.inFlight++
    const caller = () => authenticate(kernel.store, { kind: 'bearer', token: tokens.get(intent.as)! }, machine.now())
    const key = intent.keyed ? `key-${intent.id}` : undefined
    const { checksum, size } = intent.input
    const bytes = intent.op.endsWith('artifact.upload') ? { received: { checksum, size } } : {}
    kernel.call(intent.op, intent.input, caller, { key, ...bytes }).then(
      (output: any) => machine.process() === mine && answered(intent, () => accept(intent, output, sent)),
      (error: unknown) => machine.process() === mine && answered(intent, () => refuse(intent, error, sent)),
    )
  }

  /** A word counts once it was said, whether or not it is heard. */
  function answered(intent: Intent, judge: () => () => void): void {
    intent.inFlight--
    const hear = judge()
    const isLost = machine.isFaulty() && random.chance(0.06)
    if (isLost) {
      happened('answer lost')
      intent.lost++
      again(intent)
      return
    }
    intent.queued++
    machine.park('answer', () => {
      intent.queued--
      hear()
    })
  }

  /** Answers are kept for eight days by the server's clock; a client that waits longer gives up. */
  function again(intent: Intent): void {
    if (intent.keyed && isRecent(intent)) queue(intent)
    else close(intent)
  }

  function isRecent(intent: Intent): boolean {
    intent.since = Math.min(intent.since, machine.now())
    intent.until = Math.max(intent.until, machine.now())
    return intent.until - intent.since < WEEK_MS
  }

  function queue(intent: Intent): void {
    intent.queued++
    retries.push(intent)
  }

  function close(intent: Intent): void {
    intent.done = true
  }

  type Sent = { readonly facts: number; readonly answered: boolean }

  function accept(intent: Intent, output: any, sent: Sent): () => void {
    const { op, as } = intent
    happened(`${op} ok`)
    if (intent.mustFail) fail(`${op} by ${as} was allowed: ${JSON.stringify(intent.input)}`)
    const operation = operations.get(op)!
    // A capability without a grant is asked for, and one that cannot be invoked is answered: nothing happens.
    const wanted = output.decision === 'ask' || output.invocation_id === null ? 0 : 1
    if (operation.kind === 'command' && operation.audit !== null && intent.effects !== wanted)
      fail(`${op} by ${as} was acknowledged with ${intent.effects} effects on the disk`)
    // To settle what is gone already changes nothing.
    if (op.startsWith('delegation/') && intent.input.attempt < intent.newest && output.settled !== 0)
      fail(`${op} by ${as} counted in attempt ${intent.input.attempt}, though ${intent.newest} had begun`)
    if (op === BATCH)
      for (const { request_id, ok } of output.results)
        if (ok !== intent.parts.has(request_id))
          fail(`${op} by ${as} says ${ok ? 'yes' : 'no'} to ${request_id}, and the disk says otherwise`)
    if (intent.answer === null) processes.answered(intent, output)
    checkDurable(op, output)
    if (op.endsWith('audit.replay') && !output.matches && record.size() === sent.facts) fail(`replay: ${JSON.stringify(output.difference)}`)
    if (op.endsWith('audit.verify') && !output.valid) fail(`verify: ${JSON.stringify(output.difference)}`)
    // Secrets are shown once.
    const once = operation.kind === 'command' ? (operation.once ?? []) : []
    const told = canonical({ ...output, ...Object.fromEntries(once.map((field) => [field, null])) })
    // Each part of a batch has an outcome of its own: one that was refused is tried again, one that was taken stays as it was.
    const isSame = op === BATCH ? keepsParts(intent.answer, output.results) : intent.answer === told
    if (operation.kind === 'command' && intent.answer !== null && !isSame) fail(`${op} by ${as} got two different answers under one key`)
    if (sent.answered && record.size() === sent.facts && !mayRead(intent))
      fail(`${op} was answered again to ${as}, who may not read the task any more`)
    intent.answer = told
    return () => {
      processes.heard(intent, output)
      if (op.endsWith('key.issue') && output.key !== null && intent.input.subject !== ADMIN) tokens.set(intent.input.subject, output.key)
      if (intent.keyed && machine.isFaulty() && random.chance(0.03)) {
        happened('repeated after its answer')
        again(intent)
      } else close(intent)
    }
  }

  function refuse(intent: Intent, error: unknown, sent: Sent): () => void {
    const code = error instanceof Refusal ? error.code : 'INTERNAL'
    happened(`${intent.op} ${code}`)
    if (code === 'INTERNAL' && machine.refusals() === 0)
      fail(`${intent.op} by ${intent.as} met a bug: ${error instanceof Error ? error.stack : String(error)}`)
    const isCommand = operations.get(intent.op)!.kind === 'command'
    // An answer is repeated only to those who may still read what it was about; of requests, their own laws say who that is.
    const isHidden = code === 'NOT_FOUND' && (intent.op.startsWith('execution/') || record.size() !== sent.facts || !mayRead(intent))
    if (isCommand && sent.answered && code !== 'UNAUTHENTICATED' && !isHidden && machine.refusals() === 0)
      fail(`${intent.op} by ${intent.as} was acknowledged, and then refused as ${code} under the same key`)
    const isPassing = code === 'UNAVAILABLE' || code === 'BUSY' || code === 'CONFLICT' || code === 'INTERNAL'
    return () => (isPassing && random.chance(0.5) ? again(intent) : close(intent))
  }

  /** Of the people of a task: agents that ever worked on one read it for ever, and the administrator reads everything. */
  function mayRead({ op, as, task: task_id }: Intent): boolean {
    const task = op.startsWith('collaboration/') && as.startsWith('user_') ? record.docs.get(`collaboration.task/${task_id}`)?.value : null
    if (!task) return true
    const { ownership, reviewers, executors, project_id } = task
    const isThere = record.docs.get(`identity.user/${as}`)!.value.projects.some((one: any) => one.project_id === project_id)
    return isThere && [ownership.principal, ...reviewers, ...executors].includes(as)
  }

  /** Whatever an answer shows stood on the disk before it was given. */
  function checkDurable(op: string, output: any): void {
    const shown = (kind: string, value: any): void => {
      if (value && !record.held(`${kind}/${value.id}`, canonical(value))) fail(`${op} shows a ${kind} that is not on the disk: ${value.id}`)
    }
    shown('collaboration.task', output.task)
    shown('collaboration.task', output.child)
    shown('collaboration.checkpoint', output.checkpoint)
    shown('collaboration.review', output.review)
    shown('collaboration.entry', output.entry)
    shown('collaboration.comment', output.comment)
    shown('collaboration.amendment', output.amendment)
    shown('collaboration.grant', output.grant)
    shown('identity.agent', output.agent)
    shown('delegation.run', output.run)
    shown('delegation.run', output.from)
    const receipt = output.receipt && record.docs.get(`execution.request/${output.request.id}`)?.value.receipt
    if (output.receipt && receipt?.receipt_id !== output.receipt.receipt_id) fail(`${op} shows a receipt that is not on the disk`)
    if (op.endsWith('mailbox.take')) for (const { run } of output.items) shown('delegation.run', run)
    if (op.endsWith('task.list')) for (const task of output.items) shown('collaboration.task', task)
    const { artifact } = output
    const version = artifact && record.docs.get(`collaboration.artifact/${artifact.id}@${artifact.version}`)
    if (artifact && version?.value.payload.checksum !== artifact.payload.checksum)
      fail(`${op} shows an artifact that is not on the disk: ${artifact.id}`)
  }

  function claim({ line, images }: SeenFact): void {
    if (line.cause !== null || line.actor === 'agent_system' || line.action === 'kernel/authorization.denied') return
    const marker = markerIn(line.action, images)
    // A deny of a task above is met in the part that its agent works on.
    const ids = [
      line.task,
      line.detail?.['below'],
      ...images.flatMap(({ key, after }) => [key.slice(key.indexOf('/') + 1), after.request_id]),
    ]
    // A run that fails says why in its agent's own words; one that is handed off ends without any.
    const isAbout = (intent: Intent): boolean => ids.includes(targetOf(intent)) && intent.op !== 'delegation/run.fail'
    const fits = (intent: Intent): boolean =>
      intent.as === line.actor &&
      leaves(intent, line.action) &&
      (intent.op === REASSIGN) === isReassign(line) &&
      (marker === null ? isAbout(intent) : marker === intent.id)
    const candidates = open.filter(fits)
    const found = candidates.find(({ effects }) => effects === 0) ?? candidates[0]
    // The first act of an agent in a run begins it: that fact comes along with the fact of the act, which is counted.
    const mayBeAnAct = line.action === 'delegation/run.started' && open.some((intent) => intent.as === line.actor && begins(intent))
    // A call that was answered before leaves nothing any more: then it is that of an act.
    if ((!found || found.inFlight === 0) && mayBeAnAct) return
    if (!found) return fail(`${line.action} by ${line.actor}: nobody has a call under way that would leave it`)
    if (found.op === BATCH) return claimPart(found, images[0]!.after)
    found.isDoubtful = mayBeAnAct
    found.task = line.task
    if (++found.effects > 1) fail(`${found.op} by ${found.as} under one key had ${found.effects} effects`)
    if (found.inFlight === 0) fail(`${found.op} by ${found.as} had its effect after it was answered`)
    checkAgainstInput(found, images[0]!.key, images[0]!.after)
  }

  /** An answer in a batch counts exactly as one by itself: once, for what was shown, and as it was given. */
  function claimPart({ as, parts, input, inFlight }: Intent, made: any): void {
    const answer = input.answers.find(({ request_id }: any) => request_id === made.id)
    const what = `the answer of ${as} to ${made.id} in a batch`
    if (answer === undefined) return fail(`${what} was never given`)
    if (parts.has(answer.request_id)) fail(`${what} counts twice`)
    parts.add(answer.request_id)
    if (inFlight === 0) fail(`${what} counts after it was answered`)
    if (shownIn(made) !== answer.digest) fail(`${what} counts for something else than what was shown`)
    const said = made.votes?.at(-1) ?? made.receipt
    if (made.payload.sensitive !== true && said.result !== answer.result)
      fail(`${what} is recorded as ${said.result}, and was ${answer.result}`)
  }

  const begins = ({ op, inFlight }: Intent): boolean =>
    inFlight > 0 && /^delegation\/(run\.(progress|ask|report|complete|fail)|agent\.(delegate|handoff)|capability\.invoke)$/.test(op)

  function checkAgainstInput({ op, input, shown }: Intent, key: string, made: any): void {
    if (shown !== null && shownTo(op, input, (one) => (one === key ? made : null)) !== shown)
      fail(`${op}: the answer counts for another question than the one that was shown`)
    if (/artifact\.(commit|edit)$/.test(op) && made.parent_version !== (input.parent_version ?? null))
      fail(`${op}: the version says that it follows ${made.parent_version}, its author said ${input.parent_version}`)
    if (op.endsWith('request.create') && input.risk !== undefined && made.risk < input.risk)
      fail(`${op}: the agent said ${input.risk}, and it counts as ${made.risk}`)
    if (op.endsWith('request.resolve') && input.digest !== undefined && shownIn(made) !== input.digest)
      fail(`${op}: it was answered as something else than what was shown`)
    if (op.endsWith('review.submit') && input.artifact_version !== undefined && made.artifact_version !== input.artifact_version)
      fail(`${op}: another version was reviewed than the one that was named`)
  }

  function onCrash(): void {
    for (const intent of open) {
      if (intent.inFlight === 0) continue
      intent.lost += intent.inFlight
      intent.inFlight = 0
      again(intent)
    }
  }

  /** Those that are finished and can have no effect any more. */
  function settle(): void {
    for (const intent of open)
      if (intent.effects > 0 && !intent.isDoubtful && intent.answer === null && intent.lost === 0 && intent.inFlight === 0)
        fail(`${intent.op} by ${intent.as} was refused and happened all the same`)
    open = open.filter(({ done, inFlight, queued }) => !done || inFlight + queued > 0)
  }

  return {
    start,
    retryOne() {
      const intent = retries.splice(machine.isFaulty() ? random.below(retries.length) : 0, 1)[0]
      if (!intent) return false
      intent.queued--
      if (isRecent(intent)) send(intent)
      else close(intent)
      return true
    },
    waiting: () => retries.length,
    started: () => intents.length,
    inFlight: () => open,
    isTaken: (plan) =>
      !marked.has(plan.op) && open.some((other) => other.as === plan.as && other.op === plan.op && targetOf(other) === targetOf(plan)),
    claim,
    onCrash,
    onClock: () => open.forEach(isRecent),
    areRecent: () => open.every(isRecent),
    settle,
  }
}

const shownIn = ({ votes, receipt }: any): string => votes?.at(-1).shown_digest ?? receipt.shown_digest

/** Whether every part that was taken is told again as it was. */
function keepsParts(before: string | null, results: readonly { readonly request_id: string }[]): boolean {
  if (before === null) return true
  const { results: told } = JSON.parse(before) as { results: { request_id: string; ok: boolean }[] }
  return told.every((part) => !part.ok || canonical(part) === canonical(results.find(({ request_id }) => request_id === part.request_id)!))
}
