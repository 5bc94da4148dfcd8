// Settings of the link to other harnesses: the broker's address and certificates, this harness's id, and how queues are handled.
import type { Named } from './config-error.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { isHarnessId } from '#protocols/harness/envelope.ts'

export type HarnessSettings = {
  readonly url: string
  readonly id: string
  readonly checksSenders: boolean
  readonly topology: 'declare' | 'check'
  readonly queues: 'classic' | 'quorum'
  readonly prefetch: number
  readonly gapMs: number
  readonly replyMs: number
  /** Files: the trusted authority, and our own certificate and key. */
  readonly ca: string | null
  readonly cert: string | null
  readonly key: string | null
}

type Flag = 'amqp' | `harness-${'id' | 'user-id' | 'topology' | 'queues' | 'prefetch' | 'gap' | 'reply'}` | `amqp-${'ca' | 'cert' | 'key'}`
type Fail = (message: string) => Error

/** null: no broker is configured. */
export function harnessSettings(of: (flag: Flag) => Named, wrong: Fail): HarnessSettings | null {
  const { value: url, name } = of('amqp')
  if (url === '') return null
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed === null || !['amqp:', 'amqps:'].includes(parsed.protocol))
    throw wrong(`${name} must be a URL such as amqp://user:password@host/hcp`)
  const checksSenders = oneOf(of('harness-user-id'), ['required', 'off'], wrong) === 'required'
  const user = decodeURIComponent(parsed.username)
  const named = of('harness-id')
  const id = named.value === '' ? user : named.value
  if (!isHarnessId(id))
    throw wrong(
      `${named.value === '' ? `the user of ${name}` : named.name} is ${JSON.stringify(id)}: a harness id has small letters, digits and dashes only, at most 63${named.value === '' ? '; name one with --harness-id' : ''}`,
    )
  if (checksSenders && id !== user)
    throw wrong(
      `${named.name} is ${id}, but the broker knows this harness as ${JSON.stringify(user)}: use the same, or set COUNTERSIGN_HARNESS_USER_ID=off`,
    )
  const fileOf = (flag: Flag): string | null => of(flag).value || null
  const [ca, cert, key] = [fileOf('amqp-ca'), fileOf('amqp-cert'), fileOf('amqp-key')]
  if ((cert === null) !== (key === null)) throw wrong(`${of('amqp-cert').name} and ${of('amqp-key').name} go together`)
  return {
    url,
    id,
    checksSenders,
    topology: oneOf(of('harness-topology'), ['declare', 'check'], wrong),
    queues: oneOf(of('harness-queues'), ['classic', 'quorum'], wrong),
    prefetch: prefetchOf(of('harness-prefetch'), wrong),
    gapMs: timeOf(of('harness-gap'), wrong),
    replyMs: timeOf(of('harness-reply'), wrong),
    ca,
    cert,
    key,
  }
}

function oneOf<const W extends string>({ value, name }: Named, allowed: readonly W[], wrong: Fail): W {
  const found = allowed.find((word) => word === value)
  if (found === undefined) throw wrong(`${name} must be ${allowed.join(' or ')}, not ${JSON.stringify(value)}`)
  return found
}

function prefetchOf({ value, name }: Named, wrong: Fail): number {
  const count = /^\d{1,3}$/.test(value) ? Number(value) : 0
  if (!(count >= 1 && count <= 100)) throw wrong(`${name} must be a number from 1 to 100, not ${JSON.stringify(value)}`)
  return count
}

function timeOf({ value, name }: Named, wrong: Fail): number {
  try {
    return durationMs(value, 'INVALID_REQUEST', name)
  } catch (error) {
    if (error instanceof Refusal) throw wrong(error.message)
    throw error
  }
}

const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/
/** Others cannot read along: TLS, or a broker on this machine. */
export function isPrivateLink(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'amqps:' || LOOPBACK.test(hostname)
}
