// The guard before a yes, from R4 on: a phrase that the server names and a person types. The command, its prompt and the terminal inbox all ask for it.
import { phraseFor as optionPhrase } from '#sdk/phrase.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import { usage } from '../exit-codes.ts'
import { askText, isInteractive } from '../input/prompts.ts'
import { riskOf } from '../inbox/card.ts'
import { isJudged } from './words.ts'
import { escapeControl } from '../output/safe-text.ts'
import type { Io } from '../terminal.ts'

export const endsTask = (item: Item, result: unknown): boolean => isJudged(item) && result === 'rejected' && item.reject_ends_task

/** Answers that permit nothing need no confirmation. */
const refusals: readonly unknown[] = ['rejected', 'changes_requested']

export const phraseFor = (item: Item, result: unknown): string | null =>
  isJudged(item) && refusals.includes(result) ? null : optionPhrase(item, result)

export const isPhrase = (phrase: string, typed: string): boolean => typed.trim() === phrase

export const riskSentence = ({ risk }: Pick<Item, 'risk'>): string =>
  risk === null ? 'It has no risk rating' : `Its risk is ${riskOf(risk)}`

/** Refuses an answer that needs a phrase and has none, or a wrong one. A person at a terminal is asked for it. */
export async function confirmAnswer(io: Io, item: Item, result: unknown, typed: string | undefined): Promise<void> {
  const phrase = phraseFor(item, result)
  if (phrase === null) return
  const quotedPhrase = JSON.stringify(escapeControl(phrase))
  const isAsked = typed === undefined && isInteractive(io)
  const entered = isAsked
    ? await askText(io, `${riskSentence(item)}: ${escapeControl(item.title)}\nType ${quotedPhrase} to confirm`)
    : typed
  if (entered !== undefined && isPhrase(phrase, entered)) return
  const rule = `an answer from R4 on needs --confirm with the phrase of the item, ${quotedPhrase}`
  throw usage(
    entered === undefined
      ? `${riskSentence(item)}: ${rule}`
      : `${isAsked ? 'the phrase' : '--confirm'} is not ${quotedPhrase}; nothing was sent`,
    `read it first: \`countersign inbox show ${escapeControl(item.request_id)}\`; then add --confirm ${quotedPhrase}`,
  )
}
