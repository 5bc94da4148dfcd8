// A remote agent as its card describes it: its methods over JSON-RPC or HTTP+JSON (A2A 1.0), with its answers bounded and checked.
import { decode, isObject } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { exchange, type PostOptions } from '#workers/webhooks/post.ts'
import { cardKeyOf } from './card-key.ts'
import { RemoteError } from './remote-error.ts'

type Fields = Readonly<Record<string, unknown>>
export type RemoteStatus = { readonly state: string; readonly timestamp: string; readonly text: string }
export type RemotePart = { readonly text?: string; readonly raw?: string; readonly url?: string; readonly data?: unknown } & {
  readonly filename?: string
  readonly mediaType?: string
}
export type RemoteArtifact = { readonly artifactId: string; readonly name: string; readonly parts: readonly RemotePart[] }
/** `isMessage`: the agent answered with a message only, so there is no task to poll. */
export type RemoteTask = {
  readonly id: string
  readonly status: RemoteStatus
  readonly artifacts: readonly RemoteArtifact[]
  readonly isMessage?: true
}
export type Words = { readonly messageId: string; readonly text: string; readonly taskId?: string; readonly contextId?: string }

export type RemoteAgent = {
  /** The key of its card, to compare with the first key that was seen. */
  readonly cardKey: string
  /** Returns a task. An agent can also answer with a message, which is then the whole answer. */
  send(words: Words): Promise<RemoteTask>
  get(id: string): Promise<RemoteTask>
  /** The task of a message with this context, if the agent can list tasks. */
  find(contextId: string): Promise<RemoteTask | null>
  cancel(id: string): Promise<void>
}
export type RemotePlace = { readonly endpoint: string; readonly credential?: string | undefined }

const CARD = '/.well-known/agent-card.json'
const VERSION = '1.0'

export async function openRemote({ endpoint, credential }: RemotePlace, options: PostOptions): Promise<RemoteAgent> {
  const callOptions = { ...options, timeoutMs: limits.a2aCallMsMax }
  const read = async (url: string): Promise<unknown> => {
    const answer = await exchange(
      url,
      { method: 'GET', headers: { accept: 'application/json' }, answerBytesMax: limits.bodyBytesMax },
      callOptions,
    )
    if (answer.error !== null)
      throw new RemoteError(`its agent card: ${answer.error}`, { isFatal: answer.isForbidden || isForGood(answer.status) })
    return jsonIn(answer, 'its agent card')
  }
  const { origin } = new URL(endpoint)
  const card = await read(endpoint.endsWith('.json') ? endpoint : `${endpoint.replace(/\/$/, '')}${CARD}`)
  if (!isObject(card)) throw new RemoteError('its agent card is no object', { isFatal: true })
  const { url, isRpc } = wayIn(card, origin)
  const headers = {
    accept: 'application/json, application/a2a+json',
    'a2a-version': VERSION,
    'user-agent': 'countersign',
    ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
  }
  let count = 0
  async function call(method: string, params: Fields, rest: { verb: 'GET' | 'POST'; path: string }): Promise<Fields> {
    const body = isRpc ? { jsonrpc: '2.0', id: ++count, method, params } : params
    const verb = isRpc ? 'POST' : rest.verb
    const type = isRpc ? 'application/json' : 'application/a2a+json'
    const sending = {
      method: verb,
      headers: { ...headers, ...(verb === 'POST' ? { 'content-type': type } : {}) },
      ...(verb === 'POST' ? { body: JSON.stringify(body) } : {}),
      answerBytesMax: limits.a2aAnswerBytesMax,
    }
    const answer = await exchange(isRpc ? url : `${url}${rest.path}`, sending, callOptions)
    if (answer.status === null) throw new RemoteError(answer.error!, { isFatal: answer.isForbidden })
    const found = answer.error === null || answer.text.startsWith('{') ? jsonIn(answer, 'its answer') : null
    const failure = isObject(found) && isObject(found['error']) ? found['error'] : null
    if (failure !== null || answer.error !== null) throw failureIn(failure, answer.status, answer.error)
    const result = isRpc && isObject(found) ? found['result'] : found
    if (!isObject(result)) throw new RemoteError('its answer to a call is no object', { isFatal: true })
    return result
  }
  return {
    cardKey: await cardKeyOf(card, origin, read),
    async send({ messageId, text, taskId, contextId }) {
      const message = {
        messageId,
        role: 'ROLE_USER',
        parts: [{ text }],
        ...(taskId === undefined ? {} : { taskId }),
        ...(contextId === undefined ? {} : { contextId }),
      }
      const params = { message, configuration: { returnImmediately: true } }
      const result = await call('SendMessage', params, { verb: 'POST', path: '/message:send' })
      if (isObject(result['task'])) return taskIn(result['task'])
      if (!isObject(result['message'])) throw new RemoteError('its answer to a message is neither a task nor a message', { isFatal: true })
      const status = { state: 'TASK_STATE_COMPLETED', timestamp: '', text: textOf(result['message']) }
      return { id: '', status, artifacts: [], isMessage: true }
    },
    get: async (id) => taskIn(await call('GetTask', { id, historyLength: 0 }, { verb: 'GET', path: `/tasks/${encodeURIComponent(id)}` })),
    async find(contextId) {
      const query = new URLSearchParams({ contextId, pageSize: '1' })
      try {
        const { tasks } = await call('ListTasks', { contextId, pageSize: 1 }, { verb: 'GET', path: `/tasks?${query.toString()}` })
        const [first] = Array.isArray(tasks) ? (tasks as readonly unknown[]) : []
        return isObject(first) ? taskIn(first) : null
      } catch (error) {
        // Not every agent can list.
        if (error instanceof RemoteError && error.isFatal) return null
        throw error
      }
    },
    async cancel(id) {
      try {
        await call('CancelTask', { id }, { verb: 'POST', path: `/tasks/${encodeURIComponent(id)}:cancel` })
      } catch (error) {
        // The task has ended or no longer exists.
        if (!(error instanceof RemoteError && error.isFatal)) throw error
      }
    },
  }
}

/** The first offered interface that this client speaks. The credential goes only to the server that the owner named. */
function wayIn(card: Fields, origin: string): { readonly url: string; readonly isRpc: boolean } {
  const { supportedInterfaces } = card
  const offered = Array.isArray(supportedInterfaces) ? supportedInterfaces.filter(isObject) : []
  const way = offered.find(
    ({ protocolBinding, protocolVersion, url }) =>
      (protocolBinding === 'JSONRPC' || protocolBinding === 'HTTP+JSON') && protocolVersion === VERSION && typeof url === 'string',
  )
  if (way === undefined) throw new RemoteError(`its agent card offers no A2A ${VERSION} over JSONRPC or HTTP+JSON`, { isFatal: true })
  const url = String(way['url']).replace(/\/$/, '')
  if (URL.parse(url)?.origin !== origin)
    throw new RemoteError('its agent card sends calls to another server than the one of its endpoint', { isFatal: true })
  return { url, isRpc: way['protocolBinding'] === 'JSONRPC' }
}

/** Rate limits, timeouts and server errors can be temporary. */
const isForGood = (status: number | null): boolean => status !== null && status >= 400 && status < 500 && status !== 429 && status !== 408

function jsonIn({ text, isCut }: { readonly text: string; readonly isCut: boolean }, what: string): unknown {
  if (isCut) throw new RemoteError(`${what} has more than ${limits.a2aAnswerBytesMax} bytes`, { isFatal: true })
  try {
    return decode(Buffer.from(text))
  } catch {
    throw new RemoteError(`${what} is no JSON`, { isFatal: true })
  }
}

function failureIn(failure: Fields | null, status: number, error: string | null): RemoteError {
  const details: unknown = failure?.['data'] ?? failure?.['details']
  const info = Array.isArray(details) ? details.filter(isObject).find(({ reason }) => typeof reason === 'string') : undefined
  const reason = typeof info?.['reason'] === 'string' ? info['reason'].slice(0, 80) : null
  const message = typeof failure?.['message'] === 'string' ? failure['message'].slice(0, limits.textCharsMax / 2) : error
  const code = failure?.['code']
  // JSON-RPC reports failures with status 200. An internal error can be temporary.
  const isFatal = status === 200 ? code !== -32_603 && reason !== 'RESOURCE_EXHAUSTED' && reason !== 'UNAVAILABLE' : isForGood(status)
  return new RemoteError(`the remote agent refused: ${message ?? 'without a reason'}`, { isFatal, reason })
}

// --- Its documents -------------------------------------------------------------------------------------------------------------

function taskIn(task: Fields): RemoteTask {
  const { id, status, artifacts } = task
  if (typeof id !== 'string' || id === '' || id.length > limits.a2aIdCharsMax || !isObject(status) || typeof status['state'] !== 'string')
    throw new RemoteError('its task has no id or no state', { isFatal: true })
  const { state, timestamp, message } = status
  return {
    id,
    status: { state, timestamp: typeof timestamp === 'string' ? timestamp : '', text: isObject(message) ? textOf(message) : '' },
    artifacts: (Array.isArray(artifacts) ? artifacts.filter(isObject) : []).slice(0, limits.a2aPartsMax).map(artifactIn),
  }
}
const partsIn = (value: unknown): RemotePart[] =>
  (Array.isArray(value) ? value.filter(isObject) : [])
    .slice(0, limits.a2aPartsMax)
    .map(({ text, raw, url, data, filename, mediaType }) => ({
      ...(typeof text === 'string' ? { text } : {}),
      ...(typeof raw === 'string' ? { raw } : {}),
      ...(typeof url === 'string' ? { url } : {}),
      ...(data === undefined || data === null ? {} : { data }),
      ...(typeof filename === 'string' ? { filename: filename.slice(0, limits.nameCharsMax) } : {}),
      ...(typeof mediaType === 'string' ? { mediaType: mediaType.slice(0, 200) } : {}),
    }))
const artifactIn = ({ artifactId, name, parts }: Fields, i: number): RemoteArtifact => ({
  artifactId: typeof artifactId === 'string' ? artifactId.slice(0, limits.a2aIdCharsMax) : String(i),
  name: typeof name === 'string' ? name.slice(0, limits.labelCharsMax) : '',
  parts: partsIn(parts),
})
/** The text of a message: its texts, data as JSON, and files by their address. */
export const sayingOf = (parts: readonly RemotePart[]): string =>
  parts
    .map(({ text, data, url }) => text ?? (data === undefined ? (url ?? '') : JSON.stringify(data)))
    .filter((part) => part !== '')
    .join('\n\n')
const textOf = ({ parts }: Fields): string => sayingOf(partsIn(parts))
