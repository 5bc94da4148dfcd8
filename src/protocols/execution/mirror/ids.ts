// Ids of mirrored questions: a checkpoint or review of collaboration is a request here, and each id can be derived from the other. The file
// also maps the words of a person's answer.
import type { Request } from '../schema.ts'
import { harmless, shownText } from '../asking/hostile-text.ts'

const [ITEM, CHECKPOINT] = ['hxp_', 'ckpt_'] as const
/** A checkpoint and its item have the same id but for its first part, so that each is found from the other by key. */
export const mirroredItemId = (checkpoint_id: string): string => ITEM + checkpoint_id.slice(CHECKPOINT.length)
/** The question of a call at the gate. */
export const requestOfCall = (call_id: string): string => ITEM + call_id.slice('call_'.length)
export const checkpointOf = (request_id: string): string => CHECKPOINT + request_id.slice(ITEM.length)

/** The options of a question as people read them, and their ids in the same order. */
export function choicesIn(payload: Request['payload']): { readonly labels: readonly (string | number)[]; readonly ids: readonly string[] } {
  const ids = 'option_ids' in payload ? payload.option_ids : undefined
  const labels = 'options' in payload ? payload.options : 'validation' in payload ? payload.validation?.allowed_values : undefined
  return { labels: labels ?? [], ids: ids ?? [] }
}

const forms = [shownText, (text: string): string => harmless(shownText(text))]

/** The index of the only text that looks like `result` to people, here or on a third-party page; -1: no text or several texts do. */
function looksLike(texts: readonly unknown[], result: unknown): number {
  for (const form of forms) {
    const shownAs = texts.map((text) => (typeof text === 'string' ? form(text) : text))
    const at = shownAs.indexOf(result)
    if (at !== -1 && at === shownAs.lastIndexOf(result)) return at
  }
  return -1
}

/** The option that a person means: by its label or its id, in the original or the shown form. */
export function namedOption({ payload }: Pick<Request, 'payload'>, result: unknown): unknown {
  if (Array.isArray(result)) return result.map((entry) => namedOption({ payload }, entry))
  const { labels, ids } = choicesIn(payload)
  if (typeof result !== 'string' || labels.includes(result)) return result
  return labels[ids.indexOf(result)] ?? labels[looksLike(labels, result)] ?? labels[looksLike(ids, result)] ?? result
}

/** The id of an option, for the agent that asked, by its label. */
export function optionId({ payload }: Pick<Request, 'payload'>, label: unknown): string {
  const { labels, ids } = choicesIn(payload)
  return ids[labels.findIndex((each) => each === label)] ?? String(label)
}
