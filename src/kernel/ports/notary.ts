// The port of the notary: signatures, pseudonyms, commitments and seals. The keys are kept outside the documents; a decision can use them
// but never gets them.
import { Refusal } from '../declare/errors.ts'
import type { Value } from '../log/store.ts'

export type Notary = {
  /** The name of this server: `<public origin>#<installation id>` (X30). */
  issuer(): string
  /** SHA-256 over the text and a secret of this server, in hexadecimal digits. */
  evidence(text: string): string
  /** The pseudonym of a person: always the same, and it does not reveal the person. */
  pseudonym(id: string): string
  /** A digest that only this server can compute, so that the text cannot be found by guessing. */
  commit(text: string): string
  /** A compact JWS (EdDSA) over the canonical claims, under the present key. */
  attest(claims: Value): Promise<string>
  /** The claims of a receipt that any present or former key of this server has signed; null: none has. */
  verify(jws: string): Promise<Value | null>
  /** A session token: signed like a receipt, under a type of its own, so that neither passes for the other. */
  grant(claims: Value): Promise<string>
  /** The claims of a session token of this server; null: it is not one. */
  granted(jws: string): Promise<Value | null>
  /** Encrypts to a public key (a JWK), or without one under a key of this server. */
  seal(text: string, to: Value | null): Promise<string>
  /** Opens a text that was encrypted under the server's own key. */
  open(sealed: string): Promise<string>
}

const absent = (): never => {
  throw new Refusal('UNAVAILABLE', 'this server has no keys to sign and seal with')
}
export const noNotary: Notary = {
  issuer: absent,
  evidence: absent,
  pseudonym: absent,
  commit: absent,
  attest: absent,
  verify: absent,
  grant: absent,
  granted: absent,
  seal: absent,
  open: absent,
}
