// The notice that a call waits for the server and not for a person: a wrong address must not look like a slow answer.
import { CountersignError } from './errors.ts'

/** Called for each failed attempt that will be retried. */
export type OnRetry = (error: CountersignError) => void

export type RetryNotice = {
  /** Runs one attempt, and notifies the listener if it fails with a retryable error. */
  watch<T>(attempt: () => Promise<T>): Promise<T>
}

export type RetryListeners = { readonly onRetry?: OnRetry | undefined; readonly onReconnect?: (() => void) | undefined }

/** By default prints one line to stderr when the server becomes unreachable, and one when it is back. */
export function retryNotice({ onRetry, onReconnect }: RetryListeners, where = 'the server'): RetryNotice {
  let isAway = false
  const tell = (error: CountersignError): void => {
    if (onRetry) return onRetry(error)
    if (!isAway) console.error(`countersign: cannot reach ${where}: ${reasonOf(error)}; trying again`)
  }
  const tellBack = (): void => {
    onReconnect?.()
    if (!onRetry) console.error(`countersign: connected to ${where} again`)
  }
  return {
    async watch(attempt) {
      try {
        const answer = await attempt()
        if (isAway) tellBack()
        isAway = false
        return answer
      } catch (error) {
        if (error instanceof CountersignError && error.retryable) {
          tell(error)
          isAway = true
        }
        throw error
      }
    },
  }
}

export const reasonOf = ({ message }: CountersignError): string => message.replace(/^the server could not be reached: /, '')
