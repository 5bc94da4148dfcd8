// What waits on a person in another protocol is a request here: how the two are told by one another's ids, and in what words a
// person may answer.
import type { Request } from './schema.ts'
import { shown } from './text.ts'

const [ITEM, CHECKPOINT] = ['hxp_', 'ckpt_'] as const
/** A checkpoint and its item have the same id but for its first part, so that each is found from the other by key. */
export const itemOf = (checkpoint_id: string): string => ITEM + checkpoint_id.slice(CHECKPOINT.length)
export const checkpointOf = (request_id: string): string => CHECKPOINT + request_id.slice(ITEM.length)

type Choices = { readonly options?: readonly string[]; readonly option_ids?: readonly string[] } & {
  readonly validation?: { readonly allowed_values?: readonly (string | number)[] }
}
const labelsIn = ({ options, validation }: Choices): readonly unknown[] => options ?? validation?.allowed_values ?? []

/** Where the one stands that looks like this to people; -1 where none does, or several do. */
function looksLike(texts: readonly unknown[], result: unknown): number {
  const shownAs = texts.map((text) => (typeof text === 'string' ? shown(text) : text))
  const at = shownAs.indexOf(result)
  return at === shownAs.lastIndexOf(result) ? at : -1
}

/** The option that a person means, by its label or its id, as they are or as they were shown. */
export function namedOption({ payload }: Pick<Request, 'payload'>, result: unknown): unknown {
  const { option_ids, ...choices } = payload as Choices
  if (option_ids === undefined) return result
  const labels = labelsIn(choices)
  if (labels.includes(result)) return result
  return (
    labels[option_ids.indexOf(result as string)] ?? labels[looksLike(labels, result)] ?? labels[looksLike(option_ids, result)] ?? result
  )
}

/** The id of an option, for whoever asked, by its label. */
export function optionId({ payload }: Pick<Request, 'payload'>, label: unknown): string {
  const { option_ids, ...choices } = payload as Choices
  return option_ids?.[labelsIn(choices).indexOf(label)] ?? String(label)
}
