// The link to a server: lines of the audit go there in their order, byte for byte, at least once, however long it was out of reach. Nothing is
// ever dropped: the record has the unsent lines.
import { backoffMs } from '#kernel/codec/backoff.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import type { Tail } from '#kernel/log/tail.ts'
import { limits } from '#kernel/limits.ts'
import type { Call } from '#protocols/index.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'
import { GENESIS, recordedLines, type AuditHead } from '../audit/audit-file.ts'

/** A server and the key of an agent there. A failure has a `code`, and `details` if the server gave some. */
export type Uplink = {
  readonly call: Call<{ idempotencyKey?: string | null; signal?: AbortSignal }>
}
export type LinkOptions = {
  readonly device_id: string
  readonly store: Store
  readonly tail: Tail
  readonly clock: Clock
  readonly log: WorkerLog
  /** Null: there is no link at present. Asked before each attempt, so that a new one is taken up. */
  uplink(): Uplink | null
}

const LOOK_MS = 500
const BACKOFF_MS_MAX = 10_000

type Failed = { readonly code?: unknown; readonly details?: { readonly expected_seq?: unknown }; readonly message?: string }

export function runLink({ device_id, store, tail, clock, log, uplink }: LinkOptions): Worker {
  const stopping = new AbortController()
  let waker = new AbortController()
  const wake = (): void => waker.abort('woken')
  const leave = tail.hear(wake)
  /** The last line that the server is known to have. */
  let sent: AuditHead = GENESIS
  let last: Uplink | null = null
  let failures = 0

  async function portion(): Promise<{ readonly lines: string[]; readonly end: AuditHead }> {
    const lines: string[] = []
    let end = sent
    for await (const { line, seq, hash } of recordedLines(store, device_id, sent)) {
      lines.push(line)
      end = { seq, hash }
      if (lines.length === limits.deviceLinesMax) break
    }
    return { lines, end }
  }

  /** Moves to the place before the line that the server expects. Only the record has its hash. */
  async function goTo(expected: number): Promise<void> {
    sent = GENESIS
    if (expected <= 1) return
    for await (const { seq, hash } of recordedLines(store, device_id, GENESIS)) {
      sent = { seq, hash }
      if (seq === expected - 1) return
    }
  }

  /** Whether there was something to send. */
  async function send(to: Uplink): Promise<boolean> {
    const { lines, end } = await portion()
    if (lines.length === 0) return false
    try {
      // The same lines sent twice change nothing, so the call needs no key.
      await to.call('hardware/event.record', { device_id, lines }, { idempotencyKey: null, signal: stopping.signal })
      sent = end
    } catch (error) {
      const { code, details } = error as Failed
      if (code !== 'OUT_OF_ORDER' || !Number.isSafeInteger(details?.expected_seq)) throw error
      const expected = Number(details!.expected_seq)
      // The server has other lines of this device: no line from here could follow them.
      if (expected === sent.seq + 1) throw error
      await goTo(expected)
    }
    return true
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      waker = new AbortController()
      const to = uplink()
      if (to !== last) {
        last = to
        failures = 0
        sent = GENESIS
      }
      let pauseMs = LOOK_MS
      try {
        if (to && (await send(to))) pauseMs = 0
        failures = 0
      } catch (error) {
        if (stopping.signal.aborted) return
        failures++
        pauseMs = backoffMs(250, BACKOFF_MS_MAX, failures)
        const { code, message } = error as Failed
        if (failures === 1) log.warn({ code, error: message }, 'the server does not take the audit; trying again')
      }
      // Without a link, or after a failure, a new line is no reason to hurry.
      if (pauseMs > 0)
        await clock.sleep(pauseMs, to === null || failures > 0 ? stopping.signal : AbortSignal.any([waker.signal, stopping.signal]))
    }
  }

  const running = loop()
  return {
    async stop() {
      leave()
      stopping.abort()
      wake()
      await running
    },
  }
}
