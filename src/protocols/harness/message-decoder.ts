// Reading a message from the broker (HCP 1.0, L1): bytes and properties in, an envelope or the reason why it can never be taken out. The
// checks run in the order of the reasons (C22).
import { decode, isObject } from '#kernel/codec/strict-json.ts'
import { parseTimestamp } from '#kernel/codec/timestamps.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { answerTypes, commandTypes, HCP_VERSION, isUuid, type Envelope, type MessageType } from './envelope.ts'

export const deadReasons = [
  'too_large',
  'not_json',
  'invalid_message',
  'unsupported_version',
  'unknown_type',
  'message_id_reused',
  'unauthorized',
  'unknown_session',
  'foreign_session',
  'invalid_token',
  'forged',
  'failed',
  'unroutable',
] as const
export type DeadReason = (typeof deadReasons)[number]
export type Dead = {
  readonly reason: DeadReason
  readonly detail: string
  readonly message_id: string | null
  readonly type: string | null
}

export type Exchange = 'commands' | 'events'
export type Properties = {
  readonly message_id?: string | undefined
  readonly correlation_id?: string | undefined
  readonly type?: string | undefined
  /** Whole seconds since the epoch. */
  readonly timestamp?: number | undefined
  readonly content_type?: string | undefined
  readonly content_encoding?: string | undefined
}

/** A message on its way to the broker. */
export type Parcel = {
  readonly exchange: string
  readonly key: string
  readonly properties: Properties
  readonly headers?: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** No queue takes a message: the broker confirms it as well, after it has returned it. */
export class Unroutable extends Error {
  override name = 'Unroutable'
}

class Unfit extends Error {
  readonly reason: DeadReason
  constructor(reason: DeadReason, detail: string) {
    super(detail)
    this.reason = reason
  }
}
const unfit = (reason: DeadReason, detail: string): never => {
  throw new Unfit(reason, detail)
}

export function decodeMessage(exchange: Exchange, bytes: Uint8Array, properties: Properties): { envelope: Envelope } | { dead: Dead } {
  let decoded: unknown = null
  try {
    if (bytes.length > limits.harnessMessageBytesMax)
      unfit('too_large', `the message has ${bytes.length} bytes, and at most ${limits.harnessMessageBytesMax} are taken`)
    decoded = decodedFrom(bytes)
    return { envelope: checkEnvelope(exchange, decoded, properties) }
  } catch (error) {
    if (!(error instanceof Unfit)) throw error
    return { dead: { reason: error.reason, detail: error.message, ...readablePart(decoded, properties) } }
  }
}

/** The readable part of a rejected message, so that its sender gets an answer (C21). */
function readablePart(decoded: unknown, properties: Properties): Pick<Dead, 'message_id' | 'type'> {
  const { message_id, type } = (typeof decoded === 'object' && decoded !== null ? decoded : {}) as Partial<Envelope>
  const id = isUuid(message_id) ? message_id : (properties.message_id ?? null)
  const kind = typeof type === 'string' ? type : (properties.type ?? null)
  return { message_id: isUuid(id) ? id : null, type: typeof kind === 'string' ? kind.slice(0, limits.labelCharsMax) : null }
}

function decodedFrom(bytes: Uint8Array): unknown {
  try {
    return decode(bytes)
  } catch (error) {
    if (error instanceof Refusal) return unfit('not_json', error.message)
    throw error
  }
}

function checkEnvelope(exchange: Exchange, decoded: unknown, properties: Properties): Envelope {
  if (!isObject(decoded)) return unfit('invalid_message', 'the message is not a JSON object')
  const { hcp_version, message_id, timestamp, session_id, type, payload } = decoded
  if (typeof hcp_version !== 'string' || !/^\d{1,4}\.\d{1,4}$/.test(hcp_version))
    unfit('invalid_message', 'hcp_version must be MAJOR.MINOR')
  if (!isUuid(message_id)) return unfit('invalid_message', 'message_id must be a UUID v4')
  if (typeof timestamp !== 'string' || parseTimestamp(timestamp) === null)
    return unfit('invalid_message', 'timestamp must be an ISO 8601 time')
  if (typeof type !== 'string') return unfit('invalid_message', 'type must be a text')
  const types: readonly string[] = exchange === 'commands' ? commandTypes : answerTypes
  // L3's example of task_rejected shows null; we send the id and take both (C19). An unknown type says nothing about its session.
  const isFree = type === 'task_submit' || type === 'task_rejected' || !types.includes(type)
  if (type === 'task_submit' && isUuid(session_id))
    unfit('invalid_message', 'session_id must be null in task_submit: the callee makes the session')
  if (!(isUuid(session_id) || ((session_id === null || session_id === undefined || session_id === 'none') && isFree)))
    unfit('invalid_message', 'session_id must be a UUID v4, and null only in task_submit')
  if (!isObject(payload)) return unfit('invalid_message', 'payload must be an object')
  refuseOther(properties, { message_id, timestamp, type, session_id: isUuid(session_id) ? session_id : null })
  if ((hcp_version as string).split('.')[0] !== HCP_VERSION.split('.')[0])
    unfit('unsupported_version', `hcp_version ${hcp_version as string} has another major number than ${HCP_VERSION}`)
  if (!types.includes(type)) unfit('unknown_type', `${type.slice(0, 80)} is not a type of this queue`)
  return {
    hcp_version: hcp_version as string,
    message_id,
    timestamp,
    session_id: isUuid(session_id) ? session_id : null,
    type: type as MessageType,
    payload,
  }
}

type Mirrored = { readonly message_id: string; readonly timestamp: string; readonly type: string; readonly session_id: string | null }

/** Properties mirror the envelope: a different value is a forgery or a fault (C20). */
function refuseOther(properties: Properties, { message_id, timestamp, type, session_id }: Mirrored): void {
  if (properties.content_type?.toLowerCase() !== 'application/json') unfit('invalid_message', 'content_type must be application/json')
  if (properties.content_encoding?.toLowerCase() !== 'utf-8') unfit('invalid_message', 'content_encoding must be utf-8')
  const other = (name: string): never => unfit('invalid_message', `the property ${name} says something else than the envelope`)
  if (properties.message_id !== undefined && properties.message_id !== message_id) other('message_id')
  if (properties.type !== undefined && properties.type !== type) other('type')
  const correlation = properties.correlation_id
  if (correlation !== undefined && correlation !== (session_id ?? '') && !(session_id === null && correlation === 'none'))
    other('correlation_id')
  if (properties.timestamp !== undefined && properties.timestamp !== Math.floor(parseTimestamp(timestamp)! / 1_000)) other('timestamp')
}

/** The properties of a message that this server sends. */
export function propertiesOf({ message_id, timestamp, type, session_id }: Envelope): Properties {
  return {
    message_id,
    type,
    timestamp: Math.floor(Date.parse(timestamp) / 1_000),
    content_type: 'application/json',
    content_encoding: 'utf-8',
    ...(session_id === null ? {} : { correlation_id: session_id }),
  }
}
