// Secrets: sealed here to the key of the agent where it has one, so that not even the server reads them; else the server seals them.
import { sealAnswer } from '#sdk/index.ts'
import type { Item } from '../server/types.ts'
import type { DecisionInput } from './send.ts'

export const sealedFor = async ({ seal_key }: Item, value: string): Promise<DecisionInput> =>
  seal_key === null ? { result: value } : { sealed: await sealAnswer(seal_key, value) }
