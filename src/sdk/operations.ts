// The input and the output of every operation, as types. In a package this file is written out in full (scripts/sdk-types.ts): a compiler that
// has to compute them from the schemas reads the whole server.
import type { Static, TSchema } from '#kernel/declare/schema.ts'
import type { Operations as All } from '#protocols/index.ts'

type Shown<Op> = Op extends {
  readonly kind: infer K
  readonly name: infer N extends string
  readonly input: infer I extends TSchema
  readonly output: infer O extends TSchema
}
  ? { readonly kind: K; readonly name: N; readonly input: Static<I>; readonly output: Static<O> }
  : never
export type Operations = { readonly [P in keyof All]: Shown<All[P]> }
