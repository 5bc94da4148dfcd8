// The body of a request: absent, whole in memory, or discarded.
import type { IncomingMessage } from 'node:http'
import { limits } from '#kernel/limits.ts'
import { withOthers } from './connections/turn-batching.ts'
import { transportFailure, type Failure } from './responses.ts'
import type { Route } from './router.ts'

/** Reads the body in the form that a route declares, or returns the refusal. */
export function withBody(
  { body, bytesMax = limits.bodyBytesMax }: Route,
  request: IncomingMessage,
  then: (body: Buffer | undefined) => void,
  refuse: (why: Failure) => void,
): void {
  if (body === undefined || body === 'own' || request.method === 'GET' || request.method === 'HEAD') return then(undefined)
  if (body === 'json' && hasBody(request) && !isJson(request.headers['content-type']))
    return refuse(transportFailure(415, 'INVALID_REQUEST', 'the body must be application/json'))
  whenRead(request, bytesMax, (bytes) => {
    if (bytes === null) refuse(transportFailure(413, 'TOO_LARGE', `a body has at most ${bytesMax} bytes`))
    else then(body === 'ignored' ? undefined : bytes)
  })
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['content-type'] !== undefined ||
  headers['transfer-encoding'] !== undefined ||
  (headers['content-length'] !== undefined && headers['content-length'] !== '0')

const isJson = (type: string | undefined): boolean => type === 'application/json' || /^ *application\/json *(;|$)/i.test(type ?? '')

/** The whole body, or undefined without one; null: the body exceeds its limit, and the rest is discarded. */
export function whenRead(request: IncomingMessage, bytesMax: number, then: (body: Buffer | undefined | null) => void): void {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
  if (length === undefined && encoding === undefined) return then(undefined)
  if (Number(length) > bytesMax) return then(null)
  let parts: Buffer | Buffer[] | undefined
  let size = 0
  request.on('data', (part: Buffer) => {
    if (size > bytesMax) return
    size += part.length
    if (size > bytesMax) then(null)
    else if (parts === undefined) parts = part
    else if (Array.isArray(parts)) parts.push(part)
    else parts = [parts, part]
  })
  request.on('end', () => {
    if (size > bytesMax) return
    const body = Array.isArray(parts) ? Buffer.concat(parts, size) : parts
    withOthers(() => then(body))
  })
}
