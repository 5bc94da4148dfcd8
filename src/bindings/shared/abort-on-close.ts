// A signal that aborts when the client disconnects before it got its response.
import type { ServerResponse } from 'node:http'

export function abortOnClose(response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  if (response.destroyed) gone.abort()
  else response.once('close', () => gone.abort())
  return gone.signal
}
