// A request and its outcome: fetched, waited for, listed.
import { anyone } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, type Context, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageInput } from '#kernel/declare/paging.ts'
import { either, t } from '#kernel/declare/schema.ts'
import { signReceipt, SignedReceipt } from '../answering/receipt.ts'
import { asker, requestOf } from '../access.ts'
import { Id, isOpen, Request } from '../schema.ts'
import { viewAgain } from '../view-again.ts'
import { RequestView, viewOf } from '../view.ts'
import { askedBy, ListedStatus } from './draft-inbox.ts'

/** As the whole batch left it, with its receipt if it has one. */
async function asItIs(output: { request: RequestView }, { read, context }: { read: Read; context: Context }) {
  const request = await read(Request, output.request.id)
  const shown = viewAgain(request, context.actor)
  return request.receipt ? { request: shown, receipt: await signReceipt(request, read, context) } : { request: shown }
}

const get = query({
  name: 'request.get',
  summary: 'Fetch one request, with its receipt if it has one.',
  draft: 'HXP 0.1, 5.1: Poll Request Status',
  looksAt: { doc: Request, field: 'request_id' },
  input: t.Object({ request_id: Id }),
  output: t.Object({ request: RequestView, receipt: t.Optional(SignedReceipt) }),
  callers: [anyone],
  load: async (read, { request_id }) => ({ request: await read(Request, request_id) }),
  async view({ request }, _, context, read) {
    const shown = viewAgain(request, context.actor)
    return request.receipt ? { request: shown, receipt: await signReceipt(request, read, context) } : { request: shown }
  },
  example: { given: 'asked', as: 'devin', input: ({ request }) => ({ request_id: request.id }) },
})

/** The same, but a call that waits is answered when the request has ended. */
const wait = command({
  name: 'request.await',
  summary: 'Wait until a request has ended or has a new remark, and fetch it.',
  draft: 'ours: a long poll (5.1) without polling',
  looksAt: { doc: Request, field: 'request_id' },
  input: t.Object({
    request_id: Id,
    wait: t.Optional(t.Integer({ minimum: 0, maximum: limits.waitMsMax / 1_000, description: 'seconds' })),
    seen: t.Optional(
      t.Integer({
        minimum: 0,
        maximum: limits.remarksMax,
        description: 'the number of remarks that you know; a new one ends the wait',
      }),
    ),
  }),
  output: t.Object({ request: RequestView, receipt: t.Optional(SignedReceipt) }),
  callers: [anyone],
  requires: [],
  audit: null,
  isForAuditors: true,
  waits: ({ request_id, wait = 0 }) => (wait === 0 ? null : { wakeIds: [request_id], maxMs: wait * 1_000 }),
  load: async (read, { request_id }) => requestOf(read, request_id),
  decide: ({ request }, { seen = Infinity }, { actor }) => ({
    facts: [],
    output: { request: viewOf(request, actor) },
    ...(isOpen(request) && (request.thread?.length ?? 0) <= seen ? { nothing: { again: null } } : {}),
  }),
  finish: (output, after) => asItIs(output, after()),
  example: { given: 'asked', as: 'devin', input: ({ request }) => ({ request_id: request.id }) },
})

const list = query({
  name: 'request.list',
  summary: 'List the requests that an agent has made, oldest first.',
  draft: 'HXP 0.1, published OpenAPI: list (agent)',
  input: t.Object({
    agent_id: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
    state: t.Optional(either('open', 'closed')),
    status: t.Optional(ListedStatus),
    project_id: t.Optional(t.String({ maxLength: limits.labelCharsMax, description: 'a project, or the label that the agent gave' })),
    newest: t.Optional(t.Boolean({ description: 'the latest first' })),
    ...pageInput,
  }),
  output: t.Object({
    items: t.Array(RequestView),
    total: t.Integer({ description: 'how many fit; by label or expired they are counted up to 2,000' }),
    next_cursor: nextCursor,
  }),
  callers: [asker],
  load: async (read, input, { actor }) =>
    askedBy(read, 'request.list', actor.kind === 'agent' ? actor.id : (input.agent_id ?? actor.id), input, actor),
  view: ({ found, total, next_cursor }, _, { actor }) => ({ items: found.map((request) => viewOf(request, actor)), total, next_cursor }),
  example: { given: 'asked', as: 'devin', input: {} },
})

const longArguments = query({
  name: 'request.arguments',
  summary: 'Fetch the arguments of a tool call that are too long for its question. Their SHA-256 is in the details of the question.',
  draft: 'ours: a person decides about the whole call',
  looksAt: { doc: Request, field: 'request_id' },
  input: t.Object({ request_id: Id }),
  output: t.Object({
    text: t.String({ description: 'the arguments as canonical JSON, without what is redacted' }),
    sha256: t.String(),
    size: t.Integer(),
  }),
  callers: [anyone],
  async load(read, { request_id }, { notary }) {
    const { call_id } = await read(Request, request_id)
    const found = call_id === undefined ? null : await read.ports.calls.longArguments(read, call_id)
    if (found === null) throw new Refusal('NOT_FOUND', 'the question holds all arguments itself')
    return { text: await notary.open(found.sealed), sha256: found.sha256, size: found.size }
  },
  view: (found) => found,
  example: { given: 'asked_to_run', as: 'alice', input: ({ request_id }) => ({ request_id }) },
})

export const getOperations = [get, wait, list, longArguments]
