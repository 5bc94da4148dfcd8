// What one agent may do in a minute: one that runs wild takes nothing from the others, and little of the people's time.
import { Refusal } from './errors.ts'
import { createMeter } from './meter.ts'
import type { Command } from './operation.ts'

export type QuotaOptions = {
  /** Questions to people. null: no quota, for development and tests. */
  readonly asksPerMinute: number | null
  /** Calls of commands, questions included. */
  readonly changesPerMinute?: number | null
  now(): number
}
export type Quota = { take(op: Command, agent: string): void }

export function createQuota({ asksPerMinute, changesPerMinute = null, now }: QuotaOptions): Quota {
  const metered = (perMinute: number | null, words: string): ((agent: string) => void) => {
    if (perMinute === null) return () => undefined
    const meter = createMeter(perMinute, now)
    // One more is let through every so many seconds.
    const details = { retry_after: Math.ceil(60 / perMinute) }
    return (agent) => {
      if (!meter.take(agent)) throw new Refusal('QUOTA_EXCEEDED', `an agent may ${words} at most ${perMinute} times a minute`, details)
    }
  }
  const change = metered(changesPerMinute, 'change something')
  const ask = metered(asksPerMinute, 'ask people')
  return {
    take(op, agent) {
      change(agent)
      if (op.asks) ask(agent)
    },
  }
}
