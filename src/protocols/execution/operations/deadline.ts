// Deadlines of a request: more time, and reminders while it passes.
import { image } from '#kernel/declare/facts.ts'
import { forAgentsToo, role, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { answerer, chief, isNotLate, isStillOpen, isUnresolved, itsAsker, poolMember, requestOf, type OfRequest } from '../access.ts'
import { Id, Request } from '../schema.ts'
import { remindedNext, secondsAfter } from '../deadlines.ts'
import { RequestView, viewOf } from '../view.ts'

type Extending = { readonly timeout_seconds: number }
const deadlineIn = ({ timeout_seconds }: Extending, now: string): string | null =>
  timeout_seconds === 0 ? null : secondsAfter(now, timeout_seconds)

/** The rule that asks about a call sets the time of its question: its agent cannot change it. */
const askerWithoutCall = forAgentsToo(
  role<OfRequest>(
    `${itsAsker.name}, but not about a call of a tool`,
    (actor, state) => state.request.call_id === undefined && itsAsker.is(actor, state),
  ),
)

const extend = command({
  name: 'request.extend',
  summary: 'Give a request more time, counted from now. It is never given less.',
  draft: 'ours: HXP 0.1, 3.3 ends what people would still answer',
  input: t.Object({
    request_id: Id,
    timeout_seconds: t.Integer({ minimum: 0, maximum: limits.timeoutSecondsMax, description: 'from now; 0: removes the deadline' }),
  }),
  output: t.Object({ request: RequestView }),
  callers: [answerer, poolMember, chief, askerWithoutCall],
  requires: [
    isNotLate,
    isUnresolved,
    rule<OfRequest>(
      'TASK_BOUND',
      'an agent asked it here: an item of a task has the deadline of its checkpoint',
      ({ request }) => request.kind === 'request',
      "the item comes from a task: its deadline is the task's; use task.extend or the checkpoint's own deadline",
    ),
    rule<OfRequest, Extending>(
      'PRECONDITION_FAILED',
      'the new deadline is later than the present one',
      ({ request }, input, { now }) => {
        if (request.expires_at === null) return false
        const until = deadlineIn(input, now)
        return until === null || until > request.expires_at
      },
      'the new deadline is not later than the present one, or there is none',
    ),
  ],
  audit: 'request.extended',
  load: (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, input, { actor, now }) {
    const { expires_at, asked_until } = request
    // The digest of the agent's question uses its first deadline, even after an extension.
    const first = asked_until ?? expires_at
    const next: Request = {
      ...request,
      expires_at: deadlineIn(input, now),
      overdue: false,
      ...(first === null ? {} : { asked_until: first }),
    }
    return {
      facts: [fact('request.extended', [image(Request, next)], { detail: { from: expires_at, to: next.expires_at } })],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'asked', as: 'alice', input: ({ request }) => ({ request_id: request.id, timeout_seconds: 7_200 }) },
})

const remind = command({
  name: 'request.remind',
  summary: 'Remind the recipients of a request, as often as the agent asked for. The system calls it.',
  draft: 'ours: reminders',
  input: t.Object({ request_id: Id }),
  output: t.Object({ request: RequestView }),
  callers: [system],
  requires: [
    isStillOpen,
    rule<OfRequest>(
      'PRECONDITION_FAILED',
      'a reminder is due',
      ({ request }, _, { now }) => {
        const due = remindedNext(request)
        return due !== null && due <= now
      },
      'no reminder is due',
    ),
  ],
  audit: 'request.reminded',
  load: (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, _, { actor, now }) {
    const reminders = (request.reminders ?? 0) + 1
    const next: Request = { ...request, reminders, reminded_at: now }
    return {
      facts: [fact('request.reminded', [image(Request, next)], { detail: { reminders } })],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'unheard', as: 'system', input: ({ request }) => ({ request_id: request.id }) },
})

export const deadlineOperations = [extend, remind]
