// Fetching artifacts of a session: with the session's token, or with the ticket of their url (HCP 1.0, L4: Artifacts; C14, C38).
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, type Context } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { Content, Id, Session, Timestamp } from '../schema.ts'
import { ticketOf } from './ending.ts'

type Shown = {
  readonly session_id: string
  readonly name: string
  readonly token?: string
  readonly until?: string
  readonly ticket?: string
}

/** A token is valid for its session only and expires with it. A ticket is valid for one artifact, as long as the artifact is kept. */
async function refuseStranger({ session_id, name, token, until, ticket }: Shown, context: Context): Promise<void> {
  const { notary, now } = context
  if (token !== undefined) {
    const claims = await notary.granted(token)
    const isPast = typeof claims?.['exp'] !== 'number' || claims['exp'] * 1_000 <= Date.parse(now)
    if (claims === null || isPast) throw new Refusal('UNAUTHENTICATED', 'the session token is invalid or has expired')
    if (claims['sid'] !== session_id) throw new Refusal('UNAUTHORIZED', 'the session token is of another session')
    return
  }
  if (until === undefined || ticket === undefined)
    throw new Refusal('UNAUTHENTICATED', 'an artifact is fetched with the token of its session, as a bearer token')
  // Compare keyed commitments, so that the time of the comparison reveals nothing about the ticket.
  const isGood = notary.commit(ticket) === notary.commit(ticketOf(context, session_id, name, until))
  if (!isGood || until <= now) throw new Refusal('UNAUTHENTICATED', 'the ticket is invalid or has expired')
}

const handOut = command({
  name: 'harness.fetch',
  summary: 'Hand out an artifact of a session for the token of the session or a ticket for the artifact. The system calls it.',
  draft: 'HCP 1.0, L4: Artifacts; L3: Data Classification',
  input: t.Object({
    session_id: Id,
    name: t.String({ minLength: 1, maxLength: limits.nameCharsMax }),
    token: t.Optional(t.String({ maxLength: limits.sessionTokenCharsMax })),
    until: t.Optional(Timestamp),
    ticket: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
  }),
  output: t.Object({
    type: t.String(),
    text: nullable(t.String()),
    blob: nullable(t.String({ description: 'bytes in base64' })),
  }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, input, context) {
    await refuseStranger(input, context)
    const { session_id, name } = input
    const [session, content] = await Promise.all([read.raw(Session, session_id), read.raw(Content, `${session_id}/${name}`)])
    if (session === null || content === null) throw new Refusal('NOT_FOUND', `the session has no artifact ${name}`)
    const opened = content.sealed === null ? null : (JSON.parse(await context.notary.open(content.sealed)) as string)
    const isText = content.text !== null || (content.blob === null && opened !== null)
    return { session, content, text: isText ? (opened ?? content.text) : null, blob: isText ? null : (opened ?? content.blob) }
  },
  decide({ session, content, text, blob }, { name }) {
    // Access to data of class T2 or higher is recorded.
    const facts =
      session.data_classification === 'T1'
        ? []
        : [fact('artifact.fetched', [image(Session, session)], { detail: { name, by: session.caller_id } })]
    return { facts, output: { type: content.type, text, blob } }
  },
  example: {
    given: 'delivered',
    as: 'system',
    input: ({ session: { session_id, artifacts } }) => {
      const query = new URLSearchParams(String(artifacts[0].url).split('?')[1])
      return { session_id, name: 'log.txt', until: query.get('until') ?? 'then', ticket: query.get('ticket') ?? 'ticket' }
    },
  },
})

export const artifactOperations = [handOut]
