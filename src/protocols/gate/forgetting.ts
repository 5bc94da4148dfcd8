// The documents that the end of a call removes: the one that finds it by its digest, and its question.
import { put } from '#kernel/declare/facts.ts'
import type { Change } from '#kernel/declare/operation.ts'
import { digestKey, OpenCall, Question, type Call } from './schema.ts'

/** A digest no longer finds an ended call: the same call is asked about again. */
export const forgetCall = ({ id, agent_id, digest, state }: Call): Change[] => [
  put(OpenCall, digestKey(agent_id, digest), null),
  ...(state === 'waiting' ? [put(Question, id, null)] : []),
]
