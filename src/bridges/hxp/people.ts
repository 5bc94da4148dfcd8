// Routes for people: reading their inbox, answering, naming a substitute. Routes for all callers: statistics and receipt verification.
import { limits } from '#kernel/limits.ts'
import { agentPageIn, offsetIn, pageIn } from './query-string.ts'
import { about, pageAfter, type Page } from './agents.ts'
import { aboutRequest, answerOf, type Ask, type Methods, type Parts, type Route } from './route.ts'
import { shapeFor, statusOf, type Got } from './request-json.ts'

export function peopleRoutes({ host: { kernel, receive } }: Parts) {
  const inbox: Route = {
    who: 'human',
    operation: 'execution/request.inbox',
    changes: false,
    async run({ query, caller, actor, isPage }) {
      const input = { status: 'pending', ...pageIn(query, ['status', 'priority', 'action']), ...(isPage ? { surface: 'page' } : {}) }
      const fetchPage = (limit: number, cursor: string | null): Promise<Page> =>
        pageAfter(cursor === null ? offsetIn(query) : 0, { ...input, limit, ...(cursor === null ? {} : { cursor }) }, (pageInput) =>
          kernel.call('execution/request.inbox', pageInput, caller),
        )
      const shapes = ({ requests }: Page): object[] => (requests as Got['request'][]).map((request) => shapeFor(actor, { request }, isPage))
      const { limit } = input as { limit?: number }
      const { page, requests } = limit === undefined ? await wholeOf(fetchPage, shapes) : await pageOf(fetchPage(limit, null), shapes)
      const { total, unresolved, next_cursor } = page
      return answerOf(200, { requests, total, unresolved, ...(next_cursor === null ? {} : { next_cursor }) })
    },
  }

  const resolve: Route = {
    who: 'human',
    operation: 'execution/request.resolve',
    changes: true,
    async run({ id, body, caller, options, isPage }) {
      const input = about(id, body, isPage ? { surface: 'page' } : {})
      const { request, receipt } = (await kernel.call('execution/request.resolve', input, caller, options)) as Got
      // With a quorum, a single answer has no receipt yet.
      return aboutRequest(200, { ...(receipt ? { receipt } : {}), request_id: request.id, status: statusOf(request) }, request)
    },
  }
  // X5: the file name is in the query string, its media type in the header. The answer to the request then refers to the file.
  const file: Route = {
    who: 'human',
    operation: 'execution/file.add',
    changes: true,
    bytes: true,
    async run({ id, query, request, response, caller, actor, options }) {
      const name = new URLSearchParams(query).get('name') ?? 'file'
      const media_type = request.headers['content-type']
      const input = { request_id: id, name, ...(media_type === undefined ? {} : { media_type }) }
      return answerOf(201, await receive('execution/file.add', { input, caller, actor, options }, { request, response }))
    },
  }
  return {
    inbox: { GET: inbox } satisfies Methods,
    resolve: { POST: resolve } satisfies Methods,
    files: { POST: file } satisfies Methods,
  }
}

type Shapes = (page: Page) => readonly object[]
type Listed = { readonly page: Page; readonly requests: readonly object[] }
const pageOf = async (page: Promise<Page>, shapes: Shapes): Promise<Listed> => ({ page: await page, requests: shapes(await page) })

/** The published OpenAPI has no paging here: without a limit, a client gets as many as one answer can have. */
async function wholeOf(paged: (limit: number, cursor: string | null) => Promise<Page>, shapes: Shapes): Promise<Listed> {
  const requests: object[] = []
  let bytes = 0
  let page: Page | null = null
  for (let limit: number = limits.pageMax; limit > 0;) {
    const next = await paged(Math.min(limit, limits.bridgeInboxMax - requests.length), page?.next_cursor ?? null)
    const shown = shapes(next)
    const size = Buffer.byteLength(JSON.stringify(shown))
    // If a page is too large for the reply, half of it can fit.
    if (bytes + size > limits.bridgeInboxBytesMax && (page !== null || limit > 1)) {
      limit = Math.floor(limit / 2)
      continue
    }
    requests.push(...shown)
    bytes += size
    page = next
    if (next.next_cursor === null || requests.length >= limits.bridgeInboxMax || bytes >= limits.bridgeInboxBytesMax) break
  }
  return { page: page!, requests }
}

/** HXP 0.1, 6.2. */
export function ruleRoutes({ host: { kernel } }: Parts) {
  const route = (operation: string, changes: boolean, status: number, inputOf: (ask: Ask) => unknown): Route => ({
    who: 'human',
    operation,
    changes,
    async run(ask) {
      const { items, ...rest } = (await kernel.call(operation, inputOf(ask), ask.caller, ask.options)) as { items?: unknown; rule?: object }
      // The published OpenAPI has the fields of a new rule at the top.
      return answerOf(status, items === undefined ? { ...rest.rule, ...rest } : { rules: items })
    },
  })
  const whole: Methods = {
    GET: route('execution/rule.list', false, 200, () => ({})),
    POST: route('execution/rule.add', true, 201, ({ body }) => body),
    PUT: route('execution/rule.order', true, 200, ({ body }) => body),
  }
  const single: Methods = { DELETE: route('execution/rule.remove', true, 200, ({ id }) => ({ rule_id: id })) }
  return { whole, one: single }
}

type Figures = { readonly failed: number; readonly declined: number; readonly by_status?: Readonly<Record<string, number>> }
/** Declined requests have failed here. */
function figuresOf({ declined, by_status, ...figures }: Figures): object {
  const { declined: more = 0, failed = 0, ...others } = by_status ?? {}
  return {
    ...figures,
    failed: figures.failed + declined,
    ...(by_status === undefined ? {} : { by_status: { ...others, failed: failed + more } }),
  }
}

export function commonRoutes({ host: { kernel } }: Parts) {
  const stats: Route = {
    who: 'anyone',
    operation: 'execution/request.stats',
    changes: false,
    run: async ({ query, caller, actor }) =>
      answerOf(200, figuresOf((await kernel.call('execution/request.stats', agentPageIn(query, [], actor), caller)) as Figures)),
  }
  const verified: Route = {
    who: 'anyone',
    operation: 'execution/receipt.verify',
    changes: false,
    async run({ body, caller }) {
      return answerOf(200, await kernel.call('execution/receipt.verify', body, caller))
    },
  }
  return { stats: { GET: stats } satisfies Methods, verify: { POST: verified } satisfies Methods }
}
