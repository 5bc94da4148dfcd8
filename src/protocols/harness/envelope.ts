// The message envelope of HCP 1.0 (L1) and its bytes: what is written is canonical, so the same message has the same bytes each time.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'

export const HCP_VERSION = '1.0'
export const commandTypes = ['task_submit', 'abort'] as const
export const answerTypes = ['task_accepted', 'task_rejected', 'event', 'task_completed', 'task_failed'] as const
export type CommandType = (typeof commandTypes)[number]
export type AnswerType = (typeof answerTypes)[number]
export type MessageType = CommandType | AnswerType

export const COMMANDS = 'hcp.commands'
export const EVENTS = 'hcp.events'
export const DEAD = 'hcp.dead'

export type Payload = Record<string, unknown>
export type Envelope = {
  readonly hcp_version: string
  readonly message_id: string
  readonly timestamp: string
  readonly session_id: string | null
  readonly type: MessageType
  readonly payload: Payload
}

const HARNESS_ID = /^[a-z0-9][a-z0-9-]{0,62}$/
/** No dots, stars or capitals: an id is a word of a routing key (C5). */
export const isHarnessId = (text: unknown): text is string => typeof text === 'string' && HARNESS_ID.test(text)
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
export const isUuid = (text: unknown): text is string => typeof text === 'string' && UUID.test(text)

/** A UUID v4 from 256 random bits as text. */
export function uuidOf(secret: string): string {
  const bytes = Buffer.from(secret, 'base64url').subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

export const commandKey = (callee_id: string): string => callee_id
export const eventKey = (caller_id: string, session_id: string | null, type: string): string =>
  `${caller_id}.${session_id ?? 'none'}.${type}`
export const commandQueue = (id: string): string => `hcp.cmd.${id}`
export const eventQueue = (id: string): string => `hcp.evt.${id}`
export const deadQueue = (id: string): string => `hcp.dead.${id}`

export const textOf = (envelope: Envelope): string => canonical(envelope)
/** Two payloads are equal if their canonical texts are. */
export const digestOf = (payload: Payload): string => sha256(canonical(payload))

/** Refuses a text that does not fit into a message, in the operation that takes it. */
export function refuseTooLarge(envelope: Envelope): void {
  const bytes = Buffer.byteLength(textOf(envelope))
  if (bytes > limits.harnessMessageBytesMax)
    throw new Refusal(
      'TOO_LARGE',
      `the message would be ${bytes} bytes, and at most ${limits.harnessMessageBytesMax} can be sent: put large data into an artifact`,
      { bytes },
    )
}
