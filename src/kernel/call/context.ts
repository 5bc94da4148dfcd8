// The context of every decision: what it is given in addition to its documents. The ports are created once for a kernel.
import type { KernelOptions } from '../types.ts'
import type { Draft } from './unit-of-work.ts'
import type { Actor } from '../declare/access.ts'
import { timekeeperAlone, type Timekeeper } from './due-on-read.ts'
import { createIds, type NewId } from '../codec/ids.ts'
import { limits } from '../limits.ts'
import { timestampOf } from '../ports/clock.ts'
import { noNotary } from '../ports/notary.ts'
import { noPasskeys } from '../ports/passkeys.ts'
import type { Context, Terms } from '../declare/operation.ts'

export type ContextPorts = Pick<Context, 'newId' | 'secret' | 'notary' | 'passkeys' | 'terms'> & { readonly timekeeper: Timekeeper }

export function givenBy({
  now,
  entropy,
  notary = noNotary,
  passkeys = noPasskeys,
  terms,
  timekeeper = timekeeperAlone,
}: KernelOptions): ContextPorts & { readonly newId: NewId } {
  const { asksOpenMax, criticalPerHourMax, defaultSecondsMin } = limits
  const usual: Terms = { asksOpenMax, criticalPerHourMax, defaultSecondsMin, publicHooksOnly: false, harness: null }
  return {
    newId: createIds(now, entropy),
    secret: () => Buffer.from(entropy(32)).toString('base64url'),
    notary,
    passkeys,
    terms: { ...usual, ...terms },
    timekeeper,
  }
}

export const contextOf = (
  { newId, secret, notary, passkeys, terms, timekeeper }: ContextPorts,
  actor: Actor,
  { at, received }: Draft,
): Context => ({
  actor,
  now: at,
  hasPassed(deadline) {
    const time = timekeeper.time()
    return deadline <= (time === null ? at : timestampOf(time))
  },
  newId,
  secret,
  notary,
  passkeys,
  signature: null,
  terms,
  received,
})
