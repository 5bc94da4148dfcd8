// Words that answer an item, by the kind of question. A word for one kind is never sent as another: `reject` is not a value, and a value is
// not a verdict. The command and the terminal inbox share this module.
import type { Item } from '#protocols/execution/inbox/item.ts'
import { usage, type CliError } from '../exit-codes.ts'
import { choicesOf, isVerdict, payloadOf } from '../inbox/card.ts'
import { escapeControl } from '../output/safe-text.ts'

/** The item asks for a verdict, and accepts nothing else. */
export const isJudged = ({ action, kind }: Pick<Item, 'action' | 'kind'>): boolean => kind === 'review' || isVerdict({ action })

const yes = { approve: 'approved', approved: 'approved', yes: 'approved' } as const
const no = { reject: 'rejected', rejected: 'rejected', no: 'rejected' } as const
/** The result of each word, by the kind of question. */
const verdicts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  approval: { ...yes, ...no },
  escalation: { tell: 'approved', ...yes, end: 'rejected', ...no },
  interrupt: { resume: 'approved', ...yes, end: 'rejected', ...no },
  review: { ...yes, changes: 'changes_requested', changes_requested: 'changes_requested', ...no },
}
const named: Readonly<Record<string, string>> = {
  approval: 'approve or reject',
  escalation: 'tell (with --reason), end, or --to <agent>',
  interrupt: 'resume or end',
  review: 'approve, changes or reject',
}
const verdictWords = new Set([...Object.values(verdicts).flatMap((words) => Object.keys(words)), 'decline', 'declined'])

/** Whether a word is also a verdict, so that it is unclear whether the person meant the verdict or a value. */
export const isVerdictWord = (text: string): boolean => verdictWords.has(text.trim().toLowerCase())

/** The verdict that a word means for this item; undefined: none. */
export const verdictFor = (item: Item, text: string): string | undefined => {
  const known = verdicts[item.asks] ?? verdicts['approval']!
  const word = text.trim().toLowerCase()
  return Object.hasOwn(known, word) ? known[word] : undefined
}

/** The values that are answers to this item, ids of options included. */
const valuesOf = (item: Item): readonly unknown[] => {
  const { validation, option_ids } = payloadOf(item)
  return [...(validation?.allowed_values ?? choicesOf(item)), ...((option_ids ?? []) as unknown[])]
}

/** Refuses text that is not an answer to this item. `isLiteral`: the person said that it is the value. */
export function refuseForeignWord(item: Item, text: string, isLiteral: boolean): void {
  if (isJudged(item)) {
    const asked = named[item.asks] ?? named['approval']!
    if (isLiteral) throw usage(`this asks for a verdict, and --value is none: answer ${asked}`)
    if (verdictFor(item, text) === undefined) throw usage(`"${escapeControl(text)}" is not an answer to this: it takes ${asked}`)
    return
  }
  if (isLiteral || !isVerdictWord(text) || valuesOf(item).map(String).includes(text)) return
  throw foreign(item, text.trim())
}

function foreign(item: Item, word: string): CliError {
  const literal = `--value ${word} for the literal word`
  const decline = '--decline --reason <text> to decline it'
  const choices = choicesOf(item)
  return choices.length > 0
    ? usage(
        `this asks for a choice; "${word}" is none of them`,
        `choose one of ${choices.map((choice) => JSON.stringify(choice)).join(', ')}; ${decline}`,
      )
    : usage(`this asks for a value; it cannot be answered with "${word}"`, `${decline}; ${literal}`)
}
