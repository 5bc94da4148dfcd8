// The digest of a call, over everything that an approval covers.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'

export type Covered = {
  readonly agent: string
  readonly server: string
  readonly tool: string
  readonly definition: object | null
  readonly arguments: object
}
export const digestOf = ({ agent, server, tool, definition, arguments: args }: Covered): string =>
  sha256(canonical({ agent, server, tool, definition, arguments: args }))
export const definitionDigest = (definition: object): string => sha256(canonical(definition))
