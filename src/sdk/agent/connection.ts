// The connection of an agent: each change is reported in one line, so that people who start an agent see its state.
import { messageOf } from '#kernel/codec/cut-text.ts'
import { persistently } from '../transport/retry.ts'
import type { Client } from '../client.ts'
import { CountersignError } from '../errors.ts'

export type Connection = {
  /** Logs the owner of the key, and refuses a key of another agent. */
  open(signal: AbortSignal): Promise<void>
  /** One attempt of a long call. If the server was away, a short call checks first whether it is back. */
  attempt<T>(call: () => Promise<T>): Promise<T>
}

export function createConnection(agent_id: string, client: Client, where: string, log: (line: string) => void): Connection {
  let isAway = false

  async function watchCall<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call()
    } catch (error) {
      if (!isAway && error instanceof CountersignError && error.retryable) {
        isAway = true
        const reason = error.message.replace(/^the server could not be reached: /, '')
        log(`${agent_id} cannot connect to ${where}: ${reason}; trying again`)
      }
      throw error
    }
  }

  return {
    async open(signal) {
      const { id } = await persistently(signal, () => watchCall(() => client.identity.me.get({}, { signal })))
      if (id !== agent_id) {
        const message = `this key is ${id}'s, not ${agent_id}'s`
        throw new CountersignError({ code: 'UNAUTHORIZED', status: 403, message, retryable: false })
      }
      isAway = false
      log(`${agent_id} takes runs from ${where}`)
    },
    async attempt(call) {
      if (isAway) {
        await client.identity.me.get({})
        isAway = false
        log(`${agent_id} is connected to ${where} again`)
      }
      return watchCall(call)
    },
  }
}

/** Why serving ended, in one line. */
export function endingOf(agent_id: string, where: string, error: unknown): string {
  if (!(error instanceof CountersignError)) return `${agent_id} stopped: ${messageOf(error)}`
  if (error.code === 'UNAUTHENTICATED')
    return `${where} refuses the key of ${agent_id}: it is not valid there; \`countersign key issue ${agent_id}\` issues another`
  return `${agent_id} stopped: ${error.message}`
}
