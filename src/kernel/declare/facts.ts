// Events, facts and images: a protocol declares its events, and a decision returns facts of them.
import type { Change, Made } from './operation.ts'
import type { AnyDoc, Doc, Static, TSchema } from './schema.ts'
import type { Basis, Value } from '../log/store.ts'

/** Everything that can happen in a protocol: the name of each event, with the kind of document that it is about. */
export type Events = Readonly<Record<string, AnyDoc | readonly AnyDoc[]>>
/** The kind of document that an event is about. */
export type KindOf<E> = E extends readonly (infer D extends AnyDoc)[] ? D : E extends AnyDoc ? E : never
export const kindsOf = (kinds: Events[string]): readonly AnyDoc[] => [kinds].flat()

type Imaged<D extends AnyDoc> = { readonly doc: D; readonly id: string; readonly after: Value }

/** The new image of a document. */
export const image = <S extends TSchema>(doc: Doc<S>, after: Static<S> & { id: string }): Imaged<Doc<S>> => ({
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

/** The function that makes facts of these events alone: each is about its first document; the others changed with it. */
export const factOf =
  <E extends Events>(events: E) =>
  <K extends keyof E & string>(action: K, images: readonly [Imaged<KindOf<E[K]>>, ...Imaged<AnyDoc>[]], more: More = {}): Made => {
    if (!Object.hasOwn(events, action)) throw new Error(`there is no event ${action}: declare it in events.ts of its protocol`)
    return {
      id: more.id ?? null,
      action,
      subject: { doc: images[0].doc, id: images[0].id },
      images,
      detail: more.detail ?? null,
      basis: more.basis ?? null,
      behalf: more.behalf ?? null,
      cause: more.cause ?? null,
      bySystem: more.bySystem ?? false,
    }
  }

/** A new document whose id no other call can have created. It is not read first, and the commit refuses a second one. */
export const putNew = <S extends TSchema>(doc: Doc<S>, id: string, value: Static<S>): Change => ({ doc, id, value, isNew: true })
/** A document that no fact describes; null removes it. */
export const put = <S extends TSchema>(doc: Doc<S>, id: string, value: Static<S> | null): Change => ({
  doc: doc,
  id,
  value: value,
})
