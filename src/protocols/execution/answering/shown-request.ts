// The request as a person is shown it before they answer, and the digests that tie an answer to it.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { t, type Static, type TSchema } from '#kernel/declare/schema.ts'
import { approve } from '../actions/approve.ts'
import { decide } from '../actions/decide.ts'
import { knownForm } from '../actions/index.ts'
import { provide } from '../actions/provide.ts'
import { verify } from '../actions/verify.ts'
import { coveredBy } from './request-digest.ts'
import { Approval, Id, Kind, mirrored, Priority, Remark, Reviewed, Risk, type Request } from '../schema.ts'
import { harmless, shownText } from '../asking/hostile-text.ts'

/**
 * The surface on which a person saw a request. Texts for a page of another origin contain nothing that it could treat as markup; an editor shows
 * the agent's own description of a call.
 */
export type Surface = 'page' | 'editor'
const onPage = (text: string): string => harmless(shownText(text))
const writerFor = (surface: Surface | undefined): Write => (surface === 'page' ? onPage : shownText)
type Write = (text: string) => string

/** Every string as every surface shows it, with hidden and direction-changing characters made visible. */
export function visible(value: unknown, write: Write = shownText): unknown {
  if (typeof value === 'string') return write(value)
  if (Array.isArray(value)) return value.map((entry) => visible(entry, write))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [write(name), visible(inner, write)]))
}

type Written = Pick<Request, 'agent_id' | 'payload' | 'metadata' | 'tags' | 'label' | 'thread' | 'notice'>
/** The request with the agent's texts as people see them, on third-party surfaces too. */
export function asShown<R extends Written>(request: R): R {
  const { agent_id, payload, metadata, tags, label, thread, notice } = request
  return {
    ...request,
    agent_id: shownText(agent_id),
    payload: visible(payload) as R['payload'],
    metadata: visible(metadata) as R['metadata'],
    tags: tags.map(shownText),
    ...(label === undefined ? {} : { label: shownText(label) }),
    ...(notice === undefined ? {} : { notice: shownText(notice) }),
    ...(thread === undefined ? {} : { thread: thread.map((remark) => ({ ...remark, text: shownText(remark.text) })) }),
  }
}

const BOUNDS = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minimum', 'maximum']
/** The schema without its bounds: escaped text is longer than the text that was checked. */
const withoutBounds = <S extends TSchema>(schema: S): S =>
  JSON.parse(JSON.stringify(schema), (name, value: unknown) => (BOUNDS.includes(name) ? undefined : value)) as S

const cardWith = <A extends string, P extends TSchema>(action: A, payload: P) =>
  withoutBounds(
    t.Object({
      request_id: Id,
      asks: t.String(),
      kind: Kind,
      action: t.Literal(action),
      agent_id: t.String(),
      requester: Id,
      acts_for: Id,
      priority: Priority,
      payload,
      risk: t.Optional(Risk),
      approval: t.Optional(Approval),
      option_risks: t.Optional(t.Array(Risk)),
      task_id: t.Optional(Id),
      artifact: t.Optional(Reviewed),
      notice: t.Optional(t.String()),
      thread: t.Optional(t.Array(Remark)),
    }),
  )
/** The card of each action. A question of another protocol also has the fields of `mirrored`. */
export const Card = t.Union([
  cardWith('DECIDE', t.Object({ ...mirrored.DECIDE.properties, ...decide.payload.properties })),
  cardWith('APPROVE', t.Object({ ...mirrored.APPROVE.properties, ...approve.payload.properties })),
  cardWith('PROVIDE', t.Object({ ...mirrored.PROVIDE.properties, ...provide.payload.properties })),
  cardWith('VERIFY', verify.payload),
])
export type Card = Static<typeof Card>

/** The card: the asking agent and its question (HXP 0.1, 7: transparency). Surfaces show no other text of the agent. */
export function cardOf(request: Request, surface?: Surface): Card {
  const write = writerFor(surface)
  const { id, kind, agent_id, requester, owner, priority, thread, artifact, task_id, risk, approval, option_risks, notice } = request
  const { action, payload } = surface === 'page' ? knownForm(request) : request
  return {
    request_id: id,
    asks: whoAsks(request),
    kind,
    action,
    agent_id: write(agent_id),
    requester,
    acts_for: owner,
    priority,
    payload: visible(payload, write),
    ...(risk === undefined ? {} : { risk }),
    ...(approval === undefined ? {} : { approval }),
    ...(option_risks === undefined ? {} : { option_risks }),
    ...(task_id === undefined ? {} : { task_id }),
    ...(artifact === undefined ? {} : { artifact }),
    ...(notice === undefined ? {} : { notice: write(notice) }),
    ...(thread === undefined ? {} : { thread: thread.map((remark) => ({ ...remark, text: write(remark.text) })) }),
  } as Card
}
const whoAsks = ({ kind, asked_by }: Request): string => {
  if (kind === 'interrupt') return 'A person has interrupted an agent'
  if (asked_by === 'system') return 'The system asks'
  return asked_by === 'person' ? 'A person asks' : 'An agent asks'
}
export const shownDigest = (request: Request, surface?: Surface): string => sha256(canonical(cardOf(request, surface)))

/** The digest of the agent's question, which the agent can compute from the answer to its request. */
export const requestDigest = (request: Request): string => sha256(canonical(coveredBy(request)))
