// The quota of one actor per minute: a runaway actor cannot slow the others down, and takes little of people's time.
import { Refusal } from '../../declare/errors.ts'
import { limits } from '../../limits.ts'
import { createRateLimit } from '../../codec/rate-limit.ts'
import type { Command } from '../../declare/operation.ts'
import type { Store } from '../../log/store.ts'
import { createSharedQuota } from './shared-quota.ts'

export type QuotaOptions = {
  /** Questions to people; null: no quota, for development and tests. */
  readonly asksPerMinute: number | null
  /** Calls of commands, questions included. */
  readonly changesPerMinute?: number | null
  /** Reads of one actor of any kind. */
  readonly readsPerMinute?: number | null
  now(): number
  /** If several servers share the store, changes and questions of agents are counted across all of them. */
  readonly store?: Store
}
export type Quota = {
  /** Charges a command of an agent. Returns a promise if the count is shared with other servers. */
  take(op: Command, agent: string): Promise<void> | undefined
  /** Charges one unit for a read. Refuses an actor whose quota is used up. */
  read(actor: string): void
  /** Refuses an actor that overdrew its quota while it waited for its turn. Charges nothing. */
  stillPays(actor: string): void
  /** Charges the units of a read beyond the first. */
  charge(actor: string, units: number): void
}

type Paying = (agent: string) => Promise<void> | undefined

/** The cost of a read in units: a small answer is one. */
export const unitsOf = (rows: number, chars: number): number =>
  1 + Math.floor(rows / limits.readUnitRows) + Math.floor(chars / limits.readUnitChars)

export function createQuota({ asksPerMinute, changesPerMinute = null, readsPerMinute = null, now, store }: QuotaOptions): Quota {
  const meterOf = (what: string, perMinute: number | null, message: string): Paying => {
    if (perMinute === null) return () => undefined
    // The seconds until the limit allows one more call.
    const details = { retry_after: Math.ceil(60 / perMinute) }
    const refuse = (): never => {
      throw new Refusal('QUOTA_EXCEEDED', `an agent may ${message} at most ${perMinute} times a minute`, details)
    }
    if (store?.isShared) {
      const take = createSharedQuota(store, what, perMinute, now)
      return async (agent) => void ((await take(agent)) || refuse())
    }
    const meter = createRateLimit(perMinute, now)
    return (agent) => (meter.take(agent) ? undefined : refuse())
  }
  const change = meterOf('changes', changesPerMinute, 'change something')
  const ask = meterOf('questions', asksPerMinute, 'ask people')
  const reads = readsPerMinute === null ? null : createRateLimit(readsPerMinute, now)
  const unpaid = (actor: string): Refusal =>
    new Refusal(
      'QUOTA_EXCEEDED',
      `${actor} has read more than its ${readsPerMinute} units a minute; a small answer is one unit, a long page is many`,
      { retry_after: Math.max(1, reads!.seconds(actor)) },
    )
  return {
    take(op, agent) {
      const paid = change(agent)
      if (!op.asks) return paid
      return paid ? paid.then(() => ask(agent)) : ask(agent)
    },
    read(actor) {
      if (reads && !reads.take(actor)) throw unpaid(actor)
    },
    stillPays(actor) {
      if (reads?.owes(actor)) throw unpaid(actor)
    },
    charge(actor, units) {
      if (units > 0) reads?.charge(actor, units)
    },
  }
}
