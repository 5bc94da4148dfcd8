// Mistakes to plant in the real source as it is imported, one at a time: the simulation must find each of them. A snippet that is
// no longer there exactly once is an error, so that no mistake is planted into nothing.
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import found from './found.json' with { type: 'json' }
import { serverMistakes } from './servers/mistakes.ts'

type Patch = { readonly file: string; readonly find: string; readonly replace: string }
/** `kind`: the histories that must find it, if it is not those of the whole core. */
export type Mistake = { readonly name: string; readonly kind?: 'servers'; readonly patches: readonly Patch[] }

const root = join(import.meta.dirname, '../../src')
const one = (name: string, file: string, find: string, replace: string): Mistake => ({ name, patches: [{ file, find, replace }] })

const STAGED = 'hint = group?.hint ?? null'
const COMMIT = 'if (!isEmpty(draft)) await store.commit(batchOf(draft))'

export const mistakes: readonly Mistake[] = [
  ...serverMistakes,
  one('commit-without-versions', 'kernel/log/sealing.ts', 'if (versionOf(key, staging, sources) !== version)', 'if (version < 0)'),
  one(
    'answer-before-write',
    'kernel/log/group-commit.ts',
    STAGED,
    `for (const job of jobs) if (job.error === undefined) job.ok(job.sealed)
      ${STAGED}`,
  ),
  one(
    'visible-before-durable',
    'kernel/log/group-commit.ts',
    STAGED,
    `for (const [key, { version, value, text, image }] of staging.docs) if (value !== null) self.cache.set(key, { version, value, image }, costOf(text!.length))
      ${STAGED}`,
  ),
  one(
    'head-before-durable',
    'kernel/log/group-commit.ts',
    STAGED,
    `for (const [scope, head] of staging.heads) self.heads.set(scope, head)
      ${STAGED}`,
  ),
  one(
    'children-outlive-an-accepted-parent',
    'protocols/collaboration/operations/task.ts',
    'facts: withoutChildren(family, [completed]',
    'facts: withoutChildren({ ...family, children: [] }, [completed]',
  ),
  one(
    'a-task-begins-below-an-ended-one',
    'protocols/collaboration/operations/task.ts',
    '({ isUnderEnded }) => !isUnderEnded,',
    '() => true,',
  ),
  one(
    'a-switched-off-agent-keeps-its-runs',
    'protocols/delegation/operations/retire.ts',
    'if (agent === null || agent.disabled)',
    'if (agent === null)',
  ),
  one(
    'a-resume-takes-no-place',
    'protocols/delegation/runs/mailbox.ts',
    'return reserveAnswerTime({ ...withPlace(mailbox, room, now), messages',
    'return reserveAnswerTime({ ...withoutPlace(mailbox), messages',
  ),
  one('amendments-are-forgotten', 'protocols/delegation/runs/runs.ts', '(amendments.length > 0 ?', '(amendments.length < 0 ?'),
  one(
    'a-substitute-in-one-project-sees-nothing',
    'protocols/execution/inbox/readers.ts',
    'people: idsActedFor(actor),',
    'people: [actor.id, ...(actor.actsFor ?? [])],',
  ),
  {
    name: 'position-not-taken-back',
    patches: [
      {
        file: 'kernel/log/group-commit.ts',
        find: 'staging = nothingStaged(state)',
        replace: 'staging = nothingStaged({ position: Math.max(self.durable, state.position), image: state.image })',
      },
      { file: 'kernel/log/group-commit.ts', find: STAGED, replace: `${STAGED}; self.durable = staging.position` },
    ],
  },
  one('clock-turns-the-record', 'kernel/log/sealing.ts', 'const at = batch.at > head.at ? batch.at : head.at', 'const at = batch.at'),
  one(
    'full-disk-acknowledged',
    'kernel/log/group-commit.ts',
    "if (failure === 'full' || failure === 'unknown') {",
    "if (failure === 'full' || failure === 'unknown') { return",
  ),
  one(
    'failed-write-leaves-rows',
    'stores/memory.ts',
    'await onWrite(group, () => {',
    `const tearing = async (run: () => boolean): Promise<void> => {
        try {
          await onWrite(group, run)
        } catch (error) {
          facts.push(...group.facts.slice(0, 1))
          throw error
        }
      }
      await tearing(() => {`,
  ),
  one('index-entry-stays', 'kernel/call/unit-of-work.ts', 'drop.push(entry)', ''),
  one('count-only-grows', 'kernel/call/unit-of-work.ts', 'sum(counted, -1)', ''),
  one('reply-not-looked-up', 'kernel/call/command.ts', 'if (!reply) return null', 'return null'),
  one(
    'a-run-waits-after-a-person-delivered',
    'contracts/collaboration-delegation.ts',
    "const onDelivered = onEach(['artifact.committed', 'artifact.edited'], ",
    "const onDelivered = onEach(['artifact.committed'], ",
  ),
  one(
    'a-transferred-task-begins-before-it-is-assigned',
    'contracts/collaboration-delegation.ts',
    "const atWork = (task: Task): boolean => ['assigned',",
    "const atWork = (task: Task): boolean => ['created', 'assigned',",
  ),
  one(
    'a-task-transferred-while-late-is-forgotten',
    'protocols/collaboration/task/ownership.ts',
    " || (task.state === 'created' && holder !== ownership.principal)",
    '',
  ),
  one(
    'answer-repeated-to-anybody',
    'kernel/log/outbox-document.ts',
    'if (draft.hidden !== null)',
    'if (draft.hidden === key && draft.rows < 0)',
  ),
  {
    name: 'reply-in-a-batch-of-its-own',
    patches: [
      {
        file: 'kernel/call/command.ts',
        find: 'draft.puts.add(keyOf(Reply, reply.id))',
        replace: 'draft.after.delete(keyOf(Reply, reply.id))',
      },
      {
        file: 'kernel/call/command.ts',
        find: COMMIT,
        replace: `${COMMIT}
    if (reply !== null) {
      const note = draftAt(draft.at)
      note.after.set(keyOf(Reply, reply.id), { ...reply, output: withoutSecrets(op, output as Value), at: draft.at })
      note.puts.add(keyOf(Reply, reply.id))
      await store.commit(batchOf(note))
    }`,
      },
    ],
  },
  one(
    'loser-does-not-decide-again',
    'kernel/call/command.ts',
    COMMIT,
    `if (!isEmpty(draft)) {
      const batch = batchOf(draft)
      await store.commit(batch).catch(async (error: unknown) => {
        if (!(error instanceof Conflict)) throw error
        const rows = await store.read([...batch.expect.keys()])
        const expect = new Map([...batch.expect.keys()].map((key, i) => [key, rows[i]?.version ?? 0]))
        return store.commit({ ...batch, expect })
      })
    }`,
  ),
  one('revoked-credential-wins', 'kernel/call/unit-of-work.ts', 'draft.expect.set(key, version)', 'void version'),
  one(
    'everyone-is-authorized',
    'kernel/declare/access.ts',
    'if (!found) throw',
    'if (!found && callers.length > 0) return callers[0]!; if (!found) throw',
  ),
  one(
    'lies-are-believed',
    'kernel/declare/access.ts',
    "if (typeof raw !== 'object' || raw === null) return\n",
    'if (raw !== undefined) return\n',
  ),
  one(
    'everything-is-visible',
    'kernel/call/reader.ts',
    'if (!isIn(actor, kind.scopeOf(value))) return kind.reaches(value, actor)',
    'if (value) return true',
  ),
  one('only-the-last-time-counts', 'kernel/declare/schema.ts', 'time.at < first.at', 'time.at > first.at'),
  one(
    'delivery-done-before-it-is-sent',
    'workers/outbox.ts',
    'const done = await Promise.allSettled(',
    'await Promise.all(deliveries.map((delivery) => self.settle({ id: delivery.id, taken: delivery.due, ok: true })))\n  const done = await Promise.allSettled(',
  ),
  one('errand-is-never-done', 'protocols/delegation/operations/admit.ts', 'storedErrand ? [errandDone(storedErrand.id)] : []', '[]'),
  one('time-stays-set', 'protocols/collaboration/schema.ts', "at: state === 'pending' && !overdue ?", 'at: !overdue ?'),
  one(
    'late-task-is-handed-out',
    'protocols/collaboration/task/ownership.ts',
    'overdue: task.overdue && !isHandedOut',
    'overdue: task.overdue',
  ),
  one('deadline-is-not-set', 'protocols/collaboration/schema.ts', ': [task.deadline, task.active_since', ': [null, task.active_since'),
  one('expires-before-its-time', 'protocols/collaboration/operations/checkpoint.ts', '    isPending,\n    isDue,\n', '    isPending,\n'),
  one(
    'resolves-what-is-decided',
    'protocols/collaboration/operations/checkpoint.ts',
    'requires: [isAtRevision, isNotExpired, isPending, hasTimeToTryAgain],',
    'requires: [],',
  ),
  one(
    'cancel-leaves-its-question',
    'protocols/collaboration/task/cancellation.ts',
    "if (pending?.state === 'pending')",
    'if (pending?.state === null)',
  ),
  one(
    'commits-in-any-state',
    'protocols/collaboration/operations/artifact.ts',
    "requires: [isAtRevision, isNewVersion, isInTime, allows('artifact.commit'), ",
    'requires: [isAtRevision, isNewVersion, isInTime, ',
  ),
  one(
    'any-version-may-be-the-parent',
    'protocols/collaboration/operations/artifact.ts',
    'if (parent_version !== head.version)',
    'if (parent_version === null)',
  ),
  one(
    'executor-passes-for-the-principal',
    'protocols/collaboration/access.ts',
    "actor.kind === 'human' && speaksFor(actor, task.ownership.principal, task.project_id) && !judgesOwnWork(actor, task)",
    'actor.id === task.executor || speaksFor(actor, task.ownership.principal, task.project_id)',
  ),
  one(
    'stale-process-is-heard',
    'protocols/delegation/access.ts',
    "actor.kind !== 'agent' || (mailbox?.attempt ?? 0) === attempt",
    "actor.kind !== 'agent' || (mailbox?.attempt ?? 0) >= attempt",
  ),
  one(
    'next-process-has-the-same-attempt',
    'protocols/delegation/runs/mailbox.ts',
    'goesOn ? mailbox.attempt : mailbox.attempt + 1',
    'Math.max(1, mailbox.attempt)',
  ),
  one(
    'taken-is-settled',
    'protocols/delegation/runs/mailbox.ts',
    'handed: mailbox.last, due: until }',
    'handed: mailbox.last, due: until, messages: [] }',
  ),
  one(
    'a-run-is-passed-over',
    'protocols/delegation/operations/mailbox.ts',
    "const listed = await read.list(Mailbox, 'due', [[agent_id]], { limit: LANES })",
    "const listed = (await read.list(Mailbox, 'due', [[agent_id]], { limit: LANES })).slice(1)",
  ),
  one(
    'resume-loses-its-answer',
    'protocols/delegation/operations/control.ts',
    "postMessage(holdForAsker(mailbox, room, now), 'resume', { checkpoint_id, resolution, ...told }, now)",
    "postMessage(holdForAsker(mailbox, room, now), 'resume', { checkpoint_id, resolution: {}, ...told }, now)",
  ),
  one(
    'cancel-leaves-the-run-above',
    'protocols/delegation/operations/control.ts',
    'loaded.run.task_id === null ? familyOf',
    'loaded.run ? familyOf',
  ),
  one(
    'reject-leaves-its-run',
    'contracts/collaboration-delegation.ts',
    "const run = task.state === 'completed' ? await endingOf(read, task.id) : null",
    'const run = task.id ? null : await endingOf(read, task.id)',
  ),
  one(
    'reassign-resumes-the-old-run',
    'contracts/collaboration-delegation.ts',
    "const goesElsewhere = run?.state === 'blocked' &&",
    "const goesElsewhere = run?.state === 'completed' &&",
  ),
  one(
    'delivery-leaves-its-run',
    'contracts/collaboration-delegation.ts',
    "const run = task.state === 'review_ready' ?",
    "const run = task.state === 'created' ?",
  ),
  one(
    'direct-handoff-keeps-the-owner',
    'contracts/delegation-collaboration.ts',
    'task.executor !== run.agent_id && run.continues !== null',
    'task.executor === run.agent_id && run.continues !== null',
  ),
  one(
    'failure-asks-nobody',
    'contracts/delegation-collaboration.ts',
    "if (run.reason === 'cancelled' || run.reason === 'handed_off') return null",
    'if (run.id) return null',
  ),
  one(
    'a-question-is-not-in-the-inbox',
    'contracts/collaboration-execution.ts',
    'if (checkpoint.request_id !== undefined) return null',
    "if (checkpoint.request_id !== undefined || checkpoint.kind === 'interrupt') return null",
  ),
  one(
    'a-replaced-question-stays-in-the-inbox',
    'contracts/collaboration-execution.ts',
    'if (isSucceeded && next.request_id === item.id) return null',
    'if (isSucceeded) return null',
  ),
  one(
    'a-verdict-leaves-its-item',
    'contracts/collaboration-execution.ts',
    'const item = await reviewItemOf(read, task_id)',
    'const item = task_id ? null : await reviewOf(read, task_id)',
  ),
  one('an-item-keeps-its-people', 'contracts/collaboration-execution.ts', 'return isSame ? null', 'return item ? null'),
  one(
    'an-answer-in-the-inbox-is-lost',
    'contracts/execution-collaboration.ts',
    "checkpoint?.state === 'pending' || actor !== SYSTEM_ID ? checkpoint",
    "checkpoint?.state === 'resolved' && actor !== SYSTEM_ID ? checkpoint",
  ),
  one(
    'a-rejection-approves',
    'contracts/execution-collaboration.ts',
    "action: result === 'approved' ? 'approve' : 'reject'",
    "action: 'approve'",
  ),
  one(
    'a-timeout-approves',
    'contracts/execution-collaboration.ts',
    "return { action: 'provide', input: cutTo(",
    "return { action: 'approve', input: cutTo(",
  ),
  one('who-declined-is-asked-again', 'protocols/collaboration/task/checkpoints.ts', 'id !== decliner && ', ''),
  one(
    'to-try-again-approves-the-actions',
    'protocols/collaboration/task/checkpoints.ts',
    '{ ...question, takeover, supersedes',
    '{ ...question, takeover, proposed_actions: arguments[0].proposed_actions, supersedes',
  ),
  one(
    'to-try-again-answers-the-request',
    'protocols/collaboration/task/checkpoints.ts',
    '{ ...question, takeover, supersedes',
    '{ ...question, takeover, request_id: arguments[0].request_id, supersedes',
  ),
  one(
    'to-try-again-is-any-answer',
    'protocols/collaboration/task/checkpoints.ts',
    'isOfSystem(question) ? systemActions : actionsFor[question.escalates ?? question.kind]',
    'actionsFor[question.escalates ?? question.kind]',
  ),
  one(
    'the-answer-to-another-question-counts',
    'protocols/collaboration/operations/checkpoint.ts',
    'const checkpoint = await read(Checkpoint, checkpoint_id)\n  return {',
    `const named = await read(Checkpoint, checkpoint_id)
  const present = (await read(Task, named.task_id)).pending_checkpoint
  const checkpoint = present === null ? named : await read(Checkpoint, present)
  return {`,
  ),
  one(
    'a-late-answer-counts',
    'protocols/execution/access.ts',
    'expires_at !== null && hasPassed(expires_at)',
    'expires_at !== null && !hasPassed(expires_at) && hasPassed(expires_at)',
  ),
  one(
    'an-answer-replaces-the-first',
    'protocols/execution/operations/resolve.ts',
    'callers: [answerer, poolMember, chief],\n  requires: [isNotLate, isUnresolved, hasProof, fitsSurface, hasEnoughPeople],',
    'callers: [answerer, poolMember, chief],\n  requires: [isNotLate, hasProof, fitsSurface, hasEnoughPeople],',
  ),
  one(
    'time-approves',
    'protocols/execution/operations/resolve.ts',
    "if (request.fallback === 'default') {\n    const result = (request.payload as { default_option?: string }).default_option",
    "if (request.fallback === 'default' || request.action === 'APPROVE') {\n    const result = (request.payload as { default_option?: string }).default_option ?? 'approved'",
  ),
  one(
    'one-person-votes-twice',
    'protocols/execution/answering/quorum.ts',
    'by === actor.id || in_place_of === whose',
    'by === in_place_of && whose === null',
  ),
  one('a-vote-is-enough', 'protocols/execution/answering/quorum.ts', 'if (approvals >= n)', 'if (approvals >= 1)'),
  one(
    'an-agent-answers-itself',
    'protocols/execution/access.ts',
    "if (actor.kind !== 'human') return null\n  if (task",
    "if (actor.kind === 'agent') return request.owner\n  if (task",
  ),
  one(
    'a-claim-takes-from-others',
    'protocols/execution/access.ts',
    "const isPools = actor.kind === 'human' && there !== null",
    "if (there?.role === 'pool' && isOpen(there)) return { request: there, task: null, allowed: null }\n  const isPools = actor.kind === 'human' && there !== null",
  ),
  one('a-claim-never-ends', 'protocols/execution/deadlines.ts', '({ claimed_until }) => claimed_until ?? null', '() => null'),
  one('nobody-is-called-in', 'protocols/execution/deadlines.ts', "['request.escalate', escalatedNext],", ''),
  one('a-snoozed-item-sleeps-on', 'protocols/execution/deadlines.ts', "['request.wake', wakesNext],", ''),
  one('more-time-is-less', 'protocols/execution/operations/deadline.ts', 'until > request.expires_at', 'until !== request.expires_at'),
  {
    name: 'ends-before-its-time',
    patches: [
      {
        file: 'protocols/execution/operations/resolve.ts',
        find: 'request.expires_at <= now && !request.overdue',
        replace: '!request.overdue',
      },
      {
        file: 'protocols/execution/deadlines.ts',
        find: "(overdue || kind !== 'request' ? null : expires_at)",
        replace: "(overdue || kind !== 'request' || expires_at === null ? null : secondsAfter(expires_at, -1))",
      },
    ],
  },
  one('something-else-is-answered', 'protocols/execution/access.ts', 'if (digest === present) return', 'if (digest !== undefined) return'),
  one('nobody-looks-when-somebody-leaves', 'contracts/identity.ts', "recheckItems('project.left', subjectPerson),", ''),
  one('nobody-looks-when-somebody-is-switched-off', 'contracts/identity.ts', "recheckItems('user.updated', subjectPerson),", ''),
  one(
    'a-question-to-nobody',
    'protocols/execution/asking/routing.ts',
    'if (!isPool && (await isPersonOf(read, who, asking.project_id)))',
    'if (!isPool)',
  ),
  one(
    'nobody-sees-what-nobody-can-decide',
    'protocols/execution/schema.ts',
    'if (owner === true) return [UNDECIDED]',
    'if (owner === true) return []',
  ),
  one(
    'a-quorum-waits-for-who-is-gone',
    'protocols/execution/answering/quorum.ts',
    'if (most + votesLeft(votes, reach) >= quorum!.n) return null',
    'if (quorum!.n > 0) return null',
  ),
  one(
    'called-in-and-not-shown',
    'protocols/execution/schema.ts',
    'return isInPool(request) ? [poolOf(request.project_id), ...request.people] : request.people',
    'return isInPool(request) ? request.people : request.people',
  ),
  one(
    'counted-twice',
    'protocols/execution/operations/inbox.ts',
    'high: direct.high + pool.high + undecided.high - twice.high',
    'high: direct.high + pool.high + undecided.high',
  ),
  one(
    'what-is-due-has-no-row',
    'kernel/declare/schema.ts',
    'const due = kind.due(value)\n',
    'const due = null as ReturnType<typeof kind.due>\n',
  ),
  one(
    'a-denied-capability-runs',
    'protocols/delegation/capabilities/permission.ts',
    "const denied = scopes.find(({ grant }) => grant?.decision === 'deny')",
    "const denied = scopes.find(({ grant, isNeeded }) => isNeeded && grant?.decision === 'deny')",
  ),
  one(
    'a-denied-capability-runs-in-a-part',
    'protocols/collaboration/task/grants.ts',
    "if (grant?.decision === 'deny') return grant\n    below = above",
    'below = above',
  ),
  one(
    'approved-with-other-arguments',
    'protocols/delegation/capabilities/permission.ts',
    ' && shownIn(detail) === wanted',
    ' && shownIn(detail) !== null',
  ),
  one(
    'a-denied-action-runs',
    'protocols/delegation/capabilities/permission.ts',
    'asked.resolution?.approved_actions?.includes(action_id)',
    'asked.resolution',
  ),
  {
    name: 'an-approved-action-runs-again',
    patches: [
      {
        file: 'protocols/delegation/capabilities/permission.ts',
        find: '[approvalKey({ checkpoint_id, action_id })])) === 0',
        replace: '[approvalKey({ checkpoint_id, action_id })])) >= 0',
      },
      {
        file: 'protocols/delegation/operations/invoke.ts',
        find: "boundOf('approval', approvalKey(approval), 1,",
        replace: "boundOf('approval', approvalKey(approval), 100,",
      },
    ],
  },
  one(
    'those-who-stopped-with-an-interrupt-wait-on',
    'protocols/collaboration/task/answering.ts',
    'const done = free.map(',
    'const done = free.slice(1).map(',
  ),
  one(
    'effect-before-its-intent',
    'kernel/call/command.ts',
    'if (pending) effects.begin(pending.id)',
    'if (pending) { effects.begin(pending.id); void effects.perform(pending, op.effect!.port, wanted!.request).catch(() => undefined) }',
  ),
  one('repeated-call-does-not-join', 'kernel/call/command.ts', 'if (joined) return { output: null, outcome: () => joined }', ''),
  one(
    'outcome-is-not-remembered',
    'kernel/call/effects.ts',
    '{ ...reply, output, at: draft.at, ...(about ? { about } : {}) }',
    '(await read.raw(Reply, reply.id))!',
  ),
  one('start-forgets-what-was-open', 'workers/effect-runner.ts', 'let concluded = 0', 'let concluded = 0\n  if (log) return concluded'),
  one(
    'anybody-invokes-in-any-state',
    'protocols/delegation/operations/invoke.ts',
    'requires: [isNotEnded, isInTime, isRunning, isPresentAttempt, hasNoDelegate, mayAct],',
    'requires: [],',
  ),
  one(
    'a-refused-post-counts-as-delivered',
    'workers/notices/channel.ts',
    "const next = error === null ? 'accepted' : isLast",
    "const next = status !== 410 ? 'accepted' : isLast",
  ),
  one('a-notice-is-given-up-at-once', 'workers/notices/channel.ts', 'tries + 1 >= options.attemptsMax', 'tries >= 0'),
  one(
    'what-ended-before-a-crash-is-never-told',
    'workers/notices/planner.ts',
    '(row?.value as { position: number } | undefined)?.position ?? last)',
    'row === undefined ? last : last)',
  ),
  one(
    'told-of-what-has-not-ended',
    'workers/notices/planner.ts',
    'else if (ends.has(action)) {',
    "else if (action.startsWith('execution/request.')) {",
  ),
  one(
    'told-of-what-is-decided',
    'protocols/execution/operations/notice.ts',
    "if (request === null || !isOpen(request)) return dropNotice('the item is decided')",
    "if (request === null) return dropNotice('the item is decided')",
  ),
  one(
    'told-at-night',
    'protocols/execution/operations/notice.ts',
    'const until = aside ?? quietUntil(channel.quiet_hours, now)',
    'const until = aside ?? (now ? null : quietUntil(channel.quiet_hours, now))',
  ),
  one(
    'what-is-critical-waits-for-the-morning',
    'protocols/execution/operations/notice.ts',
    "if (priority !== 'critical') {",
    'if (priority.length > 0) {',
  ),
  one(
    'a-floor-lowers',
    'protocols/execution/asking/floors.ts',
    'risk: said === undefined || said < found.risk ? found.risk : said,',
    'risk: found.risk,',
  ),
  one(
    'a-floor-of-a-tag-is-passed-over',
    'protocols/execution/asking/floors.ts',
    '(tag === undefined || asked.tags.includes(tag)) &&',
    'tag === undefined &&',
  ),
  one(
    'a-batch-answers-what-was-not-shown',
    'protocols/execution/operations/batch.ts',
    "answers.map((input) => ({ call: 'execution/request.resolve', input }))",
    "answers.map(({ digest: _, ...input }) => ({ call: 'execution/request.resolve', input }))",
  ),
  one(
    'a-batch-speaks-of-another-answer',
    'protocols/execution/operations/batch.ts',
    'const { request_id } = answers[i]!',
    'const { request_id } = answers[answers.length - 1 - i]!',
  ),
  one(
    'a-refused-message-counts-as-accepted',
    'workers/webhooks/agents.ts',
    "const state = error === null ? 'accepted' : isLast",
    "const state = status !== 410 ? 'accepted' : isLast",
  ),
  one('a-message-is-given-up-at-once', 'workers/webhooks/agents.ts', 'tries + 1 >= options.attemptsMax', 'tries >= 0'),
  one('messages-to-an-agent-overtake-each-other', 'workers/webhooks/agents.ts', 'ordered: true,', 'ordered: false,'),
  one(
    'a-withdrawn-message-waits-forever',
    'protocols/delegation/operations/webhook.ts',
    "if (logged?.state !== 'waiting') return []",
    "if (logged === null || logged.state === 'waiting') return []",
  ),
  one(
    'parts-work-on-under-an-interrupted-task',
    'protocols/collaboration/operations/control.ts',
    "[...(child.task.state === 'in_progress' ? [child.task] : [])",
    "[...(child.task.state === 'created' ? [child.task] : [])",
  ),
  one(
    'a-blocked-agent-writes-the-ledger',
    'protocols/collaboration/access.ts',
    "actor.kind !== 'agent' || (task.state !== 'blocked' &&",
    "actor.kind !== 'agent' || (task.state !== 'created' &&",
  ),
  one(
    'delivered-without-being-taken-over',
    'protocols/collaboration/operations/artifact.ts',
    "final !== true || (pending?.state === 'pending' && pending.takeover)",
    "final !== true || pending?.state === 'pending'",
  ),
]

/** Where each mistake was found last, which is where the next search for it begins: `run.ts --mistake <name> --keep` writes it down. */
export const foundAt: Readonly<Record<string, number>> = found

/** The sources with the mistake in them, by their address; an error if a snippet does not stand exactly once. */
export function patched({ patches }: Mistake): Map<string, string> {
  const sources = new Map<string, string>()
  for (const { file, find, replace } of patches) {
    const url = pathToFileURL(join(root, file)).href
    const source = sources.get(url) ?? readFileSync(join(root, file), 'utf8')
    const found = source.split(find).length - 1
    if (found !== 1) throw new Error(`${file} holds this ${found} times instead of once: ${find}`)
    sources.set(
      url,
      source.replace(find, () => replace),
    )
  }
  return sources
}

export function plant(mistake: Mistake): void {
  const sources = patched(mistake)
  registerHooks({
    load(url, context, next) {
      const source = sources.get(url)
      return source === undefined ? next(url, context) : { ...next(url, context), source }
    },
  })
}
