// Credentials that clients authenticate with, and the actor behind each one, checked again for as long as the server works for it.
import type { Actor } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Caller } from '#kernel/kernel.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'

export type Credential = {
  readonly kind: 'bearer' | 'session'
  readonly token: string
  /** The person that the calling page was opened for: another person's session is refused. */
  readonly person?: string
  /** The requested resource: a token of an issuer can be restricted to it. */
  readonly resource?: string
}

/** Refuses an invalid credential. `since`: the store's barriers when the call arrived. */
export type Authenticate = (credential: Credential, since?: number) => Actor | Promise<Actor>

/** Refuses a session of anyone but the person that the calling page was opened for. `nameOf`: the display name of a person. */
export const forItsPerson =
  (authenticate: Authenticate, nameOf: (id: string) => Promise<string>): Authenticate =>
  (credential, since) => {
    const { person } = credential
    const found = authenticate(credential, since)
    return person === undefined ? found : Promise.resolve(found).then((actor) => refuseOther(actor, person, nameOf))
  }

async function refuseOther(actor: Actor, person: string, nameOf: (id: string) => Promise<string>): Promise<Actor> {
  if (actor.id === person) return actor
  const name = await nameOf(actor.id)
  throw new Refusal('OTHER_PERSON', `you are signed in as ${name} now, but this page was opened for another person: reload it`, {
    person: actor.id,
    name,
  })
}

/** The first attempt uses the actor that was just authenticated; every retry authenticates again. */
export function callerOf(again: () => Actor | Promise<Actor>, actor: Actor): Caller {
  let known: Actor | null = actor
  return () => {
    const first = known
    known = null
    return first ?? again()
  }
}

/** The actor of a long-lived connection: `who` names the credential, `caller` re-authenticates for as long as the connection is open. */
export type Identified = { readonly who: string; caller(): Actor | Promise<Actor> }

export const identifiedBy = (recheck: Authenticate, credential: Credential): Identified => ({
  who: sha256(`${credential.kind} ${credential.token}`),
  caller: () => recheck(credential),
})
