// Steps of a handler that happen once, however often it is restarted: each has a name from its kind and its place or key. The
// name is the idempotency key of the call and the key of the memo with its outcome.
import type { RunState } from './run-state.ts'

export type Steps = {
  /** The stored outcome of the step; the first time, runs `take` and stores its outcome. */
  once<T>(kind: string, key: string | undefined, take: (idempotencyKey: string) => Promise<T>): Promise<T>
  /** The name of a step whose outcome is not needed. */
  keyOf(kind: string, key: string | undefined): string
}

const KEY_CHARS_MAX = 150

export function createSteps(job: RunState): Steps {
  const { client, id: run_id } = job
  const places = new Map<string, number>()

  function nameOf(kind: string, key: string | undefined): string {
    if (key !== undefined) {
      if (key === '' || encodeURIComponent(key).length > KEY_CHARS_MAX)
        throw new TypeError(`a key has 1 to ${KEY_CHARS_MAX} characters, as they stand in an address`)
      return `${kind}:${key}`
    }
    const place = (places.get(kind) ?? 0) + 1
    places.set(kind, place)
    return `${kind}#${place}`
  }
  const idempotent = (name: string): string => `${run_id}/${encodeURIComponent(name)}`

  return {
    keyOf: (kind, key) => idempotent(nameOf(kind, key)),
    async once<T>(kind: string, key: string | undefined, take: (idempotencyKey: string) => Promise<T>): Promise<T> {
      const name = nameOf(kind, key)
      // Before the first handler nothing can be stored.
      if (!job.isFirst && !job.isDelivered) {
        const { found, value } = await job.effect(() => client.delegation.memo.get({ run_id, key: name }))
        if (found) return value as T
      }
      const outcome = await take(idempotent(name))
      if (job.isDelivered) return outcome
      const step = { run_id, key: name, value: outcome }
      // Repeated puts change nothing: the first value stays.
      const { value } = await job.effect(() => client.delegation.memo.put({ ...step, attempt: job.attempt }, { idempotencyKey: null }))
      return value as T
    },
  }
}
