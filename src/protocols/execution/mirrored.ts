// What waits on a person in another protocol is a request here: how the two are told by one another's ids, and in what words a
// person may answer.
import type { Request } from './schema.ts'

const [ITEM, CHECKPOINT] = ['hxp_', 'ckpt_'] as const
/** A checkpoint and its item have the same id but for its first part, so that each is found from the other by key. */
export const itemOf = (checkpoint_id: string): string => ITEM + checkpoint_id.slice(CHECKPOINT.length)
export const checkpointOf = (request_id: string): string => CHECKPOINT + request_id.slice(ITEM.length)

type Choices = { readonly options?: readonly string[]; readonly option_ids?: readonly string[] } & {
  readonly validation?: { readonly allowed_values?: readonly (string | number)[] }
}
const labelsIn = ({ options, validation }: Choices): readonly unknown[] => options ?? validation?.allowed_values ?? []

/** The option that a person means, by the label that they saw or by its id. */
export function namedOption({ payload }: Pick<Request, 'payload'>, result: unknown): unknown {
  const { option_ids, ...choices } = payload as Choices
  if (option_ids === undefined) return result
  const labels = labelsIn(choices)
  return labels.includes(result) ? result : (labels[option_ids.indexOf(result as string)] ?? result)
}

/** The id of an option, for whoever asked, by its label. */
export function optionId({ payload }: Pick<Request, 'payload'>, label: unknown): string {
  const { option_ids, ...choices } = payload as Choices
  return option_ids?.[labelsIn(choices).indexOf(label)] ?? String(label)
}
