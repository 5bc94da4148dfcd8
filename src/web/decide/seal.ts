// Secrets. If the agent has a key, the browser seals them to it and not even the server can read them; otherwise the server seals them.
import { sealAnswer } from '#sdk/index.ts'
import type { Item } from '../server/types.ts'
import type { DecisionInput } from './send.ts'

export const sealedFor = async ({ seal_key }: Item, value: string): Promise<DecisionInput> =>
  seal_key === null ? { result: value } : { sealed: await sealAnswer(seal_key, value) }
