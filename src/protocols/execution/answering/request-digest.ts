// The input of a receipt's `request_digest`: the agent's question, as the agent itself has it. It has no imports, for browsers.

type Asked = {
  readonly id?: string
  readonly request_id?: string
  readonly action?: unknown
  readonly agent_id?: unknown
  readonly payload?: unknown
  readonly created_at?: unknown
  readonly expires_at?: unknown
  readonly asked_until?: unknown
}

/** The covered fields of a request, in the format of the operations or of the draft's own wire: both have the same digest. */
export function coveredBy(request: Asked): object {
  const { id, request_id = id, action, agent_id, payload, created_at, expires_at = null, asked_until = expires_at } = request
  return { action, agent_id, created_at, expires_at: asked_until, payload, request_id }
}
