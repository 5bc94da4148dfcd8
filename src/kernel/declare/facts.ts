// Facts and images, as a decision returns them.
import type { Change, Made } from './operation.ts'
import type { Doc, Static, TSchema } from './schema.ts'
import type { Basis, Value } from '../log/store.ts'

type Imaged = { readonly doc: Doc; readonly id: string; readonly after: Value }

/** A document as it is from now on. */
export const image = <S extends TSchema>(doc: Doc<S>, after: Static<S> & { id: string }): Imaged => ({
  doc: doc,
  id: after.id,
  after: after,
})

type More = {
  readonly id?: string
  readonly detail?: Value
  readonly basis?: Basis
  readonly behalf?: string
  readonly cause?: number
  readonly bySystem?: true
}

/** An event of the first document; the others changed with it. */
export const fact = (action: string, images: readonly [Imaged, ...Imaged[]], more: More = {}): Made => ({
  id: more.id ?? null,
  action,
  subject: { doc: images[0].doc, id: images[0].id },
  images,
  detail: more.detail ?? null,
  basis: more.basis ?? null,
  behalf: more.behalf ?? null,
  cause: more.cause ?? null,
  bySystem: more.bySystem ?? false,
})

/** A document that no other call can have made, because its id says so: it is not looked for, and the commit refuses a second one. */
export const putNew = <S extends TSchema>(doc: Doc<S>, id: string, value: Static<S>): Change => ({ doc, id, value, isNew: true })
/** A document that no fact describes; null removes it. */
export const put = <S extends TSchema>(doc: Doc<S>, id: string, value: Static<S> | null): Change => ({
  doc: doc,
  id,
  value: value,
})
