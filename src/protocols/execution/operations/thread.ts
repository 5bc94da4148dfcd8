// Asking back: a question to the agent and its reply, without deciding anything.
import { image } from '#kernel/declare/facts.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { answerer, chief, isNotLate, isUnresolved, itsAsker, poolMember, requestOf, type OfRequest } from '../access.ts'
import { Id, Request, type Remark } from '../schema.ts'
import { RequestView, viewOf } from '../view.ts'

const input = t.Object({ request_id: Id, text: t.String({ minLength: 1, maxLength: limits.textCharsMax }) })
const output = t.Object({ request: RequestView })

const ofKind = ({ thread = [] }: Request, kind: Remark['kind']): number => thread.filter((remark) => remark.kind === kind).length
const withRemark = (request: Request, remark: Remark): Request => ({ ...request, thread: [...(request.thread ?? []), remark] })

const question = command({
  name: 'request.question',
  summary: 'Ask the agent something about its request before you answer it.',
  draft: 'ours: people ask before they decide',
  input,
  output,
  callers: [answerer, poolMember, chief],
  requires: [
    isNotLate,
    isUnresolved,
    // Every question leaves room for its reply.
    rule<OfRequest>(
      'QUOTA_EXCEEDED',
      `at most ${limits.remarksMax / 2} questions are asked about one request`,
      ({ request }) => ofKind(request, 'question') < limits.remarksMax / 2,
      `${limits.remarksMax / 2} questions were asked about this request, which is the most`,
    ),
  ],
  audit: 'request.questioned',
  load: (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, { text }, { actor, now }) {
    const next = withRemark(request, { by: actor.id, kind: 'question', text, at: now })
    return { facts: [fact('request.questioned', [image(Request, next)])], output: { request: viewOf(next, actor) } }
  },
  example: { given: 'asked', as: 'alice', input: ({ request }) => ({ request_id: request.id, text: 'Monthly, or for the year?' }) },
})

const reply = command({
  name: 'request.reply',
  summary: 'Reply to a question about a request of yours.',
  draft: 'ours: people ask before they decide',
  input,
  output,
  callers: [itsAsker],
  requires: [
    isNotLate,
    isUnresolved,
    rule<OfRequest>(
      'PRECONDITION_FAILED',
      'a question waits for its reply',
      ({ request }) => ofKind(request, 'reply') < ofKind(request, 'question'),
      'no question waits for a reply',
    ),
  ],
  audit: 'request.replied',
  load: (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, { text }, { actor, now }) {
    const next = withRemark(request, { by: actor.id, kind: 'reply', text, at: now })
    return { facts: [fact('request.replied', [image(Request, next)])], output: { request: viewOf(next, actor) } }
  },
  example: { given: 'questioned', as: 'devin', input: ({ request }) => ({ request_id: request.id, text: 'Monthly.' }) },
})

export const threadOperations = [question, reply]
