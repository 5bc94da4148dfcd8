// The Express server that the HXP benchmark compares with: the calls of the draft (its fields, its headers, working timeouts,
// pages of other origins), kept in a map. No record, no signatures, no durability, one agent and one person.
import { createHash, randomUUID } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import express, { type NextFunction, type Request, type Response } from 'express'

type Stored = {
  request_id: string
  status: string
  action: string
  role: string
  priority: string
  timeout_seconds: number
  fallback: string
  agent_id: string
  metadata: object
  payload: { question?: string; options?: string[]; context?: string }
  created_at: string
  expires_at: string | null
  receipt?: object
}
const requests = new Map<string, Stored>()
const SECRET = 'a secret of the benchmark'

const app = express()
app.use((_request, response, next) => {
  response.setHeader('Access-Control-Allow-Origin', '*')
  next()
})
app.use(express.json({ limit: '256kb' }))
const only =
  (token: string) =>
  (request: Request, response: Response, next: NextFunction): void => {
    if (request.headers.authorization === `Bearer ${token}`) return next()
    response.status(401).json({ error: 'unauthorized', message: 'invalid key' })
  }

app.post('/hxp/v1/requests', only('agent'), (request, response) => {
  const {
    action,
    role = 'owner',
    priority = 'normal',
    timeout_seconds = 0,
    fallback = 'pause',
    agent_id,
    metadata = {},
    payload,
  } = request.body
  const isKnown =
    ['DECIDE', 'APPROVE', 'PROVIDE'].includes(action) &&
    ['owner', 'delegate', 'pool'].includes(role) &&
    ['low', 'normal', 'high', 'critical'].includes(priority) &&
    ['pause', 'fail', 'default'].includes(fallback)
  const { question, options, context = '' } = payload ?? {}
  const isAsked = typeof question === 'string' && Array.isArray(options) && options.length >= 2 && options.length <= 6
  if (!isKnown || !isAsked || typeof context !== 'string' || context.length > 500) {
    response.status(400).json({ error: 'invalid_request', message: 'the request is invalid' })
    return
  }
  const request_id = `hxp_${randomUUID()}`
  const created_at = new Date().toISOString()
  const expires_at = timeout_seconds > 0 ? new Date(Date.now() + timeout_seconds * 1_000).toISOString() : null
  requests.set(request_id, {
    request_id,
    status: 'pending',
    action,
    role,
    priority,
    timeout_seconds,
    fallback,
    agent_id,
    metadata,
    payload,
    created_at,
    expires_at,
  })
  if (timeout_seconds > 0) setTimeout(expire, timeout_seconds * 1_000, request_id)
  about(response.status(201), request_id, 'pending').json({
    request_id,
    status: 'pending',
    created_at,
    expires_at,
    poll_url: `/hxp/v1/requests/${request_id}`,
    ws_url: `ws://127.0.0.1/hxp/ws/${request_id}`,
  })
})

/** Agents that wait for an answer, by request. */
const waiting = new Map<string, () => void>()

app.get('/hxp/v1/requests/:id', only('agent'), async (request, response) => {
  const id = request.params['id'] as string
  if (request.query['wait'] !== undefined && requests.get(id)?.status === 'pending')
    await new Promise<void>((wake) => waiting.set(id, wake))
  const found = requests.get(id)
  if (found) about(response, found.request_id, found.status).json(found)
  else response.status(404).json({ error: 'not_found', message: 'there is no such request' })
})

app.post('/hxp/v1/requests/:id/resolve', only('human'), (request, response) => {
  const found = requests.get(request.params['id'] as string)
  if (!found || found.receipt) {
    response.status(found ? 409 : 404).json({ error: 'conflict', message: 'it cannot be resolved' })
    return
  }
  const { result, reason } = request.body
  if (!found.payload.options!.includes(result)) {
    response.status(422).json({ error: 'invalid_result', message: 'the result is none of the options' })
    return
  }
  const completed_at = new Date().toISOString()
  const receipt = {
    request_id: found.request_id,
    status: 'completed',
    result,
    reason,
    completed_by: 'user_alice',
    completed_at,
    duration_seconds: Math.floor((Date.now() - Date.parse(found.created_at)) / 1_000),
    evidence_hash: createHash('sha256').update(`${found.request_id}${result}${completed_at}${SECRET}`).digest('hex'),
  }
  requests.set(found.request_id, { ...found, status: 'completed', receipt })
  waiting.get(found.request_id)?.()
  waiting.delete(found.request_id)
  about(response, found.request_id, 'completed').json({ receipt })
})

const about = (response: Response, request_id: string, status: string): Response =>
  response.setHeader('HXP-Status', status).setHeader('HXP-Request-Id', request_id)

function expire(request_id: string): void {
  const found = requests.get(request_id)
  if (found?.status === 'pending') requests.set(request_id, { ...found, status: 'expired' })
}

const server = app.listen(0, '127.0.0.1', () => console.log(`express ready http://127.0.0.1:${(server.address() as AddressInfo).port}`))
