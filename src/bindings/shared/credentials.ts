// Credentials: what a client shows to say who it is, and the actor that it stands for, asked about for as long as something is done for it.
import type { Actor } from '#kernel/declare/access.ts'
import type { Caller } from '#kernel/kernel.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'

export type Credential = { readonly kind: 'bearer' | 'session'; readonly token: string }

/** Refuses a credential that is not valid. `since`: the store's barriers when the call came that shows it. */
export type Authenticate = (credential: Credential, since?: number) => Actor | Promise<Actor>

/** The actor that was just authenticated serves the first attempt; every further one asks again. */
export function callerOf(again: () => Actor | Promise<Actor>, actor: Actor): Caller {
  let known: Actor | null = actor
  return () => {
    const first = known
    known = null
    return first ?? again()
  }
}

/** One who stays: `who` names the credential, `caller` is asked again for as long as the connection is open. */
export type Identified = { readonly who: string; caller(): Actor | Promise<Actor> }

export const identifiedBy = (recheck: Authenticate, credential: Credential): Identified => ({
  who: sha256(`${credential.kind} ${credential.token}`),
  caller: () => recheck(credential),
})
