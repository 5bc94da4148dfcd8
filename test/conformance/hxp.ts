// Every clause of the HXP 0.1 draft, MUST or plain statement, one row each, in the order of the text; what existing clients rely on, and our
// answers if it is silent (X1 to X34). Each row names the tests that show it, by file and title.
import type { Requirement } from '../support/laws/requirements.ts'

/** `shown`: a file of test/execution, or else of test, without its ending, and the title of a test in it. */
export type Shown = Requirement & { readonly shown: readonly (readonly [file: string, title: string])[] }
type Cited = readonly (readonly [string, string])[]

const under =
  (clause: string) =>
  (id: string, text: string, ...shown: Cited): Shown => ({ id, clause, text, shown })

const decide = under('2.1 DECIDE')
const approve = under('2.2 APPROVE')
const provide = under('2.3 PROVIDE')
const request = under('3.1 Request Object')
const priority = under('3.2 Priority Levels')
const fallback = under('3.3 Fallback Behaviors')
const receipt = under('4 Receipt Object')
const http = under('5.1 Endpoints')
const socket = under('5.2 WebSocket Binding')
const code = under('5.3 Error Codes')
const routing = under('6 Roles and Routing')
const security = under('7 Security Considerations')
const version = under('10 Versioning')
const client = under('Existing clients')
const ours = under('Our choices')

const CREATED = ['bridges/hxp/http', '201: a request is created, and the answer says where to look and where to listen'] as const
const LEFT_OUT = ['bridges/hxp/http', 'omitted fields have their defaults, and absent fields stay absent'] as const
const RESOLVED = ['bridges/hxp/http', '200: a request is retrieved and resolved, and the receipt says so to both sides'] as const
const CANCELLED = ['bridges/hxp/http', 'cancel works by POST and by DELETE, with a receipt'] as const
const EXPIRED = [
  'bridges/hxp/http',
  'a request that expired: pause stays pending and overdue, fail has failed, default has completed; GET is 200 for each',
] as const
const INVALID = ['bridges/hxp/http', '400: invalid requests are refused, each with its field, and nothing is stored'] as const
const WHO = ['bridges/hxp/http', '401: no credential, a wrong one, a revoked one, and one of the wrong kind'] as const
const NOWHERE = ['bridges/hxp/http', '404: unknown ids, invalid ids and foreign ids'] as const
const MAY = ['bridges/hxp/http', 'the routed person and the installation owner read and answer, and no one else'] as const
const CONFLICT = [
  'bridges/hxp/http',
  '409: resolving twice, cancelling what is resolved, and a key that came before with another body',
] as const
const UNFIT = ['bridges/hxp/http', '422: a result that does not fit is refused, and the request stays open'] as const
const LATE = ['bridges/hxp/http', '408: resolving what ended by its deadline, again and again without harm'] as const
const LARGE = ['bridges/hxp/http', '413: a body that is too large, announced or not'] as const
const QUOTA = ['bridges/hxp/http', '429: quotas say when to come again'] as const
const ABSENT = ['bridges/hxp/http', '503: a store that cannot write says so, and reads still work'] as const
const INBOX = ['bridges/hxp/http', 'the inbox: critical first, then by age; filters; totals that are exact'] as const
const PAGES = ['bridges/hxp/http', 'pages: by cursor and by offset, none twice and none lost, 100 at most'] as const
const LIST = ['bridges/hxp/http', 'an agent lists its own, the latest first, by status'] as const
const WAIT = ['bridges/hxp/http', '?wait= answers when the request has ended, or pending when it runs out'] as const
const ONCE = ['bridges/hxp/http', 'Idempotency-Key: a repeated create, resolve or cancel is the same one'] as const
const HEADERS = ['bridges/hxp/http', 'every answer has the headers that every answer has, and none is HTML'] as const
const ADDRESS = ['bridges/hxp/http', 'ws_url follows the host that was asked for, and TLS if a proxy ends it'] as const
const ABOUT = ['bridges/hxp/http', 'GET /hxp tells what this is, without a credential'] as const
const VERIFIED = ['bridges/hxp/http', 'a receipt is verified: ours as it is, and nothing that was changed or made up'] as const
const RULES = ['bridges/hxp/http', 'delegation rules: list, add, order, remove'] as const
const HEARD = ['bridges/hxp/ws', 'a subscriber gets the claim and the decision, word for word, and then the end'] as const
const ENDINGS = ['bridges/hxp/ws', 'cancelled, failed by its deadline, taken by default, overdue on pause: each has its event'] as const
const OUTCOME = ['bridges/hxp/ws', 'a late subscriber gets the stored outcome immediately'] as const
const FILE = [
  'protocols/execution/answering/file',
  'a file that was sent is named by the answer, and the receipt says what it is (X5)',
] as const
const SECRET = [
  'protocols/execution/answering/secret',
  'the receipt holds a commitment, the agent gets the answer once, and then it is gone',
] as const
const UNSEEN = ['faults/leaked-secrets', 'no secret is seen anywhere'] as const
const TOLD = ['protocols/execution/notices/notices', 'a signed notice names the agent that asks, and nothing of the question'] as const
const QUIET = [
  'protocols/execution/notices/notices',
  'quiet hours let only critical items through (X24), and the rest follows when they are over',
] as const
const RATION = ['protocols/execution/asking/quotas', 'critical questions are rationed by the hour (X24), and all others go on'] as const
const TICKET = ['bridges/hxp/ws', 'ws_url lets its bearer in, once, and only to this request'] as const
const REFUSED = [
  'bridges/hxp/ws',
  'refused before there is a socket, in JSON: no credential, a wrong one, another’s request, a foreign page',
] as const
const POOL = [
  'bridges/hxp/ws',
  'a claim, a release, a question, a reply and more time are heard; in a pool an agent hears no name',
] as const
const OPTION = ['protocols/execution/answering/result', 'a decision is one of the options, letter by letter'] as const
const APPROVED = ['protocols/execution/answering/result', 'an approval is approved or rejected, in these words'] as const
const REASON = ['protocols/execution/answering/result', 'a rejection needs its reason if the agent asked for one'] as const
const FITS = [
  'protocols/execution/answering/result',
  'every answer that is accepted satisfies what was asked, and is accepted again as it is',
] as const
const ASKED = [
  'protocols/execution/asking/payload',
  'a valid payload is accepted as it is, and again; beside a field that is not known it is refused',
] as const
const CLIENT = ['bridges/hxp/clients', 'an agent’s client creates, polls and gets its receipts; every error has a message'] as const
const PAGE = ['bridges/hxp/clients', 'the page for people reads the inbox and answers a number with the text "42"'] as const
const DEMO = ['bridges/hxp/clients', 'the demo script asks under several names with one development key'] as const
const REACHED = [
  'protocols/execution/asking/recipients',
  'the questions of a disabled person go to the next person who can answer',
] as const
const NOBODY = ['protocols/execution/asking/recipients', 'without any person, asking is refused and changes nothing'] as const
const UNDECIDED = [
  'protocols/execution/asking/recipients',
  'a task without a decider is shown to the owners of the project, who name a substitute and cannot answer themselves',
] as const
const POOL_LEFT = ['protocols/execution/asking/recipients', 'a pool item goes to a person outside when the last member is gone'] as const
const TOTALS = ['protocols/execution/inbox/totals', 'a former member, and a key for one project, count the rest alone'] as const
const LEFT = ['protocols/execution/asking/recipients', 'a former member of the project is neither asked nor counted'] as const
const VOTED_DOWN = ['protocols/execution/asking/recipients', 'a quorum that votes made impossible is rejected, with the reasons'] as const
const UNREACHED = ['protocols/execution/asking/recipients', 'one substitute cannot give the votes of two'] as const
const FILTERED = [
  'bridges/hxp/openapi',
  'a list is filtered by agent, by label and by every status, together, 20 at a time, with its total',
] as const
const URGENT = [
  'bridges/hxp/openapi',
  'the inbox shows open items, most urgent first, by action too, and hides none behind old items',
] as const
const NAMED = [
  'bridges/hxp/openapi',
  'GET /hxp names itself and its endpoints; a new rule is at the top; figures are numbers for both sides',
] as const
const IGNORED = [
  'bridges/hxp/openapi',
  'unknown fields are ignored and named, null fields count as absent, and none of them is stored',
] as const
const UNMARKED = [
  'bridges/hxp/openapi',
  'to a page of another origin nothing that an agent wrote is markup, on every path for people',
] as const
const CHOSEN = ['bridges/hxp/openapi', 'an answer in the form that the page got counts for the option behind it'] as const
const HASTY = [
  'protocols/execution/asking/defaults',
  'a default that would decide within a minute is refused, and nothing is stored (X29)',
] as const
const BY_DEFAULT = ['protocols/execution/asking/defaults', 'the signed basis names the default and comes before the result'] as const
const ISSUER = [
  'protocols/execution/asking/defaults',
  'a receipt names its server by origin and installation, and how long the answer took is signed (X30, X31)',
] as const
const VERIFY = [
  'apps/server/key-files',
  'the command line verifies with saved keys, with a folder and with a server, and says why not',
] as const
const DELEGATED = [
  'protocols/execution/asking/preferences',
  'goes where the rules of 6.2 send it, and to the owner where none fits',
] as const
const SPECIFIC = ['protocols/execution/asking/preferences', 'the rule with the most conditions counts, and among equals the first'] as const
const OWN_RULES = ['protocols/execution/asking/preferences', 'follows only the rules of the agent’s owner'] as const
const IN_POOL = [
  'protocols/execution/asking/pool',
  'is shown to everyone of the project until a person claims it, and then to that person alone',
] as const
const CLAIM_TIME = ['protocols/execution/asking/pool', 'has taken as long as from its claim to its answer'] as const
const NAMELESS = ['protocols/execution/asking/pool', 'never tells the agent who took it, asked about it or answered it'] as const
const ORDER = [
  'protocols/execution/inbox/inbox',
  'critical items come first, then high, normal and low, each with the oldest first (X17)',
] as const
const ITEM = ['protocols/execution/inbox/inbox', 'says who asks and for whom, what the server knows, and what each answer does'] as const
const EVIDENCE = ['workers/notary', 'evidence is what the draft says, with a secret of this server'] as const
const SIGNED = [
  'workers/notary',
  'a receipt is signed as a JWS over the canonical claims, always in the same way, and any library verifies it',
] as const
const BOUND = ['protocols/execution/mirror/bound', 'blocks the task and its run, and is one item, for the people of the task'] as const
const TLS = ['bindings/tls', 'sockets are opened over TLS'] as const
const ONLY_TLS = ['bindings/tls', 'plain HTTP on that port gets no answer and does no harm'] as const
const TOKENS = ['apps/server/issuer-tokens', 'of the issuer, for here and in time, proves its subject; the keys are fetched once'] as const
const LINKED = [
  'apps/server/issuer-tokens',
  'a linked subject is the person; before, after, and while the person is switched off it is no one',
] as const
const DEVELOPMENT = [
  'bridges/hxp/clients',
  'in development mode the well-known credentials are enough, and pages of any origin have access',
] as const
const CORS = [
  'bridges/hxp/clients',
  'CORS: on every answer for pages of configured origins, errors and preflights included, and for no others',
] as const

export const hxpRows: readonly Shown[] = [
  decide('D-1', 'question and options (2 to 6) are required.', INVALID, ASKED),
  decide('D-2', 'context has at most 500 characters; default_option is one of the options.', INVALID),
  decide('D-3', 'The result is the selected option and must match one of the provided options.', UNFIT, OPTION),
  approve('A-1', 'item is required; details are structured data.', INVALID, ASKED),
  approve('A-2', 'reject_requires_reason: a rejection must include a reason.', UNFIT, REASON),
  approve('A-3', 'The result is "approved" or "rejected", with an optional reason.', UNFIT, APPROVED),
  provide('P-1', 'prompt and input_type (text, number, url, email, file, selection) are required.', INVALID, ASKED),
  provide('P-2', 'validation constrains the input: regex, min and max, allowed values.', UNFIT, FITS),
  provide('P-3', 'The result is the provided value; its type matches input_type.', UNFIT, FITS),

  request('R-1', 'A request has the fields of the schema.', CREATED),
  request('R-2', 'request_id is generated by the server.', CREATED),
  request('R-3', 'timeout_seconds 0 means no timeout; expires_at is then null.', LEFT_OUT),
  request('R-4', 'expires_at is created_at and the timeout.', CREATED),
  request('R-5', 'project_id is optional and groups related requests.', CREATED, LEFT_OUT),
  priority('PR-1', 'low, normal, high and critical; anything else is refused.', INVALID),
  priority('PR-2', 'critical comes first, then high, normal and low.', INBOX),
  priority('PR-3', 'critical: immediate notification.', QUIET),
  fallback('F-1', 'pause: the request stays open indefinitely.', EXPIRED),
  fallback('F-2', 'fail: the agent receives a failure receipt.', EXPIRED),
  fallback('F-3', 'default: the agent receives a receipt with default_option (DECIDE only).', EXPIRED, INVALID),

  receipt('RC-1', 'A receipt has the fields of the schema.', RESOLVED),
  receipt('RC-2', 'evidence_hash is SHA-256(request_id + result + completed_at + server_secret).', RESOLVED),
  receipt('RC-3', 'Agents can verify that a receipt was issued by a trusted server.', VERIFIED),
  receipt('RC-4', 'duration_seconds runs from assignment to completion.', RESOLVED),

  http('H-1', 'POST /hxp/v1/requests: 201 with request_id, status, created_at, expires_at, poll_url, ws_url.', CREATED),
  http('H-2', 'GET /hxp/v1/requests/{request_id}: 200 with the status, and the receipt once there is one.', RESOLVED, EXPIRED),
  http('H-3', 'GET /hxp/v1/inbox?status=&priority=: requests, total, unresolved.', INBOX),
  http('H-4', 'POST /hxp/v1/requests/{request_id}/resolve with result and reason: 200 with the receipt.', RESOLVED),
  http('H-5', 'Authorization: Bearer with the key of an agent, or the token of a person.', WHO),
  socket('W-1', 'WSS /hxp/ws/{request_id}: real-time updates instead of polling.', HEARD),
  socket('W-2', 'assigned, with assigned_to.', HEARD, POOL),
  socket('W-3', 'completed, with the receipt.', HEARD),
  socket('W-4', 'expired.', ENDINGS),
  code('E-201', '201: request created successfully.', CREATED),
  code('E-200', '200: request retrieved / resolved.', RESOLVED),
  code('E-400', '400: invalid request (bad action, missing fields).', INVALID),
  code('E-401', '401: invalid API key or token.', WHO),
  code('E-404', '404: request not found.', NOWHERE),
  code('E-409', '409: request already resolved.', CONFLICT),
  code('E-422', '422: invalid resolution (result does not match options).', UNFIT),
  code('E-408', '408: request timed out.', LATE),
  code('E-413', 'Ours: 413, the body is too large.', LARGE),
  code('E-429', 'Ours: 429 with Retry-After, quotas.', QUOTA),
  code('E-503', 'Ours: 503 with Retry-After, for now.', ABSENT),

  routing('RO-1', "owner: the agent's registered owner.", CREATED, MAY),
  routing('RO-2', 'delegate: by delegation rules.', DELEGATED),
  routing('RO-3', 'pool: the first available person.', IN_POOL),
  routing('RO-4', 'Owners configure rules by action, tag and project.', RULES, DELEGATED),
  security('S-1', 'All communication MUST use TLS.', TLS, ONLY_TLS),
  security('S-2', 'Agent API keys are scoped per agent or per project.', WHO, MAY),
  security('S-3', 'Human tokens use standard OAuth 2.0 / JWT.', TOKENS, LINKED),
  security('S-4', 'Receipts include evidence hashes for tamper detection.', RESOLVED),
  security('S-5', 'Context fields are bounded.', INVALID),
  security('S-6', 'Humans always see that they are resolving an agent request.', ITEM),
  version('V-1', 'The version is in the path.', CREATED, NOWHERE),

  client('C-1', 'GET /hxp needs no credential and has name and version.', ABOUT, CLIENT),
  client('C-2', 'Create answers exactly 201 without redirects; every error is JSON with a message.', CLIENT, HEADERS),
  client('C-3', 'What is left out is fine: timeout, fallback, project, metadata, details.', LEFT_OUT, CLIENT),
  client('C-4', 'Poll is 200 whatever became of it, readable at once, status in lower case; never a receipt on expired.', CLIENT, EXPIRED),
  client('C-5', 'The page: inbox items with their fields, resolve answers {receipt}, "42" is a number.', PAGE),
  client('C-6', 'A repeated 408 is harmless.', LATE),
  client('C-7', 'What would break such pages is refused at create.', INVALID),
  client('C-8', 'One development key sends several agent_ids and unregistered project_ids.', DEMO),
  client('C-9', 'CORS headers on every answer, errors and preflights included.', CORS),
  client('C-10', 'Question, item and prompt have at most 300 characters, a list at most 100 items.', INVALID, PAGES),
  client('C-11', 'dev-agent-key, dev-agent-key-2 and dev-human-token in development, and nowhere else.', DEVELOPMENT, WHO),

  client('C-12', 'List: agent_id, project_id, status, limit 20; the answer has requests and total.', FILTERED),
  client('C-13', 'Inbox: pending by default, priority and action, at least 100, most urgent first.', URGENT),
  client('C-14', 'GET /hxp, rules and stats as the published OpenAPI has them.', NAMED),
  client('C-15', 'To a page of another origin nothing that an agent wrote is markup, and answers in that form count.', UNMARKED, CHOSEN),
  client('C-16', 'Unknown fields are ignored and named in HXP-Ignored; null is not said.', IGNORED),

  ours('X1', 'The formula of 4.2 literally; trust comes from the signature, the key and the log.', EVIDENCE, SIGNED),
  ours(
    'X2',
    'GET is always 200, also when ?wait= runs out; resolving what ended by its deadline is 408, anything else that ended 409.',
    WAIT,
    LATE,
    CONFLICT,
  ),
  ours(
    'X3',
    'pause: pending and overdue; fail: failed with reason timeout, event expired with the receipt; default: completed.',
    EXPIRED,
    ENDINGS,
  ),
  ours('X4', 'default without or with a foreign default_option, or on APPROVE and PROVIDE: 400 at create.', INVALID),
  ours('X5', 'file: an upload becomes an artifact, and the result refers to it.', FILE),
  ours('X6', 'selection needs allowed_values; multiple allows several.', UNFIT, FITS),
  ours('X7', 'sensitive: one-time handle, never in plaintext.', SECRET, UNSEEN),
  ours(
    'X8',
    'hxp_ and a ULID; both forms of the WebSocket address; a one-use ticket in ws_url, or a bearer header.',
    CREATED,
    HEARD,
    TICKET,
    REFUSED,
  ),
  ours('X9', 'The superset of text and OpenAPI; details are optional; cancel exists.', CANCELLED, CLIENT, LIST),
  ours('X10', 'The role is a switch; without a matching rule the owner; the most specific rule, then the first.', DELEGATED, SPECIFIC),
  ours('X11', 'Who may resolve; a credential of the wrong kind is 401, another’s object 404.', WHO, NOWHERE, MAY),
  ours('X12', 'Bound to a task: its principal; else the agent’s owner.', BOUND),
  ours('X13', 'assigned_at, else created_at.', CREATED, CLAIM_TIME),
  ours(
    'X14',
    'agent_id and project_id lie in the scope of the key; unknown projects are labels; omitted: the agent of the key.',
    WHO,
    CREATED,
    DEMO,
  ),
  ours('X15', 'details have at most 16 KiB.', INVALID),
  ours('X16', 'Idempotency-Key; a cancelled request has a receipt; one that is bound to a task cannot be cancelled.', ONCE, CANCELLED),
  ours('X17', 'critical is not sorted as normal.', INBOX, ORDER),
  ours('X18', 'TLS or a declared proxy; ws_url follows.', ADDRESS, TLS),
  ours('X19', 'Sessions, or a configured issuer.', TOKENS, LINKED),
  ours('X20', 'Every channel and card says that an agent asks, and which.', ITEM, TOLD),
  ours('X21', 'In a pool completed_by is a pseudonym, and agents hear no name.', POOL, NAMELESS),
  ours('X22', 'total: what matches the filter; unresolved: of those, pending or assigned.', INBOX),
  ours('X23', 'regex and pattern are the same; min and max apply to the length of text.', FITS),
  ours('X24', 'critical ignores quiet hours, and is rationed per agent.', QUOTA, QUIET, RATION),
  ours('X25', 'HXP create keeps 2 to 6 options.', INVALID),
  ours('X26', 'Delegation rules bind only the agents of the person who made them.', OWN_RULES),
  ours(
    'X27',
    'Whoever is asked can answer: else their substitute, the agent’s owner, the owners of project and installation; on a task its own people.',
    REACHED,
    LEFT,
    POOL_LEFT,
    TOTALS,
    UNDECIDED,
    NOBODY,
  ),
  ours('X28', 'A quorum out of reach: by votes it is rejected, or fails; by people who are gone it fails.', VOTED_DOWN, UNREACHED),
  ours('X29', 'Before a default decides, people have a minute; the signed basis names it.', HASTY, BY_DEFAULT),
  ours('X30', 'iss is the public origin and the installation id; --issuer takes either or both.', ISSUER, VERIFY),
  ours('X31', 'A receipt with fields that nobody signed, or that stand twice, is not genuine.', ISSUER, VERIFY),
  ours(
    'W-5',
    'cancelled and failed have events of their own; who comes late gets the stored outcome; then the socket closes with 1000.',
    ENDINGS,
    OUTCOME,
  ),
  ours(
    'X32',
    "Every line of agents' text at a terminal is indented and marked, so that none can look like the server's own.",
    ['apps/cli/agent-text', 'never begins a line of the screen, but for the row in which it is chosen'],
    ['apps/cli/agent-text', 'never looks like a field of a thing that is shown field by field'],
  ),
  ours(
    'X33',
    'edited goes with an agent’s own APPROVE that has a details_schema, without a quorum; it is signed and holds the whole details.',
    ['protocols/execution/answering/edited', 'are checked against the schema, recorded in the receipt, and signed'],
    ['protocols/execution/answering/edited', 'that break the schema change nothing, whatever they are'],
    [
      'protocols/execution/answering/edited',
      'go with an agent’s own approval alone: not with a rejection, a quorum, no schema or another protocol’s item',
    ],
  ),
  ours(
    'X34',
    'Floors raise the risk that an agent says, at creation: a person’s for their own agents, a project’s by its owners.',
    ['protocols/execution/asking/floors', 'the risk is the greater of floor and request, and a floor never lowers it'],
    ['protocols/execution/asking/floors', 'fields that are left out stay as they are'],
    ['protocols/execution/asking/floors', 'a person sets floors for agents that they own, and owners set those of a project'],
    ['protocols/execution/asking/floors', 'floors raise an agent’s checkpoint, but no review and no question of a person or the system'],
  ),
]
