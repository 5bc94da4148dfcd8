// One call of A2A: an immediate answer, an answer when the task has ended, or events until then.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BridgeHost } from '#bindings/http/mount.ts'
import type { Identified } from '#bindings/shared/credentials.ts'
import { limits } from '#kernel/limits.ts'
import { A2aError, restErrorOf, rpcErrorOf, type Id } from './failures.ts'
import { followTask, type Following, type Watching } from './follow.ts'
import { cancelTask, getTask, listTasks, sendMessage, type Entrance, type Sent } from './methods.ts'
import { addPush, deletePush, getPush, listPushes } from './push-configs.ts'
import { JSON_RPC, type Call, type Wire } from './requests.ts'
import { findWork, isEnded, isInterrupted, viewOf, type A2aTask, type Door } from './task-view.ts'
import { requestIn, requests } from './wire.ts'

export type Exchange = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly wire: Wire
  readonly id: Id
  readonly host: BridgeHost
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
  readonly identified: Identified
  headersWith(headers: readonly string[]): string[]
  errorOf(error: unknown): A2aError
}

/** The result; null: it is sent as events. */
export async function serveMethod(door: Entrance, { method, params }: Call, exchange: Exchange): Promise<object | null> {
  switch (method) {
    case 'SendMessage': {
      const sent = await sendMessage(door, params)
      return { task: sent.waits ? await waitFor(door, sent, exchange) : await answerTo(door, sent) }
    }
    case 'SendStreamingMessage': {
      const { id } = await sendMessage(door, params)
      return streamTask(door, id, exchange, false)
    }
    case 'SubscribeToTask': {
      const { id } = requestIn(requests.SubscribeToTask, params)
      const { status } = await viewOf(door, await findWork(door, id), { historyLength: 0, artifacts: false })
      if (isEnded(status.state)) throw new A2aError('UNSUPPORTED_OPERATION', 'the task has ended: get it instead', { taskId: id })
      return streamTask(door, id, exchange, true)
    }
    case 'GetTask':
      return getTask(door, params)
    case 'ListTasks':
      return listTasks(door, params)
    case 'CancelTask':
      return cancelTask(door, params)
    case 'GetExtendedAgentCard':
      throw new A2aError('EXTENDED_AGENT_CARD_NOT_CONFIGURED', 'the public card is all there is')
    case 'CreateTaskPushNotificationConfig':
      return addPush(door, params)
    case 'GetTaskPushNotificationConfig':
      return getPush(door, params)
    case 'ListTaskPushNotificationConfigs':
      return listPushes(door, params)
    case 'DeleteTaskPushNotificationConfig':
      return deletePush(door, params)
  }
}

const answerTo = async (door: Door, { id, historyLength }: Sent): Promise<A2aTask> =>
  viewOf(door, await findWork(door, id), { historyLength, artifacts: true })

const watchingOf = ({ host, identified, errorOf }: Exchange): Watching => ({ hub: host.hub, identified, errorOf })

/** Until the task has ended or is interrupted; after the longest wait, returns the current task. */
async function waitFor(door: Door, sent: Sent, exchange: Exchange): Promise<A2aTask> {
  const now = await answerTo(door, sent)
  if (isEnded(now.status.state) || isInterrupted(now.status.state)) return now
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const to: Following = {
    first: () => undefined,
    update: () => undefined,
    beat: () => undefined,
    end: (error) => (error === null ? resolve() : reject(error)),
  }
  const timer = setTimeout(resolve, limits.a2aWaitMs)
  exchange.signal.addEventListener('abort', () => resolve())
  const leave = await followTask(door, sent.id, watchingOf(exchange), to)
  try {
    await promise
  } finally {
    clearTimeout(timer)
    leave()
  }
  return answerTo(door, sent)
}

async function streamTask(door: Door, id: string, exchange: Exchange, isPatient: boolean): Promise<null> {
  const { response, wire, headersWith, host, request, signal } = exchange
  const { actor } = door
  const frame = (result: object): string =>
    `data: ${JSON.stringify(wire === JSON_RPC ? { jsonrpc: '2.0', id: exchange.id, result } : result)}\n\n`
  function write(text: string): void {
    if (response.destroyed) return
    response.write(text, () => host.unsent.release(request.socket, text.length))
    if (response.writableLength > 0) host.unsent.hold(request.socket, actor.id, text.length)
    if (response.writableLength > limits.streamUnsentBytesMax) response.destroy()
  }
  const failure = (error: A2aError): string => JSON.stringify(wire === JSON_RPC ? rpcErrorOf(exchange.id, error) : restErrorOf(error))
  const to: Following = {
    first(task) {
      response.writeHead(200, headersWith(['content-type', 'text/event-stream', 'x-accel-buffering', 'no', 'cache-control', 'no-store']))
      write(frame({ task }))
    },
    update: (updates) => updates.forEach((update) => write(frame(update))),
    beat: () => write(': beat\n\n'),
    end(error) {
      if (error !== null && !response.headersSent) throw error
      if (error !== null) write(`data: ${failure(error)}\n\n`)
      response.end()
    },
  }
  response.on('error', () => undefined)
  const leave = await followTask(door, id, watchingOf(exchange), to, isPatient)
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave)
  return null
}
