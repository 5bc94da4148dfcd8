// Collecting an answer: an agent without a request id, such as through MCP, finds its answer by repeating the question. Each answer counts for one
// such call: an approval must not approve every later call with the same words.
import { image } from '#kernel/declare/facts.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { Collected } from '../answering/collected.ts'
import { itsAsker, requestOf, type OfRequest } from '../access.ts'
import { fact } from '../events.ts'
import { Id, isOpen, Request, Timestamp } from '../schema.ts'

type Collecting = OfRequest & { readonly before: Collected | null }

const collect = command({
  name: 'request.collect',
  summary: 'Mark the answer to a request as collected, once. The same question asked later is a new one.',
  draft: 'ours: an answer is used once, by one call',
  looksAt: { doc: Request, field: 'request_id' },
  input: t.Object({ request_id: Id }),
  output: t.Object({ request_id: Id, collected_at: Timestamp }),
  callers: [itsAsker],
  requires: [
    rule<Collecting>('PRECONDITION_FAILED', 'the request has ended', ({ request }) => !isOpen(request), 'the request has no answer yet'),
    rule<Collecting>('GONE', 'its answer was not collected yet', ({ before }) => before === null, 'the answer was collected before'),
  ],
  audit: 'request.collected',
  async load(read, { request_id }): Promise<Collecting> {
    return { ...(await requestOf(read, request_id)), before: await read.maybe(Collected, request_id) }
  },
  decide: ({ request: { id, project_id } }, _, { now }) => ({
    facts: [fact('request.collected', [image(Collected, { id, project_id, at: now })])],
    output: { request_id: id, collected_at: now },
  }),
  example: { given: 'answered', as: 'devin', input: ({ request }) => ({ request_id: request.id }) },
})

export const collectOperations = [collect]
